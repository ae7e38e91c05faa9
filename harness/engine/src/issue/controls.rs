//! Runs the controls of a failure: runs that differ from the failing ones in one respect.

use std::time::Instant;

use device::Arch;
use report::{
    evidence::Rate,
    issue::{Control, UnjudgedRelease},
};
use stacks::Spec;
use supervise::Cancel;

use super::{IssueError, IssueEvent, IssueOptions, IssueReporter};
use crate::{
    Selected, Session, SessionOptions, Stop,
    failing_trial::{FailingTrial, NearTrial, TrialRuns, nearest_trials},
    passing_release::PassingReleaseSearch,
    stop::explained,
};

/// Name of the control that runs without the injected faults.
const HEALTHY: &str = "no fault injected";

/// Largest number of similar trials of the same case that are tried as controls.
const NEIGHBOURS: usize = 12;
/// Number of passing similar trials that are reported.
const REPORTED: usize = 2;

/// The controls of a failure, and the reasons for missing ones.
#[derive(Default)]
pub(super) struct Controls {
    pub(super) controls: Vec<Control>,
    /// Releases on which no run of the trial had a verdict, with the reason.
    pub(super) not_judged: Vec<UnjudgedRelease>,
}

/// Runs the controls of a failure with the signature `reported`. Similar trials of the case that pass are controls.
/// Another control is the device without the injected fault, or, if no fault is injected, other releases.
pub(super) fn controls(
    subject: &FailingTrial<'_>,
    reported: &str,
    session: &Session,
    options: &IssueOptions,
    cancel: &Cancel,
    events: IssueReporter<'_>,
) -> Result<Controls, Stop> {
    let repeat = options.repeat;
    let mut controls = neighbours(subject, session, options, cancel)?;
    let mut found = Controls::default();
    let others = match options.also.as_slice() {
        // A program of the user is written for one release and may not start on another.
        [] if subject.command.is_some() || !subject.faults.is_empty() => Vec::new(),
        [] => fetched(session, options),
        also => on_releases(&options.session, also)?.into_iter().map(|one| vec![one]).collect(),
    };
    for other in others {
        match on_release(subject, reported, session, other, repeat, cancel)? {
            Ok(control) => controls.push(control),
            Err(not_judged) => {
                let UnjudgedRelease { release, why } = &not_judged;
                events(IssueEvent::NotJudged { release, why });
                found.not_judged.push(not_judged);
            }
        }
    }
    if !subject.faults.is_empty() {
        let healthy = subject.with_trial(subject.selected.clone(), Vec::new());
        let runs = TrialRuns::from_records(healthy.run(session, repeat, 0, &[], cancel)?);
        controls.push(control(HEALTHY.to_owned(), None, runs));
    }
    found.controls = controls;
    Ok(found)
}

/// Summarises runs as a control with the name `what`.
fn control(what: String, release: Option<String>, runs: TrialRuns) -> Control {
    let failed = runs.rate.failed + runs.others.iter().map(|other| other.count).sum::<u32>();
    let again = runs.records.first().map_or(String::new(), |r| r.again.clone());
    Control {
        what,
        release,
        rate: Rate { failed, runs: runs.rate.runs },
        signature: runs.signature,
        others: runs.others,
        likeness: None,
        again,
    }
}

/// Returns as controls those trials of the same case that pass, the most similar first.
fn neighbours(
    subject: &FailingTrial<'_>,
    session: &Session,
    options: &IssueOptions,
    cancel: &Cancel,
) -> Result<Vec<Control>, Stop> {
    let (repeat, begun) = (options.repeat, Instant::now());
    let (case, own) = (subject.selected.case, &subject.selected.trial);
    let mut found = Vec::new();
    for NearTrial { what, trial, .. } in nearest_trials(case, own).into_iter().take(NEIGHBOURS) {
        // Each neighbour of a trial that hangs may hang too.
        if begun.elapsed() >= options.budget {
            break;
        }
        let neighbour = subject.with_trial(Selected { case, trial }, subject.faults.clone());
        let looks = TrialRuns::from_records(neighbour.run(session, 1, 0, &[], cancel)?);
        if looks.rate.runs == 0 || looks.signature.is_some() {
            continue;
        }
        let mut records = looks.records;
        records.extend(neighbour.run(session, repeat - 1, 1, &[], cancel)?);
        found.push(control(what, None, TrialRuns::from_records(records)));
        if found.len() == REPORTED {
            break;
        }
    }
    // A trial that fails in a later run cannot be a control.
    found.retain(|control| control.rate.failed == 0);
    Ok(found)
}

/// Returns session options for each other release of this machine: first the device of the failing runs, then other
/// architectures.
fn fetched(session: &Session, options: &IssueOptions) -> Vec<Vec<SessionOptions>> {
    let releases = PassingReleaseSearch { options: options.session.clone(), named: None };
    let specs = session.other_stacks().into_iter().map(|stack| stack.spec);
    specs.map(|spec| releases.settings(&spec)).collect()
}

/// Parses the further releases that the user named, as `RELEASE` or `RELEASE@GFX`.
///
/// # Errors
/// All releases that are not valid.
pub(super) fn on_releases(
    options: &SessionOptions,
    also: &[String],
) -> Result<Vec<SessionOptions>, Stop> {
    let (mut releases, mut wrong) = (Vec::new(), Vec::new());
    for text in also {
        match named_release(options, text) {
            Ok(other) => releases.push(other),
            Err(stop) => wrong.push(stop.to_string()),
        }
    }
    if wrong.is_empty() { Ok(releases) } else { Err(Stop::usage(wrong.join("\n"))) }
}

fn named_release(options: &SessionOptions, text: &str) -> Result<SessionOptions, Stop> {
    let (spec, gfx) = text.split_once('@').map_or((text, None), |(spec, gfx)| (spec, Some(gfx)));
    let wrong = |error| Stop::from(IssueError::Release { text: text.to_owned(), error });
    let parsed = spec.parse::<Spec>().map_err(|error| wrong(explained(&error)));
    let gfx = gfx.map(str::parse::<Arch>).transpose();
    let (_, gfx) = Stop::both(parsed, gfx.map_err(|error| wrong(error.to_string())))?;
    match gfx {
        Some(arch) => Ok(SessionOptions { rocm: spec.to_owned(), ..options.for_arch(arch) }),
        None => Ok(SessionOptions { rocm: spec.to_owned(), ..options.clone() }),
    }
}

/// Runs the trial on another release, with one device after the other until a run has a verdict. If none has, returns
/// the reason. The control names the architecture if it differs from that of the failing runs.
fn on_release(
    subject: &FailingTrial<'_>,
    reported: &str,
    failing: &Session,
    devices: Vec<SessionOptions>,
    repeat: u32,
    cancel: &Cancel,
) -> Result<Result<Control, UnjudgedRelease>, Stop> {
    let mut not_judged = None;
    let mut judged = None;
    for options in devices {
        let session = Session::open_on_one(options)?;
        let records = subject.run(&session, 1, 0, &[], cancel)?;
        let first = records.first().map(|record| &record.outcome);
        let why = first.map_or(String::new(), |outcome| outcome.summary.clone());
        // A runtime that does not know the architecture may crash before the trial begins.
        let has_begun = first.is_some_and(|outcome| {
            !outcome.signature.ends_with(":init") || outcome.signature == reported
        });
        if has_begun && TrialRuns::from_records(records.clone()).rate.runs > 0 {
            judged = Some((session, records));
            break;
        }
        let release = name(&session);
        not_judged.get_or_insert(UnjudgedRelease { release, why });
    }
    let Some((session, mut records)) = judged else {
        return Ok(Err(not_judged.unwrap_or_default()));
    };
    records.extend(subject.run(&session, repeat - 1, 1, &[], cancel)?);
    let release = name(&session);
    let gfx = session.gfx().filter(|gfx| failing.gfx() != Some(gfx));
    let gfx = gfx.map_or(String::new(), |gfx| format!(" on the emulated {gfx}"));
    let what = if subject.command.is_some() { "the same program" } else { "the same" };
    let on = format!("ROCm {release}{gfx}");
    Ok(Ok(control(format!("{what} on {on}"), Some(on), TrialRuns::from_records(records))))
}

fn name(session: &Session) -> String {
    session.rocm.as_ref().map_or(session.stack.spec.clone(), ToString::to_string)
}
