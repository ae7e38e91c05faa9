//! Classifies failures before the first bad build: noise of all builds, single builds that fail too, or the same
//! failure at a lower rate.
//!
//! Runs right after a failure do not count here, because that failure may have left something behind.

use super::{Answer, Edge, State};

/// Probability of missing a failure: a build counts as clean once it would have failed with probability `1 - MISSED`.
const MISSED: f64 = 0.01;

/// Minimum number of failures before the edge for "the same failure at a lower rate"; fewer may be chance.
const FAILURES: u32 = 3;

/// Maximum number of runs of one build for this classification.
const MOST: f64 = 100.0;

/// Result of [`classify`].
pub(super) enum Classification {
    /// A build that has to be run before the failures can be classified.
    NeedsRun(usize),
    /// The search is done, with this answer.
    Done(Answer),
}

/// Classifies the failures before the edge. Requests runs of the good end and of the last good build first, until each
/// has failed once or has passed so often that a failure at the observed rate would have shown.
pub(super) fn classify(state: &State, edge: Edge) -> Classification {
    let tested =
        state.tallies().filter(|(build, tally)| *build <= edge.last_good && !tally.unusable());
    let own: Vec<_> =
        tested.map(|(build, _)| (build, state.tally_not_after_failure(build))).collect();
    let before = || own.iter().copied();
    let Some((failing, _)) = before().find(|(build, tally)| *build > 0 && tally.bad > 0) else {
        return Classification::Done(Answer::Found(edge));
    };
    let from_there = before().filter(|(build, _)| *build >= failing);
    let (runs, bad) = from_there.fold((0, 0), |(n, k), (_, t)| (n + t.runs(), k + t.bad));
    let rate = (f64::from(bad) + 0.5) / (f64::from(runs) + 1.0);
    let enough = (MISSED.ln() / (-rate).ln_1p()).ceil().min(MOST) as u32;
    for build in [0, edge.last_good] {
        let tally = state.tally_not_after_failure(build);
        if tally.bad == 0 && tally.runs() < enough {
            return Classification::NeedsRun(build);
        }
    }
    // If the good end fails too, every build may fail. If the last good build does not, only single builds do.
    let single = bad < FAILURES || state.tally_not_after_failure(edge.last_good).bad == 0;
    if state.tally_not_after_failure(0).bad > 0 || single {
        return Classification::Done(Answer::Found(edge));
    }
    let clean = before().filter(|(build, tally)| *build < failing && tally.runs() >= enough);
    let after = clean.map(|(build, _)| build).max().unwrap_or(0);
    Classification::Done(Answer::Worse { after, until: failing, rate, edge })
}
