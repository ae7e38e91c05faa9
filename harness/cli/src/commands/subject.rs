//! The one failing trial that a command is about.

use crate::interrupt;
use std::collections::BTreeMap;

use device::Planted;
use judge::{Kind, Outcome};
use plan::Plan;
use report::{
    Record, count,
    evidence::{OtherFailure, Rate},
};

use engine::{
    CaseLibrary, Selected, Session, Stop,
    batch::run_jobs,
    job::{Job, lower_all},
};

/// A trial with its planted faults.
#[derive(Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) library: &'a CaseLibrary,
    pub(crate) selected: Selected<'a>,
    pub(crate) faults: Vec<Planted>,
}

/// What several runs of one trial did.
pub(crate) struct Runs {
    pub(crate) records: Vec<Record>,
    /// The most frequent failure; none where all passed.
    pub(crate) signature: Option<String>,
    /// Failures with that signature.
    pub(crate) rate: Rate,
    /// Failures with another.
    pub(crate) others: Vec<OtherFailure>,
}

impl Runs {
    pub(crate) fn of(records: Vec<Record>) -> Runs {
        let counts = failures(&records);
        let signature = counts.first().map(|other| other.signature.clone());
        Runs::with_signature(records, signature)
    }

    /// Counted for a signature that is known already.
    pub(crate) fn with_signature(records: Vec<Record>, signature: Option<String>) -> Runs {
        let others = failures(&records)
            .into_iter()
            .filter(|other| !is_wanted(&other.signature, signature.as_deref()))
            .collect();
        let failed = records.iter().filter(|r| is_wanted_failure(r, signature.as_deref()));
        let rate = Rate { failed: failed.count() as u32, runs: verdicts(&records) };
        Runs { records, signature, rate, others }
    }

    /// A run that failed with the signature.
    pub(crate) fn failed(&self) -> Option<&Record> {
        self.records.iter().find(|r| is_wanted_failure(r, self.signature.as_deref()))
    }
}

/// Whether the step at which a plan failed says what its call must answer. Where calls were changed or left out the answer to those
/// that are left need not be the one that was stated.
pub(crate) fn states_an_answer(plan: &Plan, outcome: &Outcome) -> bool {
    let step = outcome.at.step.and_then(|id| plan.step(id));
    step.is_some_and(|step| step.returns.is_some() || step.gives.is_some())
}

fn is_wanted_failure(record: &Record, wanted: Option<&str>) -> bool {
    record.outcome.kind.is_failure() && is_wanted(&record.outcome.signature, wanted)
}

/// Returns whether a failure is the one in question, as far as anything is known of it.
fn is_wanted(signature: &str, wanted: Option<&str>) -> bool {
    wanted.is_some_and(|wanted| judge::may_be_same(signature, wanted))
}

/// Runs that prove something.
fn verdicts(records: &[Record]) -> u32 {
    let proves = |r: &&Record| r.outcome.kind == Kind::Pass || r.outcome.kind.is_failure();
    records.iter().filter(proves).count() as u32
}

/// Failures by signature, the most frequent first.
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

impl<'a> Subject<'a> {
    /// Such as `copies/small-sizes[bytes=2]`.
    pub(crate) fn id(&self) -> String {
        self.selected.id()
    }

    /// The same trial with other values or other faults.
    pub(crate) fn with(&self, selected: Selected<'a>, faults: Vec<Planted>) -> Subject<'a> {
        Subject { library: self.library, selected, faults }
    }

    /// The trial as a job for one run.
    pub(crate) fn job(&self) -> Result<Job<'_>, Stop> {
        let selected = std::slice::from_ref(&self.selected);
        let lowered = lower_all(self.library, selected, self.faults.iter().cloned())?;
        let Some(lowered) = lowered.into_iter().next() else {
            return Err(Stop::nothing("error: the case has no trial"));
        };
        let Selected { case, trial } = &self.selected;
        Ok(Job { case, trial, lowered, run: 0, faults: self.faults.clone() })
    }

    /// Runs it, each time in a fresh process. A fault of less than full probability gets another seed each time, `from` counting
    /// the runs before: the same seed would misbehave at the same calls.
    pub(crate) fn run(
        &self,
        session: &Session,
        runs: u32,
        from: u32,
        variables: &[(String, String)],
    ) -> Result<Vec<Record>, Stop> {
        let mut job = self.job()?;
        job.lowered.plan.environment.extend(variables.iter().cloned());
        run(session, (from..from + runs).map(|n| job.of_run(n)).collect())
    }
}

/// Runs jobs; the records of those that could not be run are an error.
pub(crate) fn run(session: &Session, jobs: Vec<Job<'_>>) -> Result<Vec<Record>, Stop> {
    match run_jobs(session, jobs, None, &interrupt::cancel()?) {
        (records, None) => Ok(records),
        (_, Some(stop)) => Err(stop),
    }
}

/// The first of some trials that fails, with the runs that showed it.
///
/// # Errors
/// No trial failed, or none could be run.
pub(crate) fn first_failing<'a>(
    library: &'a CaseLibrary,
    selected: Vec<Selected<'a>>,
    faults: &[Planted],
    session: &Session,
    repeat: u32,
) -> Result<(Subject<'a>, Runs), Stop> {
    let subjects: Vec<_> = selected
        .into_iter()
        .map(|selected| Subject { library, selected, faults: faults.to_vec() })
        .collect();
    let mut ran = 0;
    let mut why = String::new();
    for subject in &subjects {
        // Of many trials most pass, which one run tells of a failure that is always there.
        let looks = if subjects.len() > 1 { 1 } else { repeat };
        let mut records = subject.run(session, looks, 0, &[])?;
        ran += verdicts(&records);
        if let Some(nothing) = records.iter().find(|r| !r.outcome.kind.is_failure()) {
            why = format!("{}: {}", nothing.outcome.signature, nothing.outcome.summary);
        }
        if records.iter().any(|r| r.outcome.kind.is_failure()) {
            if looks < repeat {
                records.extend(subject.run(session, repeat - looks, looks, &[])?);
            }
            return Ok((subject.clone(), Runs::of(records)));
        }
    }
    let trials = count(subjects.len(), "trial");
    Err(Stop::no_verdict(match ran {
        0 => format!("error: no run of {trials} gave a verdict; {why}"),
        _ => {
            let runs = count(ran, "run");
            format!("error: nothing failed in {runs} of {trials}; `--repeat N` makes more runs")
        }
    }))
}
