//! Chooses the build to run next.

use super::{Interval, Posterior, State, math::entropy};

/// Factor on the information that a run gives, for a build that was installed before but is not active. Switching back
/// to such a build costs little.
const SWITCH_FACTOR: f64 = 0.9;

/// Factor on the information that a run gives, for a build that has to be installed first; the factor of the active
/// build is 1. `COSTLY_INSTALL_FACTOR` applies if installing a build costs as much as many runs. Both factors were
/// tuned in simulations so that the number of runs and the number of builds stay within their limits.
const INSTALL_FACTOR: f64 = 0.45;
const COSTLY_INSTALL_FACTOR: f64 = 0.2;

/// Maximum number of builds that are examined one by one in an interval with broken builds.
const MAX_EXAMINED: usize = 4096;

/// Returns the build whose next run gives the most information about the place of the change, weighted by its cost.
pub(super) fn choose(state: &State, posterior: &Posterior) -> usize {
    let bits = InformationTables::from_posterior(posterior);
    let at_ends = posterior.bits_at_ends();
    let fresh =
        if state.setup().install_cost > 30.0 { COSTLY_INSTALL_FACTOR } else { INSTALL_FACTOR };
    let mut best = (f64::NEG_INFINITY, 0);
    let mut offer = |build: usize, worth: f64| {
        if worth > best.0 {
            best = (worth, build);
        }
    };
    for (index, interval) in posterior.intervals().iter().enumerate() {
        let worth = at_ends[index + 1];
        if !state.is_unusable(interval.until) {
            let price = match state.active() == Some(interval.until) {
                true => 1.0,
                false if state.installed(interval.until) => SWITCH_FACTOR,
                false => fresh,
            };
            offer(interval.until, worth * price);
        }
        if let Some((build, worth)) = best_within(state, &bits, index, interval) {
            offer(build, worth * fresh);
        }
    }
    offer(0, at_ends[0] * if state.active() == Some(0) { 1.0 } else { SWITCH_FACTOR });
    best.1
}

/// Returns the untested build of an interval whose run gives the most information, and the information in bits.
fn best_within(
    state: &State,
    bits: &InformationTables,
    index: usize,
    interval: &Interval,
) -> Option<(usize, f64)> {
    let (after, until) = (interval.after, interval.until);
    if until - after < 2 {
        return None;
    }
    let setup = state.setup();
    let whole = setup.prior(after, until);
    let worth = |build: usize| bits.information_within(index, setup.prior(after, build) / whole);
    let broken = state.unusable_between(after, until);
    if broken.is_empty() {
        // Along an interval, the information first rises and then falls.
        let (mut low, mut high) = (after + 1, until - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if worth(middle) < worth(middle + 1) { low = middle + 1 } else { high = middle }
        }
        return Some((low, worth(low)));
    }
    let step = (until - after).div_ceil(MAX_EXAMINED);
    let mut best: Option<(usize, f64)> = None;
    for build in (after + 1..until).step_by(step) {
        let Some(distance) = distance(&broken, build) else { continue };
        let worth = worth(build) * testable_probability(distance, broken.len());
        if best.is_none_or(|(_, most)| worth > most) {
            best = Some((build, worth));
        }
    }
    best.or_else(|| state.usable_between(after, until).map(|build| (build, worth(build))))
}

/// Returns the distance, in builds, from a build to the nearest broken build; `None` if the build itself is broken.
fn distance(broken: &[usize], build: usize) -> Option<usize> {
    let next = broken.partition_point(|b| *b < build);
    let above = broken.get(next).map(|b| b - build);
    let below = next.checked_sub(1).map(|i| build - broken[i]);
    let nearest = above.into_iter().chain(below).min()?;
    (nearest > 0).then_some(nearest)
}

/// Returns the probability that a build can be tested, given its distance to the nearest broken build and the number of
/// broken builds in the interval. The more builds are broken, the longer one breakage is assumed to last.
fn testable_probability(distance: usize, broken: usize) -> f64 {
    let length = (broken * broken) as f64 / 2.0;
    1.0 - 0.9 * (-(distance as f64) / length).exp()
}

/// Tables for computing how many bits of information about the place of the change one run of a build gives.
struct InformationTables {
    /// For each hypothesis: its probability, and the failure rates of bad and of good builds. The first hypothesis is
    /// that the good end fails too.
    hypotheses: Vec<(f64, f64, f64)>,
    /// Entry `i` contains two sums over the first `i` hypotheses: of `mass * rate` and of `mass * entropy(rate)`, where
    /// `mass` is the probability of a hypothesis and `rate` its failure rate of bad builds.
    bad: Vec<(f64, f64)>,
    /// Entry `i` contains two sums over the hypotheses from index `i` on: of `mass * rate` and of `mass *
    /// entropy(rate)`, where `mass` is the probability of a hypothesis and `rate` its failure rate of good builds.
    good: Vec<(f64, f64)>,
}

impl InformationTables {
    fn from_posterior(posterior: &Posterior) -> InformationTables {
        let all = [posterior.nowhere()].into_iter().chain(posterior.intervals());
        let hypotheses: Vec<_> = all.map(|s| (s.mass, s.rate, s.noise)).collect();
        let part = |mass: f64, rate: f64| (mass * rate, mass * entropy(rate));
        let mut bad = vec![(0.0, 0.0)];
        for (i, (mass, rate, _)) in hypotheses.iter().enumerate() {
            bad.push(add(bad[i], part(*mass, *rate)));
        }
        let mut good = vec![(0.0, 0.0); hypotheses.len() + 1];
        for (i, (mass, _, noise)) in hypotheses.iter().enumerate().rev() {
            good[i] = add(good[i + 1], part(*mass, *noise));
        }
        InformationTables { hypotheses, bad, good }
    }

    /// Returns the information in bits that a run of a build inside an interval gives. `share` is the part of the
    /// interval's probability that belongs to places up to that build.
    fn information_within(&self, interval: usize, share: f64) -> f64 {
        let (mass, rate, noise) = self.hypotheses[interval + 1];
        let before = (mass * share * rate, mass * share * entropy(rate));
        let behind = (mass * (1.0 - share) * noise, mass * (1.0 - share) * entropy(noise));
        let others = add(self.bad[interval + 1], self.good[interval + 2]);
        information_gain(add(others, add(before, behind)))
    }
}

fn add(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}

fn information_gain((failing, known): (f64, f64)) -> f64 {
    entropy(failing) - known
}
