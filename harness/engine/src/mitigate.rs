//! The search for changes to a failing trial that avoid its failure: environment variables, limits and other calls.

mod changes;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use judge::{Kind, may_be_same};
use report::{
    Record,
    evidence::{
        Factor, FactorKind, FactorVerdict, Mitigations, NotTried, OtherFailure, Rate, Setting,
    },
};
use search::{
    mitigate::{ChangeEffect, FactorRuns, MitigateSettings, search},
    reduce::{CandidateOutcome, InvalidReason},
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
    /// The failure with this signature did not occur again.
    #[error("the failure `{0}` did not occur again")]
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
    /// Time after which no further change is tried. `None` for no limit.
    pub deadline: Option<Instant>,
}

/// An event of a running search.
#[derive(Debug)]
#[non_exhaustive]
pub enum MitigateEvent<'a> {
    /// The failure rate without changes is known.
    FailureFound {
        /// The signature of the failure.
        signature: &'a str,
        /// The rate without changes.
        base: Rate,
        /// Number of changes to try.
        changes: usize,
    },
    /// A change was tried, and its effect was written to the evidence folder.
    ChangeTried {
        /// The change with its effect.
        factor: &'a Factor,
        /// Number of changes that were tried so far.
        tried: usize,
        /// Number of changes to try.
        changes: usize,
        /// Estimate of the time that the remaining changes take, from the time that the changes so far took.
        left: Duration,
    },
}

/// A receiver of the events of a search.
pub type MitigateReporter<'a> = &'a dyn Fn(MitigateEvent<'_>);

/// Tries changes to the first failing trial among several, and writes the result to the evidence folder.
///
/// # Errors
/// No trial that fails, trouble of this machine, or a request to stop.
pub fn mitigate(
    session: &Session,
    options: &MitigateOptions,
    subjects: Subjects<'_>,
    cancel: &Cancel,
    report: MitigateReporter<'_>,
) -> Result<Mitigations, Stop> {
    let failures = options.failures;
    let (subject, runs) = first_failing(subjects, session, failures, cancel)?;
    let (Some(signature), Some(failed)) = (runs.signature.clone(), runs.failed()) else {
        return Err(MitigateError::NoFailure.into());
    };
    let (tried, not_tried) = changes::changes(&subject, session, failed, cancel)?;
    let job = subject.job()?;
    let together = |a: usize, b: usize| tried[a].is_compatible_with(&tried[b]);
    let settings = MitigateSettings { failures, ..MitigateSettings::default() };
    let (mut count, mut trouble) = (0, None);
    let folder = evidence::folder(options.out.as_deref(), &subject.selected.case.id)?;
    let result = |base: &FactorRuns, single: &[(ChangeEffect, FactorRuns)], runs| Mitigations {
        trial: subject.id(),
        digest: job.sha256(),
        on: Setting::from_record(failed),
        base: rate(base),
        base_others: others(base),
        runs,
        factors: tried.iter().zip(single).map(factor).collect(),
        minimal_set: Vec::new(),
        points_to: points_to(&tried, single, &[]),
        not_tried: not_tried.clone(),
        signature: signature.clone(),
    };
    // The result of an earlier search that has ended contains more than the beginning of this search, so it is kept at
    // first.
    let earlier = evidence::read::<Mitigations>(&folder).ok().flatten();
    let keeps = earlier.is_none_or(|earlier| {
        earlier.not_tried.iter().any(|other| other.why == NotTried::SEARCH_ENDED)
    });
    let mut progress = Progress { keeps, begun: None, latest: None, unwritten: None };
    let is_late = || options.deadline.is_some_and(|deadline| Instant::now() > deadline);
    let found = search(
        tried.len(),
        &together,
        &settings,
        &mut |set, runs| {
            if is_late() {
                return None;
            }
            let job = with_changes(&job, &tried, set);
            let jobs = (count..count + runs).map(|n| job.for_run(n)).collect();
            count += runs;
            match run_all(session, jobs, cancel) {
                Ok(records) => {
                    let rewritten = rewritten(&tried, set);
                    Some(records.iter().map(|r| classify_run(r, &signature, rewritten)).collect())
                }
                Err(stop) => {
                    trouble = Some(stop);
                    None
                }
            }
        },
        &mut |base, single| {
            let mut so_far = result(
                base,
                single,
                base.runs() + single.iter().map(|(_, tally)| tally.runs()).sum::<u32>(),
            );
            let later = tried.iter().skip(single.len());
            so_far.not_tried.extend(later.map(|other| NotTried {
                name: other.title(),
                why: NotTried::SEARCH_ENDED.to_owned(),
            }));
            progress.report_progress(so_far, tried.len(), &folder, report);
        },
    );
    if let Some(stop) = progress.unwritten.or(trouble) {
        return Err(stop);
    }
    let found = match (found, progress.latest) {
        (Some(found), _) => found,
        (None, Some(so_far)) if is_late() => return Ok(so_far),
        (None, _) => return Err(MitigateError::FailureGone(signature.clone()).into()),
    };
    let result = Mitigations {
        minimal_set: found.set.iter().map(|n| tried[*n].title()).collect(),
        points_to: points_to(&tried, &found.single, &found.set),
        ..result(&found.base, &found.single, found.runs)
    };
    evidence::write(&folder, &result)?;
    Ok(result)
}

/// The progress of a search.
struct Progress {
    /// True if results of this search may be written before the search has ended. They replace the result that an
    /// earlier search left in the evidence folder.
    keeps: bool,
    /// Time at which the first change was tried.
    begun: Option<Instant>,
    /// Result of the changes that were tried so far.
    latest: Option<Mitigations>,
    unwritten: Option<Stop>,
}

impl Progress {
    /// Writes the results so far to the evidence folder, and then reports the progress.
    fn report_progress(
        &mut self,
        so_far: Mitigations,
        changes: usize,
        folder: &Path,
        report: MitigateReporter<'_>,
    ) {
        if self.keeps
            && let Err(error) = evidence::write(folder, &so_far)
        {
            self.unwritten = Some(error.into());
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let tried = so_far.factors.len();
        match so_far.factors.last() {
            None => report(MitigateEvent::FailureFound {
                signature: &so_far.signature,
                base: so_far.base,
                changes,
            }),
            Some(factor) => {
                let each = begun.elapsed() / tried as u32;
                let left = each * changes.saturating_sub(tried) as u32;
                report(MitigateEvent::ChangeTried { factor, tried, changes, left });
            }
        }
        self.latest = Some(so_far);
    }
}

/// Returns the trial with a set of changes applied, given as indices in `tried`.
fn with_changes<'j>(job: &Job<'j>, tried: &'j [TriedChange], set: &[usize]) -> Job<'j> {
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
                *has = combined_value(name, has, value);
            }
            Change::Limit { name, value } => {
                job.lowered.plan.limits.insert(name.clone(), value.clone());
            }
            Change::Calls(_) => {}
        }
    }
    job
}

/// Returns the new value of an environment variable that the trial sets to `has` and a change sets to `value`. If the
/// variable is a list of flags, the new flags are appended, because the last of two contradictory flags takes effect.
fn combined_value(name: &str, has: &str, value: &str) -> String {
    match name.ends_with("_FLAGS") && !has.is_empty() {
        true => format!("{has} {value}"),
        false => value.to_owned(),
    }
}

/// Returns the one change in the set that replaces calls; `None` if the set has no such change.
fn rewritten<'j>(tried: &'j [TriedChange], set: &[usize]) -> Option<&'j RewrittenTrial> {
    set.iter().find_map(|n| match &tried[*n].change {
        Change::Calls(rewritten) => Some(&**rewritten),
        Change::Variable { .. } | Change::Limit { .. } => None,
    })
}

fn classify_run(
    record: &Record,
    signature: &str,
    rewritten: Option<&RewrittenTrial>,
) -> CandidateOutcome {
    let outcome = &record.outcome;
    let answer = |other: &RewrittenTrial| states_an_answer(&other.lowered.plan, outcome);
    match outcome.kind {
        Kind::Pass => CandidateOutcome::Pass,
        Kind::Skip | Kind::NoVerdict => CandidateOutcome::NoVerdict,
        _ if may_be_same(&outcome.signature, signature) => CandidateOutcome::Same,
        _ if rewritten.is_some_and(answer) => {
            CandidateOutcome::Invalid(outcome.signature.clone(), InvalidReason::Answer)
        }
        _ => CandidateOutcome::Other(outcome.signature.clone()),
    }
}

fn rate(tally: &FactorRuns) -> Rate {
    Rate { failed: tally.same, runs: tally.runs() }
}

/// Returns the failures with other signatures, the most frequent first.
fn others(tally: &FactorRuns) -> Vec<OtherFailure> {
    let all = tally.others.iter().chain(&tally.invalid);
    let mut all: Vec<_> = all
        .map(|(signature, count)| OtherFailure { signature: signature.clone(), count: *count })
        .collect();
    all.sort_by_key(|other| std::cmp::Reverse(other.count));
    all
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
        others: others(tally),
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

/// Returns the ROCm components that are suspect because a change that affects them helped, the most frequent first.
fn points_to(
    tried: &[TriedChange],
    single: &[(ChangeEffect, FactorRuns)],
    set: &[usize],
) -> Vec<String> {
    let alone =
        single.iter().enumerate().filter(|(_, (effect, _))| *effect == ChangeEffect::Helped);
    let helped = alone.map(|(n, _)| n).chain(set.iter().copied());
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
    use super::combined_value;

    #[test]
    fn appends_flags_to_those_of_the_trial() {
        assert_eq!(combined_value("XLA_FLAGS", "", "--a=0"), "--a=0");
        assert_eq!(combined_value("XLA_FLAGS", "--a=1 --b", "--a=0"), "--a=1 --b --a=0");
        assert_eq!(combined_value("HSA_ENABLE_SDMA", "1", "0"), "0");
    }
}
