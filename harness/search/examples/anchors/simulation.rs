//! Simulates a history, and bisects it with three strategies.

use search::bisect::{Action, BisectSettings, BuildOutcome, Event, State, next_action};

/// Pseudo-random numbers (SplitMix64). The generator makes the same bisects in every run, on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Without this multiplication, consecutive seeds would give the same sequence, shifted by one number.
        let mut random = Random(seed.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Random(random.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64) < p * (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A simulated history with the builds 0 to `builds`. Builds from `first_bad` on are bad. Bad builds fail at the rate
/// `p`, and good builds at the rate `q`.
pub(crate) struct Model {
    pub(crate) builds: usize,
    pub(crate) first_bad: usize,
    pub(crate) p: f64,
    pub(crate) q: f64,
}

impl Model {
    fn fails(&self, build: usize, random: &mut Random) -> bool {
        random.chance(if build >= self.first_bad { self.p } else { self.q })
    }
}

/// Cost of a bisect, and the first bad build that it found.
pub(crate) struct Spent {
    pub(crate) runs: u32,
    pub(crate) builds: usize,
    pub(crate) answer: Option<usize>,
}

/// Bisects a simulated history with this crate's search.
pub(crate) fn ours(model: &Model, random: &mut Random) -> Spent {
    let mut setup = BisectSettings::new(model.builds);
    setup.patience = 1000;
    let mut state = State::new(setup);
    let answer = loop {
        let event = match next_action(&state) {
            Action::Install(build) => Event::Installed { build, seconds: 0.0 },
            Action::Run(build) => {
                let seen =
                    if model.fails(build, random) { BuildOutcome::Bad } else { BuildOutcome::Good };
                Event::Ran { build, seen, seconds: 0.0 }
            }
            Action::Finish(answer) => break answer,
        };
        state.observe(event);
    };
    let between = state.tallies().filter(|(build, _)| *build != 0 && *build != model.builds);
    let answer = answer.edge().map(|edge| edge.first_bad);
    Spent { runs: state.runs(), builds: between.count(), answer }
}

/// Bisects by halving the range, where `decide` returns true if the build in the middle is bad. Returns the first bad
/// build and the number of calls of `decide`.
fn halving(builds: usize, mut decide: impl FnMut(usize) -> bool) -> (usize, usize) {
    let (mut good, mut bad, mut asked) = (0, builds, 0);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        asked += 1;
        if decide(middle) { bad = middle } else { good = middle }
    }
    (bad, asked)
}

/// Returns the error probability allowed for each step of the halving, so that the whole bisect errs in 1 % of all
/// cases. The result is the sum of the probabilities of a false positive and a false negative.
fn allowed(builds: usize) -> f64 {
    2.0 * (1.0 - 0.99_f64.powf(1.0 / (builds as f64).log2()))
}

/// Returns the smallest number of runs of a build with which the error probability is at most `allowed`, and the number
/// of failures from which the build counts as bad. Bad builds fail at rate `p`, good ones at rate `q`.
fn repetitions(p: f64, q: f64, allowed: f64) -> (u32, u32) {
    for runs in 1.. {
        let (mut chance_good, mut chance_bad) = ((1.0 - q).powi(runs), (1.0 - p).powi(runs));
        let (mut fewer_good, mut fewer_bad) = (0.0, 0.0);
        for failures in 1..=runs {
            fewer_good += chance_good;
            fewer_bad += chance_bad;
            if (1.0 - fewer_good).max(0.0) + fewer_bad <= allowed {
                return (runs as u32, failures as u32);
            }
            let ways = f64::from(runs - failures + 1) / f64::from(failures);
            chance_good *= ways * q / (1.0 - q);
            // At p = 1, only the probability that all runs fail is not 0, so one failure decides.
            chance_bad *= if p < 1.0 { ways * p / (1.0 - p) } else { 0.0 };
        }
    }
    unreachable!("enough runs decide everything")
}

/// Bisects by halving. Runs the case on each build until the number of failures decides whether the build is good.
pub(crate) fn repeated(model: &Model, random: &mut Random) -> Spent {
    let (most, failures) = repetitions(model.p, model.q, allowed(model.builds));
    let mut runs = 0;
    let (answer, builds) = halving(model.builds, |build| {
        let (mut bad, mut good) = (0, 0);
        while bad < failures && good <= most - failures {
            runs += 1;
            if model.fails(build, random) { bad += 1 } else { good += 1 }
        }
        bad >= failures
    });
    Spent { runs, builds, answer: Some(answer) }
}

/// Bisects by halving, with Wald's sequential probability ratio test at each build.
pub(crate) fn sequential(model: &Model, random: &mut Random) -> Spent {
    let error = allowed(model.builds) / 2.0;
    let limit = ((1.0 - error) / error).ln();
    let (p, q) = (model.p.min(1.0 - 1e-9), model.q.max(1e-9));
    let mut runs = 0;
    let (answer, builds) = halving(model.builds, |build| {
        let mut odds = 0.0_f64;
        while odds.abs() < limit {
            runs += 1;
            odds += if model.fails(build, random) {
                (p / q).ln()
            } else {
                ((1.0 - p) / (1.0 - q)).ln()
            };
        }
        odds > 0.0
    });
    Spent { runs, builds, answer: Some(answer) }
}
