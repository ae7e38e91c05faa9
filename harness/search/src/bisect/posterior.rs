use std::collections::BTreeSet;

use super::{
    DIFFERING, Edge, State, UNLIKE_ANY,
    math::{entropy, log_add, log_sum},
    rates::{Joint, Kinds, Likelihood, PerKind},
};

/// Prior probability that the good end fails too.
const GOOD_END_FAILS: f64 = 0.02;

/// Prior odds of a history with three changes against one.
const SEVERAL: f64 = 0.02;

/// Posterior probability at which three changes are reported instead of one.
const SEVERAL_SURE: f64 = 0.99;

/// Probability of a range of the answer when the budget ends.
const RANGE_MASS: f64 = 0.99;

/// Places less likely than this play no part in what is run next.
const NEGLIGIBLE: f64 = 1e-6;

/// Builds between two tested ones, with what the observations say if the change is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Builds up to this one are good then.
    pub after: usize,
    /// Builds from this one on are bad then.
    pub until: usize,
    /// Posterior probability that the change is in `after + 1 ..= until`.
    pub mass: f64,
    /// Expected rate of bad builds then.
    pub rate: f64,
    /// Expected rate at which good builds fail then.
    pub noise: f64,
}

/// Where the change is, given what was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    kinds: Kinds,
    tested: Tested,
    /// That the good end is bad too; its `after` and `until` are 0.
    nowhere: Stretch,
    /// In the order of the history.
    stretches: Vec<Stretch>,
    /// What each hypothesis says of the rates: `nowhere` first, then the stretches.
    joints: Vec<Joint>,
}

/// Builds with runs that count, and both ends.
#[derive(Clone, Debug, PartialEq)]
struct Tested {
    builds: Vec<usize>,
    likelihoods: Vec<Likelihood>,
    /// Sums over the builds before each, for the bad and the good side; one more than there are builds.
    sums: Vec<(PerKind, PerKind)>,
}

impl Tested {
    fn of(state: &State, kinds: &Kinds) -> Tested {
        let bad = state.setup().bad();
        let mut builds: Vec<usize> = state
            .tallies()
            .filter(|(build, tally)| {
                *build != 0 && *build != bad && tally.runs() > 0 && !tally.unusable()
            })
            .map(|(build, _)| build)
            .collect();
        builds.insert(0, 0);
        builds.push(bad);
        let likelihood = |build: &usize| kinds.likelihood(state.tally(*build));
        let likelihoods: Vec<_> = builds.iter().map(likelihood).collect();
        let mut sums = vec![kinds.nothing()];
        for of in &likelihoods {
            let (bad, good) = &sums[sums.len() - 1];
            sums.push((plus(bad, &of.bad), plus(good, &of.good)));
        }
        Tested { builds, likelihoods, sums }
    }

    /// Sums over the builds from one position to before another.
    fn bad(&self, from: usize, to: usize) -> PerKind {
        minus(&self.sums[to].0, &self.sums[from].0)
    }

    fn good(&self, from: usize, to: usize) -> PerKind {
        minus(&self.sums[to].1, &self.sums[from].1)
    }
}

/// The rate that a build stays below, with 99 % by its own runs.
fn below(state: &State, build: usize) -> f64 {
    let tally = state.tally(build);
    1.0 - crate::sequential::lower_bound(tally.good, tally.runs(), 0.01)
}

fn plus(a: &[f64], b: &[f64]) -> PerKind {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Of impossible and impossible nothing is left to say; all sums are kept finite for that.
fn minus(a: &[f64], b: &[f64]) -> PerKind {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

impl Posterior {
    /// The posterior after the observations of a state.
    pub fn of(state: &State) -> Posterior {
        let setup = state.setup();
        let kinds = Kinds::new(setup.rate);
        let tested = Tested::of(state, &kinds);
        let (builds, all) = (&tested.builds, tested.builds.len());
        let mut joints = Vec::with_capacity(all);
        let mut stretches: Vec<Stretch> = (0..all)
            .map(|first_bad| {
                let joint = kinds.joint(&tested.bad(first_bad, all), &tested.good(0, first_bad));
                let (after, until, prior) = match first_bad {
                    0 => (0, 0, GOOD_END_FAILS),
                    n => {
                        let (after, until) = (builds[n - 1], builds[n]);
                        (after, until, (1.0 - GOOD_END_FAILS) * setup.prior(after, until))
                    }
                };
                let (rate, noise) = (joint.rate, joint.noise);
                let mass = prior.ln() + joint.ln;
                joints.push(joint);
                Stretch { after, until, mass, rate, noise }
            })
            .collect();
        let whole = log_sum(stretches.iter().map(|s| s.mass));
        for stretch in &mut stretches {
            stretch.mass = (stretch.mass - whole).exp();
        }
        let nowhere = stretches.remove(0);
        Posterior { kinds, tested, nowhere, stretches, joints }
    }

    /// Probability that the good end fails too.
    pub fn good_end_fails(&self) -> f64 {
        self.nowhere.mass
    }

    /// Where the change may be, in the order of the history.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Where the change is most likely.
    pub fn likeliest(&self) -> &Stretch {
        &self.stretches[self.likeliest_index()]
    }

    fn likeliest_index(&self) -> usize {
        let better = |a: usize, b: usize| {
            if self.stretches[b].mass > self.stretches[a].mass { b } else { a }
        };
        (0..self.stretches.len()).fold(0, better)
    }

    /// The hypothesis that the good end fails too.
    pub(super) fn nowhere(&self) -> &Stretch {
        &self.nowhere
    }

    /// Whether the builds of one side seem to differ in their rates.
    pub(super) fn differs(&self) -> bool {
        self.kinds.differing(&self.joints[self.likeliest_index() + 1]) > DIFFERING
    }

    /// Probability that one of the hypotheses holds at all. What is claimed of a place is its mass times this.
    pub fn known(&self) -> f64 {
        1.0 - UNLIKE_ANY[usize::from(self.differs())]
    }

    /// Probability that the rate that was told is about right.
    pub fn agrees(&self, told: f64) -> f64 {
        self.kinds.agrees(&self.joints[self.likeliest_index() + 1], told)
    }

    /// Bits of information about the place of the change that the next run of the last build of each stretch gives; of the good
    /// end first. What that build itself showed so far counts: it may be a stray.
    pub(super) fn bits_at_ends(&self) -> Vec<f64> {
        let masses = [&self.nowhere].into_iter().chain(&self.stretches).map(|s| s.mass);
        let likely: Vec<_> = masses.enumerate().filter(|(_, mass)| *mass > NEGLIGIBLE).collect();
        let bits = |(build, likelihood): (usize, &Likelihood)| {
            let (mut failing, mut known) = (0.0, 0.0);
            for (first_bad, mass) in &likely {
                let fails = self.joints[*first_bad].next(likelihood, build >= *first_bad);
                failing += mass * fails;
                known += mass * entropy(fails);
            }
            entropy(failing.min(1.0)) - known
        };
        self.tested.likelihoods.iter().enumerate().map(bits).collect()
    }

    /// The shortest range around the likeliest place that holds 99 % of the probability: last good, first bad, probability.
    pub fn range(&self) -> (usize, usize, f64) {
        let likeliest = self.likeliest();
        let mut low = self.likeliest_index();
        let mut high = low;
        let mut mass = likeliest.mass;
        while mass < RANGE_MASS && (low > 0 || high + 1 < self.stretches.len()) {
            let below = if low > 0 { self.stretches[low - 1].mass } else { -1.0 };
            let above = self.stretches.get(high + 1).map_or(-1.0, |s| s.mass);
            if above > below {
                high += 1;
                mass += above;
            } else {
                low -= 1;
                mass += below;
            }
        }
        (self.stretches[low].after, self.stretches[high].until, mass.min(1.0) * self.known())
    }

    pub(super) fn edge(&self, state: &State, stretch: &Stretch) -> Edge {
        let (after, until) = (stretch.after, stretch.until);
        // The nearest tested neighbours are the edge; builds between them cannot be tested.
        debug_assert!(state.usable_between(after, until).is_none());
        Edge {
            last_good: after,
            first_bad: until,
            confidence: stretch.mass * self.known(),
            rate: stretch.rate,
            noise: stretch.noise,
            before: below(state, after),
        }
    }

    /// The places where a history of three changes (broken, good again, broken again) breaks, where the observations are
    /// far likelier under one than under a single change.
    pub(super) fn several(&self, state: &State) -> Option<Vec<Edge>> {
        let setup = state.setup();
        let Tested { builds, .. } = &self.tested;
        let all = builds.len();
        let prior = |first_bad: usize| setup.prior(builds[first_bad - 1], builds[first_bad]);
        let one = (1..all).map(|n| prior(n).ln() + self.joints[n].ln);
        let one = log_sum(one);
        let (three, [first, second, third]) = self.three(&prior);
        let sure = 1.0 / (1.0 + (one - SEVERAL.ln() - three).exp());
        if sure < SEVERAL_SURE {
            return None;
        }
        let joint = self.of_three([first, second, third]);
        let edge = |first_bad: usize| Edge {
            last_good: builds[first_bad - 1],
            first_bad: builds[first_bad],
            confidence: sure * self.known(),
            rate: joint.rate,
            noise: joint.noise,
            before: below(state, builds[first_bad - 1]),
        };
        Some(vec![edge(first), edge(third)])
    }

    /// What it says of the rates that the changes are at these places.
    fn of_three(&self, [first, second, third]: [usize; 3]) -> Joint {
        let (tested, all) = (&self.tested, self.tested.builds.len());
        let bad = plus(&tested.bad(first, second), &tested.bad(third, all));
        let good = plus(&tested.good(0, first), &tested.good(second, third));
        self.kinds.joint(&bad, &good)
    }

    /// Logarithm of the probability of all runs under three changes, and the likeliest places of these. For each pair of kinds one
    /// pass over the builds does: what a build adds does not depend on where the other changes are.
    fn three(&self, prior: &impl Fn(usize) -> f64) -> (f64, [usize; 3]) {
        let Tested { builds, sums, .. } = &self.tested;
        let all = builds.len();
        let priors: Vec<f64> = (1..all).map(|n| prior(n).ln()).collect();
        let of_pair = |(bad, good, ln_prior): (usize, usize, f64)| {
            let mut paths = Paths::default();
            for (n, prior) in (1..all).zip(&priors) {
                paths.add(n, *prior, sums[n].1[good] - sums[n].0[bad]);
            }
            // Six orders of three places are one history.
            (ln_prior + sums[all].0[bad] + 6.0_f64.ln() + paths.sums[2], paths.likeliest[2].1)
        };
        let pairs: Vec<_> = self.kinds.pairs().map(of_pair).collect();
        // Each pair has its likeliest places; which of these are so under all pairs together is asked of the few.
        let few: BTreeSet<_> = pairs.iter().map(|(_, places)| *places).collect();
        let ln = |places: &[usize; 3]| {
            self.of_three(*places).ln + places.iter().map(|n| priors[n - 1]).sum::<f64>()
        };
        let places = few.into_iter().filter(|places| places[0] > 0);
        let places = places.max_by(|a, b| ln(a).total_cmp(&ln(b))).unwrap_or_default();
        (log_sum(pairs.iter().map(|(ln, _)| *ln)), places)
    }
}

/// Sums over all ways to place one, two and three changes before a build, as logarithms, and the likeliest way.
struct Paths {
    sums: [f64; 3],
    likeliest: [(f64, [usize; 3]); 3],
}

impl Default for Paths {
    fn default() -> Paths {
        let none = f64::NEG_INFINITY;
        Paths { sums: [none; 3], likeliest: [(none, [0; 3]); 3] }
    }
}

impl Paths {
    /// Lets a change be at the build. `turned` says how much likelier the builds before it are good than bad: the first and the
    /// third change are from good to bad, the second is the other way.
    fn add(&mut self, build: usize, prior: f64, turned: f64) {
        for change in [2, 1, 0] {
            let here = prior + if change == 1 { -turned } else { turned };
            let (sum, (likely, mut places)) = match change {
                0 => (0.0, (0.0, [0; 3])),
                n => (self.sums[n - 1], self.likeliest[n - 1]),
            };
            self.sums[change] = log_add(self.sums[change], sum + here);
            if likely + here > self.likeliest[change].0 {
                places[change] = build;
                self.likeliest[change] = (likely + here, places);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::{Event, Seen, Setup};

    /// Against a sum over every three places.
    #[test]
    fn three_changes_are_weighed_together() {
        let weights: Vec<f64> = (0..13).map(|n| 1.0 + f64::from(n % 3)).collect();
        let mut state = State::new(Setup::new(12).weighted(&weights));
        let runs = [
            (0, 4, 0),
            (2, 6, 0),
            (3, 1, 7),
            (5, 0, 2),
            (6, 9, 1),
            (8, 20, 0),
            (9, 1, 3),
            (12, 2, 8),
        ];
        for (build, good, bad) in runs {
            let all = [(Seen::Good, good), (Seen::Bad, bad)];
            for (seen, _) in all.into_iter().flat_map(|(seen, n)| (0..n).map(move |m| (seen, m))) {
                state.observe(Event::Ran { build, seen, seconds: 0.0 });
            }
        }
        let posterior = Posterior::of(&state);
        let builds = &posterior.tested.builds;
        let prior = |n: usize| state.setup().prior(builds[n - 1], builds[n]);
        let all = builds.len();
        let (mut logs, mut best) = (Vec::new(), (f64::NEG_INFINITY, [0; 3]));
        for first in 1..all {
            for second in first + 1..all {
                for third in second + 1..all {
                    let of = &posterior.tested;
                    let bad = plus(&of.bad(first, second), &of.bad(third, all));
                    let good = plus(&of.good(0, first), &of.good(second, third));
                    let joint = posterior.kinds.joint(&bad, &good).ln;
                    let log = joint + (6.0 * prior(first) * prior(second) * prior(third)).ln();
                    logs.push(log);
                    if log > best.0 {
                        best = (log, [first, second, third]);
                    }
                }
            }
        }
        let (three, places) = posterior.three(&prior);
        assert!((three - log_sum(logs.into_iter())).abs() < 1e-6);
        assert_eq!(places, best.1);
    }
}
