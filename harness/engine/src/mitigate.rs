//! The search for changes to a failing trial that avoid its failure: environment variables, limits and other calls.

mod changes;

use std::path::PathBuf;

use judge::{Kind, may_be_same};
use report::{
    Record,
    evidence::{Factor, FactorKind, FactorVerdict, Mitigations, Rate, Setting},
};
use search::{
    mitigate::{ChangeEffect, FactorRuns, MitigateSettings, Mitigation, search},
    reduce::{InvalidReason, Seen},
};
use supervise::Cancel;
use thiserror::Error;

use self::changes::{Change, RewrittenTrial, TriedChange};
use crate::{
    FailedOperation, FailureClass, Job, Session, Stop, evidence,
    failing_trial::{Subjects, first_failing, run_all, states_an_answer},
};

/// An error that prevents the search for mitigations.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MitigateError {
    /// No run of the trials failed.
    #[error("no run failed")]
    NoFailure,
    /// The trial with the named id no longer fails in the same way.
    #[error("`{0}` did not come again")]
    FailureGone(String),
}

impl FailedOperation for MitigateError {
    fn class(&self) -> FailureClass {
        FailureClass::NoVerdict
    }
}

/// Options of a search for mitigations.
#[derive(Clone, Debug)]
pub struct MitigateOptions {
    /// Number of failures of the unchanged trial that must be seen before changes are tried.
    pub failures: u32,
    /// The evidence folder; by default it is named after the case.
    pub out: Option<PathBuf>,
}

/// Tries changes to the first failing trial among several, and writes the result to the evidence folder.
///
/// # Errors
/// No trial that fails, trouble of this machine, or a request to stop.
pub fn mitigate(
    session: &Session,
    options: &MitigateOptions,
    subjects: Subjects<'_>,
    cancel: &Cancel,
) -> Result<Mitigations, Stop> {
    let failures = options.failures;
    let (subject, runs) = first_failing(subjects, session, failures, cancel)?;
    let (Some(signature), Some(failed)) = (runs.signature.clone(), runs.failed()) else {
        return Err(MitigateError::NoFailure.into());
    };
    let (tried, not_tried) = changes::changes(&subject, session, failed)?;
    let job = subject.job()?;
    let together = |a: usize, b: usize| tried[a].goes_with(&tried[b]);
    let settings = MitigateSettings { failures, ..MitigateSettings::default() };
    let (mut count, mut trouble) = (0, None);
    let folder = evidence::folder(options.out.as_deref(), &subject.selected.case.id)?;
    let found = search(tried.len(), &together, &settings, &mut |set, runs| {
        let job = changed(&job, &tried, set);
        let jobs = (count..count + runs).map(|n| job.of_run(n)).collect();
        count += runs;
        match run_all(session, jobs, cancel) {
            Ok(records) => {
                let rewritten = rewritten(&tried, set);
                Some(records.iter().map(|r| seen(r, &signature, rewritten)).collect())
            }
            Err(stop) => {
                trouble = Some(stop);
                None
            }
        }
    });
    if let Some(stop) = trouble {
        return Err(stop);
    }
    let found = found.ok_or_else(|| MitigateError::FailureGone(signature.clone()))?;
    let result = Mitigations {
        trial: subject.id(),
        on: Setting::of(failed),
        base: rate(&found.base),
        runs: found.runs,
        factors: tried.iter().zip(&found.single).map(factor).collect(),
        minimal_set: found.set.iter().map(|n| tried[*n].title()).collect(),
        points_to: points_to(&tried, &found),
        not_tried,
        signature,
    };
    evidence::write(&folder, &result)?;
    Ok(result)
}

/// Returns the trial with the changes at the indices `set` applied.
fn changed<'j>(job: &Job<'j>, tried: &'j [TriedChange], set: &[usize]) -> Job<'j> {
    let mut job = job.clone();
    if let Some(rewritten) = rewritten(tried, set) {
        job.case = &rewritten.case;
        job.trial = &rewritten.trial;
        job.lowered = rewritten.lowered.clone();
    }
    for change in set.iter().map(|n| &tried[*n].change) {
        match change {
            Change::Variable { name, value } => {
                let has = job.lowered.plan.environment.entry(name.clone()).or_default();
                *has = with(name, has, value);
            }
            Change::Limit { name, value } => {
                job.lowered.plan.limits.insert(name.clone(), value.clone());
            }
            Change::Calls(_) => {}
        }
    }
    job
}

/// Returns the value of an environment variable for a change that sets it to `value`, where the trial already sets it
/// to `has`. To a list of flags, the new ones are appended, because the last of two contradictory flags takes effect.
fn with(name: &str, has: &str, value: &str) -> String {
    match name.ends_with("_FLAGS") && !has.is_empty() {
        true => format!("{has} {value}"),
        false => value.to_owned(),
    }
}

/// Returns the change of calls in a set of changes, which contains at most one.
fn rewritten<'j>(tried: &'j [TriedChange], set: &[usize]) -> Option<&'j RewrittenTrial> {
    set.iter().find_map(|n| match &tried[*n].change {
        Change::Calls(rewritten) => Some(&**rewritten),
        Change::Variable { .. } | Change::Limit { .. } => None,
    })
}

fn seen(record: &Record, signature: &str, rewritten: Option<&RewrittenTrial>) -> Seen {
    let outcome = &record.outcome;
    let answer = |other: &RewrittenTrial| states_an_answer(&other.lowered.plan, outcome);
    match outcome.kind {
        Kind::Pass => Seen::Pass,
        Kind::Skip | Kind::NoVerdict => Seen::NoVerdict,
        _ if may_be_same(&outcome.signature, signature) => Seen::Same,
        _ if rewritten.is_some_and(answer) => {
            Seen::Invalid(outcome.signature.clone(), InvalidReason::Answer)
        }
        _ => Seen::Other(outcome.signature.clone()),
    }
}

fn rate(tally: &FactorRuns) -> Rate {
    Rate { failed: tally.same, runs: tally.runs() }
}

fn factor((tried, (effect, tally)): (&TriedChange, &(ChangeEffect, FactorRuns))) -> Factor {
    let (kind, name, value) = match &tried.change {
        Change::Variable { name, value } => (FactorKind::Env, name.clone(), value.clone()),
        Change::Limit { name, value } => (FactorKind::Limit, name.clone(), value.clone()),
        Change::Calls(_) => (FactorKind::Rewrite, tried.name.clone(), String::new()),
    };
    Factor {
        name,
        kind,
        value,
        meaning: tried.meaning.clone(),
        since: tried.since.clone(),
        rate: rate(tally),
        verdict: match effect {
            ChangeEffect::Helped => FactorVerdict::Helped,
            ChangeEffect::Nothing => FactorVerdict::NoEffect,
            ChangeEffect::Rarer => FactorVerdict::Rarer,
            ChangeEffect::Changed(to) => FactorVerdict::ChangedSignature { to: to.clone() },
            ChangeEffect::Invalid(to) => FactorVerdict::Wrong { to: to.clone() },
            ChangeEffect::Undecided => FactorVerdict::Undecided,
        },
        component: tried.component.clone(),
    }
}

/// Returns the components of ROCm that the helpful changes affect, the most frequent first.
fn points_to(tried: &[TriedChange], found: &Mitigation) -> Vec<String> {
    let alone =
        found.single.iter().enumerate().filter(|(_, (effect, _))| *effect == ChangeEffect::Helped);
    let helped = alone.map(|(n, _)| n).chain(found.set.iter().copied());
    let mut counts: Vec<(String, u32)> = Vec::new();
    for component in helped.map(|n| &tried[n].component) {
        match counts.iter_mut().find(|(name, _)| name == component) {
            Some((_, count)) => *count += 1,
            None => counts.push((component.clone(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn appends_flags_to_those_of_the_trial() {
        assert_eq!(with("XLA_FLAGS", "", "--a=0"), "--a=0");
        assert_eq!(with("XLA_FLAGS", "--a=1 --b", "--a=0"), "--a=1 --b --a=0");
        assert_eq!(with("HSA_ENABLE_SDMA", "1", "0"), "0");
    }
}
