//! Many trials at once: pool, journal, progress.

use std::{collections::BTreeSet, io::IsTerminal, num::NonZeroUsize};

use device::Planted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::{Record, count};
use supervise::{Cancel, Journal, for_each, in_order};

use crate::{
    Session, Stop,
    stop::chain,
    trial::{Job, not_run as not_run_record, run_trial},
};

/// Runs the jobs and returns their records in the order of the jobs.
///
/// Each record goes to the journal as soon as its trial is over, so that whatever ends this program loses nothing that
/// was finished. The trials of a run that was cancelled or whose journal cannot be written stay valid; the error comes back
/// beside them.
pub(crate) fn run_jobs(
    session: &Session,
    jobs: Vec<Job<'_>>,
    journal: Option<Journal>,
) -> Result<(Vec<Record>, Option<Stop>), Stop> {
    run_batch(session, &jobs, journal).map(|batch| (batch.records, batch.trouble))
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

/// The same, with the trials that were not run.
pub(crate) fn run_batch(
    session: &Session,
    jobs: &[Job<'_>],
    mut journal: Option<Journal>,
) -> Result<Batch, Stop> {
    let no_verdict = |e: &dyn std::error::Error| Stop::no_verdict(format!("error: {}", chain(e)));
    let cancel = Cancel::new().map_err(|e| no_verdict(&e))?;
    cancel.on_signals().map_err(|e| no_verdict(&e))?;
    let bar = progress(jobs.len() as u64);
    // More threads than jobs have nothing to do.
    let threads = NonZeroUsize::new(jobs.len()).map_or(session.jobs, |n| n.min(session.jobs));
    let planned: Vec<(String, Vec<Planted>)> =
        jobs.iter().map(|job| (job.id(), job.faults.clone())).collect();

    let mut records = Vec::with_capacity(jobs.len());
    let mut unfinished: BTreeSet<usize> = (0..jobs.len()).collect();
    let mut trouble = None;
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
        |_, job| run_trial(session, job, &cancel),
        |index, record: Option<Record>| {
            bar.inc(1);
            if let Some(record) = &record {
                bar.set_message(record.trial.clone());
                if trouble.is_none()
                    && let Some(journal) = &mut journal
                    && let Err(error) = journal.write(record)
                {
                    trouble = Some(no_verdict(&error));
                    // The trials to come would be lost as well.
                    cancel.cancel();
                }
            }
            keep(index, record);
        },
    );
    drop(keep);
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
    let not_run = unfinished.iter().map(|index| not_run_record(session, &jobs[*index])).collect();
    Ok(Batch { records, not_run, trouble })
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
