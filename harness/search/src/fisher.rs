//! Fisher's exact test: whether two failure rates differ.

/// Failures in a number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Number of runs that failed.
    pub failed: u32,
    /// Number of runs.
    pub runs: u32,
}

impl Count {
    /// Returns true if this failure rate is below the other one, at a p-value of at most `level`.
    pub fn is_rarer(self, other: Count, level: f64) -> bool {
        let product = |failed: u32, runs: u32| u64::from(failed) * u64::from(runs);
        product(self.failed, other.runs) < product(other.failed, self.runs)
            && fisher(self, other) <= level
    }
}

/// Returns the two-sided p-value of Fisher's exact test: the probability that equal failure rates lead to the observed
/// numbers of failures, or to less likely ones.
pub fn fisher(one: Count, other: Count) -> f64 {
    let (failed, runs) = (one.failed + other.failed, one.runs + other.runs);
    // Probability that `n` of all failures are in the runs of `one`: a hypergeometric distribution.
    let chance = |n: u32| {
        let rest = ln_choose(other.runs, failed - n);
        (ln_choose(one.runs, n) + rest - ln_choose(runs, failed)).exp()
    };
    let possible = failed.saturating_sub(other.runs)..=failed.min(one.runs);
    let own = chance(one.failed) * (1.0 + 1e-9);
    possible.map(chance).filter(|chance| *chance <= own).sum()
}

/// Returns the natural logarithm of the binomial coefficient: the number of ways to choose `n` of `all` items.
fn ln_choose(all: u32, n: u32) -> f64 {
    (1..=n).map(|k| (f64::from(all - n + k) / f64::from(k)).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first check is the tea experiment of Fisher, "The design of experiments" (1935): 1 of 70 ways of choosing 4
    /// of 8 cups is right, and 1 is wrong in each cup.
    #[test]
    fn p_value_is_the_share_of_equally_or_less_likely_results() {
        let check = |(a, b): (u32, u32), (c, d): (u32, u32), p: f64| {
            let found = fisher(Count { failed: a, runs: b }, Count { failed: c, runs: d });
            assert!((found - p).abs() < 1e-9, "{a}/{b} {c}/{d}: {found}");
        };
        check((4, 4), (0, 4), 2.0 / 70.0);
        check((3, 4), (1, 4), 34.0 / 70.0);
        check((0, 9), (5, 5), 1.0 / 2002.0);
        check((2, 4), (2, 4), 1.0);
    }

    #[test]
    fn rate_is_rarer_only_in_the_direction_of_fewer_failures() {
        let (few, many) = (Count { failed: 0, runs: 9 }, Count { failed: 5, runs: 5 });
        assert!(few.is_rarer(many, 0.001));
        assert!(!few.is_rarer(many, 0.0001));
        assert!(!many.is_rarer(few, 0.001));
    }
}
