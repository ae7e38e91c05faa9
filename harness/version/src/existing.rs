//! Finds mistakes in version ranges: a start or an end that is not the version of any ROCm release.

use crate::{Version, VersionRange};

/// Series of minor releases of ROCm without gaps, each given by its major number, its first and its last minor number.
///
/// Sources: ROCm's [release history](https://rocm.docs.amd.com/en/latest/release/versions.html), and the tags of
/// [ROCm/ROCm](https://github.com/ROCm/ROCm/tags). 7.2 was followed by 7.9, the first release of TheRock. The series
/// that begins with 7.9 was followed by 10.0, but has no last minor number here, because it may continue.
const SERIES: &[(u32, u32, u32)] = &[
    (1, 0, 9),
    (2, 0, 10),
    (3, 0, 10),
    (4, 0, 5),
    (5, 0, 7),
    (6, 0, 4),
    (7, 0, 2),
    (7, 9, u32::MAX),
];

/// First major version that is not listed in [`SERIES`], because its releases are not complete yet. This version and
/// all later ones count as existing.
const OPEN_MAJOR: u32 = 10;

/// Smallest number that is HIP's build number and not a patch number of ROCm, for example in `6.4.43482`.
const BUILD_NUMBERS: u32 = 1000;

/// A start or end of a version range that is not the version of any ROCm release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonexistentVersion {
    /// Description of the mistake.
    pub message: String,
    /// Explanation that names the releases which may be meant.
    pub hint: String,
}

fn exists(major: u32, minor: u32) -> bool {
    let in_series =
        |(of, first, last): &(u32, u32, u32)| *of == major && (*first..=*last).contains(&minor);
    major >= OPEN_MAJOR || SERIES.iter().any(in_series)
}

/// Formats the last release before a version, and the first one after it.
fn around(major: u32, minor: u32) -> String {
    let before = SERIES.iter().rfind(|(of, _, last)| (*of, *last) < (major, minor));
    let after = SERIES.iter().find(|(of, first, _)| (*of, *first) > (major, minor));
    let after = after.map_or((OPEN_MAJOR, 0), |(of, first, _)| (*of, *first));
    let next = format!("the next one is {}.{}", after.0, after.1);
    match before {
        Some((_, _, u32::MAX)) => format!("the releases before it are 7.9 and later, {next}"),
        Some((of, _, last)) => format!("the release before it is {of}.{last}, {next}"),
        None => next,
    }
}

impl VersionRange {
    /// Returns the mistake if the start or the end of the range is not the version of a ROCm release; `None` if both
    /// exist or may exist. The exclusive end of a range may also be the version after an existing one, for example
    /// `<6.5` or `<8`.
    pub fn nonexistent(&self) -> Option<NonexistentVersion> {
        let begin = self.from.as_ref().and_then(|version| version.nonexistent(false));
        begin.or_else(|| self.until.as_ref().and_then(|version| version.nonexistent(true)))
    }
}

impl Version {
    fn nonexistent(&self, is_end: bool) -> Option<NonexistentVersion> {
        let (major, minor) = (self.major, self.minor.unwrap_or(0));
        if self.patch.is_some_and(|patch| patch >= BUILD_NUMBERS) {
            return Some(NonexistentVersion {
                message: format!("`{self}` is a version of HIP, not of ROCm"),
                hint: format!(
                    "its last number is a build number: write `{major}.{minor}`, or a release such as `{major}.{minor}.1`"
                ),
            });
        }
        let follows = is_end && (minor == 0 || exists(major, minor - 1));
        if exists(major, minor) || follows {
            return None;
        }
        Some(NonexistentVersion {
            message: format!("ROCm {self} does not exist"),
            hint: around(major, minor),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(range: &str) -> Option<(String, String)> {
        let range: VersionRange = range.parse().expect("a range");
        range.nonexistent().map(|found| (found.message, found.hint))
    }

    #[test]
    fn existing_and_following_versions_are_accepted() {
        for range in [
            "*",
            ">=5.7",
            "<6.0",
            ">=6.4.3 <6.4.4",
            ">=7.2 <7.3",
            "<6.5",
            "<8",
            "<8.0",
            ">=7.9",
            ">=7.15.0a20260901",
            ">=10.0",
            ">=11.3",
            ">=4.5.2 <5.0",
        ] {
            assert_eq!(found(range), None, "{range}");
        }
    }

    #[test]
    fn versions_without_a_release_are_named_with_their_neighbours() {
        let of = |range: &str| found(range).unwrap_or_else(|| panic!("{range} is accepted"));
        let six = ("ROCm 6.9 does not exist", "the release before it is 6.4, the next one is 7.0");
        assert_eq!(of(">=6.9"), (six.0.to_owned(), six.1.to_owned()));
        assert_eq!(of("<6.9"), (six.0.to_owned(), six.1.to_owned()));
        assert!(of(">=7.5").1.contains("is 7.2, the next one is 7.9"));
        assert!(of(">=8.1").1.contains("the next one is 10.0"));
        assert!(of(">=8").0.contains("ROCm 8 does not exist"));
        let hip = of(">=6.4.43482");
        assert_eq!(hip.0, "`6.4.43482` is a version of HIP, not of ROCm");
        assert!(hip.1.contains("write `6.4`"));
    }
}
