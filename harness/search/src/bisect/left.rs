//! What a search will probably still take, for whoever waits for it.

use super::{
    BAD_RUNS, GOOD_RUNS, Posterior, RATE_RUNS, State, Stretch, closing_failures, math::entropy,
};

/// Runs that a search needs for each that would do if every one told as much as a run can. Simulated.
const WASTE: f64 = 1.5;

/// Passes of the last good build exclude that it is a bad one once they would happen this rarely.
const MISSED: f64 = 0.01;

/// About how much is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Left {
    /// Runs.
    pub runs: f64,
    /// Builds to obtain that were not obtained yet.
    pub builds: f64,
}

impl Posterior {
    /// About how much is left, if bad builds go on to fail as often as they did: as many runs as the bits that are
    /// missing about the place of the change, and those of the closing check.
    pub fn left(&self, state: &State) -> Left {
        let places = |stretch: &Stretch| {
            let (after, until) = (stretch.after, stretch.until);
            until - after - state.unusable_between(after, until).len()
        };
        let bits: f64 = self
            .stretches()
            .iter()
            .filter(|stretch| stretch.mass > 0.0)
            .map(|stretch| stretch.mass * (places(stretch) as f64 / stretch.mass).log2())
            .sum();
        let likeliest = self.likeliest();
        let (rate, noise) = (likeliest.rate.min(1.0), likeliest.noise);
        // A run of a build that is as likely good as bad.
        let told = entropy((rate + noise) / 2.0) - (entropy(rate) + entropy(noise)) / 2.0;
        let (bad, good) = (state.tally(state.setup().bad()), state.tally(0));
        let ends = f64::from(RATE_RUNS[usize::from(bad.good > 0)].saturating_sub(bad.bad)) / rate
            + f64::from(BAD_RUNS.saturating_sub(good.runs()));
        let untested = places(likeliest) > 1;
        let (passes, failures) = match untested {
            true => (0, 0),
            false => (state.tally(likeliest.after).good, state.own(likeliest.until).bad),
        };
        let enough = (MISSED.ln() / (-rate).ln_1p()).ceil().max(f64::from(GOOD_RUNS));
        let closing = (enough - f64::from(passes)).max(0.0)
            + f64::from(closing_failures(rate).saturating_sub(failures)) / rate;
        Left { runs: (ends + WASTE * bits / told + closing).max(1.0), builds: bits }
    }
}
