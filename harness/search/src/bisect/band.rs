//! A threshold that is random: over a stretch of the axis the same point fails in some runs and passes in others, so that no
//! single point is the last good one.

/// The stretch of a random threshold, by points in the order of the axis from the good end on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The last tested point before the stretch: it never failed.
    pub never: usize,
    /// The first point that failed.
    pub first: usize,
    /// The first tested point behind the stretch: from it on every run failed.
    pub always: usize,
}

/// The band in the runs of points, `(point, passes, failures)`. None where the step is sharp, and where the bad end passes now and then
/// itself: then the failure is a flaky one and not its threshold.
pub fn band(runs: impl IntoIterator<Item = (usize, u32, u32)>) -> Option<Band> {
    let mut runs: Vec<_> = runs.into_iter().filter(|(_, good, bad)| good + bad > 0).collect();
    runs.sort_unstable();
    let first = first_failing(&runs)?;
    let passed = runs.iter().filter(|(_, good, _)| *good > 0).map(|(point, ..)| *point).max()?;
    if passed < first {
        return None;
    }
    let points = || runs.iter().map(|(point, ..)| *point);
    let never = points().filter(|point| *point < first).max()?;
    let always = points().filter(|point| *point > passed).min()?;
    Some(Band { never, first, always })
}

/// Points without a failure behind a single one that make it a stray: the threshold would have shown in them as well.
const CLEAN: usize = 2;

/// The first point of the stretch that failed. A single failure with clean points behind it is told as what it is, an earlier
/// failure, and widens nothing.
fn first_failing(runs: &[(usize, u32, u32)]) -> Option<usize> {
    let mut failing = (0..runs.len()).filter(|at| runs[*at].2 > 0).peekable();
    while let Some(at) = failing.next() {
        let stray = |next: &usize| runs[at].2 == 1 && runs[at].1 > 0 && next - at > CLEAN;
        if !failing.peek().is_some_and(stray) {
            return Some(runs[at].0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_mixed_is_a_band() {
        let check = |runs: &[(usize, u32, u32)], expected: Option<(usize, usize, usize)>| {
            let got = band(runs.iter().copied()).map(|b| (b.never, b.first, b.always));
            assert_eq!(got, expected, "{runs:?}");
        };
        check(&[(0, 5, 0), (10, 3, 0), (11, 0, 4), (20, 0, 5)], None);
        check(&[(0, 5, 0), (10, 3, 1), (14, 1, 3), (20, 0, 5)], Some((0, 10, 20)));
        // Not one point is mixed, and yet the step is not sharp.
        check(&[(0, 5, 0), (9, 0, 1), (12, 2, 0), (20, 0, 5)], Some((0, 9, 20)));
        // One failure far from the others is a stray; with one clean point behind it, it may be the threshold.
        let far = [(0, 5, 0), (3, 4, 1), (5, 3, 0), (7, 3, 0), (10, 3, 1), (14, 1, 3), (20, 0, 5)];
        check(&far, Some((7, 10, 20)));
        check(&[(0, 5, 0), (3, 4, 1), (5, 3, 0), (10, 3, 1), (20, 0, 5)], Some((0, 3, 20)));
        check(&[(0, 5, 0), (3, 4, 1), (5, 3, 0), (7, 3, 0), (20, 0, 5)], None);
        // A failure that is flaky at the bad end as well.
        check(&[(0, 5, 0), (10, 3, 1), (20, 2, 3)], None);
        check(&[(0, 5, 0), (20, 0, 0)], None);
    }
}
