//! The builds of an axis, oldest first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use rocm::Version;
use serde::{Deserialize, Serialize};

use crate::{Components, Date, Error, Kind, Source, Sources};

/// Builds in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Oldest first.
    pub builds: Vec<Build>,
    /// What sources that offered nothing said. A search over an incomplete history must say so.
    pub silent: Vec<String>,
}

/// One build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Names it in a history and in a store: `7.15.0a20260702-gfx1151`, `debian:6.4.3`, a folder's name.
    pub id: String,
    /// As its publisher spells it: `7.15.0a20260702`, `7.10.0.dev0+<commit>`.
    pub version: String,
    /// When it was built, as its name or else its listing says.
    pub date: Option<Date>,
    /// The family of architectures that it is for, as its publisher spells it; empty where it is for all.
    pub family: String,
    /// Where it is, the preferred place first. The next is tried where a place does not have it.
    pub places: Vec<Place>,
    /// Its commits, where they are known without fetching it.
    pub components: Option<Components>,
}

/// One place that offers a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
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
    /// File name, which tells its format.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// In bytes, if the listing says.
    pub size: Option<u64>,
    /// In hexadecimal, if it is published.
    pub sha256: Option<String>,
}

/// What builds are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The architecture, as `gfx1151`.
    pub gfx: String,
    /// No build before this day.
    pub from: Option<Date>,
    /// No build after this day.
    pub to: Option<Date>,
}

/// Asks every source and merges the answers by day and version. Of a build that several sources offer, the place
/// of the later source comes first.
///
/// # Errors
/// [`Error::Empty`] where no source offers anything; what single sources said is in [`History::silent`].
pub fn list(sources: &Sources, wanted: &Wanted) -> Result<History, Error> {
    let mut history = History::default();
    let mut merged: BTreeMap<String, Build> = BTreeMap::new();
    for source in &sources.sources {
        match offered(source, wanted) {
            Ok(builds) if builds.is_empty() => {
                history.silent.push(format!("{}: nothing for {}", source.name, wanted.gfx));
            }
            Ok(builds) => {
                for build in builds {
                    match merged.get_mut(&build.id) {
                        Some(known) => known.places.splice(0..0, build.places).for_each(drop),
                        None => drop(merged.insert(build.id.clone(), build)),
                    }
                }
            }
            Err(reason) => history.silent.push(format!("{}: {reason}", source.name)),
        }
    }
    history.builds = merged.into_values().collect();
    history.builds.sort_by(order);
    if history.builds.is_empty() {
        return Err(Error::Empty { gfx: wanted.gfx.clone(), reasons: history.silent });
    }
    Ok(history)
}

/// By day: version strings of different lines do not sort (7.15 was followed by 10.0).
fn order(a: &Build, b: &Build) -> Ordering {
    let version = |build: &Build| build.version.parse::<Version>().ok();
    a.date.cmp(&b.date).then_with(|| version(a).cmp(&version(b))).then_with(|| a.id.cmp(&b.id))
}

fn offered(source: &Source, wanted: &Wanted) -> Result<Vec<Build>, String> {
    let mut builds = match source.kind {
        Kind::Dir => directory(source)?,
        Kind::Debian => debian(),
    };
    let late = |build: &Build| build.date.zip(wanted.to).is_some_and(|(date, to)| date > to);
    let early = |build: &Build| build.date.zip(wanted.from).is_some_and(|(date, from)| date < from);
    builds.retain(|build| !late(build) && !early(build));
    Ok(builds)
}

/// Folders in a folder, each a prefix; their names tell version and day.
fn directory(source: &Source) -> Result<Vec<Build>, String> {
    let at = PathBuf::from(&source.url);
    let entries = fs::read_dir(&at).map_err(|e| format!("cannot read {}: {e}", at.display()))?;
    let build = |entry: fs::DirEntry| {
        let path = entry.path();
        let id = entry.file_name().into_string().ok()?;
        (path.is_dir() && !id.starts_with('.')).then(|| Build {
            date: id.rsplit(|c: char| !c.is_ascii_digit()).find_map(|run| run.parse().ok()),
            version: id.clone(),
            id,
            family: String::new(),
            places: vec![Place::Directory(path)],
            components: None,
        })
    };
    Ok(entries.filter_map(|entry| build(entry.ok()?)).collect())
}

fn debian() -> Vec<Build> {
    let build = |release: &rocm::Release| Build {
        id: release.to_string(),
        version: release.version.to_owned(),
        date: None,
        family: String::new(),
        places: vec![Place::Debian(release.to_string())],
        components: None,
    };
    rocm::RELEASES.iter().map(build).collect()
}

impl History {
    /// The position of the build that a person means: an id, a version, a day (`2026-07-02` or `20260702`), or
    /// `first` and `last`. A day without a build is a mistake, not the day after.
    ///
    /// # Errors
    /// [`Error::NoBuild`] with the neighbours.
    pub fn find(&self, text: &str) -> Result<usize, Error> {
        let last = self.builds.len().checked_sub(1);
        let named = |build: &Build| {
            build.id == text || build.version == text || build.id.ends_with(&format!(":{text}"))
        };
        let day = text.parse::<Date>().ok();
        let found = match text {
            "first" => last.map(|_| 0),
            "last" => last,
            _ => self
                .builds
                .iter()
                .position(named)
                .or_else(|| self.builds.iter().rposition(|b| day.is_some() && b.date == day)),
        };
        found.ok_or_else(|| Error::NoBuild { wanted: text.into(), offered: self.around(day) })
    }

    fn around(&self, day: Option<Date>) -> String {
        let id = |build: Option<&Build>| build.map_or("none", |build| build.id.as_str()).to_owned();
        match day {
            Some(_) => {
                let after = self.builds.iter().position(|build| build.date > day);
                let before = self.builds[..after.unwrap_or(self.builds.len())].last();
                let after = after.and_then(|at| self.builds.get(at));
                format!("the one before is {}, the one after is {}", id(before), id(after))
            }
            None => format!(
                "there are {}, from {} to {}",
                self.builds.len(),
                id(self.builds.first()),
                id(self.builds.last())
            ),
        }
    }
}
