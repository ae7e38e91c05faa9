//! Finds the build of an ordered history at which a failure begins, from runs that may fail only sometimes.
//!
//! The history is a row of builds: build 0 passes, build [`Setup::bad`] fails, and somewhere between them the failure begins.
//! Neither the rate `p` at which bad builds fail nor the rate `q` at which good ones do is known. [`next`] looks at what was
//! observed and says what to do; the caller does it and tells the [`State`]. The same observations give the same decisions, so a
//! journal of observations is all that is needed to resume or to replay.
//!
//! # How it decides
//!
//! * Where the change is, and what kind of failure it is, have a joint posterior ([`posterior`]): deterministic, flaky with a clean
//!   good side, or flaky with a noisy good side. The rates are integrated out in closed form. It is constant between tested builds.
//! * The next run goes where it tells most about the place of the change; a build that has to be obtained first must tell more than
//!   the one that is there ([`Setup::install_cost`]).
//! * That the good end fails as well is one of the hypotheses, so no runs are spent on verifying it beyond those that pay.
//! * A build that cannot be tested is neither good nor bad. The next choice avoids its neighbourhood, the further the more of
//!   them there are: breakage lasts for days.
//! * An answer needs [`Setup::confidence`], [`GOOD_RUNS`] passes of the last good build, and an alternation pass, failure, pass,
//!   failure of the two, which a machine that drifts does not give.

mod answer;
mod band;
mod choice;
mod math;
mod posterior;
mod state;

pub use answer::{Answer, Edge};
pub use band::{Band, band};
pub use posterior::{Posterior, Stretch};
pub use state::{Budget, Event, Seen, Setup, State, Tally};

use choice::choose;

/// Passes that the last good build must have.
pub const GOOD_RUNS: u32 = 3;

/// Failures that the bad end must show before the search begins, and the first bad build before it ends.
pub const BAD_RUNS: u32 = 2;

/// Failures that the bad end must show before the search begins: where it passes as well, one more, because the rate decides how
/// often every other build has to be run. Simulated, fewer cost more builds later than they save runs here.
const RATE_RUNS: [u32; 2] = [4, 5];

/// Alternations of the closing check: pass, failure, pass, failure.
const ALTERNATIONS: u32 = 4;

/// Builds that fail at every run, one after the other, until the good end is asked whether the device still works.
const SUSPICIOUS: usize = 4;

/// Failures of the good end in a row after it has passed that mean a device out of order.
const WEDGED: u32 = 3;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Obtain and activate this build, and tell whether that worked.
    Install(usize),
    /// Run the trial once on this build, which is the active one.
    Run(usize),
    /// Nothing more: this is the answer.
    Finish(Answer),
}

/// Decides what to do, from what was observed alone.
pub fn next(state: &State) -> Action {
    let setup = state.setup();
    let bad = setup.bad();
    for end in [bad, 0] {
        if state.unusable(end) {
            return Action::Finish(Answer::EndUnusable { end });
        }
    }
    // The bad end first: its failure is the one to look for.
    let seen = state.tally(bad);
    if seen.bad < RATE_RUNS[usize::from(seen.good > 0)] {
        if seen.good >= setup.patience * (1 + seen.bad) {
            return Action::Finish(Answer::NotReproducible { runs: seen.runs(), bad: seen.bad });
        }
        return within_budget(state, bad, None);
    }
    if state.tally(0).runs() < BAD_RUNS {
        return within_budget(state, 0, None);
    }

    let posterior = Posterior::of(state);
    let good_end = state.tally(0);
    let (passes, failures) = state.good_end_turned();
    if passes >= BAD_RUNS && failures >= WEDGED {
        return Action::Finish(Answer::Wedged { passes, failures });
    }
    if posterior.good_end_fails() >= setup.confidence && good_end.bad >= BAD_RUNS {
        return Action::Finish(Answer::GoodEndFails { runs: good_end.runs(), bad: good_end.bad });
    }
    let turned = passes >= BAD_RUNS && failures > 0;
    if turned || state.suspicious(SUSPICIOUS) {
        return within_budget(state, 0, Some(&posterior));
    }
    match settled(state, &posterior) {
        Some(edge) => match closing(state, &edge) {
            Some(build) => within_budget(state, build, Some(&posterior)),
            None => match posterior.several(state) {
                Some(edges) => Action::Finish(Answer::Several { edges }),
                None => Action::Finish(Answer::Found(edge)),
            },
        },
        None => within_budget(state, choose(state, &posterior), Some(&posterior)),
    }
}

/// The two builds between which the change is, where the posterior is sure and no build between them can be tested.
fn settled(state: &State, posterior: &Posterior) -> Option<Edge> {
    let stretch = posterior.likeliest();
    let whole = stretch.mass >= state.setup().confidence
        && state.usable_between(stretch.after, stretch.until).is_none();
    whole.then(|| posterior.edge(state, stretch))
}

/// The build to run next for the closing check, or none when it is complete.
fn closing(state: &State, edge: &Edge) -> Option<usize> {
    let (alternations, last_bad) = state.alternations(edge.last_good, edge.first_bad);
    if alternations < ALTERNATIONS || state.tally(edge.first_bad).bad < BAD_RUNS {
        return Some(if last_bad { edge.last_good } else { edge.first_bad });
    }
    (state.tally(edge.last_good).good < GOOD_RUNS).then_some(edge.last_good)
}

/// Runs a build, or gives the honest range when nothing more may be spent.
fn within_budget(state: &State, build: usize, posterior: Option<&Posterior>) -> Action {
    let install = state.active() != Some(build);
    if let Some(spent) = state.spent(install && !state.installed(build)) {
        let (last_good, first_bad, mass) = match posterior {
            Some(posterior) => posterior.range(),
            None => (0, state.setup().bad(), 0.0),
        };
        return Action::Finish(Answer::Range { last_good, first_bad, mass, spent });
    }
    if install { Action::Install(build) } else { Action::Run(build) }
}
