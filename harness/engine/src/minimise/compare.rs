//! Compares the search with plain delta debugging, on one injected bug.

use std::{collections::HashMap, time::Duration};

use rewrite::reduce::Edit;
use search::reduce::{
    CandidateOutcome, EditResult, EditTree, ReduceSettings, Runner, SearchSpace, ddmin, reduce,
};
use supervise::Cancel;

use super::{
    candidate::{Candidate, PlanSpace, all_steps, calls, is_block},
    case::{Prepared, Search},
    runs::{RunLimits, Runs},
};
use crate::{CaseLibrary, Job, Session, Stop, stop::chain};

/// The results of reducing one injected bug in several ways.
pub struct Comparison {
    /// Id of the trial.
    pub trial: String,
    /// Signature of the trial's failure.
    pub signature: String,
    /// Number of calls in the original plan.
    pub calls_before: u32,
    /// Number of calls that remain after the search.
    pub calls_after: u32,
    /// Number of runs that the search needed.
    pub runs: u32,
    /// Number of calls that remain after plain delta debugging.
    pub ddmin_calls: u32,
    /// Number of well-formed candidates that plain delta debugging ran.
    pub ddmin_runs: u32,
    /// Number of ill-formed candidates that plain delta debugging would also run if there were no static checks.
    pub ddmin_unresolved: u32,
    /// Searches for the same bug at lower failure rates.
    pub simulated: Vec<SimulatedSearches>,
}

/// Repeated searches for a bug that makes only some of the runs fail.
pub struct SimulatedSearches {
    /// The failure rate, above 0 and at most 1.
    pub rate: f64,
    /// Number of searches.
    pub repeats: u32,
    /// Number of runs in all searches together.
    pub runs: u32,
    /// Number of searches with a wrong result: one that does not fail, or that can be reduced further.
    pub wrong: u32,
}

/// Reduces a job whose injected fault makes every run fail. Compares three ways: the search, plain delta debugging, and
/// the search at lower failure rates. The lower rates are simulated: one real run decides whether a candidate can fail,
/// and a random number decides whether it fails in a given run.
///
/// # Errors
/// A job that does not fail, or trouble of this machine.
pub fn compare(
    session: &Session,
    library: &CaseLibrary,
    job: &Job<'_>,
    rates: &[f64],
    repeats: u32,
) -> Result<Comparison, Stop> {
    let cancel = Cancel::new().map_err(|e| Stop::no_verdict(format!("error: {}", chain(&e))))?;
    let limits = RunLimits { runs: 5000, time: Duration::from_secs(1800), ..RunLimits::default() };
    let search =
        Search { session, library, releases: None, limits, cancel: &cancel, report: &|_| {} };
    let fresh = || search.prepare(job);
    let Prepared { space, start, mut runs, first, settings } = fresh()?;
    let found = reduce(&space, start.clone(), settings, &mut runs);
    let mut comparison = Comparison {
        trial: job.id(),
        signature: first.signature,
        calls_before: calls(&start.lowered().plan),
        calls_after: calls(&found.candidate.lowered().plan),
        runs: runs.started,
        ddmin_calls: 0,
        ddmin_runs: 0,
        ddmin_unresolved: 0,
        simulated: Vec::new(),
    };
    let Prepared { space, start, runs, .. } = fresh()?;
    let mut known = KnownResults { runs, answers: HashMap::new() };
    let plain = PlainSpace(&space);
    let (smallest, tests) = ddmin(&plain, &start, &mut |c, key| known.fails(c, key));
    comparison.ddmin_calls = calls(&smallest.lowered().plan);
    comparison.ddmin_runs = tests.runs;
    comparison.ddmin_unresolved = tests.unresolved;
    for &rate in rates {
        let mut simulated = SimulatedSearches { rate, repeats, runs: 0, wrong: 0 };
        for repeat in 0..repeats {
            let mut chance =
                SimulatedRunner { known: &mut known, rate, state: u64::from(repeat) + 1 };
            let found = reduce(&space, start.clone(), ReduceSettings::default(), &mut chance);
            simulated.runs += found.runs;
            let right = found.complete && minimal(&space, &found.candidate, &mut known);
            simulated.wrong += u32::from(!right);
        }
        comparison.simulated.push(simulated);
    }
    Ok(comparison)
}

/// Returns true if the candidate fails, and would pass after any single one of its strongest remaining edits.
fn minimal(space: &PlanSpace, candidate: &Candidate, known: &mut KnownResults<'_>) -> bool {
    known.fails(candidate, &space.key(candidate))
        && leaves(&space.edits(candidate)).into_iter().all(|edit| {
            match space.apply(candidate, &[edit]) {
                EditResult::Candidate(smaller) => {
                    let key = space.key(&smaller);
                    key == space.key(candidate) || !known.fails(&smaller, &key)
                }
                EditResult::Unchanged | EditResult::IllFormed(_) => true,
            }
        })
}

fn leaves(tree: &EditTree<Edit>) -> Vec<Edit> {
    match tree {
        EditTree::Edit(levels) => levels.first().cloned().into_iter().collect(),
        EditTree::Halves(all) | EditTree::Each(all) | EditTree::Turn(all) => {
            all.iter().flat_map(leaves).collect()
        }
    }
}

/// The search space of plain delta debugging: a plan as a list of calls, each of which can be removed.
struct PlainSpace<'p>(&'p PlanSpace);

impl SearchSpace for PlainSpace<'_> {
    type Candidate = Candidate;
    type Edit = Edit;

    fn edits(&self, candidate: &Candidate) -> EditTree<Edit> {
        let steps = all_steps(&candidate.plan().body);
        let calls = steps
            .iter()
            .filter(|s| !is_block(&s.call))
            .map(|s| EditTree::Edit(vec![Edit::Drop { steps: vec![s.id], preset: false }]));
        EditTree::Halves(calls.collect())
    }

    fn apply(&self, candidate: &Candidate, edits: &[Edit]) -> EditResult<Candidate> {
        self.0.apply(candidate, edits)
    }

    fn key(&self, candidate: &Candidate) -> String {
        self.0.key(candidate)
    }
}

/// Results of real runs, one for each candidate: true if the candidate failed.
struct KnownResults<'s> {
    runs: Runs<'s>,
    answers: HashMap<String, bool>,
}

impl KnownResults<'_> {
    fn fails(&mut self, candidate: &Candidate, key: &str) -> bool {
        if let Some(known) = self.answers.get(key) {
            return *known;
        }
        let fails = self.runs.run(candidate, key) == Some(CandidateOutcome::Same);
        self.answers.insert(key.to_owned(), fails);
        fails
    }
}

/// A runner with a simulated failure rate: of the runs of a candidate that can fail, only some fail.
struct SimulatedRunner<'k, 's> {
    known: &'k mut KnownResults<'s>,
    rate: f64,
    state: u64,
}

impl Runner<Candidate> for SimulatedRunner<'_, '_> {
    fn run(&mut self, candidate: &Candidate, key: &str) -> Option<CandidateOutcome> {
        let drawn = device::mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let shows = ((drawn >> 11) as f64) < self.rate * (1_u64 << 53) as f64;
        let fails = shows && self.known.fails(candidate, key);
        Some(if fails { CandidateOutcome::Same } else { CandidateOutcome::Pass })
    }
}
