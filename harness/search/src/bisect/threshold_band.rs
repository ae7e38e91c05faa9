//! Finds random thresholds. If the axis value at which a failure begins differs from run to run, there is a band of
//! values that fail in some runs and pass in others, and no single value is the last good one.

/// Band of axis values in which a random threshold lies. The tested values, called points, are numbered from the good
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Last tested point before the band. No run failed at this point.
    pub last_passing: usize,
    /// First point of the band at which a run failed.
    pub first_failing: usize,
    /// First tested point after the band. From this point on, every run failed.
    pub always_failing: usize,
}

/// Returns the band that the runs show. Each entry of `runs` is `(point, passes, failures)`.
///
/// Returns `None` if the threshold is sharp. Returns `None` too if the bad end passes sometimes, because then the
/// failure itself is intermittent and not its threshold.
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

/// If more than this many points without a failure follow a point with a single failure, that failure is an outlier. A
/// threshold would have caused failures at the following points too.
const MAX_POINTS_AFTER_OUTLIER: usize = 2;

/// Returns the first point of the band: the first point with a failed run. A point with a single failure is skipped if
/// more than [`MAX_POINTS_AFTER_OUTLIER`] points without a failure follow. Each entry of `runs` is `(point, passes,
/// failures)`.
fn first_failing_point(runs: &[(usize, u32, u32)]) -> Option<usize> {
    let mut failing = (0..runs.len()).filter(|at| runs[*at].2 > 0).peekable();
    while let Some(at) = failing.next() {
        let is_outlier = |next: &usize| {
            runs[at].2 == 1 && runs[at].1 > 0 && next - at > MAX_POINTS_AFTER_OUTLIER
        };
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
        // No single point both passes and fails, but the threshold is not sharp either.
        check(&[(0, 5, 0), (9, 0, 1), (12, 2, 0), (20, 0, 5)], Some((0, 9, 20)));
        // One failure far from the others is an outlier. If only one clean point follows it, it may belong to the band.
        let far = [(0, 5, 0), (3, 4, 1), (5, 3, 0), (7, 3, 0), (10, 3, 1), (14, 1, 3), (20, 0, 5)];
        check(&far, Some((7, 10, 20)));
        check(&[(0, 5, 0), (3, 4, 1), (5, 3, 0), (10, 3, 1), (20, 0, 5)], Some((0, 3, 20)));
        check(&[(0, 5, 0), (3, 4, 1), (5, 3, 0), (7, 3, 0), (20, 0, 5)], None);
        // The failure is intermittent at the bad end too.
        check(&[(0, 5, 0), (10, 3, 1), (20, 2, 3)], None);
        check(&[(0, 5, 0), (20, 0, 0)], None);
    }
}
