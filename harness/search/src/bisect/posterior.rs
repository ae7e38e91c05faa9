use super::{Edge, State, math::ln_beta};

/// Prior probability that the good end fails too.
const GOOD_END_FAILS: f64 = 0.02;

/// Prior odds of a history with three changes against one.
const SEVERAL: f64 = 0.02;

/// Posterior probability at which three changes are reported instead of one.
const SEVERAL_SURE: f64 = 0.99;

/// Prior of a range of the answer when the budget ends.
const RANGE_MASS: f64 = 0.99;

/// A kind of failure, with the priors of its two rates.
struct Kind {
    prior: f64,
    /// Rate of bad builds; none is 1.
    rate: Option<(f64, f64)>,
    /// Rate of good builds; none is 0.
    noise: Option<(f64, f64)>,
}

/// Deterministic; flaky with a clean good side; flaky with a noisy good side. The rates are Beta-distributed.
const KINDS: [Kind; 3] = [
    Kind { prior: 0.35, rate: None, noise: None },
    Kind { prior: 0.35, rate: Some((0.8, 0.8)), noise: None },
    Kind { prior: 0.3, rate: Some((0.8, 0.8)), noise: Some((0.2, 20.0)) },
];

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
    /// That the good end is bad too; its `after` and `until` are 0.
    nowhere: Stretch,
    /// In the order of the history.
    stretches: Vec<Stretch>,
}

/// Good and bad runs.
#[derive(Clone, Copy, Default)]
struct Counts {
    good: f64,
    bad: f64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    fn sub(self, other: Counts) -> Counts {
        Counts { good: self.good - other.good, bad: self.bad - other.bad }
    }
}

impl std::ops::Add for Counts {
    type Output = Counts;
    fn add(self, other: Counts) -> Counts {
        Counts { good: self.good + other.good, bad: self.bad + other.bad }
    }
}

/// Logarithm of the probability of runs, and the rate expected after them.
fn side(counts: Counts, prior: Option<(f64, f64)>, certain: f64) -> (f64, f64) {
    let Counts { good, bad } = counts;
    match prior {
        Some((a, b)) => {
            let rate = (a + bad) / (a + b + good + bad);
            (ln_beta(a + bad, b + good) - ln_beta(a, b), rate)
        }
        None => {
            // A rate that is certain: 0, 1, or what the user says.
            let part = |n: f64, p: f64| if n == 0.0 { 0.0 } else { n * p.ln() };
            (part(bad, certain) + part(good, 1.0 - certain), certain)
        }
    }
}

/// Logarithm of the probability of both sides' runs, and both rates, averaged over the kinds of failure.
fn evidence(good_side: Counts, bad_side: Counts, known_rate: Option<f64>) -> (f64, f64, f64) {
    let each = KINDS.map(|kind| {
        let (rate, certain) = match known_rate {
            // A rate of 1 would make one pass of a bad build impossible, and nothing could explain it.
            Some(rate) => (None, rate.min(0.999)),
            None => (kind.rate, 1.0),
        };
        let (bad, rate) = side(bad_side, rate, certain);
        let (good, noise) = side(good_side, kind.noise, 0.0);
        (kind.prior.ln() + bad + good, rate, noise)
    });
    let most = each.iter().map(|(log, ..)| *log).fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return (most, 0.5, 0.5);
    }
    let (mut sum, mut rate, mut noise) = (0.0, 0.0, 0.0);
    for (log, p, q) in each {
        let weight = (log - most).exp();
        sum += weight;
        rate += weight * p;
        noise += weight * q;
    }
    (most + sum.ln(), rate / sum, noise / sum)
}

/// Tested builds with the sums of the runs up to each.
fn tested(state: &State) -> (Vec<usize>, Vec<Counts>) {
    let (mut builds, mut sums) = (Vec::new(), Vec::new());
    let mut sum = Counts::default();
    let bad = state.setup().bad();
    for (build, tally) in state.tallies() {
        let end = build == 0 || build == bad;
        if end || (tally.runs() > 0 && !tally.unusable()) {
            if builds.is_empty() && build != 0 {
                builds.push(0);
                sums.push(sum);
            }
            sum = sum + Counts { good: tally.good.into(), bad: tally.bad.into() };
            builds.push(build);
            sums.push(sum);
        }
    }
    if builds.is_empty() {
        builds.push(0);
        sums.push(sum);
    }
    if builds.last() != Some(&bad) {
        builds.push(bad);
        sums.push(sum);
    }
    (builds, sums)
}

impl Posterior {
    /// The posterior after the observations of a state.
    pub fn of(state: &State) -> Posterior {
        let setup = state.setup();
        let (builds, sums) = tested(state);
        let all = sums[sums.len() - 1];
        let stretch = |after, until, prior: f64, good_side: Counts| {
            let (log, rate, noise) = evidence(good_side, all - good_side, setup.rate);
            Stretch { after, until, mass: prior.ln() + log, rate, noise }
        };
        let mut nowhere = stretch(0, 0, GOOD_END_FAILS, Counts::default());
        let mut stretches: Vec<Stretch> = (1..builds.len())
            .map(|i| {
                let (after, until) = (builds[i - 1], builds[i]);
                let prior = (1.0 - GOOD_END_FAILS) * setup.prior(after, until);
                stretch(after, until, prior, sums[i - 1])
            })
            .collect();
        let most = stretches.iter().map(|s| s.mass).fold(nowhere.mass, f64::max);
        let mut total = 0.0;
        for stretch in stretches.iter_mut().chain([&mut nowhere]) {
            stretch.mass = (stretch.mass - most).exp();
            total += stretch.mass;
        }
        for stretch in stretches.iter_mut().chain([&mut nowhere]) {
            stretch.mass /= total;
        }
        Posterior { nowhere, stretches }
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
        let better = |a: usize, b: usize| {
            if self.stretches[b].mass > self.stretches[a].mass { b } else { a }
        };
        &self.stretches[(0..self.stretches.len()).fold(0, better)]
    }

    /// The hypothesis that the good end fails too.
    pub(super) fn nowhere(&self) -> &Stretch {
        &self.nowhere
    }

    /// The shortest range around the likeliest place that holds 99 % of the probability: last good, first bad, probability.
    pub fn range(&self) -> (usize, usize, f64) {
        let likeliest = self.likeliest();
        let mut low = self.stretches.iter().position(|s| s == likeliest).unwrap_or(0);
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
        (self.stretches[low].after, self.stretches[high].until, mass)
    }

    pub(super) fn edge(&self, state: &State, stretch: &Stretch) -> Edge {
        let (after, until) = (stretch.after, stretch.until);
        // The nearest tested neighbours are the edge; builds between them cannot be tested.
        debug_assert!(state.usable_between(after, until).is_none());
        Edge {
            last_good: after,
            first_bad: until,
            confidence: stretch.mass,
            rate: stretch.rate,
            noise: stretch.noise,
        }
    }

    /// The places where a history of three changes (broken, good again, broken again) breaks, where the observations are
    /// far likelier under one than under a single change.
    pub(super) fn several(&self, state: &State) -> Option<Vec<Edge>> {
        let setup = state.setup();
        let (builds, sums) = tested(state);
        let all = sums[sums.len() - 1];
        let gaps = builds.len() - 1;
        let prior = |gap: usize| setup.prior(builds[gap], builds[gap + 1]);
        let one = (0..gaps)
            .map(|gap| prior(gap).ln() + evidence(sums[gap], all - sums[gap], setup.rate).0);
        let one = log_sum(one);
        let mut best = (f64::NEG_INFINITY, [0; 3]);
        let mut three = Vec::new();
        for first in 0..gaps {
            for second in first + 1..gaps {
                for third in second + 1..gaps {
                    let bad_side = all - sums[third] + sums[second] - sums[first];
                    let (log, ..) = evidence(all - bad_side, bad_side, setup.rate);
                    // Six orders of three places are one history.
                    let log = log + (6.0 * prior(first) * prior(second) * prior(third)).ln();
                    three.push(log);
                    if log > best.0 {
                        best = (log, [first, second, third]);
                    }
                }
            }
        }
        let three = SEVERAL.ln() + log_sum(three.into_iter());
        let sure = 1.0 / (1.0 + (one - three).exp());
        (sure >= SEVERAL_SURE).then(|| {
            let [first, second, third] = best.1;
            let bad_side = all - sums[third] + sums[second] - sums[first];
            let (_, rate, noise) = evidence(all - bad_side, bad_side, setup.rate);
            let edge = |gap: usize| Edge {
                last_good: builds[gap],
                first_bad: builds[gap + 1],
                confidence: sure,
                rate,
                noise,
            };
            vec![edge(first), edge(third)]
        })
    }
}

fn log_sum(logs: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = logs.collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}
