//! Estimates the remaining effort of a search, for a progress display.

use super::{
    BAD_END_FAILURES, GOOD_END_RUNS, GOOD_RUNS, Interval, Posterior, State, closing_failures,
    earlier_failures::rare_passes, math::entropy,
};

/// Ratio of the number of runs that a search takes to the number that it would take if each run gave the maximum
/// information. Tuned in simulations.
const RUN_OVERHEAD: f64 = 1.5;

/// Accepted probability that a bad build passes so often that it counts as good. It determines how many passes the last
/// good build needs.
const MISSED: f64 = 0.01;

/// Estimate of what a search still needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    /// Number of further runs.
    pub runs: f64,
    /// Number of builds that have to be installed for the first time.
    pub builds: f64,
}

impl Posterior {
    /// Estimates the remaining effort, assuming that bad builds continue to fail at the observed rate: the missing bits
    /// of information about the place of the change divided by the bits that one run gives, plus the runs that verify
    /// the two ends, the last good build and the first bad build.
    pub fn remaining(&self, state: &State) -> Remaining {
        let places = |interval: &Interval| {
            let (after, until) = (interval.after, interval.until);
            until - after - state.unusable_between(after, until).len()
        };
        let bits: f64 = self
            .intervals()
            .iter()
            .filter(|interval| interval.mass > 0.0)
            .map(|interval| interval.mass * (places(interval) as f64 / interval.mass).log2())
            .sum();
        let likeliest = self.likeliest();
        let (rate, noise) = (likeliest.rate.min(1.0), likeliest.noise);
        // Information in bits that a run gives if the build is good or bad with equal probability.
        let bits_per_run = entropy((rate + noise) / 2.0) - (entropy(rate) + entropy(noise)) / 2.0;
        let (bad, good) = (state.tally(state.setup().bad()), state.tally(0));
        let ends = f64::from(BAD_END_FAILURES[usize::from(bad.good > 0)].saturating_sub(bad.bad))
            / rate
            + f64::from(GOOD_END_RUNS.saturating_sub(good.runs()));
        let untested = places(likeliest) > 1;
        let (passes, failures) = match untested {
            true => (0, 0),
            false => (
                state.tally(likeliest.after).good,
                state.tally_not_after_failure(likeliest.until).bad,
            ),
        };
        let enough = (MISSED.ln() / (-rate).ln_1p()).ceil().max(f64::from(GOOD_RUNS));
        let enough = enough.max(f64::from(rare_passes()));
        let closing = (enough - f64::from(passes)).max(0.0)
            + f64::from(closing_failures(rate).saturating_sub(failures)) / rate;
        Remaining {
            runs: (ends + RUN_OVERHEAD * bits / bits_per_run + closing).max(1.0),
            builds: bits,
        }
    }
}
