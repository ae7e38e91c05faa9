//! How many runs it takes to tell a failure that is rare from one that is gone.
//!
//! A run of a well-formed case on a healthy stack never fails, so one failure with the right signature decides that the failure
//! is still there: Wald's sequential probability ratio test (Annals of Mathematical Statistics 16, 1945) against a rate
//! of zero degenerates to "accept at the first failure, reject after enough passes in a row".

/// Passes in a row after which something that fails at `rate` would have shown with all but probability `error`; one at least.
pub fn passes_needed(rate: f64, error: f64) -> u32 {
    let miss = 1.0 - rate.clamp(0.0, 1.0);
    if miss <= error {
        return 1;
    }
    // A rate near zero needs more runs than anybody makes.
    let needed = error.ln() / miss.min(1.0 - 1e-9).ln();
    needed.ceil().min(1e6) as u32
}

/// By how much runs speak for `rate` and against `other`: the logarithm of how many times likelier they are. Wald's test decides
/// once it leaves the range from `ln(b)` to `ln(1 / a)`: of all that fail at `rate` a share of about `b` is missed, of those that fail at
/// `other` a share of about `a` is taken.
pub fn evidence(hits: u32, misses: u32, rate: f64, other: f64) -> f64 {
    let odds = |now: f64, then: f64| (now / then).ln();
    f64::from(hits) * odds(rate, other) + f64::from(misses) * odds(1.0 - rate, 1.0 - other)
}

/// The rate that is exceeded with all but probability `error`, given `hits` in `runs` independent runs (Clopper and
/// Pearson, Biometrika 26, 1934). Zero where nothing was hit.
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

/// Probability of `hits` or more hits in `runs` runs.
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
    fn passes() {
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
            let got = evidence(hits, misses, 0.5, 0.25).exp();
            assert!((got - expected).abs() < 1e-9, "{hits} and {misses}: {got}");
        };
        check(0, 0, 1.0);
        check(3, 0, 8.0);
        check(0, 1, 2.0 / 3.0);
        check(2, 1, 8.0 / 3.0);
    }

    /// Against the quantiles of the beta distribution that define the bound.
    #[test]
    fn bounds() {
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
