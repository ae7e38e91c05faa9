//! Failures before the first bad build: noise of all builds, single builds that fail as well, or the same failure, rarer. Runs
//! right after a failure do not count here, since that may leave something behind.

use super::{Answer, Edge, State};

/// Probability at which a build that passes throughout would have shown what another one does.
const MISSED: f64 = 0.01;

/// Failures before the edge that make it the same failure, rarer: fewer may be chance.
const FAILURES: u32 = 3;

/// Most runs of one build for that.
const MOST: f64 = 100.0;

/// What the failures before an edge are.
pub(super) enum Earlier {
    /// This build has to be run to tell.
    Ask(usize),
    /// This is the answer.
    Told(Answer),
}

/// Tells them apart by running the good end and the last good build until one failure, or until it would have come.
pub(super) fn look(state: &State, edge: Edge) -> Earlier {
    let tested =
        state.tallies().filter(|(build, tally)| *build <= edge.last_good && !tally.unusable());
    let own: Vec<_> = tested.map(|(build, _)| (build, state.own(build))).collect();
    let before = || own.iter().copied();
    let Some((failing, _)) = before().find(|(build, tally)| *build > 0 && tally.bad > 0) else {
        return Earlier::Told(Answer::Found(edge));
    };
    let from_there = before().filter(|(build, _)| *build >= failing);
    let (runs, bad) = from_there.fold((0, 0), |(n, k), (_, t)| (n + t.runs(), k + t.bad));
    let rate = (f64::from(bad) + 0.5) / (f64::from(runs) + 1.0);
    let enough = (MISSED.ln() / (-rate).ln_1p()).ceil().min(MOST) as u32;
    for build in [0, edge.last_good] {
        let tally = state.own(build);
        if tally.bad == 0 && tally.runs() < enough {
            return Earlier::Ask(build);
        }
    }
    // Where the good end fails as well, every build may; where the last good one does not, those that do are single ones.
    let single = bad < FAILURES || state.own(edge.last_good).bad == 0;
    if state.own(0).bad > 0 || single {
        return Earlier::Told(Answer::Found(edge));
    }
    let clean = before().filter(|(build, tally)| *build < failing && tally.runs() >= enough);
    let after = clean.map(|(build, _)| build).max().unwrap_or(0);
    Earlier::Told(Answer::Worse { after, until: failing, rate, edge })
}
