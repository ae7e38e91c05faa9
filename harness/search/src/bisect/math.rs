//! Mathematical functions that the standard library lacks and the posterior needs.

/// Returns the natural logarithm of the gamma function of `x > 0`, by Stirling's series after shifting the argument
/// above 8. The error is below 1e-10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 8.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series =
        (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.918_938_533_204_672_7 + series - product.ln()
}

/// Returns the natural logarithm of the beta function.
pub(super) fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Returns `ln(sum(exp(log)))` over all logarithms without overflow; negative infinity for an empty sequence.
pub(super) fn log_sum(logs: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = logs.collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

/// Returns `ln(exp(a) + exp(b))` without overflow.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    if less == f64::NEG_INFINITY { more } else { more + (less - more).exp().ln_1p() }
}

/// Returns the entropy, in bits, of an event with probability `p`.
pub(super) fn entropy(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 { 0.0 } else { -(p * p.log2() + (1.0 - p) * (1.0 - p).log2()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_and_beta_match_known_values() {
        let mut factorial = 1.0_f64;
        for n in 1..20 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-9, "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-9);
        assert!((ln_beta(2.0, 3.0) - (1.0_f64 / 12.0).ln()).abs() < 1e-9);
        assert!((ln_beta(0.2, 20.0).exp() - 2.533_2).abs() < 2e-3);
    }

    #[test]
    fn log_sums_match_plain_sums() {
        let nothing = f64::NEG_INFINITY;
        for (a, b) in [(0.5_f64, 0.25_f64), (1e-9, 3.0), (0.0, 2.0), (2.0, 0.0)] {
            assert!((log_add(a.ln(), b.ln()) - (a + b).ln()).abs() < 1e-12);
            assert!((log_sum([a.ln(), b.ln()].into_iter()) - (a + b).ln()).abs() < 1e-12);
        }
        assert_eq!(log_add(nothing, nothing), nothing);
    }

    #[test]
    fn entropy_is_one_bit_for_a_fair_coin_and_zero_for_certainty() {
        assert_eq!(entropy(0.5), 1.0);
        assert_eq!(entropy(0.0) + entropy(1.0), 0.0);
    }
}
