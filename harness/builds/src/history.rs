//! The builds of an axis, oldest first.

use download::Http;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use version::Version;

use crate::listing::{self, Asking, Offered};
use crate::{Components, Date, Error, Source, Sources, names};

/// Shortest beginning of a commit that names it.
const SHORTEST: usize = 7;

/// Before the second attempt at a listing.
const BACKOFF: Duration = Duration::from_millis(500);

/// Manifests that are read at once.
const CONNECTIONS: usize = 8;

/// Builds in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Oldest first.
    pub builds: Vec<Build>,
    /// What else is to be known about it: sources without a build for the architecture, builds that were left out.
    pub silent: Vec<String>,
    /// Where builds may be missing. A search must not claim that there is none between two that enclose one.
    #[serde(default)]
    pub holes: Vec<Hole>,
}

/// Days of which a source did not say what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// The source's name.
    pub source: String,
    /// Its first day; none where it has no beginning.
    pub from: Option<Date>,
    /// Its last day; none where it has no end.
    pub to: Option<Date>,
    /// What went wrong.
    pub reason: String,
}

impl Hole {
    /// Whether a build of the source could be between two others.
    pub fn between(&self, after: &Build, until: &Build) -> bool {
        let ends = |a: Option<Date>, b: Option<Date>| a.zip(b).is_some_and(|(a, b)| a > b);
        !ends(self.from, until.date) && !ends(after.date, self.to)
    }
}

impl std::fmt::Display for Hole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.source, self.reason)
    }
}

/// One build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Names it in a history: a version such as `7.15.0a20260702`, a commit, `debian:6.4.3`, a folder's name.
    pub id: String,
    /// As its publisher spells it: `7.15.0a20260702`, `7.10.0.dev0+<commit>`.
    pub version: String,
    /// When it was built, as its name or else its listing says.
    pub date: Option<Date>,
    /// The family of architectures that it is for, as its publisher spells it; empty where it is for all.
    pub family: String,
    /// The CI run that made it, where a listing names it.
    #[serde(default)]
    pub run: Option<String>,
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
    /// Where it is published, if in a file of its own.
    #[serde(default)]
    pub sha256_url: Option<String>,
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
    /// Which builds beside the main branch are wanted as well: `+bkc`, `.dev0`.
    pub beside_main: Vec<&'static str>,
}

impl Wanted {
    /// What lies between two builds that a person names, as far as their names tell days: fewer pages are read.
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

/// Asks every source and merges the answers by day and version. Of a build that several sources offer, the place
/// of the later source comes first. It is given up when `stop` becomes true.
///
/// # Errors
/// [`Error::Empty`] where no source offers anything; what single sources said is in [`History::silent`].
/// [`Error::Cancelled`].
pub fn list(sources: &Sources, wanted: &Wanted, stop: &AtomicBool) -> Result<History, Error> {
    let http = Asking { http: Http::new(BACKOFF), stop };
    let families = sources.families_of(&wanted.gfx);
    let mut history = History::default();
    let mut left_out = 0;
    let mut merged: BTreeMap<String, Build> = BTreeMap::new();
    for source in &sources.sources {
        let hole = |reason: String| Hole {
            source: source.name.clone(),
            from: source.from,
            to: source.to,
            reason,
        };
        match listing::offered(source, &families, wanted, &http) {
            Ok(Offered { builds, absent, troubles }) => {
                let told = absent.iter().map(|reason| format!("{}: {reason}", source.name));
                history.silent.extend(told);
                history.holes.extend(troubles.into_iter().map(hole));
                if builds.is_empty() {
                    history.silent.push(format!("{}: nothing for {}", source.name, wanted.gfx));
                }
                let (beside, builds): (Vec<_>, Vec<_>) = builds.into_iter().partition(|build| {
                    let beside = names::beside_main(&build.version);
                    beside.is_some_and(|kind| !wanted.beside_main.contains(&kind))
                });
                left_out += beside.len();
                for build in builds {
                    match merged.get_mut(&build.id) {
                        Some(known) => known.places.splice(0..0, build.places).for_each(drop),
                        None => drop(merged.insert(build.id.clone(), build)),
                    }
                }
            }
            Err(reason) => history.holes.push(hole(reason)),
        }
        // A source that nobody waited for has no hole.
        if stop.load(Memory::Relaxed) {
            return Err(Error::Cancelled);
        }
    }
    if left_out > 0 {
        history.silent.push(format!(
            "{left_out} builds that are no nights of the main branch (+bkc, .dev0) were left out; naming one as an end takes them in"
        ));
    }
    history.builds = in_order(merged.into_values().collect());
    if let Some(release) = history.builds.iter().find(|build| is_release(build))
        && history
            .builds
            .iter()
            .any(|build| !is_release(build) && names::day(&build.version).is_some())
    {
        history.silent.push(format!(
            "{} is a release, from a branch of its own: it stands behind the last night of its version, whenever it was uploaded; what \
             was fixed on the branch alone may look like a change between it and its neighbours",
            release.id
        ));
    }
    if history.builds.is_empty() {
        let holes = history.holes.iter().map(Hole::to_string);
        let reasons = holes.chain(history.silent).collect();
        return Err(Error::Empty { gfx: wanted.gfx.clone(), reasons });
    }
    Ok(history)
}

/// Takes a push and its day apart, which together say where to look for it: `361a3e7@2026-07-04`.
fn of_day(text: &str) -> Option<(&str, &str)> {
    text.split_once('@').filter(|(commit, _)| commit.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Whether a build is of a release branch: its version names no day and no commit.
fn is_release(build: &Build) -> bool {
    let version = build.version.parse::<Version>();
    version.is_ok() && names::day(&build.version).is_none() && !build.version.contains(".dev")
}

/// Nights by day; each release behind the last night of its version or an earlier one. Its upload says nothing of where its branch
/// left the main one.
fn in_order(builds: Vec<Build>) -> Vec<Build> {
    let (mut releases, mut nights): (Vec<_>, Vec<_>) = builds.into_iter().partition(is_release);
    let numbers = |build: &Build| {
        let text = build.version.as_str();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end]
            .trim_end_matches('.')
            .split('.')
            .map(|n| n.parse().unwrap_or(0))
            .collect::<Vec<u64>>()
    };
    nights.sort_by(order);
    releases.sort_by(|a, b| numbers(a).cmp(&numbers(b)).then_with(|| order(a, b)));
    for release in releases {
        let before = |night: &Build| {
            names::day(&night.version).is_none() || numbers(night) <= numbers(&release)
        };
        let at = nights.iter().rposition(before).map_or(0, |at| at + 1);
        nights.insert(at, release);
    }
    nights
}

/// By day: version strings of different lines do not sort (7.15 was followed by 10.0).
fn order(a: &Build, b: &Build) -> Ordering {
    let version = |build: &Build| build.version.parse::<Version>().ok();
    // Runs of one day are numbered in their order; versions that are commits have none.
    let run = |build: &Build| build.run.as_ref().and_then(|run| run.parse::<u64>().ok());
    a.date
        .cmp(&b.date)
        .then_with(|| run(a).cmp(&run(b)))
        .then_with(|| version(a).cmp(&version(b)))
        .then_with(|| a.id.cmp(&b.id))
}

/// Learns the commits of builds without fetching them, where their runs publish a manifest. Returns how many builds of
/// the range have commits afterwards; fewer where `stop` becomes true.
pub fn read_components(
    sources: &Sources,
    history: &mut History,
    range: Range<usize>,
    stop: &AtomicBool,
) -> usize {
    let http = &Asking { http: Http::new(BACKOFF), stop };
    let builds = history.builds.get_mut(range).unwrap_or_default();
    let learn = |build: &mut Build| {
        let named = |source: &&Source| {
            build.places.iter().any(|place| {
                matches!(place, Place::Archives { source: name, .. } if *name == source.name)
            })
        };
        let mut own = sources.sources.iter().filter(named);
        let known = own.find_map(|source| listing::components(source, build, http));
        build.components = known;
    };
    // Two small files for each build: waiting for hosts is all there is to do.
    let todo = Mutex::new(builds.iter_mut().filter(|build| build.components.is_none()));
    let next = || todo.lock().ok()?.next();
    download::crew(CONNECTIONS, || {
        while let Some(build) = next() {
            learn(build);
        }
    });
    builds.iter().filter(|build| build.components.is_some()).count()
}

impl Build {
    /// Whether it was made of one push, and is named by its commit.
    pub fn is_push(&self) -> bool {
        let hexadecimal = |c: char| c.is_ascii_hexdigit();
        self.run.is_some() && self.id.len() == 40 && self.id.chars().all(hexadecimal)
    }

    /// Whether a person means this build by a text: its id, its version, what stands behind the source's name
    /// (`6.4.3` of `debian:6.4.3`), or the beginning of its commit.
    pub fn is_called(&self, text: &str) -> bool {
        let behind = || self.id.split_once(':').is_some_and(|(_, name)| name == text);
        let begins = || text.len() >= SHORTEST && self.is_push() && self.id.starts_with(text);
        self.id == text || self.version == text || behind() || begins()
    }

    /// Bytes to download for it, as far as its listing says.
    pub fn size(&self) -> Option<u64> {
        self.places.iter().find_map(|place| match place {
            Place::Archives { archives, .. } => archives.iter().map(|archive| archive.size).sum(),
            _ => None,
        })
    }

    /// A build of which only the name is known.
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

impl History {
    /// The position of the build that a person means: an id, a version, a day (`2026-07-02` or `20260702`), the beginning of a
    /// commit, with its day perhaps (`361a3e7@2026-07-04`), or `first` and `last`. A day without a build is a mistake, not the day after; of several builds of a day the last is
    /// meant. Among pushes a night, by its day or its version, is the last push that it holds: nights are built at midnight, so that of
    /// the second of July holds what came until the first.
    ///
    /// # Errors
    /// [`Error::NoBuild`] with the neighbours.
    pub fn find(&self, text: &str) -> Result<usize, Error> {
        let last = self.builds.len().checked_sub(1);
        let text = of_day(text).map_or(text, |(commit, _)| commit);
        let day = text.parse::<Date>().ok();
        let commits = self.builds.iter().all(Build::is_push) && last.is_some();
        let night = day.or_else(|| names::day(text)).filter(|_| commits);
        let found = match (text, night) {
            ("first", _) => last.map(|_| 0),
            ("last", _) => last,
            (_, Some(night)) => self.builds.iter().rposition(|b| b.date < Some(night)),
            _ => self
                .builds
                .iter()
                .position(|build| build.is_called(text))
                .or_else(|| self.builds.iter().rposition(|b| day.is_some() && b.date == day)),
        };
        found.ok_or_else(|| Error::NoBuild { wanted: text.into(), offered: self.around(day) })
    }

    /// The builds of a day that a person names, where there are several.
    pub fn of_day(&self, text: &str) -> Vec<&Build> {
        let Ok(day) = text.parse::<Date>() else { return Vec::new() };
        let of_day = |build: &&Build| build.date == Some(day) && !build.is_push();
        let builds: Vec<_> = self.builds.iter().filter(of_day).collect();
        if builds.len() > 1 { builds } else { Vec::new() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_stands_behind_the_nights_of_its_version() {
        let build = |version: &str, uploaded: &str| Build {
            date: names::day(version).or_else(|| uploaded.parse().ok()),
            ..Build::named(version.to_owned(), version.to_owned())
        };
        let builds = vec![
            build("7.14.0", "2026-08-01"),
            build("7.14.0a20260620", ""),
            build("7.15.0a20260630", ""),
            build("7.13.0", "2026-07-15"),
            build("10.0.0a20260729", ""),
            build("10.1.0rc3", "2026-07-01"),
        ];
        let got: Vec<_> = in_order(builds).into_iter().map(|build| build.id).collect();
        assert_eq!(
            got,
            [
                "7.13.0",
                "7.14.0a20260620",
                "7.14.0",
                "7.15.0a20260630",
                "10.0.0a20260729",
                "10.1.0rc3"
            ]
        );
    }
}
