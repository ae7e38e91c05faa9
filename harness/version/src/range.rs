use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ParseVersionError, Version};

/// A range of versions, written as comparisons that must all be true, for example `>=6.0 <7.0`. `*` contains all
/// versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    pub(crate) from: Option<Version>,
    pub(crate) until: Option<Version>,
}

impl VersionRange {
    /// The range `*`, which contains all versions.
    pub const ALL: VersionRange = VersionRange { from: None, until: None };

    /// Returns true if the range contains the version.
    pub fn contains(&self, version: &Version) -> bool {
        self.from.as_ref().is_none_or(|f| version >= f)
            && self.until.as_ref().is_none_or(|u| version < u)
    }

    /// Returns the versions between the end of this range and the beginning of the next one among `others`; `None` if
    /// the next range begins where this one ends, or if this range is the last one.
    pub fn gap_after<'r>(
        &self,
        others: impl Iterator<Item = &'r VersionRange> + Clone,
    ) -> Option<VersionRange> {
        let end = self.until.as_ref()?;
        if others.clone().any(|other| other.contains(end)) {
            return None;
        }
        let next =
            others.filter_map(|other| other.from.as_ref()).filter(|from| *from > end).min()?;
        Some(VersionRange { from: Some(end.clone()), until: Some(next.clone()) })
    }

    /// Returns true if the two ranges overlap, so that a version may be in both.
    pub fn overlaps(&self, other: &VersionRange) -> bool {
        let before = |a: &VersionRange, b: &VersionRange| match (&a.until, &b.from) {
            (Some(until), Some(from)) => until <= from,
            _ => false,
        };
        !before(self, other) && !before(other, self)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.until) {
            (None, None) => f.write_str("*"),
            (Some(from), None) => write!(f, ">={from}"),
            (None, Some(until)) => write!(f, "<{until}"),
            (Some(from), Some(until)) => write!(f, ">={from} <{until}"),
        }
    }
}

/// Explains how to write the range that ends with a version (inclusive), and the range that contains only this version.
fn exactly(version: &str) -> String {
    let next = version.rsplit_once('.').and_then(|(before, last)| {
        Some(format!("{before}.{}", last.parse::<u32>().ok()?.checked_add(1)?))
    });
    match next {
        Some(next) => {
            format!("`<{next}` includes {version}, and `>={version} <{next}` is only {version}")
        }
        None => "only `>=` and `<` are allowed".to_owned(),
    }
}

impl FromStr for VersionRange {
    type Err = ParseVersionError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let mut range = VersionRange::ALL;
        if s.trim() == "*" {
            return Ok(range);
        }
        for part in s.split_whitespace() {
            if let Some(version) = ["<=", "=="].iter().find_map(|sign| part.strip_prefix(sign)) {
                return Err(ParseVersionError(format!(
                    "`{part}` is not a range of versions; {}",
                    exactly(version)
                )));
            } else if let Some(version) = part.strip_prefix(">=") {
                range.from = Some(version.parse()?);
            } else if let Some(version) = part.strip_prefix('<') {
                range.until = Some(version.parse()?);
            } else {
                let one = part.parse::<Version>().map(|_| format!("; {}", exactly(part)));
                return Err(ParseVersionError(format!(
                    "`{s}` is not a range of versions; write `>=6.0`, `<7.0`, `>=6.0 <7.0` or `*`{}",
                    one.unwrap_or_default()
                )));
            }
        }
        match (&range.from, &range.until) {
            (None, None) => {
                Err(ParseVersionError("an empty range of versions; write `*` for all".into()))
            }
            (Some(from), Some(until)) if from >= until => {
                Err(ParseVersionError(format!("`{s}` contains no version")))
            }
            _ => Ok(range),
        }
    }
}

impl Serialize for VersionRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VersionRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A value that depends on the ROCm version, as a list of disjoint ranges, each with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByVersion<T>(pub Vec<(VersionRange, T)>);

impl<T> ByVersion<T> {
    /// Creates a value that is the same for all versions.
    pub fn always(value: T) -> Self {
        ByVersion(vec![(VersionRange::ALL, value)])
    }

    /// Returns the value for a version; `None` if no range contains it.
    pub fn at(&self, version: &Version) -> Option<&T> {
        self.0.iter().find(|(range, _)| range.contains(version)).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, inside: &[&str], outside: &[&str]) {
        let parsed: VersionRange = range.parse().unwrap();
        for v in inside {
            assert!(parsed.contains(&v.parse().unwrap()), "{v} in {range}");
        }
        for v in outside {
            assert!(!parsed.contains(&v.parse().unwrap()), "{v} not in {range}");
        }
    }

    #[test]
    fn ranges_contain_only_their_versions() {
        check("*", &["5.2.3", "99"], &[]);
        check(">=6.0", &["6.0.0", "6.4.3", "7.15.0a20260901"], &["5.7.1", "6.0.0a20250101"]);
        check("<7.0", &["6.4.3", "7.0.0a20250601"], &["7.0", "7.2.4"]);
        check(">=6.0 <7.0", &["6.4.3", "6.4.3-128", "7.0.0rc1"], &["5.7.1", "7.0.0-17", "7.2.4"]);
    }

    #[test]
    fn rejects_malformed_ranges() {
        for text in ["", "7", ">6.0", ">=7 <6", ">=7.0 <7.0", ">=x", "<7.2.4.1", "=7.0"] {
            assert!(text.parse::<VersionRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn gap_is_between_neighbours() {
        let gap = |texts: &[&str]| {
            let ranges: Vec<VersionRange> =
                texts.iter().map(|text| text.parse().unwrap()).collect();
            let found = ranges.iter().find_map(|range| range.gap_after(ranges.iter()));
            found.map(|gap| gap.to_string())
        };
        assert_eq!(gap(&["<6.0", ">=7.9"]).as_deref(), Some(">=6.0 <7.9"));
        assert_eq!(gap(&[">=7.9", ">=6.0 <7.0", "<6.0"]).as_deref(), Some(">=7.0 <7.9"));
        assert_eq!(gap(&["<6.0", ">=6.0 <7.9", ">=7.9"]), None);
        assert_eq!(gap(&["<6.0"]), None);
        assert_eq!(gap(&[">=6.0", "<6.0"]), None);
        assert_eq!(gap(&["*"]), None);
    }

    #[test]
    fn overlap_is_symmetric() {
        let range = |s: &str| s.parse::<VersionRange>().unwrap();
        assert!(!range("<7.0").overlaps(&range(">=7.0")));
        assert!(range("<7.1").overlaps(&range(">=7.0")));
        assert!(range("*").overlaps(&range("<1.0")));
    }
}
