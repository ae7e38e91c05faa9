//! Finds the one failing trial that a command such as `minimise` works on, and repeats its runs.

use std::collections::BTreeMap;

use case::{Case, Trial};
use device::FaultSpec;
use judge::{FailureComparison, FailureIdentity, Kind, Outcome};
use plan::Plan;
use report::{
    Record, count,
    evidence::{OtherFailure, Rate},
};
use stacks::Hint;
use supervise::Cancel;
use thiserror::Error;

use crate::{
    CaseLibrary, Job, Selected, Session, Stop, batch::run_jobs, command_line::CommandLine,
    jobs_with, select, stop::explained,
};

/// An error that prevents a command from finding a failing trial.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FailingTrialError {
    /// The case has no trial.
    #[error("the case has no trial")]
    NoTrial,
    /// No run of the trials had a verdict.
    #[error("no run of {trials} gave a verdict; {why}")]
    NoVerdict {
        /// The number of trials, for example "3 trials".
        trials: String,
        /// The outcome of one of the trials.
        why: String,
    },
    /// No run of the user's program had a verdict.
    #[error("{runs} gave no verdict; {why}")]
    ProgramNotJudged {
        /// The number of runs, for example "5 runs".
        runs: String,
        /// The outcome of one of the runs.
        why: String,
    },
    /// No run of the user's program failed.
    #[error("the program did not fail; it passed in {passed} of {runs}")]
    ProgramPassed {
        /// Number of runs that passed.
        passed: u32,
        /// The number of runs, for example "5 runs".
        runs: String,
        /// The options that state the right result, for example `--exit 1`; empty if the user gave none.
        stated: String,
    },
    /// Every run passed.
    #[error("nothing failed in {runs} of {trials}")]
    NothingFailed {
        /// The number of runs with a verdict, for example "5 runs".
        runs: String,
        /// The number of trials, for example "3 trials".
        trials: String,
    },
}

impl Hint for FailingTrialError {
    fn hint(&self) -> Option<String> {
        match self {
            FailingTrialError::NothingFailed { .. } => {
                Some("use `rocrepro report --repeat N` for more runs".to_owned())
            }
            FailingTrialError::ProgramPassed { stated, .. } if !stated.is_empty() => Some(format!(
                "`{stated}` states what a right run does, and the program did just that; use `--repeat N` for more runs"
            )),
            FailingTrialError::ProgramPassed { .. } => {
                Some("use `--repeat N` for more runs".to_owned())
            }
            _ => None,
        }
    }
}

impl From<FailingTrialError> for Stop {
    fn from(error: FailingTrialError) -> Stop {
        let message = format!("error: {}", explained(&error));
        match error {
            FailingTrialError::NoTrial => Stop::nothing(message),
            _ => Stop::no_verdict(message),
        }
    }
}

/// The trials among which a command looks for one failing trial. The command works on the first that fails.
#[derive(Clone)]
pub struct Subjects<'a> {
    /// The library that contains the cases of the trials.
    pub library: &'a CaseLibrary,
    /// The selected trials.
    pub selected: Vec<Selected<'a>>,
    /// Injected faults.
    pub faults: Vec<FaultSpec>,
    /// The command line that the only trial runs, if the user gave one instead of a case.
    pub command: Option<&'a CommandLine>,
}

impl<'a> Subjects<'a> {
    /// Returns the only trial of a command line, in the form in which commands look for a failing trial.
    ///
    /// # Errors
    /// Never returns an error: the case of a command line has one trial.
    pub fn of_command(line: &'a CommandLine, faults: Vec<FaultSpec>) -> Result<Subjects<'a>, Stop> {
        let library = line.library();
        let selected = select(library, &[])?;
        Ok(Subjects { library, selected, faults, command: Some(line) })
    }

    fn trials(self) -> impl ExactSizeIterator<Item = FailingTrial<'a>> {
        let Subjects { library, selected, faults, command } = self;
        selected.into_iter().map(move |selected| FailingTrial {
            library,
            selected,
            faults: faults.clone(),
            command,
        })
    }
}

/// A trial that failed, with its injected faults.
#[derive(Clone)]
pub struct FailingTrial<'a> {
    /// The library that contains the case of the trial.
    pub library: &'a CaseLibrary,
    /// The trial.
    pub selected: Selected<'a>,
    /// Injected faults.
    pub faults: Vec<FaultSpec>,
    /// The command line that the trial runs, if the user gave one instead of a case.
    pub command: Option<&'a CommandLine>,
}

impl<'a> FailingTrial<'a> {
    /// Returns the id of the trial, for example `copies/small-sizes[bytes=2]`.
    pub fn id(&self) -> String {
        self.selected.id()
    }

    /// Returns a copy with another trial and other faults.
    pub fn with_trial(&self, selected: Selected<'a>, faults: Vec<FaultSpec>) -> FailingTrial<'a> {
        FailingTrial { selected, faults, ..self.clone() }
    }

    /// Returns the trial as a job for one run.
    ///
    /// # Errors
    /// Fails if the case has mistakes or no trials.
    pub fn job(&self) -> Result<Job<'_>, Stop> {
        let selected = std::slice::from_ref(&self.selected);
        let job = jobs_with(self.library, selected, &self.faults)?.into_iter().next();
        Ok(job.ok_or(FailingTrialError::NoTrial)?)
    }

    /// Runs the trial, each time in a fresh process. `from` is the number of earlier runs. A fault with a probability
    /// below 1 gets another seed in each run, because with the same seed it would take effect at the same calls.
    ///
    /// # Errors
    /// Those of [`FailingTrial::job`] and [`run_all`].
    pub fn run(
        &self,
        session: &Session,
        runs: u32,
        from: u32,
        variables: &[(String, String)],
        cancel: &Cancel,
    ) -> Result<Vec<Record>, Stop> {
        let mut job = self.job()?;
        job.lowered.plan.environment.extend(variables.iter().cloned());
        let runs = (from..from + runs).map(|n| job.for_run(n)).collect();
        let mut records = run_all(session, runs, cancel)?;
        if let Some(command) = self.command {
            command.describe(&mut records, session, &self.faults, cancel);
        }
        Ok(records)
    }
}

/// Another trial of the same case, and its difference from a given trial.
pub(crate) struct NearTrial {
    /// Number of axes on which the two trials differ.
    pub(crate) values: usize,
    /// The differing axis values, for example `host=pinned instead of host=pageable`.
    pub(crate) what: String,
    /// The other trial.
    pub(crate) trial: Trial,
}

/// Returns the other trials of the case of `own`, the most similar first.
pub(crate) fn nearest_trials(case: &Case, own: &Trial) -> Vec<NearTrial> {
    let near = case.trials().into_iter().map(|trial| {
        let differ = trial.values.iter().filter(|(axis, value)| own.value(axis) != Some(value));
        let words: Vec<_> = differ
            .map(|(axis, value)| match own.value(axis) {
                Some(mine) => format!("{axis}={value} instead of {axis}={mine}"),
                None => format!("{axis}={value}"),
            })
            .collect();
        NearTrial { values: words.len(), what: words.join(", "), trial }
    });
    let mut near: Vec<_> = near.filter(|near| near.values > 0).collect();
    near.sort_by_key(|near| near.values);
    near
}

/// Repeated runs of one trial.
pub struct TrialRuns {
    /// The records of all runs.
    pub records: Vec<Record>,
    /// Signature of the failures that `rate` counts; `None` if no run failed.
    pub signature: Option<String>,
    /// Rate of the runs that failed with `signature`.
    pub rate: Rate,
    /// Failures with other signatures.
    pub others: Vec<OtherFailure>,
}

impl TrialRuns {
    /// Counts the runs that failed with the most frequent signature.
    pub fn from_records(records: Vec<Record>) -> TrialRuns {
        let counts = failures(&records);
        let signature = counts.first().map(|other| other.signature.clone());
        TrialRuns::with_signature(records, signature)
    }

    /// Counts the runs that failed with `signature`. Counts no run if `signature` is `None`.
    pub fn with_signature(records: Vec<Record>, signature: Option<String>) -> TrialRuns {
        let others = failures(&records)
            .into_iter()
            .filter(|other| !is_wanted(&other.signature, signature.as_deref()))
            .collect();
        let failed = records.iter().filter(|r| is_wanted_failure(r, signature.as_deref()));
        let rate = Rate { failed: failed.count() as u32, runs: verdicts(&records) };
        TrialRuns { records, signature, rate, others }
    }

    /// Returns a run that failed with the signature; `None` if no run did.
    pub fn failed(&self) -> Option<&Record> {
        self.records.iter().find(|r| is_wanted_failure(r, self.signature.as_deref()))
    }
}

/// Returns true if the case states the expected result of the call at which the plan failed. If an edit has changed or
/// removed other calls, the stated result may no longer be right.
pub fn states_an_answer(plan: &Plan, outcome: &Outcome) -> bool {
    let step = outcome.at.step.and_then(|id| plan.step(id));
    step.is_some_and(|step| step.returns.is_some() || step.gives.is_some())
}

/// Returns true if two outcomes are the same failure. The second outcome may come from an edited program. If the
/// compiler rejected both programs, its first error must be the same; otherwise a text that does not parse could count
/// as a shorter program.
pub(crate) fn is_same_after_edit(one: &Outcome, other: &Outcome) -> bool {
    let identity = |outcome: &Outcome| FailureIdentity::parse(&outcome.signature);
    let error = |outcome: &Outcome| {
        let line = |line: &String| line.split_once("error: ").map(|(_, text)| text.to_owned());
        let refused = outcome.kind == Kind::CompileError;
        refused.then(|| outcome.details.iter().find_map(line)).flatten()
    };
    identity(one).compare_edited(&identity(other)) == FailureComparison::Same
        && error(one) == error(other)
}

fn is_wanted_failure(record: &Record, wanted: Option<&str>) -> bool {
    record.outcome.kind.is_failure() && is_wanted(&record.outcome.signature, wanted)
}

fn is_wanted(signature: &str, wanted: Option<&str>) -> bool {
    wanted.is_some_and(|wanted| judge::may_be_same(signature, wanted))
}

/// Counts the runs with a verdict: those that passed or failed.
fn verdicts(records: &[Record]) -> u32 {
    let proves = |r: &&Record| r.outcome.kind == Kind::Pass || r.outcome.kind.is_failure();
    records.iter().filter(proves).count() as u32
}

/// Counts failures by signature, the most frequent first.
fn failures(records: &[Record]) -> Vec<OtherFailure> {
    let mut counts = BTreeMap::<&str, u32>::new();
    for record in records.iter().filter(|r| r.outcome.kind.is_failure()) {
        *counts.entry(&record.outcome.signature).or_default() += 1;
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|(signature, count)| OtherFailure { signature: signature.to_owned(), count })
        .collect();
    counts.sort_by_key(|other| std::cmp::Reverse(other.count));
    counts
}

/// Runs jobs and returns their records.
///
/// # Errors
/// A job that could not be run, or a request to stop.
pub fn run_all(
    session: &Session,
    jobs: Vec<Job<'_>>,
    cancel: &Cancel,
) -> Result<Vec<Record>, Stop> {
    match run_jobs(session, jobs, None, cancel) {
        (records, None) => Ok(records),
        (_, Some(stop)) => Err(stop),
    }
}

/// Returns the first of several trials that fails, with the runs that showed it.
///
/// # Errors
/// No trial failed, or none could be run.
pub fn first_failing<'a>(
    subjects: Subjects<'a>,
    session: &Session,
    repeat: u32,
    cancel: &Cancel,
) -> Result<(FailingTrial<'a>, TrialRuns), Stop> {
    let (trial, records) = first_failure(subjects, session, repeat, repeat, cancel)?;
    let runs = all_runs(&trial, records, session, repeat, cancel)?;
    Ok((trial, runs))
}

/// Makes the remaining runs of a trial, so that it has run `repeat` times in all.
///
/// # Errors
/// Those of [`FailingTrial::run`].
pub(crate) fn all_runs(
    trial: &FailingTrial<'_>,
    mut records: Vec<Record>,
    session: &Session,
    repeat: u32,
    cancel: &Cancel,
) -> Result<TrialRuns, Stop> {
    let made = records.len() as u32;
    if made < repeat {
        records.extend(trial.run(session, repeat - made, made, &[], cancel)?);
    }
    Ok(TrialRuns::from_records(records))
}

/// Returns the first of several trials that fails, with its runs so far. If there is only one trial, it runs `at_first`
/// times and then, if no run failed, up to `repeat` times in all.
///
/// # Errors
/// Those of [`first_failing`].
pub(crate) fn first_failure<'a>(
    subjects: Subjects<'a>,
    session: &Session,
    repeat: u32,
    at_first: u32,
    cancel: &Cancel,
) -> Result<(FailingTrial<'a>, Vec<Record>), Stop> {
    let command = subjects.command;
    let trials: Vec<_> = subjects.trials().collect();
    let mut ran = 0;
    let mut why = String::new();
    let has_failed = |records: &[Record]| records.iter().any(|r| r.outcome.kind.is_failure());
    for trial in &trials {
        // Most trials pass. If there are several, each runs once at first, which detects all but rare failures.
        let looks = if trials.len() > 1 { 1 } else { at_first.min(repeat) };
        let mut records = trial.run(session, looks, 0, &[], cancel)?;
        if trials.len() == 1 && looks < repeat && !has_failed(&records) {
            records.extend(trial.run(session, repeat - looks, looks, &[], cancel)?);
        }
        ran += verdicts(&records);
        if let Some(nothing) = records.iter().find(|r| !r.outcome.kind.is_failure()) {
            why = format!("{}: {}", nothing.outcome.signature, nothing.outcome.summary);
        }
        if has_failed(&records) {
            return Ok((trial.clone(), records));
        }
    }
    if let Some(command) = command {
        let runs = count(repeat as usize, "run");
        return Err(match ran {
            0 => FailingTrialError::ProgramNotJudged { runs, why },
            passed => {
                FailingTrialError::ProgramPassed { passed, runs, stated: command.stated_result() }
            }
        }
        .into());
    }
    let trials = count(trials.len(), "trial");
    Err(match ran {
        0 => FailingTrialError::NoVerdict { trials, why },
        _ => FailingTrialError::NothingFailed { runs: count(ran, "run"), trials },
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_does_what_was_stated_has_a_hint() {
        let hint = |stated: &str| {
            let stated = stated.to_owned();
            FailingTrialError::ProgramPassed { passed: 3, runs: "3 runs".to_owned(), stated }.hint()
        };
        let text = "`--exit 1` states what a right run does, and the program did just that; use `--repeat N` for more \
                    runs";
        assert_eq!(hint("--exit 1").as_deref(), Some(text));
        assert_eq!(hint("").as_deref(), Some("use `--repeat N` for more runs"));
    }
}
