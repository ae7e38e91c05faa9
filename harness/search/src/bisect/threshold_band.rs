//! Finds random thresholds: axis values between which the same value fails in some runs and passes in others, so that
//! no single value is the last good one.

/// Range of a random threshold. Points are numbered from the good end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Last tested point before the band; it never failed.
    pub last_passing: usize,
    /// First point that failed.
    pub first_failing: usize,
    /// First tested point after the band; every run failed from here on.
    pub always_failing: usize,
}

/// Returns the band in the runs `(point, passes, failures)`.
///
/// Returns `None` if the step is sharp. Returns `None` too if the bad end passes sometimes: then the failure itself
/// is flaky rather than its threshold.
pub fn find_band(runs: impl IntoIterator<Item = (usize, u32, u32)>) -> Option<Band> {
    let mut runs: Vec<_> = runs.into_iter().filter(|(_, good, bad)| good + bad > 0).collect();
    runs.sort_unstable();
    let first_failing = first_failing_point(&runs)?;
    let passed = runs.iter().filter(|(_, good, _)| *good > 0).map(|(point, ..)| *point).max()?;
    if passed < first_failing {
        return None;
    }
    let points = || runs.iter().map(|(point, ..)| *point);
    let last_passing = points().filter(|point| *point < first_failing).max()?;
    let always_failing = points().filter(|point| *point > passed).min()?;
    Some(Band { last_passing, first_failing, always_failing })
}

/// Number of points without a failure after a single failing point that make this point an outlier. A threshold would
/// have shown at those points too.
const CLEAN: usize = 2;

/// Returns the first failing point of the band. A single failure followed by points without failures is a separate
/// failure and does not widen the band.
fn first_failing_point(runs: &[(usize, u32, u32)]) -> Option<usize> {
    let mut failing = (0..runs.len()).filter(|at| runs[*at].2 > 0).peekable();
    while let Some(at) = failing.next() {
        let is_outlier = |next: &usize| runs[at].2 == 1 && runs[at].1 > 0 && next - at > CLEAN;
        if !failing.peek().is_some_and(is_outlier) {
            return Some(runs[at].0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharp_steps_outliers_and_flaky_failures_are_not_bands() {
        let check = |runs: &[(usize, u32, u32)], expected: Option<(usize, usize, usize)>| {
            let got = find_band(runs.iter().copied())
                .map(|b| (b.last_passing, b.first_failing, b.always_failing));
            assert_eq!(got, expected, "{runs:?}");
        };
        check(&[(0, 5, 0), (10, 3, 0), (11, 0, 4), (20, 0, 5)], None);
        check(&[(0, 5, 0), (10, 3, 1), (14, 1, 3), (20, 0, 5)], Some((0, 10, 20)));
        // No single point is mixed, but the step is not sharp either.
        check(&[(0, 5, 0), (9, 0, 1), (12, 2, 0), (20, 0, 5)], Some((0, 9, 20)));
        // One failure far from the others is an outlier; with only one clean point after it, it may be the threshold.
        let far = [(0, 5, 0), (3, 4, 1), (5, 3, 0), (7, 3, 0), (10, 3, 1), (14, 1, 3), (20, 0, 5)];
        check(&far, Some((7, 10, 20)));
        check(&[(0, 5, 0), (3, 4, 1), (5, 3, 0), (10, 3, 1), (20, 0, 5)], Some((0, 3, 20)));
        check(&[(0, 5, 0), (3, 4, 1), (5, 3, 0), (7, 3, 0), (20, 0, 5)], None);
        // The failure is flaky at the bad end too.
        check(&[(0, 5, 0), (10, 3, 1), (20, 2, 3)], None);
        check(&[(0, 5, 0), (20, 0, 0)], None);
    }
}
