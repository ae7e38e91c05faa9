/// Frequency of an event in independent runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Number of runs in which the event happened.
    pub hits: u32,
    /// Number of all runs, at least 1.
    pub runs: u32,
}

impl Rate {
    /// Returns the two-sided 95 % confidence interval for the probability of the event, by the exact method of Clopper
    /// and Pearson. The chance that the probability lies below the interval is at most 2.5 %, and so is the chance that
    /// it lies above.
    ///
    /// Source: Clopper and Pearson, Biometrika 26 (1934).
    pub fn interval(self) -> (f64, f64) {
        let Rate { hits, runs } = self;
        let miss = 0.025;
        let low = match hits {
            0 => 0.0,
            // At a probability below the solution, the chance of `hits` or more hits is less than 2.5 %.
            _ => solve(|p| at_most(hits - 1, runs, p) > 1.0 - miss),
        };
        let high = match hits {
            _ if hits >= runs => 1.0,
            // At a probability above the solution, the chance of `hits` or fewer hits is less than 2.5 %.
            _ => solve(|p| at_most(hits, runs, p) > miss),
        };
        (low, high)
    }
}

/// Returns the probability of at most `hits` hits in `runs` independent runs. `p` is the probability of a hit in one
/// run, above 0 and below 1.
fn at_most(hits: u32, runs: u32, p: f64) -> f64 {
    // Computed with logarithms, because (1 - p)^n underflows to zero for many runs.
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

/// Returns the probability at which `holds` changes from true to false, by bisection. `holds` must be true below that
/// probability and false above it.
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

    /// The expected bounds are quantiles of the beta distribution, by which the interval is defined.
    #[test]
    fn intervals_match_beta_quantiles() {
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
        // If every run is a hit, the interval ends at 1. If no run is a hit, it begins at 0.
        assert_eq!(Rate { hits: 30, runs: 30 }.interval().1, 1.0);
        assert_eq!(Rate { hits: 0, runs: 30 }.interval().0, 0.0);
    }

    #[test]
    fn more_runs_narrow_the_interval() {
        let width = |rate: Rate| rate.interval().1 - rate.interval().0;
        assert!(width(Rate { hits: 20, runs: 100 }) < width(Rate { hits: 2, runs: 10 }));
    }
}
