//! Finds the build at which a failure begins, in an ordered list of builds that is called the history. Runs may fail
//! only sometimes.
//!
//! Build 0 passes, build [`BisectSettings::bad`] fails, and the failure begins somewhere between them. Neither the
//! failure rate `p` of bad builds nor the rate `q` of good builds is known. [`next_action`] decides from the
//! observations so far what to do next. The caller does it and adds the outcome to the [`State`]. The same observations
//! always give the same decision, so a journal of observations is enough to resume or replay a search.
//!
//! # How the search decides
//!
//! * The search computes the joint posterior probability of the place of the change and the failure rates
//!   (`posterior`). Good builds share one failure rate and bad builds another, except that some builds may have rates
//!   of their own (`rates`). The posterior density is constant between tested builds.
//! * The next run goes to the build that gives the most information about the place of the change. A build that has
//!   to be installed first must give more than the active one ([`BisectSettings::install_cost`]).
//! * "The good end fails too" is one of the hypotheses, so the good end is run only when such a run gives enough
//!   information.
//! * A build that cannot be tested is neither good nor bad. The search then chooses a build farther away; the more
//!   builds nearby are untestable, the farther, because breakage usually lasts for days.
//! * An answer needs [`BisectSettings::confidence`], [`GOOD_RUNS`] passes of the last good build, and an alternation of
//!   pass, failure, pass, failure between the last good and the first bad build, which a drifting machine would not
//!   show. More confidence is needed if good builds, or bad builds, have different rates among themselves.
//! * Failures of builds before the first bad build are classified (`earlier_failures`) as noise of all builds, as
//!   single builds that fail, or as the same failure at a lower rate. If no build before it has failed, the last good
//!   build is run until a failure rate of a tenth would have shown.
//! * The answer claims a change at one place. It also states which failure rate of the last good build is excluded by
//!   that build's own runs ([`Edge::last_good_rate_below`]). A very low failure rate is therefore never excluded by a
//!   few runs.

mod answer;
mod earlier_failures;
mod math;
mod next_build;
mod posterior;
mod rates;
mod remaining;
mod state;
mod threshold_band;

pub use answer::{Answer, Edge};
pub use posterior::{Interval, Posterior};
pub use remaining::Remaining;
pub use state::{BisectSettings, BuildOutcome, DEFAULT_RUNS, Event, SearchBudget, State, Tally};
pub use threshold_band::{Band, find_band};

use earlier_failures::{Classification, classify};
use next_build::choose;

/// Number of passes that the last good build must have before the search ends.
pub const GOOD_RUNS: u32 = 3;

/// Number of runs of the good end before the search begins.
const GOOD_END_RUNS: u32 = 2;

/// Number of failures that the bad end must show before the search begins; the second number applies if the bad end
/// sometimes passes. The failure rate estimated from them determines how often every other build has to be run. In
/// simulations, fewer failures cost more runs of other builds later than they save here.
const BAD_END_FAILURES: [u32; 2] = [4, 5];

/// Number of failures that the first bad build must show before the search ends. The second number applies if bad
/// builds fail at a rate above [`OFTEN`]: two failures may then come from a good build that rarely fails. A failure in
/// the run after another failure does not count.
const CLOSING_FAILURES: [u32; 2] = [2, 3];
const OFTEN: f64 = 0.8;

/// Threshold for the probability that the good builds have different failure rates among themselves, or that the bad
/// builds do. Above it, the search allows less doubt about the place of the change, see [`STRICTER_FACTOR`].
const DIFFERING_PROBABILITY: f64 = 0.3;

/// Factor by which the allowed doubt about the place of the change is multiplied if the failure rates probably differ.
const STRICTER_FACTOR: f64 = 0.2;

/// Minimum probability that an answer is wrong, because the history may fit none of the hypotheses. The second number
/// applies if good builds, or bad builds, have different failure rates among themselves. Both numbers were tuned on the
/// models of `examples/calibration`, so those models are not independent evidence for them.
const MODEL_MISFIT: [f64; 2] = [0.03, 0.12];

/// The last good build may be a bad build that rarely fails. An answer is reported with additional doubt for this
/// reason: this factor times the highest failure rate that the build's own runs do not exclude. The factor was tuned on
/// the only model of `examples/calibration` whose answers would otherwise be wrong too often.
const UNEXCLUDED_RATE: f64 = 0.04;

/// Number of runs after which the search checks again whether the history contains several changes.
const SEVERAL_CHECK_RUNS: u32 = 32;

/// Number of alternating results that an answer needs: pass of the last good build, failure of the first bad build,
/// pass, failure.
const ALTERNATIONS: u32 = 4;

/// If the bad end passes this many times without a failure, the good end is run. If the good end then fails this many
/// times, the ends are reported as exchanged.
const EXCHANGED_RUNS: u32 = 4;

/// If this many different builds fail in a row, the good end is run to check whether the device still works.
const SUSPICIOUS_BUILDS: usize = 4;

/// If a good end that passed before fails this many times in a row, the device may be out of order.
const WEDGED_FAILURES: u32 = 3;

/// The device is reported as out of order if the good end first only passed and then only failed, and if this order of
/// the results would be a coincidence with at most this probability. After 2 passes, 9 failures are enough; after 4
/// passes, 4 failures.
const WEDGED_CHANCE: f64 = 0.02;

/// The next thing that the caller has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Install this build and observe whether the installation succeeds.
    Install(usize),
    /// Run the trial once on this build, which has been installed and is active.
    Run(usize),
    /// The search ends with this answer.
    Finish(Answer),
}

/// Decides what the caller has to do next, from the observations alone.
pub fn next_action(state: &State) -> Action {
    let setup = state.setup();
    let bad = setup.bad();
    for end in [bad, 0] {
        if state.is_unusable(end) {
            return Action::Finish(Answer::EndUnusable { end });
        }
    }
    // The bad end comes first, because its failure is the one that the search looks for.
    let seen = state.tally(bad);
    if let Some(action) = check_exchanged(state) {
        return action;
    }
    if seen.bad < BAD_END_FAILURES[usize::from(seen.good > 0)] || state.needs_more_runs(bad) {
        if seen.good >= setup.patience * (1 + seen.bad) {
            return Action::Finish(Answer::NotReproducible { runs: seen.runs(), bad: seen.bad });
        }
        return within_budget(state, bad, None);
    }
    if state.tally(0).runs() < GOOD_END_RUNS || state.needs_more_runs(0) {
        return within_budget(state, 0, None);
    }

    let posterior = Posterior::from_state(state);
    let good_end = state.tally(0);
    let (passes, failures) = state.good_end_turned();
    // If the good end failed before its last pass, it fails at times, so the device is not the cause.
    let only_passed = passes >= GOOD_END_RUNS && failures == good_end.bad && failures > 0;
    if only_passed {
        if failures >= WEDGED_FAILURES && order_chance(passes, failures) <= WEDGED_CHANCE {
            return Action::Finish(Answer::Wedged { passes, failures });
        }
        return within_budget(state, 0, Some(&posterior));
    }
    if posterior.good_end_fails() >= setup.confidence && good_end.bad >= GOOD_END_RUNS {
        return Action::Finish(Answer::GoodEndFails { runs: good_end.runs(), bad: good_end.bad });
    }
    if state.is_suspicious(SUSPICIOUS_BUILDS) {
        return within_budget(state, 0, Some(&posterior));
    }
    match settled_edge(state, &posterior) {
        Some(edge) if is_other_line(state, &edge) => Action::Finish(Answer::OtherLine { edge }),
        Some(edge) => match closing_build(state, &edge) {
            Some(build) => within_budget(state, build, Some(&posterior)),
            None => match posterior.several(state) {
                Some(edges) => Action::Finish(Answer::Several { edges }),
                None => match classify(state, edge) {
                    Classification::NeedsRun(build) => {
                        within_budget(state, build, Some(&posterior))
                    }
                    Classification::Done(answer) => Action::Finish(answer),
                },
            },
        },
        // If the history contains three changes, the search may never be certain of the place of a single change.
        None => match check_several_periodically(state, &posterior) {
            Some(edges) => Action::Finish(Answer::Several { edges }),
            None => within_budget(state, choose(state, &posterior), Some(&posterior)),
        },
    }
}

/// Returns the probability that, in a random order of these passes and failures, all failures come last.
fn order_chance(passes: u32, failures: u32) -> f64 {
    (1..=failures).map(|n| f64::from(n) / f64::from(passes + n)).product()
}

/// Returns true if one of the edge's two builds is an end of the search that belongs to another line of history
/// ([`BisectSettings::other_line`]).
fn is_other_line(state: &State, edge: &Edge) -> bool {
    let [good, bad] = state.setup().other_line;
    good && edge.last_good == 0 || bad && edge.first_bad == state.setup().bad()
}

/// Returns the next action if the user may have exchanged the ends, because the bad end has only passed and the good
/// end has never passed: first runs of the good end, then the answer that the ends are exchanged. Otherwise returns
/// `None`.
fn check_exchanged(state: &State) -> Option<Action> {
    let (bad, good) = (state.tally(state.setup().bad()), state.tally(0));
    let passes_only = bad.bad == 0 && bad.good >= EXCHANGED_RUNS;
    if !passes_only || good.good > 0 {
        return None;
    }
    Some(match good.bad < EXCHANGED_RUNS {
        true => within_budget(state, 0, None),
        false => Action::Finish(Answer::Exchanged { passes: bad.good, failures: good.bad }),
    })
}

/// Returns the two builds between which the change lies, if the posterior is certain enough and no build between them
/// can be tested.
fn settled_edge(state: &State, posterior: &Posterior) -> Option<Edge> {
    let interval = posterior.likeliest();
    let doubt = 1.0 - state.setup().confidence;
    let needed = match posterior.rates_differ() {
        true => 1.0 - doubt * STRICTER_FACTOR,
        false => 1.0 - doubt,
    };
    let whole =
        interval.mass >= needed && state.usable_between(interval.after, interval.until).is_none();
    whole.then(|| posterior.edge(state, interval))
}

/// Checks every [`SEVERAL_CHECK_RUNS`] runs whether the history contains several changes; the check is slow. Returns
/// the edges of the changes if no build inside any of them can be tested, and otherwise `None`.
fn check_several_periodically(state: &State, posterior: &Posterior) -> Option<Vec<Edge>> {
    let edges =
        state.runs().is_multiple_of(SEVERAL_CHECK_RUNS).then(|| posterior.several(state))??;
    let tight = |edge: &Edge| state.usable_between(edge.last_good, edge.first_bad).is_none();
    edges.iter().all(tight).then_some(edges)
}

/// Returns the number of failures that the first bad build must show if bad builds fail at `rate`.
fn closing_failures(rate: f64) -> u32 {
    CLOSING_FAILURES[usize::from(rate > OFTEN)]
}

/// Returns the build to run next in the closing check of an edge; `None` if the check is complete.
fn closing_build(state: &State, edge: &Edge) -> Option<usize> {
    let failures = closing_failures(edge.rate);
    if state.alternations(edge.last_good, edge.first_bad) < ALTERNATIONS
        || state.tally_not_after_failure(edge.first_bad).bad < failures
    {
        return Some(if state.last_run_failed() { edge.last_good } else { edge.first_bad });
    }
    (state.tally(edge.last_good).good < GOOD_RUNS).then_some(edge.last_good)
}

/// Returns the action that runs the build, or that installs it first. If the budget is spent, ends the search with the
/// range that is known to contain the change; without `posterior`, this is the whole history.
fn within_budget(state: &State, build: usize, posterior: Option<&Posterior>) -> Action {
    let install = state.active() != Some(build);
    if let Some(spent) = state.exhausted_limit(install && !state.installed(build)) {
        let (last_good, first_bad, mass) = match posterior {
            Some(posterior) => posterior.range(),
            None => (0, state.setup().bad(), 0.0),
        };
        return Action::Finish(Answer::Range { last_good, first_bad, mass, spent });
    }
    if install { Action::Install(build) } else { Action::Run(build) }
}
