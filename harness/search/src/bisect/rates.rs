//! How often builds may fail: the hypotheses about rates, and what observations say of them.
//!
//! A side of the history, good or bad, has one rate for most of its builds. A share of them, the strays, has a rate of its own
//! each: bad builds that rarely fail, good builds that do. Rates are a grid and not a formula, because a build is a mixture of
//! both and such a mixture has no closed form.

use super::{Tally, math::ln_beta};

/// Prior probability that bad builds always fail.
const ALWAYS: f64 = 0.35;

/// Beta prior of the rate of bad builds that do not, which the grid follows.
const SOMETIMES: (f64, f64) = (0.8, 0.8);

/// Rates of good builds with their prior probabilities: most never fail.
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

/// A rate that somebody told has this prior probability; the rest is as without it.
const TOLD: f64 = 0.8;

/// Where bad builds differ among each other: how likely that is, which share of them does, and the Beta prior of their rates.
const STRAY_BAD: Strays = Strays { prior: 0.045, share: 0.4, rate: (0.8, 1.2) };

/// Good builds that fail in the same way, each at a rate of its own.
const STRAY_GOOD: Strays = Strays { prior: 0.04, share: 0.05, rate: (1.0, 1.5) };

/// In place of the logarithm of zero: what is summed up can then be taken away again.
const IMPOSSIBLE: f64 = -1e5;

struct Strays {
    prior: f64,
    share: f64,
    rate: (f64, f64),
}

/// One hypothesis about the rates of a side.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    ln_prior: f64,
    /// Of most builds.
    rate: f64,
    /// The share of builds that have a rate of their own.
    strays: f64,
}

/// What is possible on either side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kinds {
    /// By rate.
    bad: Vec<Kind>,
    /// By rate.
    good: Vec<Kind>,
    /// For each kind of the bad side, how many of the good side's have at most half its rate. The others are no regression.
    below: Vec<usize>,
}

/// A number for each kind of one side.
pub(super) type PerKind = Vec<f64>;

/// What a build's runs say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Likelihood {
    /// Logarithm of their probability for each kind of the bad side and of the good one.
    pub(super) bad: PerKind,
    pub(super) good: PerKind,
    /// Probability that the next run of it fails.
    next_bad: PerKind,
    next_good: PerKind,
}

/// Both sides together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joint {
    /// Logarithm of the probability of all runs.
    pub(super) ln: f64,
    /// Posterior probability of each kind.
    bad: PerKind,
    good: PerKind,
    /// Rates that a build without runs is expected to have.
    pub(super) rate: f64,
    pub(super) noise: f64,
}

impl Kinds {
    /// `told` is the rate of bad builds, where somebody knows it.
    pub(super) fn new(told: Option<f64>) -> Kinds {
        let (a, b) = SOMETIMES;
        let grid: Vec<(f64, f64)> = (0..27)
            .map(|n| {
                let logit = f64::from(n - 13) * 0.4;
                let rate = 1.0 / (1.0 + (-logit).exp());
                (rate, rate.powf(a) * (1.0 - rate).powf(b))
            })
            .collect();
        let whole: f64 = grid.iter().map(|(_, weight)| weight).sum();
        let mut rates: Vec<(f64, f64)> =
            grid.iter().map(|(rate, weight)| (*rate, (1.0 - ALWAYS) * weight / whole)).collect();
        rates.push((1.0, ALWAYS));
        if let Some(told) = told {
            rates.iter_mut().for_each(|(_, prior)| *prior *= 1.0 - TOLD);
            rates.push((told, TOLD));
            rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let bad = kinds(&rates, &STRAY_BAD);
        let good = kinds(&NOISE, &STRAY_GOOD);
        let lower = |of: &Kind| good.iter().filter(|kind| 2.0 * kind.rate <= of.rate).count();
        let below = bad.iter().map(lower).collect();
        Kinds { bad, good, below }
    }

    /// What the runs of a build say.
    pub(super) fn likelihood(&self, tally: Tally) -> Likelihood {
        let side = |kinds: &[Kind], strays: &Strays| {
            let (n, k) = (f64::from(tally.good), f64::from(tally.bad));
            let (a, b) = strays.rate;
            let own = (ln_beta(a + k, b + n) - ln_beta(a, b)).exp();
            let own_next = (a + k) / (a + b + n + k);
            let of = |kind: &Kind| {
                let common =
                    (1.0 - kind.strays) * (power(kind.rate, k) * power(1.0 - kind.rate, n));
                let stray = kind.strays * own;
                let all = common + stray;
                if all > 0.0 {
                    (all.ln().max(IMPOSSIBLE), (common * kind.rate + stray * own_next) / all)
                } else {
                    // Too many runs for a product, or an impossible observation.
                    let ln = times_ln(k, kind.rate) + times_ln(n, 1.0 - kind.rate);
                    (ln.max(IMPOSSIBLE), kind.rate)
                }
            };
            kinds.iter().map(of).unzip()
        };
        let (bad, next_bad) = side(&self.bad, &STRAY_BAD);
        let (good, next_good) = side(&self.good, &STRAY_GOOD);
        Likelihood { bad, good, next_bad, next_good }
    }

    /// Kinds of the bad and the good side that go together, each with the logarithm of its prior probability.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        self.below.iter().enumerate().flat_map(move |(bad, below)| {
            let ln_prior = move |good: usize| self.bad[bad].ln_prior + self.good[good].ln_prior;
            (0..*below).map(move |good| (bad, good, ln_prior(good)))
        })
    }

    /// Sums of nothing.
    pub(super) fn nothing(&self) -> (PerKind, PerKind) {
        (vec![0.0; self.bad.len()], vec![0.0; self.good.len()])
    }

    /// Weighs the kinds of both sides by the sums of their logarithms.
    pub(super) fn joint(&self, bad: &[f64], good: &[f64]) -> Joint {
        let weighed = |kinds: &[Kind], sums: &[f64]| {
            let logs: Vec<f64> =
                kinds.iter().zip(sums).map(|(kind, ln)| kind.ln_prior + ln).collect();
            let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).max(f64::MIN);
            (logs.iter().map(|ln| (ln - most).exp()).collect::<PerKind>(), most)
        };
        let (mut bad, most_bad) = weighed(&self.bad, bad);
        let (mut good, most_good) = weighed(&self.good, good);
        // Sums over the kinds of the other side that go together with each.
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
        joint.rate = fresh(&joint.bad, &self.bad, &STRAY_BAD);
        joint.noise = fresh(&joint.good, &self.good, &STRAY_GOOD);
        joint
    }

    /// Probability that builds of one side differ among each other.
    pub(super) fn differing(&self, joint: &Joint) -> f64 {
        let strays = |kinds: &[Kind], weights: &[f64]| -> f64 {
            kinds.iter().zip(weights).filter(|(kind, _)| kind.strays > 0.0).map(|(_, w)| w).sum()
        };
        strays(&self.bad, &joint.bad).max(strays(&self.good, &joint.good))
    }

    /// Probability that all bad builds fail at about the rate that was told.
    pub(super) fn agrees(&self, joint: &Joint, told: f64) -> f64 {
        let near = |kind: &Kind| {
            kind.strays == 0.0 && (kind.rate - told).abs() <= 0.25 * told.min(1.0 - told).max(0.05)
        };
        let weights = self.bad.iter().zip(&joint.bad);
        weights.filter(|(kind, _)| near(kind)).map(|(_, weight)| weight).sum()
    }
}

impl Joint {
    /// Probability that the next run of a build fails.
    pub(super) fn next(&self, of: &Likelihood, is_bad: bool) -> f64 {
        let (weights, next) = match is_bad {
            true => (&self.bad, &of.next_bad),
            false => (&self.good, &of.next_good),
        };
        weights.iter().zip(next).map(|(weight, rate)| weight * rate).sum()
    }
}

fn kinds(rates: &[(f64, f64)], strays: &Strays) -> Vec<Kind> {
    let both = |(rate, prior): &(f64, f64)| {
        [(0.0, 1.0 - strays.prior), (strays.share, strays.prior)].map(|(share, part)| Kind {
            ln_prior: (prior * part).ln(),
            rate: *rate,
            strays: share,
        })
    };
    rates.iter().flat_map(both).collect()
}

fn fresh(weights: &[f64], kinds: &[Kind], strays: &Strays) -> f64 {
    let own = strays.rate.0 / (strays.rate.0 + strays.rate.1);
    let rate = |kind: &Kind| (1.0 - kind.strays) * kind.rate + kind.strays * own;
    weights.iter().zip(kinds).map(|(weight, kind)| weight * rate(kind)).sum()
}

/// `base` to the power of a count; 1 for a count of 0, whatever the base.
fn power(base: f64, count: f64) -> f64 {
    if count == 0.0 { 1.0 } else { base.powf(count) }
}

/// Logarithm of [`power`].
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
        for told in [None, Some(0.3), Some(1.0)] {
            let kinds = Kinds::new(told);
            for side in [&kinds.bad, &kinds.good] {
                let sum: f64 = side.iter().map(|kind| kind.ln_prior.exp()).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
                assert!(side.is_sorted_by(|a, b| a.rate <= b.rate));
            }
        }
    }

    /// Against a sum over every pair of kinds.
    #[test]
    fn both_sides_are_weighed_together() {
        let kinds = Kinds::new(None);
        let (bad, good) = (kinds.likelihood(tally(3, 5)), kinds.likelihood(tally(40, 1)));
        let joint = kinds.joint(&bad.bad, &good.good);
        let (mut sum, mut rate) = (0.0, 0.0);
        for (b, kind) in kinds.bad.iter().enumerate() {
            for (g, noise) in kinds.good.iter().enumerate() {
                if 2.0 * noise.rate <= kind.rate {
                    let ln = kind.ln_prior + noise.ln_prior + bad.bad[b] + good.good[g];
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
    fn many_runs_do_not_vanish() {
        let kinds = Kinds::new(None);
        let much = kinds.likelihood(tally(4000, 4000));
        let joint = kinds.joint(&much.bad, &kinds.nothing().1);
        assert!(joint.ln.is_finite() && (joint.rate - 0.5).abs() < 0.02, "{joint:?}");
    }

    #[test]
    fn a_told_rate_is_believed_until_the_runs_speak_against_it() {
        let kinds = Kinds::new(Some(0.9));
        let agrees = |good, bad| {
            let joint = kinds.joint(&kinds.likelihood(tally(good, bad)).bad, &kinds.nothing().1);
            kinds.agrees(&joint, 0.9)
        };
        assert!(agrees(0, 0) > 0.7 && agrees(1, 9) > 0.7);
        // One build alone may be a stray, which says little of the others.
        assert!(agrees(20, 5) < 0.2, "{}", agrees(20, 5));
    }
}
