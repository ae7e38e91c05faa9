//! Classifies failures of builds before the first bad build: noise of all builds, single builds that fail too, or the
//! same failure at a lower rate.
//!
//! A run right after a failing run is not used for the classification, because the failure may have left something
//! behind. But a failure in such a run still excludes [`Answer::Found`], which says that no build before the edge has
//! failed.

use super::{Answer, Edge, State};
use crate::sequential::passes_needed;

/// Failure rate that the runs of the last good build must exclude: the build needs so many passes that a failure at
/// this rate would have shown with probability `1 - RARE_MISSED`. Without this requirement, if a failure begins at this
/// rate and becomes permanent in a later build, the later build would be reported.
const RARE_RATE: f64 = 0.1;
const RARE_MISSED: f64 = 0.05;

/// Returns the number of passes after which the last good build counts as good.
pub(super) fn rare_passes() -> u32 {
    passes_needed(RARE_RATE, RARE_MISSED)
}

/// Probability of missing a failure: a build counts as clean after so many passes that a failure would have shown with
/// probability `1 - MISS_PROBABILITY`.
const MISS_PROBABILITY: f64 = 0.01;

/// Minimum number of failures before the edge from which the answer says that the same failure occurs there at a lower
/// rate. Fewer failures may be chance.
const MIN_FAILURES: u32 = 3;

/// Maximum number of runs that [`classify`] requests of one build without failures, however low the observed failure
/// rate is.
const MAX_RUNS: f64 = 100.0;

/// Result of [`classify`].
pub(super) enum Classification {
    /// A build that has to be run before the failures can be classified.
    NeedsRun(usize),
    /// The search ends with this answer.
    Done(Answer),
}

/// Classifies the failures of builds before the edge.
///
/// If none of these builds has failed, the last good build is run until it would have shown a failure rate of
/// [`RARE_RATE`]. Otherwise the good end and the last good build are run until each has failed once, or has passed so
/// often that a failure at the observed rate would have shown. If the last good build has failed, it is run until there
/// are too many failures to be chance, or until it has had so many runs that a failure at the observed rate would have
/// shown.
pub(super) fn classify(state: &State, edge: Edge) -> Classification {
    let before = || {
        state.tallies().filter(|(build, tally)| *build <= edge.last_good && !tally.is_unusable())
    };
    if before().all(|(_, tally)| tally.bad == 0) {
        return match state.tally(edge.last_good).good < rare_passes() {
            true => Classification::NeedsRun(edge.last_good),
            false => Classification::Done(Answer::Found(edge)),
        };
    }
    let own: Vec<_> =
        before().map(|(build, _)| (build, state.tally_not_after_failure(build))).collect();
    let own = || own.iter().copied();
    let Some((failing, _)) = own().find(|(build, tally)| *build > 0 && tally.bad > 0) else {
        return Classification::Done(Answer::Increase { edge });
    };
    let from_there = own().filter(|(build, _)| *build >= failing);
    let (runs, bad) = from_there.fold((0, 0), |(n, k), (_, t)| (n + t.runs(), k + t.bad));
    let rate = (f64::from(bad) + 0.5) / (f64::from(runs) + 1.0);
    let enough = (MISS_PROBABILITY.ln() / (-rate).ln_1p()).ceil().min(MAX_RUNS) as u32;
    for build in [0, edge.last_good] {
        let tally = state.tally_not_after_failure(build);
        if tally.bad == 0 && tally.runs() < enough {
            return Classification::NeedsRun(build);
        }
    }
    let last_good = state.tally_not_after_failure(edge.last_good);
    // If the good end fails too, every build may fail. If the last good build does not fail, only single builds do.
    if state.tally(0).bad > 0 || last_good.bad == 0 {
        return Classification::Done(Answer::Increase { edge });
    }
    if bad < MIN_FAILURES {
        return match last_good.runs() < enough {
            true => Classification::NeedsRun(edge.last_good),
            false => Classification::Done(Answer::Increase { edge }),
        };
    }
    let clean = own().filter(|(build, tally)| *build < failing && tally.runs() >= enough);
    let after = clean.map(|(build, _)| build).max().unwrap_or(0);
    Classification::Done(Answer::Worse { after, until: failing, rate, edge })
}
