//! Hypotheses about the failure rates, and their likelihoods given the observations.
//!
//! Most good builds share one failure rate, and most bad builds another. Outliers have rates of their own: bad builds
//! that rarely fail, and good builds that fail. The possible rates are a grid instead of a continuous distribution,
//! because a build may be an outlier or not, and such a mixture has no closed form.

use super::{Tally, math::ln_beta};

/// Prior probability that bad builds always fail.
const ALWAYS_FAILS_PRIOR: f64 = 0.35;

/// Beta prior of the failure rate of bad builds that fail only sometimes. The points of the grid follow this
/// distribution.
const FAILURE_RATE_PRIOR: (f64, f64) = (0.8, 0.8);

/// Failure rates of good builds, each with its prior probability. Most good builds never fail.
const NOISE: [(f64, f64); 9] = [
    (0.0, 0.8),
    (0.003, 0.06),
    (0.01, 0.05),
    (0.02, 0.03),
    (0.035, 0.02),
    (0.06, 0.015),
    (0.1, 0.012),
    (0.15, 0.008),
    (0.25, 0.005),
];

/// Prior probability of the failure rate that the user gave. The rest of the probability is distributed as if the user
/// had given no rate.
const GIVEN_RATE: f64 = 0.8;

/// Prior of outliers among the bad builds. An outlier fails at a rate that differs from that of the other bad builds.
const BAD_OUTLIERS: Outliers = Outliers { prior: 0.045, share: 0.4, rate: (0.8, 1.2) };

/// Prior of outliers among the good builds. An outlier fails with the signature that the search is about, although it
/// is good, and at a rate that differs from that of other outliers.
const GOOD_OUTLIERS: Outliers = Outliers { prior: 0.04, share: 0.05, rate: (1.0, 1.5) };

/// Replacement for the logarithm of zero. The number is finite, so that it can be added to a sum and subtracted again.
const LOG_ZERO: f64 = -1e5;

/// Prior of outliers among the good or the bad builds: the probability that there are any, the share of builds that are
/// outliers in that case, and the parameters of the Beta prior of their failure rates.
struct Outliers {
    prior: f64,
    share: f64,
    rate: (f64, f64),
}

/// One hypothesis about the failure rates of all good builds, or of all bad builds.
#[derive(Clone, Debug, PartialEq)]
struct RateHypothesis {
    ln_prior: f64,
    /// Failure rate of all builds that are not outliers, 0 to 1.
    rate: f64,
    /// Share of builds that are outliers, with failure rates of their own, 0 to 1.
    outliers: f64,
}

/// All hypotheses about the failure rates of bad and of good builds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RateModel {
    /// Hypotheses for bad builds, sorted by rate.
    bad: Vec<RateHypothesis>,
    /// Hypotheses for good builds, sorted by rate.
    good: Vec<RateHypothesis>,
    /// For each hypothesis for bad builds, the number of hypotheses for good builds with at most half its rate. With a
    /// higher rate of good builds, the change would not count as a regression.
    below: Vec<usize>,
}

/// One number for each hypothesis for bad builds, or for each hypothesis for good builds.
pub(super) type PerHypothesis = Vec<f64>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Likelihood {
    /// Log likelihood of a build's runs under each hypothesis: in `bad` if the build is bad, in `good` if it is good.
    pub(super) bad: PerHypothesis,
    pub(super) good: PerHypothesis,
    /// Probability that the next run of the build fails, under each hypothesis: in `next_bad` if the build is bad, in
    /// `next_good` if it is good.
    next_bad: PerHypothesis,
    next_good: PerHypothesis,
}

/// Joint posterior of the failure rates of bad and of good builds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joint {
    /// Log probability of all observed runs.
    pub(super) ln: f64,
    /// Posterior probability of each hypothesis: for bad builds in `bad`, for good builds in `good`.
    bad: PerHypothesis,
    good: PerHypothesis,
    /// Expected failure rates of builds without runs: of a bad build in `rate`, of a good build in `noise`.
    pub(super) rate: f64,
    pub(super) noise: f64,
}

impl RateModel {
    /// Creates the hypotheses. `given` is the failure rate of bad builds if the user knows it, 0 to 1.
    pub(super) fn new(given: Option<f64>) -> RateModel {
        let (a, b) = FAILURE_RATE_PRIOR;
        let grid: Vec<(f64, f64)> = (0..27)
            .map(|n| {
                let logit = f64::from(n - 13) * 0.4;
                let rate = 1.0 / (1.0 + (-logit).exp());
                (rate, rate.powf(a) * (1.0 - rate).powf(b))
            })
            .collect();
        let whole: f64 = grid.iter().map(|(_, weight)| weight).sum();
        let mut rates: Vec<(f64, f64)> = grid
            .iter()
            .map(|(rate, weight)| (*rate, (1.0 - ALWAYS_FAILS_PRIOR) * weight / whole))
            .collect();
        rates.push((1.0, ALWAYS_FAILS_PRIOR));
        if let Some(given) = given {
            rates.iter_mut().for_each(|(_, prior)| *prior *= 1.0 - GIVEN_RATE);
            rates.push((given, GIVEN_RATE));
            rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let bad = hypotheses(&rates, &BAD_OUTLIERS);
        let good = hypotheses(&NOISE, &GOOD_OUTLIERS);
        let lower = |of: &RateHypothesis| {
            good.iter().filter(|hypothesis| 2.0 * hypothesis.rate <= of.rate).count()
        };
        let below = bad.iter().map(lower).collect();
        RateModel { bad, good, below }
    }

    pub(super) fn likelihood(&self, tally: Tally) -> Likelihood {
        let side = |hypotheses: &[RateHypothesis], outliers: &Outliers| {
            let (n, k) = (f64::from(tally.good), f64::from(tally.bad));
            let (a, b) = outliers.rate;
            let own = (ln_beta(a + k, b + n) - ln_beta(a, b)).exp();
            let own_next = (a + k) / (a + b + n + k);
            let of = |hypothesis: &RateHypothesis| {
                let common = (1.0 - hypothesis.outliers)
                    * (power(hypothesis.rate, k) * power(1.0 - hypothesis.rate, n));
                let outlier = hypothesis.outliers * own;
                let all = common + outlier;
                if all > 0.0 {
                    (all.ln().max(LOG_ZERO), (common * hypothesis.rate + outlier * own_next) / all)
                } else {
                    // The product has underflowed, or the observation is impossible under the hypothesis.
                    let ln = times_ln(k, hypothesis.rate) + times_ln(n, 1.0 - hypothesis.rate);
                    (ln.max(LOG_ZERO), hypothesis.rate)
                }
            };
            hypotheses.iter().map(of).unzip()
        };
        let (bad, next_bad) = side(&self.bad, &BAD_OUTLIERS);
        let (good, next_good) = side(&self.good, &GOOD_OUTLIERS);
        Likelihood { bad, good, next_bad, next_good }
    }

    /// Returns the compatible pairs of hypotheses, one for bad builds and one for good builds. Each item contains the
    /// two indices and the log prior of the pair.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        self.below.iter().enumerate().flat_map(move |(bad, below)| {
            let ln_prior = move |good: usize| self.bad[bad].ln_prior + self.good[good].ln_prior;
            (0..*below).map(move |good| (bad, good, ln_prior(good)))
        })
    }

    /// Returns the log likelihoods without any run, which are zero for all hypotheses.
    pub(super) fn zero_likelihoods(&self) -> (PerHypothesis, PerHypothesis) {
        (vec![0.0; self.bad.len()], vec![0.0; self.good.len()])
    }

    /// Computes the posterior of the failure rates from the summed log likelihoods of the bad and of the good builds.
    pub(super) fn joint(&self, bad: &[f64], good: &[f64]) -> Joint {
        let weighed = |hypotheses: &[RateHypothesis], sums: &[f64]| {
            let logs: Vec<f64> = hypotheses
                .iter()
                .zip(sums)
                .map(|(hypothesis, ln)| hypothesis.ln_prior + ln)
                .collect();
            let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).max(f64::MIN);
            (logs.iter().map(|ln| (ln - most).exp()).collect::<PerHypothesis>(), most)
        };
        let (mut bad, most_bad) = weighed(&self.bad, bad);
        let (mut good, most_good) = weighed(&self.good, good);
        // For each hypothesis about one kind of builds, the sum over the compatible hypotheses about the other kind.
        let mut lower = vec![0.0];
        for weight in &good {
            lower.push(lower[lower.len() - 1] + weight);
        }
        let mut higher = vec![0.0; good.len() + 1];
        for (weight, below) in bad.iter().zip(&self.below) {
            higher[*below] += weight;
        }
        for n in (0..good.len()).rev() {
            higher[n] += higher[n + 1];
        }
        for (weight, below) in bad.iter_mut().zip(&self.below) {
            *weight *= lower[*below];
        }
        for (n, weight) in good.iter_mut().enumerate() {
            *weight *= higher[n + 1];
        }
        let total: f64 = bad.iter().sum();
        let sum = total.max(f64::MIN_POSITIVE);
        bad.iter_mut().chain(&mut good).for_each(|weight| *weight /= sum);
        let mut joint =
            Joint { ln: most_bad + most_good + total.ln(), bad, good, rate: 0.0, noise: 0.0 };
        joint.rate = expected_rate(&joint.bad, &self.bad, &BAD_OUTLIERS);
        joint.noise = expected_rate(&joint.good, &self.good, &GOOD_OUTLIERS);
        joint
    }

    /// Returns the posterior probability that the good builds have different failure rates among themselves, or that
    /// the bad builds do.
    pub(super) fn differing_probability(&self, joint: &Joint) -> f64 {
        let outliers = |hypotheses: &[RateHypothesis], weights: &[f64]| -> f64 {
            hypotheses
                .iter()
                .zip(weights)
                .filter(|(hypothesis, _)| hypothesis.outliers > 0.0)
                .map(|(_, w)| w)
                .sum()
        };
        outliers(&self.bad, &joint.bad).max(outliers(&self.good, &joint.good))
    }

    /// Returns the probability that all bad builds fail at about the rate `given`.
    pub(super) fn supports_rate(&self, joint: &Joint, given: f64) -> f64 {
        let near = |hypothesis: &RateHypothesis| {
            hypothesis.outliers == 0.0
                && (hypothesis.rate - given).abs() <= 0.25 * given.min(1.0 - given).max(0.05)
        };
        let weights = self.bad.iter().zip(&joint.bad);
        weights.filter(|(hypothesis, _)| near(hypothesis)).map(|(_, weight)| weight).sum()
    }
}

impl Joint {
    /// Returns the probability that the next run of a build fails, given that the build is bad (`is_bad`) or good.
    pub(super) fn next(&self, of: &Likelihood, is_bad: bool) -> f64 {
        let (weights, next) = match is_bad {
            true => (&self.bad, &of.next_bad),
            false => (&self.good, &of.next_good),
        };
        weights.iter().zip(next).map(|(weight, rate)| weight * rate).sum()
    }
}

/// Expands each failure rate into two hypotheses: one without and one with outliers. Each entry of `rates` is a failure
/// rate and its prior probability.
fn hypotheses(rates: &[(f64, f64)], outliers: &Outliers) -> Vec<RateHypothesis> {
    let both = |(rate, prior): &(f64, f64)| {
        [(0.0, 1.0 - outliers.prior), (outliers.share, outliers.prior)].map(|(share, part)| {
            RateHypothesis { ln_prior: (prior * part).ln(), rate: *rate, outliers: share }
        })
    };
    rates.iter().flat_map(both).collect()
}

/// Returns the expected failure rate of a build without runs.
fn expected_rate(weights: &[f64], hypotheses: &[RateHypothesis], outliers: &Outliers) -> f64 {
    let own = outliers.rate.0 / (outliers.rate.0 + outliers.rate.1);
    let rate = |hypothesis: &RateHypothesis| {
        (1.0 - hypothesis.outliers) * hypothesis.rate + hypothesis.outliers * own
    };
    weights.iter().zip(hypotheses).map(|(weight, hypothesis)| weight * rate(hypothesis)).sum()
}

/// Returns `base` to the power of `count`; 1 for a count of 0, even if the base is 0.
fn power(base: f64, count: f64) -> f64 {
    if count == 0.0 { 1.0 } else { base.powf(count) }
}

/// Returns the logarithm of `base` to the power of `count`; 0 for a count of 0, even if the base is 0.
fn times_ln(count: f64, base: f64) -> f64 {
    if count == 0.0 { 0.0 } else { count * base.ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(good: u32, bad: u32) -> Tally {
        Tally { good, bad, ..Tally::default() }
    }

    #[test]
    fn priors_sum_to_one() {
        for given in [None, Some(0.3), Some(1.0)] {
            let model = RateModel::new(given);
            for side in [&model.bad, &model.good] {
                let sum: f64 = side.iter().map(|hypothesis| hypothesis.ln_prior.exp()).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
                assert!(side.is_sorted_by(|a, b| a.rate <= b.rate));
            }
        }
    }

    /// Compares the joint posterior with an explicit sum over all pairs of hypotheses.
    #[test]
    fn joint_posterior_matches_brute_force() {
        let model = RateModel::new(None);
        let (bad, good) = (model.likelihood(tally(3, 5)), model.likelihood(tally(40, 1)));
        let joint = model.joint(&bad.bad, &good.good);
        let (mut sum, mut rate) = (0.0, 0.0);
        for (b, hypothesis) in model.bad.iter().enumerate() {
            for (g, noise) in model.good.iter().enumerate() {
                if 2.0 * noise.rate <= hypothesis.rate {
                    let ln = hypothesis.ln_prior + noise.ln_prior + bad.bad[b] + good.good[g];
                    sum += ln.exp();
                    rate += ln.exp() * bad.next_bad[b];
                }
            }
        }
        assert!((joint.ln - sum.ln()).abs() < 1e-9, "{} {}", joint.ln, sum.ln());
        assert!((joint.next(&bad, true) - rate / sum).abs() < 1e-9);
        assert!(joint.noise < 0.06 && (0.4..0.8).contains(&joint.rate), "{joint:?}");
    }

    #[test]
    fn thousands_of_runs_do_not_underflow() {
        let model = RateModel::new(None);
        let much = model.likelihood(tally(4000, 4000));
        let joint = model.joint(&much.bad, &model.zero_likelihoods().1);
        assert!(joint.ln.is_finite() && (joint.rate - 0.5).abs() < 0.02, "{joint:?}");
    }

    #[test]
    fn given_rate_is_trusted_until_runs_contradict_it() {
        let model = RateModel::new(Some(0.9));
        let supports = |good, bad| {
            let joint =
                model.joint(&model.likelihood(tally(good, bad)).bad, &model.zero_likelihoods().1);
            model.supports_rate(&joint, 0.9)
        };
        assert!(supports(0, 0) > 0.7 && supports(1, 9) > 0.7);
        // A single build may be an outlier, so it proves little about the other builds.
        assert!(supports(20, 5) < 0.2, "{}", supports(20, 5));
    }
}
