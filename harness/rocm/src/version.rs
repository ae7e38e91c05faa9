//! ROCm version numbers, as releases and nightlies spell them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A ROCm version: `7.2.4`, or a nightly such as `7.15.0a20260901`.
///
/// Ordered by number, a missing number counting as zero; a pre-release (`a`, `rc`, `.dev`) comes before its
/// release. Nightlies of different lines are better ordered by date, which is not this type's business.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    numbers: Vec<u32>,
    suffix: String,
}

impl Version {
    /// The version at the start of a longer string, such as a Debian package version (`7.2.4+dfsg-1`) or the
    /// tail of a library's file name. `None` where it does not start with a number.
    pub fn leading(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].trim_end_matches('.').parse().ok()
    }

    /// The first `count` numbers, without a suffix: `7.2` of `7.2.53211`.
    pub fn truncated(&self, count: usize) -> Self {
        Self { numbers: self.numbers.iter().copied().take(count).collect(), suffix: String::new() }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a version; expected numbers such as 7.2.4");
        let text_end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        // `7.2.0.dev0` and `7.2.0a1`: the number ends before the last dot or the first letter.
        let end = text_end.map_or(text.len(), |end| text[..end].trim_end_matches('.').len());
        let numbers = text[..end]
            .split('.')
            .map(|number| number.parse().map_err(|_| bad()))
            .collect::<Result<Vec<u32>, _>>()?;
        let suffix = text[end..].to_owned();
        let plain = suffix.chars().all(|c| c.is_ascii_alphanumeric() || ".+-~".contains(c));
        let opens_well = !suffix.starts_with('.') || suffix.len() > 1;
        if plain && opens_well { Ok(Self { numbers, suffix }) } else { Err(bad()) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, number) in self.numbers.iter().enumerate() {
            write!(f, "{}{number}", if i == 0 { "" } else { "." })?;
        }
        f.write_str(&self.suffix)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.numbers.len().max(other.numbers.len());
        let padded = |v: &Self| {
            let mut numbers = v.numbers.clone();
            numbers.resize(length, 0);
            numbers
        };
        padded(self)
            .cmp(&padded(other))
            .then_with(|| self.suffix.is_empty().cmp(&other.suffix.is_empty()))
            .then_with(|| self.suffix.cmp(&other.suffix))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// Equality follows the order: 7.2 and 7.2.0 are one version.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_round_trip() {
        for text in ["7.2.4", "5.7", "7.15.0a20260901", "7.2.0.dev0+ab12", "7.14.0rc20260101"] {
            assert_eq!(version(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "latest", "7..2", ".7", "7.2.", "7.2 4", "v7.2", "99999999999"] {
            assert!(text.parse::<Version>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn order_is_numeric_and_puts_pre_releases_first() {
        let sorted =
            ["5.2.3", "5.7.1", "7.2.4", "7.15.0a20260101", "7.15.0rc20260101", "7.15.0", "10.0"];
        for pair in sorted.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert_eq!(version("7.2"), version("7.2.0"));
    }

    #[test]
    fn a_package_version_starts_with_the_release() {
        let leading = |text| Version::leading(text).map(|v| v.to_string());
        assert_eq!(leading("7.2.4+dfsg-1~exp1").as_deref(), Some("7.2.4"));
        assert_eq!(leading("7.2.53211").as_deref(), Some("7.2.53211"));
        assert_eq!(leading("~exp"), None);
    }
}
