//! Many trials at once: pool, journal, progress.

use std::{
    collections::BTreeSet,
    io::IsTerminal,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use device::Planted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::{Begun, Line, Over, Record, count};
use supervise::{Cancel, Journal, for_each, in_order};

use crate::{
    Session, Stop, interrupt, machine,
    rerun::again,
    stop::chain,
    trial::{Job, not_run as not_run_record, run_trial},
};

/// Runs the jobs and returns their records in the order of the jobs.
///
/// Each record goes to the journal as soon as its trial is over, so that whatever ends this program loses nothing that
/// was finished, and before each trial a line that it begins, so that the one that ended the machine is known. The trials
/// of a run that was cancelled or whose journal cannot be written stay valid; the error comes back beside them.
pub(crate) fn run_jobs(
    session: &Session,
    jobs: Vec<Job<'_>>,
    journal: Option<Journal>,
) -> Result<(Vec<Record>, Option<Stop>), Stop> {
    let jobs: Vec<_> = jobs.into_iter().map(|job| (session.next_number(), job)).collect();
    run_batch(session, &jobs, &[], journal).map(|batch| (batch.records, batch.trouble))
}

/// What came of many trials.
pub(crate) struct Batch {
    /// Those that are over.
    pub(crate) records: Vec<Record>,
    /// Those that were planned and did not come to their end.
    pub(crate) not_run: Vec<Record>,
    /// Why, where the run itself went wrong.
    pub(crate) trouble: Option<Stop>,
}

/// The same, with the trials that were not run. Each job has its number in the run; `head` goes to the journal before all else.
pub(crate) fn run_batch(
    session: &Session,
    jobs: &[(u64, Job<'_>)],
    head: &[Line],
    journal: Option<Journal>,
) -> Result<Batch, Stop> {
    let cancel = interrupt::cancel()?;
    let bar = progress(jobs.len() as u64);
    // More threads than jobs have nothing to do.
    let threads = NonZeroUsize::new(jobs.len()).map_or(session.jobs, |n| n.min(session.jobs));
    let planned: Vec<(String, Vec<Planted>)> =
        jobs.iter().map(|(_, job)| (job.id(), job.faults.clone())).collect();

    let mut records = Vec::with_capacity(jobs.len());
    let mut unfinished: BTreeSet<usize> = (0..jobs.len()).collect();
    let journal = Lines { journal: journal.map(Mutex::new), trouble: Mutex::new(None) };
    for line in head {
        journal.keep(|| line.clone(), &cancel);
    }
    let mut keep = in_order(|index, record: Option<Record>| {
        if record.is_some() {
            unfinished.remove(&index);
        }
        records.extend(record);
    });
    for_each(
        jobs,
        threads,
        &cancel,
        |_, (number, job)| {
            let number = *number;
            // A trial of which nobody would know that it began is not run.
            if !journal.keep(|| Line::Begun(begun(session, job, number)), &cancel) {
                return None;
            }
            Some(Record { number, ..run_trial(session, job, &cancel)? })
        },
        |index, record: Option<Record>| {
            bar.inc(1);
            if let Some(record) = &record {
                bar.set_message(record.trial.clone());
                journal.keep(|| Line::Trial(Box::new(record.clone())), &cancel);
            }
            keep(index, record);
        },
    );
    drop(keep);
    journal.keep(|| Line::Over(over(session)), &cancel);
    let trouble = journal.trouble.into_inner().unwrap_or_else(PoisonError::into_inner);
    bar.finish_and_clear();
    let (all, finished) = (planned.len(), records.len());
    let planned = planned.iter().map(|(id, faults)| (id.as_str(), faults.as_slice()));
    let lost = report::complete(planned, &records).err();
    let trouble = match (trouble, lost) {
        (trouble, None) => trouble,
        (None, Some(incomplete)) if !cancel.is_cancelled() => Some(no_verdict(&incomplete)),
        (None, Some(_)) => Some(Stop::no_verdict(not_run("interrupted", finished, all))),
        (Some(stop), Some(_)) => {
            Some(Stop::no_verdict(format!("{stop}\n{}", not_run("stopped", finished, all))))
        }
    };
    let not_run = unfinished.iter().map(|index| not_run_record(session, &jobs[*index].1)).collect();
    Ok(Batch { records, not_run, trouble })
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
    /// Writes a line. Where one cannot be written the run is cancelled: the trials to come would be lost as well.
    fn keep(&self, line: impl FnOnce() -> Line, cancel: &Cancel) -> bool {
        let Some(journal) = &self.journal else { return true };
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
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

fn over(session: &Session) -> Over {
    let (format, run) = (report::FORMAT, session.run.clone());
    Over { format, over: report::date(SystemTime::now()), run }
}

fn not_run(why: &str, finished: usize, all: usize) -> String {
    let (all, lost) = (count(all, "trial"), all - finished);
    format!("{why}: {finished} of {all} finished, {lost} not run")
}

fn progress(total: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() && total > 1 {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), target).with_style(style)
}
