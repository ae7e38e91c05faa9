//! The search beside plain delta debugging, on one planted bug.

use std::collections::HashMap;

use plan::Call;
use rewrite::reduce::Edit;
use search::reduce::{Made, ReduceSettings, Runner, Seen, Space, Tree, ddmin, reduce};
use supervise::Cancel;

use super::{
    MinimiseOptions, Prepared,
    journal::Runs,
    no_verdict, prepare,
    space::{Candidate, Plans, calls, every},
};
use engine::{CaseLibrary, Session, Stop, job::Job};

/// One planted bug, reduced in several ways.
pub struct Comparison {
    /// The trial.
    pub trial: String,
    /// The signature that was kept.
    pub signature: String,
    /// Calls of the plan before.
    pub calls_before: u32,
    /// Calls that the search left.
    pub calls_after: u32,
    /// Runs of the search.
    pub runs: u32,
    /// Calls that plain delta debugging left.
    pub ddmin_calls: u32,
    /// Runs of plain delta debugging, of well-formed candidates.
    pub ddmin_runs: u32,
    /// Subsets that it would run as well, because it knows no static checks.
    pub ddmin_unresolved: u32,
    /// The same bug made rarer.
    pub simulated: Vec<Simulated>,
}

/// Repeated searches for a bug that shows at a rate.
pub struct Simulated {
    /// The rate.
    pub rate: f64,
    /// Searches.
    pub repeats: u32,
    /// Runs of all searches.
    pub runs: u32,
    /// Searches whose result does not fail, or of which one more edit could be made.
    pub wrong: u32,
}

/// Reduces a job whose planted fault comes every time: by the search, by plain delta debugging, and by the search again
/// at lower rates. There, real runs say once whether a candidate fails, and chance decides whether that shows.
///
/// # Errors
/// A job that does not fail, or a machine that does not let us find out.
pub fn compare(
    session: &Session,
    library: &CaseLibrary,
    job: &Job<'_>,
    rates: &[f64],
    repeats: u32,
) -> Result<Comparison, Stop> {
    let cancel = Cancel::new().map_err(|e| no_verdict(&e))?;
    let options = MinimiseOptions::default();
    let fresh = || prepare(session, library, job, &options, &cancel);
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
    let mut known = Known { runs, answers: HashMap::new() };
    let plain = Plain(&space);
    let (smallest, tests) = ddmin(&plain, &start, &mut |c, key| known.fails(c, key));
    comparison.ddmin_calls = calls(&smallest.lowered().plan);
    comparison.ddmin_runs = tests.runs;
    comparison.ddmin_unresolved = tests.unresolved;
    for &rate in rates {
        let mut simulated = Simulated { rate, repeats, runs: 0, wrong: 0 };
        for repeat in 0..repeats {
            let mut chance = Chance { known: &mut known, rate, state: u64::from(repeat) + 1 };
            let found = reduce(&space, start.clone(), ReduceSettings::default(), &mut chance);
            simulated.runs += found.runs;
            let right = found.complete && minimal(&space, &found.candidate, &mut known);
            simulated.wrong += u32::from(!right);
        }
        comparison.simulated.push(simulated);
    }
    Ok(comparison)
}

/// Whether a candidate fails and no single strongest edit of it does.
fn minimal(space: &Plans, candidate: &Candidate, known: &mut Known<'_>) -> bool {
    known.fails(candidate, &space.key(candidate))
        && leaves(&space.edits(candidate)).into_iter().all(|edit| {
            match space.apply(candidate, &[edit]) {
                Made::Candidate(smaller) => {
                    let key = space.key(&smaller);
                    key == space.key(candidate) || !known.fails(&smaller, &key)
                }
                Made::Unchanged | Made::IllFormed(_) => true,
            }
        })
}

fn leaves(tree: &Tree<Edit>) -> Vec<Edit> {
    match tree {
        Tree::Edit(levels) => levels.first().cloned().into_iter().collect(),
        Tree::Halves(all) | Tree::Each(all) | Tree::Turn(all) => {
            all.iter().flat_map(leaves).collect()
        }
    }
}

/// A trial as a list of calls, of which any may go.
struct Plain<'p>(&'p Plans);

impl Space for Plain<'_> {
    type Candidate = Candidate;
    type Edit = Edit;

    fn edits(&self, candidate: &Candidate) -> Tree<Edit> {
        let steps = every(&candidate.plan().body);
        let calls = steps
            .iter()
            .filter(|s| !matches!(s.call, Call::Repeat { .. } | Call::Thread { .. }))
            .map(|s| Tree::Edit(vec![Edit::Drop { steps: vec![s.id], preset: false }]));
        Tree::Halves(calls.collect())
    }

    fn apply(&self, candidate: &Candidate, edits: &[Edit]) -> Made<Candidate> {
        self.0.apply(candidate, edits)
    }

    fn key(&self, candidate: &Candidate) -> String {
        self.0.key(candidate)
    }
}

/// Real answers, each asked for once.
struct Known<'s> {
    runs: Runs<'s>,
    answers: HashMap<String, bool>,
}

impl Known<'_> {
    fn fails(&mut self, candidate: &Candidate, key: &str) -> bool {
        if let Some(known) = self.answers.get(key) {
            return *known;
        }
        let fails = self.runs.run(candidate, key) == Some(Seen::Same);
        self.answers.insert(key.to_owned(), fails);
        fails
    }
}

/// Lets a failure show at a rate.
struct Chance<'k, 's> {
    known: &'k mut Known<'s>,
    rate: f64,
    state: u64,
}

impl Runner<Candidate> for Chance<'_, '_> {
    fn run(&mut self, candidate: &Candidate, key: &str) -> Option<Seen> {
        let drawn = device::mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let shows = ((drawn >> 11) as f64) < self.rate * (1_u64 << 53) as f64;
        let fails = shows && self.known.fails(candidate, key);
        Some(if fails { Seen::Same } else { Seen::Pass })
    }
}
