//! Which build to run next.

use super::{Posterior, State, Stretch, math::entropy};

/// The same for a build that was obtained before: going back costs little.
const SWITCH: f64 = 0.9;

/// Staying pays as long as the active build tells at least this part of what a new one would, where obtaining one costs little and
/// where it costs as much as many runs. Simulated: the first is where runs and builds are both within their limits.
const FRESH: f64 = 0.45;
const DEAR: f64 = 0.2;

/// Most builds of a stretch with broken ones that are looked at one by one.
const LOOKED_AT: usize = 4096;

/// The build whose next run tells most about the place of the change, at its price.
pub(super) fn choose(state: &State, posterior: &Posterior) -> usize {
    let bits = Bits::of(posterior);
    let at_ends = posterior.bits_at_ends();
    let fresh = if state.setup().install_cost > 30.0 { DEAR } else { FRESH };
    let mut best = (f64::NEG_INFINITY, 0);
    let mut offer = |build: usize, worth: f64| {
        if worth > best.0 {
            best = (worth, build);
        }
    };
    for (index, stretch) in posterior.stretches().iter().enumerate() {
        let worth = at_ends[index + 1];
        if !state.unusable(stretch.until) {
            let price = match state.active() == Some(stretch.until) {
                true => 1.0,
                false if state.installed(stretch.until) => SWITCH,
                false => fresh,
            };
            offer(stretch.until, worth * price);
        }
        if let Some((build, worth)) = within(state, &bits, index, stretch) {
            offer(build, worth * fresh);
        }
    }
    offer(0, at_ends[0] * if state.active() == Some(0) { 1.0 } else { SWITCH });
    best.1
}

/// The untested build of a stretch that tells most.
fn within(state: &State, bits: &Bits, index: usize, stretch: &Stretch) -> Option<(usize, f64)> {
    let (after, until) = (stretch.after, stretch.until);
    if until - after < 2 {
        return None;
    }
    let setup = state.setup();
    let whole = setup.prior(after, until);
    let worth = |build: usize| bits.within(index, setup.prior(after, build) / whole);
    let broken = state.unusable_between(after, until);
    if broken.is_empty() {
        // What a build tells rises and then falls along a stretch.
        let (mut low, mut high) = (after + 1, until - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if worth(middle) < worth(middle + 1) { low = middle + 1 } else { high = middle }
        }
        return Some((low, worth(low)));
    }
    let step = (until - after).div_ceil(LOOKED_AT);
    let mut best: Option<(usize, f64)> = None;
    for build in (after + 1..until).step_by(step) {
        let Some(distance) = distance(&broken, build) else { continue };
        let worth = worth(build) * usable(distance, broken.len());
        if best.is_none_or(|(_, most)| worth > most) {
            best = Some((build, worth));
        }
    }
    best.or_else(|| state.usable_between(after, until).map(|build| (build, worth(build))))
}

/// How far the nearest broken build is, or none for a broken one.
fn distance(broken: &[usize], build: usize) -> Option<usize> {
    let next = broken.partition_point(|b| *b < build);
    let above = broken.get(next).map(|b| b - build);
    let below = next.checked_sub(1).map(|i| build - broken[i]);
    let nearest = above.into_iter().chain(below).min()?;
    (nearest > 0).then_some(nearest)
}

/// Chance that a build can be tested, so far from a broken one. Each further broken build of a stretch makes it likelier that they
/// belong together.
fn usable(distance: usize, broken: usize) -> f64 {
    let length = (broken * broken) as f64 / 2.0;
    1.0 - 0.9 * (-(distance as f64) / length).exp()
}

/// Bits of information about the place of the change that the next run of a build gives.
struct Bits {
    /// Probability and the two rates of each hypothesis; the first is that the good end fails too.
    hypotheses: Vec<(f64, f64, f64)>,
    /// Sums over the hypotheses up to each: of `mass * rate` and of `mass * entropy(rate)`.
    bad: Vec<(f64, f64)>,
    /// The same from each on, of the noise.
    good: Vec<(f64, f64)>,
}

impl Bits {
    fn of(posterior: &Posterior) -> Bits {
        let all = [posterior.nowhere()].into_iter().chain(posterior.stretches());
        let hypotheses: Vec<_> = all.map(|s| (s.mass, s.rate, s.noise)).collect();
        let part = |mass: f64, rate: f64| (mass * rate, mass * entropy(rate));
        let mut bad = vec![(0.0, 0.0)];
        for (i, (mass, rate, _)) in hypotheses.iter().enumerate() {
            bad.push(plus(bad[i], part(*mass, *rate)));
        }
        let mut good = vec![(0.0, 0.0); hypotheses.len() + 1];
        for (i, (mass, _, noise)) in hypotheses.iter().enumerate().rev() {
            good[i] = plus(good[i + 1], part(*mass, *noise));
        }
        Bits { hypotheses, bad, good }
    }

    /// Of a run of a build before which `share` of a stretch's probability lies.
    fn within(&self, stretch: usize, share: f64) -> f64 {
        let (mass, rate, noise) = self.hypotheses[stretch + 1];
        let before = (mass * share * rate, mass * share * entropy(rate));
        let behind = (mass * (1.0 - share) * noise, mass * (1.0 - share) * entropy(noise));
        let others = plus(self.bad[stretch + 1], self.good[stretch + 2]);
        gain(plus(others, plus(before, behind)))
    }
}

fn plus(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}

fn gain((failing, known): (f64, f64)) -> f64 {
    entropy(failing) - known
}
