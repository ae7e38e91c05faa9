//! Computes the posterior probability of the place of the change and of the failure rates.

use std::collections::BTreeSet;

use super::{
    DIFFERING_PROBABILITY, Edge, MODEL_MISFIT, State, UNEXCLUDED_RATE,
    math::{entropy, log_add, log_sum},
    rates::{Joint, Likelihood, PerHypothesis, RateModel},
};

/// Prior probability that the good end fails too.
const GOOD_END_FAILS: f64 = 0.02;

/// Prior odds of a history with three changes against a history with a single change.
const SEVERAL: f64 = 0.02;

/// If the posterior probability of three changes is at least this, the search reports three changes instead of one.
const SEVERAL_THRESHOLD: f64 = 0.99;

/// Posterior probability that the change lies in the range that is reported if the budget is spent.
const RANGE_MASS: f64 = 0.99;

/// Probability below which a place is ignored when the next run is chosen.
const NEGLIGIBLE: f64 = 1e-6;

/// Interval between two tested builds, and the posterior under the hypothesis that the change lies in the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Last build that is good under the hypothesis; so are all builds before it.
    pub after: usize,
    /// First build that is bad under the hypothesis; so are all builds after it.
    pub until: usize,
    /// Posterior probability that the change is in `after + 1 ..= until`, 0 to 1.
    pub mass: f64,
    /// Expected failure rate of bad builds under the hypothesis, 0 to 1.
    pub rate: f64,
    /// Expected failure rate of good builds under the hypothesis, 0 to 1.
    pub noise: f64,
}

/// Posterior probability of each place of the change, given the observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    model: RateModel,
    tested: TestedBuilds,
    /// The hypothesis that the good end is bad too. Its `after` and `until` are 0.
    nowhere: Interval,
    /// All other hypotheses, in the order of the history.
    intervals: Vec<Interval>,
    /// Posterior of the failure rates under each hypothesis: under `nowhere` first, then under each interval.
    joints: Vec<Joint>,
}

/// Builds with usable runs, including both ends, and the likelihoods of their runs.
#[derive(Clone, Debug, PartialEq)]
struct TestedBuilds {
    builds: Vec<usize>,
    likelihoods: Vec<Likelihood>,
    /// Entry n contains the log likelihoods of all runs of the first n builds: if all these builds are bad, and if all
    /// are good.
    sums: Vec<(PerHypothesis, PerHypothesis)>,
}

impl TestedBuilds {
    fn from_state(state: &State, model: &RateModel) -> TestedBuilds {
        let bad = state.setup().bad();
        let mut builds: Vec<usize> = state
            .tallies()
            .filter(|(build, tally)| {
                *build != 0 && *build != bad && tally.runs() > 0 && !tally.is_unusable()
            })
            .map(|(build, _)| build)
            .collect();
        builds.insert(0, 0);
        builds.push(bad);
        let likelihood = |build: &usize| model.likelihood(state.tally(*build));
        let likelihoods: Vec<_> = builds.iter().map(likelihood).collect();
        let mut sums = vec![model.zero_likelihoods()];
        for of in &likelihoods {
            let (bad, good) = &sums[sums.len() - 1];
            sums.push((add_elements(bad, &of.bad), add_elements(good, &of.good)));
        }
        TestedBuilds { builds, likelihoods, sums }
    }

    /// Returns the log likelihood of the builds with indices `from..to` if they are bad.
    fn bad(&self, from: usize, to: usize) -> PerHypothesis {
        subtract_elements(&self.sums[to].0, &self.sums[from].0)
    }

    /// Returns the log likelihood of the builds with indices `from..to` if they are good.
    fn good(&self, from: usize, to: usize) -> PerHypothesis {
        subtract_elements(&self.sums[to].1, &self.sums[from].1)
    }
}

/// Returns the failure rate that a build does not exceed with 99 % confidence, computed from the build's own runs
/// alone.
fn rate_upper_bound(state: &State, build: usize) -> f64 {
    let tally = state.tally(build);
    1.0 - crate::sequential::lower_bound(tally.good, tally.runs(), 0.01)
}

fn add_elements(a: &[f64], b: &[f64]) -> PerHypothesis {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Subtracts element by element. `LOG_ZERO`, the replacement for the logarithm of zero, is finite, so the difference of
/// two sums that contain it is defined.
fn subtract_elements(a: &[f64], b: &[f64]) -> PerHypothesis {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

impl Posterior {
    /// Computes the posterior given the observations in `state`.
    pub fn from_state(state: &State) -> Posterior {
        let setup = state.setup();
        let model = RateModel::new(setup.rate);
        let tested = TestedBuilds::from_state(state, &model);
        let (builds, all) = (&tested.builds, tested.builds.len());
        let mut joints = Vec::with_capacity(all);
        let mut intervals: Vec<Interval> = (0..all)
            .map(|first_bad| {
                let joint = model.joint(&tested.bad(first_bad, all), &tested.good(0, first_bad));
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
                Interval { after, until, mass, rate, noise }
            })
            .collect();
        let whole = log_sum(intervals.iter().map(|s| s.mass));
        for interval in &mut intervals {
            interval.mass = (interval.mass - whole).exp();
        }
        let nowhere = intervals.remove(0);
        Posterior { model, tested, nowhere, intervals, joints }
    }

    /// Returns the probability that the good end fails too.
    pub fn good_end_fails(&self) -> f64 {
        self.nowhere.mass
    }

    /// Returns the intervals in which the change may lie, in the order of the history.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Returns the most likely interval.
    pub fn likeliest(&self) -> &Interval {
        &self.intervals[self.likeliest_index()]
    }

    fn likeliest_index(&self) -> usize {
        let better = |a: usize, b: usize| {
            if self.intervals[b].mass > self.intervals[a].mass { b } else { a }
        };
        (0..self.intervals.len()).fold(0, better)
    }

    pub(super) fn nowhere(&self) -> &Interval {
        &self.nowhere
    }

    /// Returns true if the good builds seem to have different failure rates among themselves, or if the bad builds do.
    pub(super) fn rates_differ(&self) -> bool {
        self.model.differing_probability(&self.joints[self.likeliest_index() + 1])
            > DIFFERING_PROBABILITY
    }

    /// Returns the confidence to report for an interval. It is lower than the posterior probability, because the
    /// history may fit none of the hypotheses, and because the last good build may be a bad build that rarely fails.
    pub fn confidence_in(&self, state: &State, interval: &Interval) -> f64 {
        interval.mass
            * (self.model_fits_probability()
                - UNEXCLUDED_RATE * rate_upper_bound(state, interval.after))
    }

    /// Returns the probability that the history fits any of the hypotheses.
    fn model_fits_probability(&self) -> f64 {
        1.0 - MODEL_MISFIT[usize::from(self.rates_differ())]
    }

    /// Returns the probability, 0 to 1, that bad builds fail at about the rate `given`, which the user named.
    pub fn supports_rate(&self, given: f64) -> f64 {
        self.model.supports_rate(&self.joints[self.likeliest_index() + 1], given)
    }

    /// Returns, for each tested build, how many bits of information about the place of the change its next run gives:
    /// first for the good end, then for the last build of each interval. Earlier runs of the build are taken into
    /// account, because it may be an outlier.
    pub(super) fn bits_at_ends(&self) -> Vec<f64> {
        let masses = [&self.nowhere].into_iter().chain(&self.intervals).map(|s| s.mass);
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

    /// Returns the shortest range around the likeliest interval that contains the change with a posterior probability
    /// of 99 %: its last good build, its first bad build, and the confidence to report. The confidence is lower than
    /// the posterior probability, because the history may fit none of the hypotheses.
    pub fn range(&self) -> (usize, usize, f64) {
        let likeliest = self.likeliest();
        let mut low = self.likeliest_index();
        let mut high = low;
        let mut mass = likeliest.mass;
        while mass < RANGE_MASS && (low > 0 || high + 1 < self.intervals.len()) {
            let below = if low > 0 { self.intervals[low - 1].mass } else { -1.0 };
            let above = self.intervals.get(high + 1).map_or(-1.0, |s| s.mass);
            if above > below {
                high += 1;
                mass += above;
            } else {
                low -= 1;
                mass += below;
            }
        }
        (
            self.intervals[low].after,
            self.intervals[high].until,
            mass.min(1.0) * self.model_fits_probability(),
        )
    }

    pub(super) fn edge(&self, state: &State, interval: &Interval) -> Edge {
        let (after, until) = (interval.after, interval.until);
        // The two neighbours in the list of tested builds are the edge; the builds between them cannot be tested.
        debug_assert!(state.usable_between(after, until).is_none());
        Edge {
            last_good: after,
            first_bad: until,
            confidence: self.confidence_in(state, interval),
            rate: interval.rate,
            noise: interval.noise,
            last_good_rate_below: rate_upper_bound(state, after),
        }
    }

    /// Returns the two edges from good to bad, if three changes (good to bad, bad to good, good to bad) explain the
    /// observations far better than one change.
    pub(super) fn several(&self, state: &State) -> Option<Vec<Edge>> {
        let setup = state.setup();
        let TestedBuilds { builds, .. } = &self.tested;
        let all = builds.len();
        let prior = |first_bad: usize| setup.prior(builds[first_bad - 1], builds[first_bad]);
        let one = (1..all).map(|n| prior(n).ln() + self.joints[n].ln);
        let one = log_sum(one);
        let (three, [first, second, third]) = self.three_changes(&prior);
        let sure = 1.0 / (1.0 + (one - SEVERAL.ln() - three).exp());
        if sure < SEVERAL_THRESHOLD {
            return None;
        }
        let joint = self.joint_of_three([first, second, third]);
        let edge = |first_bad: usize| Edge {
            last_good: builds[first_bad - 1],
            first_bad: builds[first_bad],
            confidence: sure * self.model_fits_probability(),
            rate: joint.rate,
            noise: joint.noise,
            last_good_rate_below: rate_upper_bound(state, builds[first_bad - 1]),
        };
        Some(vec![edge(first), edge(third)])
    }

    /// Returns the posterior of the failure rates if there are three changes at these places.
    fn joint_of_three(&self, [first, second, third]: [usize; 3]) -> Joint {
        let (tested, all) = (&self.tested, self.tested.builds.len());
        let bad = add_elements(&tested.bad(first, second), &tested.bad(third, all));
        let good = add_elements(&tested.good(0, first), &tested.good(second, third));
        self.model.joint(&bad, &good)
    }

    /// Returns the log probability of all runs if there are three changes, and the likeliest places of the changes.
    /// `prior` returns the prior probability that a change lies between the tested build with this index and the tested
    /// build before it. For each pair of rates, one pass over the builds is enough, because the contribution of a
    /// change at one build does not depend on where the other changes are.
    fn three_changes(&self, prior: &impl Fn(usize) -> f64) -> (f64, [usize; 3]) {
        let TestedBuilds { builds, sums, .. } = &self.tested;
        let all = builds.len();
        let priors: Vec<f64> = (1..all).map(|n| prior(n).ln()).collect();
        let of_pair = |(bad, good, ln_prior): (usize, usize, f64)| {
            let mut paths = Paths::default();
            for (n, prior) in (1..all).zip(&priors) {
                paths.add(n, *prior, sums[n].1[good] - sums[n].0[bad]);
            }
            // The same three places can be drawn in six orders.
            (ln_prior + sums[all].0[bad] + 6.0_f64.ln() + paths.sums[2], paths.likeliest[2].1)
        };
        let pairs: Vec<_> = self.model.pairs().map(of_pair).collect();
        // Each pair of rates has its own likeliest places. Only these few places are evaluated under all pairs
        // together.
        let few: BTreeSet<_> = pairs.iter().map(|(_, places)| *places).collect();
        let ln = |places: &[usize; 3]| {
            self.joint_of_three(*places).ln + places.iter().map(|n| priors[n - 1]).sum::<f64>()
        };
        let places = few.into_iter().filter(|places| places[0] > 0);
        let places = places.max_by(|a, b| ln(a).total_cmp(&ln(b))).unwrap_or_default();
        (log_sum(pairs.iter().map(|(ln, _)| *ln)), places)
    }
}

/// Log probabilities summed over all ways to place one, two and three changes at the builds added so far, and the
/// likeliest of these ways.
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
    /// Adds `build` as a possible place of a change. `turned` is the log likelihood ratio of "good" against "bad" for
    /// all earlier builds together. The first and the third change are from good to bad, the second is from bad to
    /// good.
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
    use crate::bisect::{BisectSettings, BuildOutcome, Event};

    /// Compares the result with an explicit sum over all triples of places.
    #[test]
    fn three_change_probability_matches_brute_force() {
        let weights: Vec<f64> = (0..13).map(|n| 1.0 + f64::from(n % 3)).collect();
        let mut state = State::new(BisectSettings::new(12).with_weights(&weights));
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
            let all = [(BuildOutcome::Good, good), (BuildOutcome::Bad, bad)];
            for (seen, _) in all.into_iter().flat_map(|(seen, n)| (0..n).map(move |m| (seen, m))) {
                state.observe(Event::Ran { build, seen, seconds: 0.0 });
            }
        }
        let posterior = Posterior::from_state(&state);
        let builds = &posterior.tested.builds;
        let prior = |n: usize| state.setup().prior(builds[n - 1], builds[n]);
        let all = builds.len();
        let (mut logs, mut best) = (Vec::new(), (f64::NEG_INFINITY, [0; 3]));
        for first in 1..all {
            for second in first + 1..all {
                for third in second + 1..all {
                    let of = &posterior.tested;
                    let bad = add_elements(&of.bad(first, second), &of.bad(third, all));
                    let good = add_elements(&of.good(0, first), &of.good(second, third));
                    let joint = posterior.model.joint(&bad, &good).ln;
                    let log = joint + (6.0 * prior(first) * prior(second) * prior(third)).ln();
                    logs.push(log);
                    if log > best.0 {
                        best = (log, [first, second, third]);
                    }
                }
            }
        }
        let (three, places) = posterior.three_changes(&prior);
        assert!((three - log_sum(logs.into_iter())).abs() < 1e-6);
        assert_eq!(places, best.1);
    }
}
