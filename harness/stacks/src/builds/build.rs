//! One build, and queries for builds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::names;
use crate::{Components, Date};

/// Shortest beginning that names a commit, in characters.
const SHORTEST: usize = 7;

/// One build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Names it in a history: a version such as `7.15.0a20260702`, a commit, `debian:6.4.3`, a folder's name.
    pub id: String,
    /// Version in the publisher's spelling: `7.15.0a20260702`, `7.10.0.dev0+<commit>`.
    pub version: String,
    /// Day of the build, according to its name or else to its listing.
    pub date: Option<Date>,
    /// Family of architectures in the publisher's spelling; empty if the build is for all.
    pub family: String,
    /// CI run that made the build, if a listing names it.
    #[serde(default)]
    pub run: Option<String>,
    /// Locations, the preferred one first. The next is tried if a location does not have the build.
    pub places: Vec<BuildLocation>,
    /// Commits, if they are known without fetching the build.
    pub components: Option<Components>,
}

/// One place that offers a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildLocation {
    /// Archives that together make a prefix.
    Archives {
        /// The source's name.
        source: String,
        /// At least one.
        archives: Vec<Archive>,
    },
    /// A folder that already is a prefix.
    Directory(PathBuf),
    /// A release that Debian packages, as `debian:6.4.3`.
    Debian(String),
}

/// A file to download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// File name. Its ending determines the format.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// In bytes, if the listing says.
    pub size: Option<u64>,
    /// In hexadecimal, if it is published.
    pub sha256: Option<String>,
    /// Where it is published, if in a file of its own.
    #[serde(default)]
    pub sha256_url: Option<String>,
}

/// Query for builds.
#[derive(Clone, Debug)]
pub struct BuildQuery {
    /// The architecture, as `gfx1151`.
    pub gfx: String,
    /// No build before this day.
    pub from: Option<Date>,
    /// No build after this day.
    pub to: Option<Date>,
    /// Which builds beside the main branch are wanted as well: `+bkc`, `.dev0`.
    pub beside_main: Vec<&'static str>,
}

impl Build {
    /// Returns true if the build was made from one push and is named by its commit.
    pub fn is_push(&self) -> bool {
        let hexadecimal = |c: char| c.is_ascii_hexdigit();
        self.run.is_some() && self.id.len() == 40 && self.id.chars().all(hexadecimal)
    }

    /// Returns true if a text names this build: its id, its version, the part after the source's name (`6.4.3` of
    /// `debian:6.4.3`), or the beginning of its commit.
    pub fn is_called(&self, text: &str) -> bool {
        let behind = || self.id.split_once(':').is_some_and(|(_, name)| name == text);
        let begins = || text.len() >= SHORTEST && self.is_push() && self.id.starts_with(text);
        self.id == text || self.version == text || behind() || begins()
    }

    /// Returns the bytes to download for the build, if its listing states them.
    pub fn size(&self) -> Option<u64> {
        self.places.iter().find_map(|place| match place {
            BuildLocation::Archives { archives, .. } => {
                archives.iter().map(|archive| archive.size).sum()
            }
            _ => None,
        })
    }

    /// Returns a build of which only the name is known.
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
    /// Returns a query for the builds between two named ones. If both names contain days, fewer pages have to be read.
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

/// Splits the name of a push with its day: `361a3e7@2026-07-04`.
pub(crate) fn of_day(text: &str) -> Option<(&str, &str)> {
    text.split_once('@').filter(|(commit, _)| commit.chars().all(|c| c.is_ascii_hexdigit()))
}
