//! Many trials at once: pool, journal, progress.

use std::{io::IsTerminal, path::Path};

use device::Fault;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::Record;
use supervise::{Cancel, Durability, Journal, for_each, in_order};

use crate::{
    Session, Stop,
    stop::chain,
    trial::{Job, run_trial},
};

/// Runs the jobs and returns their records in the order of the jobs.
///
/// Each record goes to the journal as soon as its trial is over, so that whatever ends this program loses nothing that
/// was finished. The trials of a run that was cancelled or whose journal cannot be written stay valid; the error comes back
/// beside them.
pub(crate) fn run_jobs(
    session: &Session,
    jobs: Vec<Job<'_>>,
    journal: Option<&Path>,
) -> Result<(Vec<Record>, Option<Stop>), Stop> {
    let no_verdict = |e: &dyn std::error::Error| Stop::no_verdict(format!("error: {}", chain(e)));
    let mut journal = journal
        .map(|path| Journal::open(path, Durability::Machine))
        .transpose()
        .map_err(|e| Stop::usage(format!("error: {}", chain(&e))))?;
    let cancel = Cancel::new().map_err(|e| no_verdict(&e))?;
    cancel.on_signals().map_err(|e| no_verdict(&e))?;
    let bar = progress(jobs.len() as u64);
    let planned: Vec<(String, Vec<Fault>)> =
        jobs.iter().map(|job| (job.id(), job.faults.iter().map(|p| p.fault).collect())).collect();

    let mut records = Vec::with_capacity(jobs.len());
    let mut trouble = None;
    let mut keep = in_order(|_, record: Record| records.push(record));
    for_each(
        jobs,
        session.jobs,
        &cancel,
        |_, job| run_trial(session, &job, &cancel),
        |index, record: Record| {
            bar.inc(1);
            bar.set_message(record.trial.clone());
            if trouble.is_none()
                && let Some(journal) = &mut journal
                && let Err(error) = journal.write(&record)
            {
                trouble = Some(no_verdict(&error));
            }
            keep(index, record);
        },
    );
    drop(keep);
    bar.finish_and_clear();
    let planned = planned.iter().map(|(id, faults)| (id.as_str(), faults.as_slice()));
    if let Err(incomplete) = report::complete(planned, &records) {
        let why = if cancel.is_cancelled() { "cancelled: " } else { "" };
        trouble.get_or_insert(Stop::no_verdict(format!("error: {why}{incomplete}")));
    }
    Ok((records, trouble))
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
