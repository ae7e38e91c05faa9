//! Sequential tests: how many runs are needed to distinguish a rare failure from a failure that is gone.
//!
//! A run of a well-formed case on a healthy stack never fails, so one failure with the right signature proves that the
//! failure still exists. Wald's sequential probability ratio test (Annals of Mathematical Statistics 16, 1945) against
//! a rate of zero therefore becomes "accept at the first failure, reject after enough passes in a row".

/// Returns the number of passes in a row, 1 to 1,000,000, after which a failure with this `rate` would have occurred
/// with probability `1 - error`. Both arguments are 0 to 1.
pub fn passes_needed(rate: f64, error: f64) -> u32 {
    let miss = 1.0 - rate.clamp(0.0, 1.0);
    if miss <= error {
        return 1;
    }
    // Rates near zero would need more runs than a search can make, so the result is limited.
    let needed = error.ln() / miss.min(1.0 - 1e-9).ln();
    needed.ceil().min(1e6) as u32
}

/// Returns the logarithm of the likelihood ratio of failure rate `rate` against `other`, given `hits` failures and
/// `misses` passes.
///
/// Wald's test decides once the value leaves the range `ln(b)` to `ln(1 / a)`. Then a share of about `b` of all
/// subjects that fail at `rate` is rejected, and a share of about `a` of those that fail at `other` is accepted.
pub fn log_likelihood_ratio(hits: u32, misses: u32, rate: f64, other: f64) -> f64 {
    let odds = |now: f64, then: f64| (now / then).ln();
    f64::from(hits) * odds(rate, other) + f64::from(misses) * odds(1.0 - rate, 1.0 - other)
}

/// Returns the lower confidence bound of a failure rate, given `hits` failures in `runs` independent runs: the true
/// rate exceeds the bound with probability `1 - error` (Clopper and Pearson, Biometrika 26, 1934). Returns 0 if `hits`
/// is 0.
pub fn lower_bound(hits: u32, runs: u32, error: f64) -> f64 {
    if hits == 0 || runs == 0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if at_least(hits, runs, middle) > error { high = middle } else { low = middle }
    }
    low
}

/// Returns the probability of `hits` or more failures in `runs` runs if the failure rate is `rate`.
fn at_least(hits: u32, runs: u32, rate: f64) -> f64 {
    let mut ways = 0.0;
    let mut sum = 0.0;
    for k in 0..=runs {
        if k > 0 {
            ways += f64::from(runs - k + 1).ln() - f64::from(k).ln();
        }
        if k >= hits {
            let chance = ways + f64::from(k) * rate.ln() + f64::from(runs - k) * (-rate).ln_1p();
            sum += chance.exp();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_needed_grow_with_rarity_and_confidence() {
        #[track_caller]
        fn check(rate: f64, error: f64, expected: u32) {
            assert_eq!(passes_needed(rate, error), expected, "{rate} {error}");
        }
        check(1.0, 0.01, 1);
        check(0.995, 0.01, 1);
        check(0.5, 0.01, 7);
        check(0.2, 0.01, 21);
        check(0.2, 0.001, 31);
        check(0.0, 0.01, 1_000_000);
    }

    #[test]
    fn evidence_is_a_ratio_of_likelihoods() {
        let check = |hits, misses, expected: f64| {
            let got = log_likelihood_ratio(hits, misses, 0.5, 0.25).exp();
            assert!((got - expected).abs() < 1e-9, "{hits} and {misses}: {got}");
        };
        check(0, 0, 1.0);
        check(3, 0, 8.0);
        check(0, 1, 2.0 / 3.0);
        check(2, 1, 8.0 / 3.0);
    }

    /// The expected bounds are quantiles of the beta distribution, which define the bound.
    #[test]
    fn lower_bound_matches_beta_quantiles() {
        #[track_caller]
        fn check(hits: u32, runs: u32, expected: f64) {
            let got = lower_bound(hits, runs, 0.05);
            assert!((got - expected).abs() < 5e-4, "{hits} of {runs}: {got}");
        }
        check(0, 10, 0.0);
        check(1, 1, 0.05);
        check(10, 10, 0.7411);
        check(5, 10, 0.2224);
        check(8, 40, 0.1036);
    }
}
