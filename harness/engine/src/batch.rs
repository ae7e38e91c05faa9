//! Runs batches of trials in a thread pool, writes their journal, and reports their progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use device::FaultSpec;
use parking_lot::Mutex;
use report::{Incomplete, Line, ProvisionalRecord, Record, RunEnd, TrialStart, count};
use serde::Serialize;
use supervise::{Cancel, Journal, JournalError, for_each, in_order};
use thiserror::Error;

use crate::{
    FailedOperation, FailureClass, Job, Session, Stop, baseline::Baseline, events::EngineEvent,
    health, machine, record::not_run as not_run_record, rerun::rerun_command, stop::chain,
    trial::run_trial_reporting_end,
};

/// Runs the jobs and returns their records in the order of the jobs.
///
/// Before each trial, a line is written to the journal. If the trial crashes the machine, this line names it. After the
/// trial, its record is written, so that a killed run loses no finished trial. Records of finished trials are returned
/// even if the batch ends with an error.
pub fn run_jobs(
    session: &Session,
    jobs: Vec<Job<'_>>,
    journal: Option<Journal>,
    cancel: &Cancel,
) -> (Vec<Record>, Option<Stop>) {
    let jobs: Vec<_> = jobs.into_iter().map(|job| (session.next_number(), job)).collect();
    let batch = run_batch(session, &jobs, &RunLimits::default(), &[], journal, cancel, |_| ());
    let left_out = batch.left_out.map(|why| BatchError::LeftOut(why).into());
    (batch.records, batch.trouble.or(left_out))
}

/// Limits of a run. After a limit is reached, the remaining trials are left out.
#[derive(Debug, Default)]
pub struct RunLimits {
    /// Expected failures, which do not count as unexpected results.
    pub known: Baseline,
    /// True if no trial may begin after the first unexpected result.
    pub fail_fast: bool,
    /// Number of hangs in one case after which its remaining trials are left out; `None` for no limit.
    pub hangs: Option<u32>,
    /// Time since the start of the run after which no trial may begin; `None` for no limit.
    pub time: Option<Duration>,
}

struct LimitState<'p> {
    limits: &'p RunLimits,
    begun: Instant,
    ended: OnceLock<String>,
    /// For each case: the number of trials that hung, and the number of trials that were left out because too many
    /// hung.
    hangs: Mutex<BTreeMap<String, (u32, usize)>>,
}

impl LimitState<'_> {
    fn may_start(&self, case: &str) -> bool {
        if let Some(time) = self.limits.time.filter(|time| self.begun.elapsed() >= *time) {
            self.ended.get_or_init(|| {
                format!("the budget of {} s is spent (--budget-seconds)", time.as_secs())
            });
        }
        if self.ended.get().is_some() {
            return false;
        }
        let mut hangs = self.hangs.lock();
        match (hangs.get_mut(case), self.limits.hangs) {
            (Some((hung, left_out)), Some(most)) if *hung >= most => {
                *left_out += 1;
                false
            }
            _ => true,
        }
    }

    /// Counts a finished trial. Returns false if the trial was not executed because the GPU is broken.
    fn count_finished(&self, record: &Record) -> bool {
        if record.outcome.signature == health::broken() {
            self.ended.get_or_init(|| record.outcome.summary.clone());
            return false;
        }
        if record.outcome.kind == judge::Kind::Hang {
            let mut hangs = self.hangs.lock();
            hangs.entry(record.case.clone()).or_default().0 += 1;
        }
        if self.limits.fail_fast && record.verdict.kind.is_unexpected() {
            let trial = &record.trial;
            self.ended.get_or_init(|| format!("{trial} has an unexpected result (--fail-fast)"));
        }
        true
    }

    fn stop_reason(&self) -> Option<String> {
        let hangs = self.hangs.lock();
        let quarantined = hangs.iter().filter(|(_, (_, left_out))| *left_out > 0);
        let quarantined = quarantined.map(|(case, (hung, left_out))| {
            let (hung, left_out) = (count(*hung as usize, "trial"), count(*left_out, "trial"));
            format!("{left_out} of {case} not run, because {hung} of this case hung (--max-hangs)")
        });
        let ended = self.ended.get().map(|why| format!("no further trial was started: {why}"));
        let all: Vec<String> = quarantined.chain(ended).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }
}

/// The results of a batch.
pub struct Batch {
    /// Records of the finished trials.
    pub records: Vec<Record>,
    /// Records of the trials that did not finish, or did not start.
    pub not_run: Vec<Record>,
    /// The reason why trials were left out, if a limit of the run was reached.
    pub left_out: Option<String>,
    /// The error that ended the batch early, if any.
    pub trouble: Option<Stop>,
}

/// Runs numbered jobs like [`run_jobs`], but also returns records for the trials that were not run. The lines `head`
/// begin the journal. After a record was written, `let_go` may drop fields of it to save memory.
pub fn run_batch(
    session: &Session,
    jobs: &[(u64, Job<'_>)],
    limits: &RunLimits,
    head: &[Line],
    journal: Option<Journal>,
    cancel: &Cancel,
    let_go: impl Fn(&mut Record) + Sync,
) -> Batch {
    let reporting = &session.reporting;
    let threads = NonZeroUsize::new(jobs.len()).map_or(session.jobs, |n| n.min(session.jobs));
    let planned: Vec<(String, Vec<FaultSpec>)> =
        jobs.iter().map(|(_, job)| (job.id(), job.faults.clone())).collect();

    let mut records = Vec::with_capacity(jobs.len());
    let mut unfinished: BTreeSet<usize> = (0..jobs.len()).collect();
    let journal = JournalWriter { journal: journal.map(Mutex::new), trouble: Mutex::new(None) };
    for line in head {
        journal.append(|| line, cancel);
    }
    let limit_state = LimitState {
        limits,
        begun: Instant::now(),
        ended: OnceLock::new(),
        hangs: Mutex::default(),
    };
    let mut keep = in_order(|index, record: Option<Record>| {
        if record.is_some() {
            unfinished.remove(&index);
        }
        records.extend(record);
    });
    let limit = session.limits.total;
    reporting.event(EngineEvent::BatchBegins { trials: jobs.len() as u64, limit });
    {
        for_each(
            jobs,
            threads,
            cancel,
            |_, (number, job)| {
                let number = *number;
                if !limit_state.may_start(&job.case.id) {
                    return None;
                }
                // Without its line in the journal, a trial could not be identified after a crash of the machine, so it
                // does not run.
                if !journal.append(|| trial_start(session, job, number), cancel) {
                    return None;
                }
                reporting.event(EngineEvent::TrialBegins { number, trial: &job.id() });
                let judged = |record: Record| {
                    let mut record = Record { number, ..record };
                    limits.known.judge(&mut record);
                    record
                };
                let tell = |record: Record| {
                    journal.append(|| provisional_record(judged(record)), cancel);
                };
                let record = run_trial_reporting_end(session, job, &tell, cancel);
                reporting.event(EngineEvent::TrialEnds { number });
                let mut record = judged(record?);
                // The record is written before the next trial begins, so that a crash is attributed to the right trial.
                if !limit_state.count_finished(&record) {
                    return None;
                }
                journal.append(|| &record, cancel);
                let_go(&mut record);
                Some(record)
            },
            |index, record: Option<Record>| {
                reporting.event(EngineEvent::TrialOver { record: record.as_ref() });
                keep(index, record);
            },
        );
    }
    reporting.event(EngineEvent::BatchEnds);
    drop(keep);
    journal.append(|| run_end(&session.run), cancel);
    let trouble = journal.trouble.into_inner();
    let (all, finished) = (planned.len(), records.len());
    let planned = planned.iter().map(|(id, faults)| (id.as_str(), faults.as_slice()));
    let lost = report::check_complete(planned, &records).err();
    let left_out =
        limit_state.stop_reason().filter(|_| trouble.is_none() && !cancel.is_cancelled());
    let left_out = left_out.map(|why| format!("{why}\n{}", not_run("stopped", finished, all)));
    let trouble = match (trouble, lost) {
        (None, Some(_)) if left_out.is_some() => None,
        (trouble, None) => trouble,
        (None, Some(incomplete)) if !cancel.is_cancelled() => {
            Some(BatchError::Incomplete(incomplete).into())
        }
        (None, Some(_)) => Some(Stop::no_verdict(not_run("interrupted", finished, all))),
        (Some(stop), Some(_)) => {
            Some(stop.and(Stop::no_verdict(not_run("stopped", finished, all))))
        }
    };
    let not_run = unfinished.iter().map(|index| not_run_record(session, &jobs[*index].1)).collect();
    Batch { records, not_run, left_out, trouble }
}

#[derive(Debug, Error)]
enum BatchError {
    /// Trials were left out because a limit of the run was reached. The text names the limit.
    #[error("{0}")]
    LeftOut(String),
    #[error("{}", chain(.0))]
    Incomplete(Incomplete),
    #[error("{}", chain(.0))]
    Journal(JournalError),
}

impl FailedOperation for BatchError {
    fn class(&self) -> FailureClass {
        FailureClass::NoVerdict
    }
}

struct JournalWriter {
    journal: Option<Mutex<Journal>>,
    trouble: Mutex<Option<Stop>>,
}

impl JournalWriter {
    /// Appends `line`, a value that serialises like [`Line`], to the journal. If that fails, cancels the batch, because
    /// later records would be lost too. Returns false if this line or an earlier one could not be written.
    fn append<T: Serialize>(&self, line: impl FnOnce() -> T, cancel: &Cancel) -> bool {
        let Some(journal) = &self.journal else { return true };
        let mut trouble = self.trouble.lock();
        if trouble.is_none() {
            let mut journal = journal.lock();
            if let Err(error) = journal.write(&line()) {
                *trouble = Some(BatchError::Journal(error).into());
                cancel.cancel();
            }
        }
        trouble.is_none()
    }
}

fn trial_start(session: &Session, job: &Job<'_>, number: u64) -> TrialStart {
    TrialStart {
        format: report::FORMAT,
        begun: report::date(SystemTime::now()),
        run: session.run.clone(),
        number,
        trial: job.id(),
        again: rerun_command(session, job),
        pid: std::process::id(),
        boot: machine::boot(),
    }
}

fn provisional_record(record: Record) -> ProvisionalRecord {
    let (format, run) = (report::FORMAT, record.run.clone());
    let (number, record) = (record.number, Box::new(record));
    ProvisionalRecord { format, ended: report::date(SystemTime::now()), run, number, record }
}

/// Returns the journal's last line, which marks the run as complete.
pub fn run_end(run: &str) -> RunEnd {
    RunEnd { format: report::FORMAT, over: report::date(SystemTime::now()), run: run.to_owned() }
}

fn not_run(why: &str, finished: usize, all: usize) -> String {
    let (all, lost) = (count(all, "trial"), all - finished);
    format!("{why}: {finished} of {all} finished, {lost} not run")
}
