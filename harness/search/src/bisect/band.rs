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
    let runs: Vec<_> = runs.into_iter().filter(|(_, good, bad)| good + bad > 0).collect();
    let first = runs.iter().filter(|(_, _, bad)| *bad > 0).map(|(point, ..)| *point).min()?;
    let passed = runs.iter().filter(|(_, good, _)| *good > 0).map(|(point, ..)| *point).max()?;
    if passed < first {
        return None;
    }
    let points = || runs.iter().map(|(point, ..)| *point);
    let never = points().filter(|point| *point < first).max()?;
    let always = points().filter(|point| *point > passed).min()?;
    Some(Band { never, first, always })
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
        // A failure that is flaky at the bad end as well.
        check(&[(0, 5, 0), (10, 3, 1), (20, 2, 3)], None);
        check(&[(0, 5, 0), (20, 0, 0)], None);
    }
}
