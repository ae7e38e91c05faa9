//! Finds the build of an ordered history at which a failure begins, from runs that may fail only sometimes.
//!
//! The history is a row of builds: build 0 passes, build [`Setup::bad`] fails, and somewhere between them the failure begins.
//! Neither the rate `p` at which bad builds fail nor the rate `q` at which good ones do is known. [`next`] looks at what was
//! observed and says what to do; the caller does it and tells the [`State`]. The same observations give the same decisions, so a
//! journal of observations is all that is needed to resume or to replay.
//!
//! # How it decides
//!
//! * Where the change is and how often builds fail have a joint posterior (`posterior`). Builds of one side may share a rate, or
//!   differ (`rates`). It is constant between untested builds.
//! * The next run goes where it tells most about the place of the change; a build that has to be obtained first must tell more than
//!   the one that is there ([`Setup::install_cost`]).
//! * That the good end fails as well is one of the hypotheses, so no runs are spent on verifying it beyond those that pay.
//! * A build that cannot be tested is neither good nor bad. The next choice avoids its neighbourhood, the further the more of
//!   them there are: breakage lasts for days.
//! * An answer needs [`Setup::confidence`], [`GOOD_RUNS`] passes of the last good build, and an alternation pass, failure, pass,
//!   failure of the two, which a machine that drifts does not give. Where builds of one side differ it needs more.
//! * Failures before that are told apart (`earlier`): noise of every build, single builds, or the same failure, which gets worse.
//! * What is claimed is a change at one place, with what the last good build's own runs exclude ([`Edge::before`]): a rate that is
//!   lower than any that so few runs could show is never excluded.

mod answer;
mod band;
mod choice;
mod earlier;
mod left;
mod math;
mod posterior;
mod rates;
mod state;

pub use answer::{Answer, Edge};
pub use band::{Band, band};
pub use left::Left;
pub use posterior::{Posterior, Stretch};
pub use state::{Budget, DEFAULT_RUNS, Event, Seen, Setup, State, Tally};

use choice::choose;
use earlier::{Earlier, look};

/// Passes that the last good build must have.
pub const GOOD_RUNS: u32 = 3;

/// Runs of the good end before the search begins.
const BAD_RUNS: u32 = 2;

/// Failures that the bad end must show before the search begins: where it passes as well, one more, because the rate decides how
/// often every other build has to be run. Simulated, fewer cost more builds later than they save runs here.
const RATE_RUNS: [u32; 2] = [4, 5];

/// Failures that the first bad build must show before the search ends: one more where bad builds fail more often than this, since
/// two of a build that rarely fails would else pass for it. None of them comes right after another failure.
const CLOSING_FAILURES: [u32; 2] = [2, 3];
const OFTEN: f64 = 0.8;

/// Probability that builds of one side differ among each other, above which the place must be surer by this factor.
const DIFFERING: f64 = 0.3;
const STRICTER: f64 = 0.2;

/// Doubt that stays however many runs there are: a history may be like none of the hypotheses. The second where builds of one side
/// differ. Set by the worlds of `examples/calibration`, so these are no independent evidence of it.
const UNLIKE_ANY: [f64; 2] = [0.03, 0.12];

/// The same for each unit of the rate that the last good build's own runs leave possible: it may be a bad one that rarely fails, and
/// three passes say little of that. Set by the one world of the table whose answers were wrong too often without it.
const UNTRIED: f64 = 0.04;

/// Runs between two looks for several changes.
const LOOKED_FOR: u32 = 32;

/// Alternations of the closing check: pass, failure, pass, failure.
const ALTERNATIONS: u32 = 4;

/// Passes of the bad end without a failure after which the good end is asked, and its failures that mean that they are exchanged.
const EXCHANGED: u32 = 4;

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
    if let Some(action) = exchanged(state) {
        return action;
    }
    if seen.bad < RATE_RUNS[usize::from(seen.good > 0)] || state.doubtful(bad) {
        if seen.good >= setup.patience * (1 + seen.bad) {
            return Action::Finish(Answer::NotReproducible { runs: seen.runs(), bad: seen.bad });
        }
        return within_budget(state, bad, None);
    }
    if state.tally(0).runs() < BAD_RUNS || state.doubtful(0) {
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
                None => match look(state, edge) {
                    Earlier::Ask(build) => within_budget(state, build, Some(&posterior)),
                    Earlier::Told(answer) => Action::Finish(answer),
                },
            },
        },
        // Three changes may keep one from ever being sure of its place.
        None => match several_at_times(state, &posterior) {
            Some(edges) => Action::Finish(Answer::Several { edges }),
            None => within_budget(state, choose(state, &posterior), Some(&posterior)),
        },
    }
}

/// Looks at the good end where the bad one passes from the start: perhaps somebody exchanged them.
fn exchanged(state: &State) -> Option<Action> {
    let (bad, good) = (state.tally(state.setup().bad()), state.tally(0));
    let passes_only = bad.bad == 0 && bad.good >= EXCHANGED;
    if !passes_only || good.good > 0 {
        return None;
    }
    Some(match good.bad < EXCHANGED {
        true => within_budget(state, 0, None),
        false => Action::Finish(Answer::Exchanged { passes: bad.good, failures: good.bad }),
    })
}

/// The two builds between which the change is, where the posterior is sure and no build between them can be tested.
fn settled(state: &State, posterior: &Posterior) -> Option<Edge> {
    let stretch = posterior.likeliest();
    let doubt = 1.0 - state.setup().confidence;
    let needed = match posterior.differs() {
        true => 1.0 - doubt * STRICTER,
        false => 1.0 - doubt,
    };
    let whole =
        stretch.mass >= needed && state.usable_between(stretch.after, stretch.until).is_none();
    whole.then(|| posterior.edge(state, stretch))
}

/// Looks for several changes once in a while, since that takes long, and takes them where each is at one place.
fn several_at_times(state: &State, posterior: &Posterior) -> Option<Vec<Edge>> {
    let edges = state.runs().is_multiple_of(LOOKED_FOR).then(|| posterior.several(state))??;
    let tight = |edge: &Edge| state.usable_between(edge.last_good, edge.first_bad).is_none();
    edges.iter().all(tight).then_some(edges)
}

/// Failures that the first bad build must show, where bad builds fail at this rate.
fn closing_failures(rate: f64) -> u32 {
    CLOSING_FAILURES[usize::from(rate > OFTEN)]
}

/// The build to run next for the closing check, or none when it is complete.
fn closing(state: &State, edge: &Edge) -> Option<usize> {
    let failures = closing_failures(edge.rate);
    if state.alternations(edge.last_good, edge.first_bad) < ALTERNATIONS
        || state.own(edge.first_bad).bad < failures
    {
        return Some(if state.just_failed() { edge.last_good } else { edge.first_bad });
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
