/// How often something happens, as far as some independent runs tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Runs in which it happened.
    pub hits: u32,
    /// All runs; one at least.
    pub runs: u32,
}

impl Rate {
    /// The exact (Clopper-Pearson) two-sided confidence interval of the probability at 95 %: each side gets half of the 5 %.
    ///
    /// Source: Clopper and Pearson, Biometrika 26 (1934).
    pub fn interval(self) -> (f64, f64) {
        let Rate { hits, runs } = self;
        let miss = 0.025;
        let low = match hits {
            0 => 0.0,
            // So small a probability gives this many hits or more only rarely.
            _ => solve(|p| at_most(hits - 1, runs, p) > 1.0 - miss),
        };
        let high = match hits {
            _ if hits >= runs => 1.0,
            // So large a probability gives this few hits or fewer only rarely.
            _ => solve(|p| at_most(hits, runs, p) > miss),
        };
        (low, high)
    }
}

/// Probability of at most `hits` hits in `runs` independent runs, of a `p` between 0 and 1, neither of them included.
fn at_most(hits: u32, runs: u32, p: f64) -> f64 {
    // In logarithms: (1 - p)^n is no f64 above zero for many runs.
    let (yes, no) = (p.ln(), (-p).ln_1p());
    let mut ways = 0.0;
    let mut sum = 0.0;
    for k in 0..=hits.min(runs) {
        if k > 0 {
            ways += f64::from(runs - k + 1).ln() - f64::from(k).ln();
        }
        sum += (ways + f64::from(k) * yes + f64::from(runs - k) * no).exp();
    }
    sum
}

/// The probability up to which something falling holds.
fn solve(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the quantiles of the beta distribution that define the interval.
    #[test]
    fn intervals() {
        let check = |hits, runs, low: f64, high: f64| {
            let got = Rate { hits, runs }.interval();
            let near = |a: f64, b: f64| (a - b).abs() < 5e-5;
            assert!(near(got.0, low) && near(got.1, high), "{hits} of {runs}: {got:?}");
        };
        check(0, 30, 0.0, 0.1157);
        check(0, 300, 0.0, 0.0122);
        check(30, 30, 0.8843, 1.0);
        check(1, 1, 0.025, 1.0);
        check(5, 5, 0.4782, 1.0);
        check(5, 10, 0.1871, 0.8129);
        check(1, 5, 0.0051, 0.7164);
        check(1, 20, 0.0013, 0.2487);
        check(50, 100, 0.3983, 0.6017);
        check(3, 10_000, 0.0001, 0.0009);
        // What always happened may happen always, and what never did, never.
        assert_eq!(Rate { hits: 30, runs: 30 }.interval().1, 1.0);
        assert_eq!(Rate { hits: 0, runs: 30 }.interval().0, 0.0);
    }

    #[test]
    fn more_runs_say_more() {
        let width = |rate: Rate| rate.interval().1 - rate.interval().0;
        assert!(width(Rate { hits: 20, runs: 100 }) < width(Rate { hits: 2, runs: 10 }));
    }
}
