//! Builds of ROCm with the places that offer them, and queries for builds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use version::Version;

use super::names;
use crate::{Components, Date};

/// Minimum number of characters of an abbreviated commit hash.
const MIN_ID_LENGTH: usize = 7;

/// A build of ROCm that a source publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Name of the build in a list of builds, for example a version such as `7.15.0a20260702`, a commit,
    /// `debian:6.4.3`, or the name of a folder.
    pub id: String,
    /// Version as the publisher writes it, for example `7.15.0a20260702` or `7.10.0.dev0+<commit>`.
    pub version: String,
    /// Day on which the build was made, from its name; if the name contains no day, from its listing. `None` if
    /// unknown.
    pub date: Option<Date>,
    /// Name of the family of architectures as the publisher writes it; empty if the build supports all architectures.
    pub family: String,
    /// CI run that made the build; `None` if no listing contains it.
    #[serde(default)]
    pub run: Option<String>,
    /// Locations of the build, the preferred one first. If a location does not have the build, the next one is tried.
    pub places: Vec<BuildLocation>,
    /// Commits of the components; `None` if no listing contains them, so that they can be read only from the build
    /// itself.
    pub components: Option<Components>,
}

/// A location that offers a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildLocation {
    /// Archives that together contain a whole installation of ROCm.
    Archives {
        /// Name of the source.
        source: String,
        /// The archives, at least one.
        archives: Vec<Archive>,
    },
    /// A folder that contains an installation of ROCm, such as `/opt/rocm`.
    Directory(PathBuf),
    /// A release that Debian packages, for example `debian:6.4.3`.
    Debian(String),
}

/// A file to download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// File name. Its extension determines the format.
    pub name: String,
    /// Address of the file.
    pub url: String,
    /// Size in bytes; `None` if the listing does not contain it.
    pub size: Option<u64>,
    /// SHA-256 in hexadecimal; `None` if it is not published in the listing.
    pub sha256: Option<String>,
    /// Address of a file that contains the SHA-256; `None` if no such file is published.
    #[serde(default)]
    pub sha256_url: Option<String>,
}

/// A query for builds.
#[derive(Clone, Debug)]
pub struct BuildQuery {
    /// Architecture, for example `gfx1151`.
    pub gfx: String,
    /// First day on which a build may have been made; `None` means no limit.
    pub from: Option<Date>,
    /// Last day on which a build may have been made; `None` means no limit.
    pub to: Option<Date>,
    /// Marks in the versions of builds that come from branches other than main, for example `+bkc` or `.dev0`. Builds
    /// with one of these marks are included.
    pub beside_main: Vec<&'static str>,
}

impl Build {
    /// Returns true if the build was made for one push. Its id is then the commit.
    pub fn is_push(&self) -> bool {
        let hexadecimal = |c: char| c.is_ascii_hexdigit();
        self.run.is_some() && self.id.len() == 40 && self.id.chars().all(hexadecimal)
    }

    /// Returns true if the build is from a release branch. The version of such a build contains neither a day nor a
    /// commit.
    pub fn is_release(&self) -> bool {
        let version = self.version.parse::<Version>();
        version.is_ok() && names::day(&self.version).is_none() && !self.version.contains(".dev")
    }

    /// Returns true if `text` is a name of this build: its id, its version, the part of its id after the colon (`6.4.3`
    /// for `debian:6.4.3`), or its abbreviated commit.
    pub fn is_called(&self, text: &str) -> bool {
        let behind = || self.id.split_once(':').is_some_and(|(_, name)| name == text);
        let begins = || text.len() >= MIN_ID_LENGTH && self.is_push() && self.id.starts_with(text);
        self.id == text || self.version == text || behind() || begins()
    }

    /// Returns the number of bytes to download for the build; `None` if the listing does not contain all sizes.
    pub fn size(&self) -> Option<u64> {
        self.places.iter().find_map(|place| match place {
            BuildLocation::Archives { archives, .. } => {
                archives.iter().map(|archive| archive.size).sum()
            }
            _ => None,
        })
    }

    /// Returns a build of which only id and version are known.
    pub(crate) fn named(id: String, version: String) -> Self {
        Self {
            id,
            version,
            date: None,
            family: String::new(),
            run: None,
            places: Vec::new(),
            components: None,
        }
    }
}

impl BuildQuery {
    /// Returns a query for the builds between two builds, which are given by name. If both names contain days, the
    /// query is limited to these days, so that fewer pages of the listings have to be read.
    pub fn between(gfx: &str, one: &str, other: &str) -> Self {
        let day = |text: &str| {
            let text = of_day(text).map_or(text, |(_, day)| day);
            text.parse().ok().or_else(|| names::day(text))
        };
        let days = day(one).zip(day(other));
        Self {
            gfx: gfx.to_owned(),
            from: days.map(|(a, b): (Date, Date)| a.min(b)),
            to: days.map(|(a, b)| a.max(b)),
            beside_main: [one, other].into_iter().filter_map(names::beside_main).collect(),
        }
    }
}

/// Splits the name of a push that contains a day, for example `361a3e7@2026-07-04`, into its commit and its day.
pub(crate) fn of_day(text: &str) -> Option<(&str, &str)> {
    text.split_once('@').filter(|(commit, _)| commit.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_a_build_by_each_of_its_names() {
        let commit = "361a3e79d630361a3e79d630361a3e79d630361a";
        let push = Build { run: Some("1".into()), ..Build::named(commit.into(), "7.15.0".into()) };
        let check = |build: &Build, text: &str, expected: bool| {
            assert_eq!(build.is_called(text), expected, "{text:?}");
        };
        check(&push, commit, true);
        check(&push, "7.15.0", true);
        check(&push, "361a3e7", true);
        // The first name is too short. The second one is the name of another commit.
        check(&push, "361a3e", false);
        check(&push, "361a3e8", false);
        check(&push, "", false);
        let release = Build::named("debian:6.4.3".into(), "6.4".into());
        check(&release, "debian:6.4.3", true);
        check(&release, "6.4.3", true);
        check(&release, "6.4", true);
        check(&release, "debian", false);
        check(&release, "debian:", false);
    }

    #[test]
    fn recognises_a_push_by_its_run_and_commit() {
        let commit = "361a3e79d630361a3e79d630361a3e79d630361a";
        let check = |id: &str, run: Option<&str>, expected: bool| {
            let build = Build { run: run.map(str::to_owned), ..Build::named(id.into(), id.into()) };
            assert_eq!(build.is_push(), expected, "{id} {run:?}");
        };
        check(commit, Some("1"), true);
        check(commit, None, false);
        check(&commit[1..], Some("1"), false);
        check(&commit.replace('d', "x"), Some("1"), false);
    }

    #[test]
    fn splits_a_push_from_its_day() {
        assert_eq!(of_day("361a3e7@2026-07-04"), Some(("361a3e7", "2026-07-04")));
        assert_eq!(of_day("me@2026-07-04"), None);
        assert_eq!(of_day("361a3e7"), None);
        let days = BuildQuery::between("gfx1151", "361a3e7@2026-07-04", "7.15.0a20260702");
        let day = |text: &str| text.parse::<Date>().ok();
        assert_eq!((days.from, days.to), (day("2026-07-02"), day("2026-07-04")));
        assert!(days.beside_main.is_empty());
        let beside =
            BuildQuery::between("gfx1151", "7.10.0.dev0+361a3e7", "10.1.0a20260811+bkc.20260813");
        assert_eq!(beside.beside_main, [".dev0", "+bkc"]);
    }

    #[test]
    fn adds_the_sizes_of_the_archives_of_the_first_location() {
        let archive = |size| Archive {
            name: "x".into(),
            url: "x".into(),
            size,
            sha256: None,
            sha256_url: None,
        };
        let of = |sizes: &[Option<u64>]| {
            let archives = sizes.iter().map(|size| archive(*size)).collect();
            let place = BuildLocation::Archives { source: "x".into(), archives };
            let places = vec![BuildLocation::Directory("/x".into()), place];
            Build { places, ..Build::named("x".into(), "x".into()) }.size()
        };
        assert_eq!(of(&[Some(3), Some(4)]), Some(7));
        assert_eq!(of(&[Some(3), None]), None);
    }
}
