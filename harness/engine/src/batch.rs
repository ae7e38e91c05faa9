//! Many trials at once: pool, journal, progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use device::Planted;
use parking_lot::Mutex;
use report::{Begun, Ended, Line, Over, Record, count};
use serde::Serialize;
use supervise::{Cancel, Journal, for_each, in_order};

use crate::{
    Job, Session, Stop, baseline::Baseline, events::EngineEvent, health, machine,
    record::not_run as not_run_record, rerun::again, stop::chain, trial::run_trial_and_tell,
};

/// Runs the jobs and returns their records in the order of the jobs.
///
/// Each record goes to the journal as soon as its trial is over, so that whatever ends this program loses nothing that
/// was finished, and before each trial a line that it begins, so that the one that ended the machine is known. The trials
/// of a run that was cancelled or whose journal cannot be written stay valid; the error comes back beside them.
pub fn run_jobs(
    session: &Session,
    jobs: Vec<Job<'_>>,
    journal: Option<Journal>,
    cancel: &Cancel,
) -> (Vec<Record>, Option<Stop>) {
    let jobs: Vec<_> = jobs.into_iter().map(|job| (session.next_number(), job)).collect();
    let batch = run_batch(session, &jobs, &Patience::default(), &[], journal, cancel, |_| ());
    let left_out = batch.left_out.map(|why| Stop::no_verdict(format!("error: {why}")));
    (batch.records, batch.trouble.or(left_out))
}

/// What a run puts up with before it leaves trials out.
#[derive(Debug, Default)]
pub struct Patience {
    /// What is known to fail.
    pub known: Baseline,
    /// No trial begins after the first failure that is news.
    pub fail_fast: bool,
    /// No further trial runs of a case of which this many have hung.
    pub hangs: Option<u32>,
    /// No trial begins after this time.
    pub time: Option<Duration>,
}

/// How a run's patience ends.
struct Course<'p> {
    patience: &'p Patience,
    begun: Instant,
    /// Why no trial begins any more.
    ended: OnceLock<String>,
    /// Hangs of each case, and how many of its trials were left out since.
    hangs: Mutex<BTreeMap<String, (u32, usize)>>,
}

impl Course<'_> {
    /// Whether a trial of this case may begin.
    fn lets(&self, case: &str) -> bool {
        if let Some(time) = self.patience.time.filter(|time| self.begun.elapsed() >= *time) {
            self.ended.get_or_init(|| format!("{} s are over (--budget-seconds)", time.as_secs()));
        }
        if self.ended.get().is_some() {
            return false;
        }
        let mut hangs = self.hangs.lock();
        match (hangs.get_mut(case), self.patience.hangs) {
            (Some((hung, left_out)), Some(most)) if *hung >= most => {
                *left_out += 1;
                false
            }
            _ => true,
        }
    }

    /// Takes note of a trial that is over. False where it did not run, as the GPU is broken.
    fn over(&self, record: &Record) -> bool {
        if record.outcome.signature == health::broken() {
            self.ended.get_or_init(|| record.outcome.summary.clone());
            return false;
        }
        if record.outcome.kind == judge::Kind::Hang {
            let mut hangs = self.hangs.lock();
            hangs.entry(record.case.clone()).or_default().0 += 1;
        }
        if self.patience.fail_fast && record.verdict.kind.is_news() {
            let trial = &record.trial;
            self.ended.get_or_init(|| format!("{trial} is news (--fail-fast)"));
        }
        true
    }

    /// Why trials were left out, for people; none where none were.
    fn why(&self) -> Option<String> {
        let hangs = self.hangs.lock();
        let quarantined = hangs.iter().filter(|(_, (_, left_out))| *left_out > 0);
        let quarantined = quarantined.map(|(case, (hung, left_out))| {
            let (hung, left_out) = (count(*hung as usize, "trial"), count(*left_out, "trial"));
            format!("{left_out} of {case} left out: {hung} of it hung (--max-hangs)")
        });
        let ended = self.ended.get().map(|why| format!("no further trial began: {why}"));
        let all: Vec<String> = quarantined.chain(ended).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }
}

/// What came of many trials.
pub struct Batch {
    /// Those that are over.
    pub records: Vec<Record>,
    /// Those that were planned and did not come to their end.
    pub not_run: Vec<Record>,
    /// Why the run itself left some out.
    pub left_out: Option<String>,
    /// Why, where the run itself went wrong.
    pub trouble: Option<Stop>,
}

/// The same, with the trials that were not run. Each job has its number in the run; `head` goes to the journal before all else. Of
/// a record that the journal has, `let_go` may take what nobody needs any more.
pub fn run_batch(
    session: &Session,
    jobs: &[(u64, Job<'_>)],
    patience: &Patience,
    head: &[Line],
    journal: Option<Journal>,
    cancel: &Cancel,
    let_go: impl Fn(&mut Record) + Sync,
) -> Batch {
    let reporting = &session.reporting;
    // More threads than jobs have nothing to do.
    let threads = NonZeroUsize::new(jobs.len()).map_or(session.jobs, |n| n.min(session.jobs));
    let planned: Vec<(String, Vec<Planted>)> =
        jobs.iter().map(|(_, job)| (job.id(), job.faults.clone())).collect();

    let mut records = Vec::with_capacity(jobs.len());
    let mut unfinished: BTreeSet<usize> = (0..jobs.len()).collect();
    let journal = Lines { journal: journal.map(Mutex::new), trouble: Mutex::new(None) };
    for line in head {
        journal.keep(|| line, cancel);
    }
    let course =
        Course { patience, begun: Instant::now(), ended: OnceLock::new(), hangs: Mutex::default() };
    let mut keep = in_order(|index, record: Option<Record>| {
        if record.is_some() {
            unfinished.remove(&index);
        }
        records.extend(record);
    });
    reporting.event(EngineEvent::BatchBegins { trials: jobs.len() as u64 });
    {
        for_each(
            jobs,
            threads,
            cancel,
            |_, (number, job)| {
                let number = *number;
                if !course.lets(&job.case.id) {
                    return None;
                }
                // A trial of which nobody would know that it began is not run.
                if !journal.keep(|| begun(session, job, number), cancel) {
                    return None;
                }
                reporting.event(EngineEvent::TrialBegins { number, trial: &job.id() });
                let judged = |record: Record| {
                    let mut record = Record { number, ..record };
                    patience.known.judge(&mut record);
                    record
                };
                let tell = |record: Record| {
                    journal.keep(|| ended(judged(record)), cancel);
                };
                let record = run_trial_and_tell(session, job, &tell, cancel);
                reporting.event(EngineEvent::TrialEnds { number });
                let mut record = judged(record?);
                // Before the next trial begins: whatever ends this program then has ended that one and no other.
                if !course.over(&record) {
                    return None;
                }
                journal.keep(|| &record, cancel);
                let_go(&mut record);
                Some(record)
            },
            |index, record: Option<Record>| {
                let trial = record.as_ref().map(|record| record.trial.as_str());
                reporting.event(EngineEvent::TrialOver { trial });
                keep(index, record);
            },
        );
    }
    reporting.event(EngineEvent::BatchEnds);
    drop(keep);
    journal.keep(|| over(&session.run), cancel);
    let trouble = journal.trouble.into_inner();
    let (all, finished) = (planned.len(), records.len());
    let planned = planned.iter().map(|(id, faults)| (id.as_str(), faults.as_slice()));
    let lost = report::complete(planned, &records).err();
    let left_out = course.why().filter(|_| trouble.is_none() && !cancel.is_cancelled());
    let left_out = left_out.map(|why| format!("{why}\n{}", not_run("stopped", finished, all)));
    let trouble = match (trouble, lost) {
        (None, Some(_)) if left_out.is_some() => None,
        (trouble, None) => trouble,
        (None, Some(incomplete)) if !cancel.is_cancelled() => Some(no_verdict(&incomplete)),
        (None, Some(_)) => Some(Stop::no_verdict(not_run("interrupted", finished, all))),
        (Some(stop), Some(_)) => {
            Some(Stop::no_verdict(format!("{stop}\n{}", not_run("stopped", finished, all))))
        }
    };
    let not_run = unfinished.iter().map(|index| not_run_record(session, &jobs[*index].1)).collect();
    Batch { records, not_run, left_out, trouble }
}

fn no_verdict(error: &dyn std::error::Error) -> Stop {
    Stop::no_verdict(format!("error: {}", chain(error)))
}

/// The record file of a run, where one is kept.
struct Lines {
    journal: Option<Mutex<Journal>>,
    /// Why no line is kept any more.
    trouble: Mutex<Option<Stop>>,
}

impl Lines {
    /// Writes what a [`Line`] holds, which is written as that is. Where one cannot be written the run is cancelled: the trials to come
    /// would be lost as well.
    fn keep<T: Serialize>(&self, line: impl FnOnce() -> T, cancel: &Cancel) -> bool {
        let Some(journal) = &self.journal else { return true };
        let mut trouble = self.trouble.lock();
        if trouble.is_none() {
            let mut journal = journal.lock();
            if let Err(error) = journal.write(&line()) {
                *trouble = Some(no_verdict(&error));
                cancel.cancel();
            }
        }
        trouble.is_none()
    }
}

fn begun(session: &Session, job: &Job<'_>, number: u64) -> Begun {
    Begun {
        format: report::FORMAT,
        begun: report::date(SystemTime::now()),
        run: session.run.clone(),
        number,
        trial: job.id(),
        again: again(session, job),
        pid: std::process::id(),
        boot: machine::boot(),
    }
}

fn ended(record: Record) -> Ended {
    let (format, run) = (report::FORMAT, record.run.clone());
    let (number, record) = (record.number, Box::new(record));
    Ended { format, ended: report::date(SystemTime::now()), run, number, record }
}

/// That a run is over, as this one knows now.
pub fn over(run: &str) -> Over {
    Over { format: report::FORMAT, over: report::date(SystemTime::now()), run: run.to_owned() }
}

fn not_run(why: &str, finished: usize, all: usize) -> String {
    let (all, lost) = (count(all, "trial"), all - finished);
    format!("{why}: {finished} of {all} finished, {lost} not run")
}
