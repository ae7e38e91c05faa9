//! Parses, prints and compares ROCm versions and ranges of versions, in the forms that releases, packages and TheRock's
//! builds use.

mod existing;
mod parse;
mod range;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use existing::NonexistentVersion;
pub use parse::ParseVersionError;
pub use range::{ByVersion, VersionRange};

/// A ROCm version.
///
/// The forms are those of [TheRock's versioning
/// document](https://github.com/ROCm/TheRock/blob/main/docs/packaging/versioning.md):
///
/// | channel | Python package, tarball | RPM | Debian |
/// | --- | --- | --- | --- |
/// | release | `7.10.0` | `7.10.0` | `7.10.0` |
/// | candidate | `7.10.0rc0` | `7.10.0~rc0` | `7.10.0~pre0` |
/// | nightly | `7.10.0a20251124` | `7.10.0~20251124` | `7.10.0~20251124` |
/// | nightly with fixes | `10.1.0a20260811+bkc.20260813` | `10.1.0~20260811.bkc.20260813` | as RPM |
/// | development | `7.10.0.dev0+efed3c3` | `7.10.0~20251124gefed3c3` | `7.10.0~dev20251124` |
///
/// A revision may follow a dash, for example `6.4.3-128` in `.info/version` of AMD's releases.
///
/// Versions are ordered as in PEP 440, which TheRock's build_tools/tests/compute_rocm_package_version_test.py requires:
/// development, nightly, candidate, release, revisions of the release. All spellings have the same order, although RPM
/// and dpkg would sort a candidate before a nightly, or a development build after it. Nightlies of different lines
/// (7.15 was followed by 10.0) should be compared by date instead, which this type does not do. A missing number, as in
/// `7.2`, compares as zero. Development builds of different commits are ordered by the names of the commits, which is
/// not the order of their ages.
#[derive(Clone, Debug)]
pub struct Version {
    major: u32,
    minor: Option<u32>,
    patch: Option<u32>,
    stage: Stage,
    spelling: Spelling,
    revision: Option<u32>,
}

/// Stage of development to which a build belongs. The stages are ordered: the earliest comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Build of a commit, of a day (`yyyymmdd`), or of a commit on a given day.
    Development {
        day: Option<u32>,
        commit: Option<String>,
    },
    /// Nightly build of a day (`yyyymmdd`). If `fixes` is set, the build also contains fixes up to this later day.
    Nightly {
        day: u32,
        fixes: Option<u32>,
    },
    Candidate(u32),
    Release,
}

/// Form in which a version was written. It affects only how the version is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    Python,
    Rpm,
    Debian,
}

impl Version {
    /// Creates the version of a release.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Version::released(major, minor, Some(patch))
    }

    const fn released(major: u32, minor: u32, patch: Option<u32>) -> Self {
        Version {
            major,
            minor: Some(minor),
            patch,
            stage: Stage::Release,
            spelling: Spelling::Python,
            revision: None,
        }
    }

    /// Returns the release of a HIP runtime, without a patch number. `hip_version` is HIP_VERSION: major * 10^7 + minor
    /// * 10^5 + build number (hip_version.h). Returns `None` for values below 10^7.
    pub fn from_hip_version(hip_version: i32) -> Option<Self> {
        let version = u32::try_from(hip_version).ok().filter(|version| *version >= 10_000_000)?;
        Some(Version::released(version / 10_000_000, version / 100_000 % 100, None))
    }

    /// Returns the release that the file name of a HIP runtime contains, without a patch number. `tail` is the text
    /// after `libamdhip64.so.`, for example `7.2.53211`, whose third number is a build number. Returns `None` if `tail`
    /// is only the ABI version, for example `7`.
    pub fn from_runtime_file_name(tail: &str) -> Option<Self> {
        let Version { major, minor, .. } = Version::from_prefix(tail)?;
        Some(Version::released(major, minor?, None))
    }

    /// Returns the release with which a longer text begins, for example the package version `7.2.4+dfsg-1`. Returns
    /// `None` if the text does not begin with a number.
    pub fn from_prefix(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let numbers: Vec<&str> = text[..end].trim_end_matches('.').split('.').take(3).collect();
        numbers.join(".").parse().ok()
    }

    /// Returns true if the version has a major, a minor and a patch number.
    pub fn is_exact(&self) -> bool {
        self.patch.is_some()
    }

    fn key(&self) -> (u32, u32, u32, &Stage, u32) {
        let number = |part: Option<u32>| part.unwrap_or(0);
        // A missing revision equals revision 0 (Debian Policy 5.6.12).
        let revision = number(self.revision);
        (self.major, number(self.minor), number(self.patch), &self.stage, revision)
    }
}

// Equality agrees with the order: 7.2 and 7.2.0 are equal, and so are different spellings of the same version.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.major)?;
        for number in [self.minor, self.patch].into_iter().flatten() {
            write!(f, ".{number}")?;
        }
        match (&self.stage, self.spelling) {
            (Stage::Release, _) => {}
            (Stage::Candidate(number), Spelling::Python) => write!(f, "rc{number}")?,
            (Stage::Candidate(number), Spelling::Rpm) => write!(f, "~rc{number}")?,
            (Stage::Candidate(number), Spelling::Debian) => write!(f, "~pre{number}")?,
            (Stage::Nightly { day, fixes }, Spelling::Python) => {
                write!(f, "a{day}")?;
                fixes.map_or(Ok(()), |fixes| write!(f, "+bkc.{fixes}"))?;
            }
            (Stage::Nightly { day, fixes }, Spelling::Rpm | Spelling::Debian) => {
                write!(f, "~{day}")?;
                fixes.map_or(Ok(()), |fixes| write!(f, ".bkc.{fixes}"))?;
            }
            (Stage::Development { day, commit }, spelling) => {
                let lead = match spelling {
                    Spelling::Python => ".dev0",
                    Spelling::Rpm => "~",
                    Spelling::Debian => "~dev",
                };
                f.write_str(lead)?;
                day.map_or(Ok(()), |day| write!(f, "{day}"))?;
                let mark = if spelling == Spelling::Python { '+' } else { 'g' };
                commit.iter().try_for_each(|commit| write!(f, "{mark}{commit}"))?;
            }
        }
        self.revision.map_or(Ok(()), |revision| write!(f, "-{revision}"))
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
