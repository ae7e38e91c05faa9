//! Controls: runs that differ from the failing ones in one aspect.

use case::Trial;
use report::{Record, evidence::Rate, issue::Control};
use supervise::Cancel;

use super::IssueOptions;
use crate::{
    Selected, Session, SessionOptions, Stop,
    failing_trial::{FailingTrial, TrialRuns},
};

/// The name of the control without the injected faults.
pub(super) const HEALTHY: &str = "no fault planted";

/// Neighbours in the matrix that are tried.
const NEIGHBOURS: usize = 12;
/// Passing neighbours that are reported.
const REPORTED: usize = 2;

/// Runs passing neighbours in the matrix, and the healthy device if a fault is injected, or else the other releases.
pub(super) fn controls(
    subject: &FailingTrial<'_>,
    session: &Session,
    options: &IssueOptions,
    failed: &Record,
    cancel: &Cancel,
) -> Result<Vec<Control>, Stop> {
    let repeat = options.repeat;
    let mut controls = neighbours(subject, session, repeat, cancel)?;
    if subject.faults.is_empty() {
        controls.extend(releases(subject, options, failed, cancel)?);
    } else {
        let healthy = subject.with(subject.selected.clone(), Vec::new());
        controls.push(control(
            HEALTHY.to_owned(),
            TrialRuns::of(healthy.run(session, repeat, 0, &[], cancel)?),
        ));
    }
    Ok(controls)
}

/// Returns the control for some runs.
pub(super) fn control(what: String, runs: TrialRuns) -> Control {
    let failed = runs.rate.failed + runs.others.iter().map(|other| other.count).sum::<u32>();
    let again = runs.records.first().map_or(String::new(), |r| r.again.clone());
    Control {
        what,
        rate: Rate { failed, runs: runs.rate.runs },
        signature: runs.signature,
        likeness: None,
        again,
    }
}

/// Returns trials of the same case that pass, the most similar first.
fn neighbours(
    subject: &FailingTrial<'_>,
    session: &Session,
    repeat: u32,
    cancel: &Cancel,
) -> Result<Vec<Control>, Stop> {
    let (case, own) = (subject.selected.case, &subject.selected.trial);
    let mut near: Vec<(usize, String, Trial)> = case
        .trials()
        .into_iter()
        .map(|trial| {
            let (count, words) = difference(own, &trial);
            (count, words, trial)
        })
        .filter(|(count, ..)| *count > 0)
        .collect();
    near.sort_by_key(|(count, ..)| *count);
    let mut found = Vec::new();
    for (_, what, trial) in near.into_iter().take(NEIGHBOURS) {
        let neighbour = subject.with(Selected { case, trial }, subject.faults.clone());
        let looks = TrialRuns::of(neighbour.run(session, 1, 0, &[], cancel)?);
        if looks.rate.runs == 0 || looks.signature.is_some() {
            continue;
        }
        let mut records = looks.records;
        records.extend(neighbour.run(session, repeat - 1, 1, &[], cancel)?);
        found.push(control(what, TrialRuns::of(records)));
        if found.len() == REPORTED {
            break;
        }
    }
    // A neighbour that fails in a later run is not a control.
    found.retain(|control| control.rate.failed == 0);
    Ok(found)
}

/// Counts and describes the values that differ, for example `host=pinned instead of host=pageable`.
fn difference(own: &Trial, other: &Trial) -> (usize, String) {
    let words: Vec<_> = other
        .values
        .iter()
        .filter(|(axis, value)| own.value(axis) != Some(value))
        .map(|(axis, value)| match own.value(axis) {
            Some(mine) => format!("{axis}={value} instead of {axis}={mine}"),
            None => format!("{axis}={value}"),
        })
        .collect();
    (words.len(), words.join(", "))
}

/// Runs the trial on the other releases of this machine.
fn releases(
    subject: &FailingTrial<'_>,
    options: &IssueOptions,
    failed: &Record,
    cancel: &Cancel,
) -> Result<Vec<Control>, Stop> {
    let Ok(store) = stacks::StackCache::from_environment() else { return Ok(Vec::new()) };
    let fetched = stacks::list_stacks(&store).debian.into_iter().filter_map(|f| f.stack);
    let installed = stacks::system_stacks();
    let specs = installed.into_iter().chain(fetched).map(|stack| stack.spec);
    let mut controls = Vec::new();
    for spec in specs.filter(|spec| *spec != failed.stack.spec) {
        let other =
            SessionOptions { rocm: spec.clone(), with: Vec::new(), ..options.session.clone() };
        let session = Session::open_on_one(other)?;
        let runs = TrialRuns::of(subject.run(&session, options.repeat, 0, &[], cancel)?);
        if runs.rate.runs > 0 {
            let release = session.rocm.as_ref().map_or(spec, ToString::to_string);
            controls.push(control(format!("the same on ROCm {release}"), runs));
        }
    }
    Ok(controls)
}
