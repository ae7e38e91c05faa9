//! Merges the builds of several sources into one history, ordered by time, and finds builds in it by name.

use download::Http;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use version::Version;

use super::listing::{self, ListingClient, SourceListing};
use super::{build::of_day, names};
use crate::{Build, BuildLocation, BuildQuery, BuildSource, Date, FindError, ListError, Sources};

const BACKOFF: Duration = Duration::from_millis(500);

const CONNECTIONS: usize = 8;

/// Builds in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The builds, the oldest first.
    pub builds: Vec<Build>,
    /// Remarks for the user: sources without a build for the architecture, and the number of builds that were left out.
    pub silent: Vec<String>,
    /// Periods in which builds may be missing. If such a gap lies between two builds, a bisect must not treat them as
    /// neighbours.
    #[serde(default)]
    pub holes: Vec<ListingGap>,
}

/// A period for which a source could not be read, so that builds of this period may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingGap {
    /// The source's name.
    pub source: String,
    /// First day of the period; `None` if it is unknown.
    pub from: Option<Date>,
    /// Last day of the period; `None` if it is unknown.
    pub to: Option<Date>,
    /// Reason why the source could not be read.
    pub reason: String,
}

impl ListingGap {
    /// Returns true if a build that was made after `after` and before `until` may be missing, because this gap overlaps
    /// the time between the two builds.
    pub fn between(&self, after: &Build, until: &Build) -> bool {
        let ends = |a: Option<Date>, b: Option<Date>| a.zip(b).is_some_and(|(a, b)| a > b);
        !ends(self.from, until.date) && !ends(after.date, self.to)
    }
}

impl std::fmt::Display for ListingGap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.source, self.reason)
    }
}

/// Queries every source, merges builds with the same id, and orders the builds by time. If several sources offer a
/// build, the location in the last of these sources is preferred. The listing ends early when `stop` becomes true.
///
/// # Errors
/// [`ListError::Empty`] if no source offers a build. [`ListError::Cancelled`] if `stop` became true.
pub fn list_builds(
    sources: &Sources,
    wanted: &BuildQuery,
    stop: &AtomicBool,
) -> Result<History, ListError> {
    let http = ListingClient { http: Http::new(BACKOFF), stop };
    let families = sources.families_of(&wanted.gfx);
    let mut history = History::default();
    let mut left_out = 0;
    let mut merged: BTreeMap<String, Build> = BTreeMap::new();
    for source in &sources.sources {
        let hole = |reason: String| ListingGap {
            source: source.name.clone(),
            from: source.from,
            to: source.to,
            reason,
        };
        match listing::offered(source, &families, wanted, &http) {
            Ok(SourceListing { builds, absent, troubles }) => {
                let told = absent.iter().map(|reason| format!("{}: {reason}", source.name));
                history.silent.extend(told);
                history.holes.extend(troubles.into_iter().map(hole));
                if builds.is_empty() {
                    history.silent.push(format!("{}: no builds for {}", source.name, wanted.gfx));
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
        // This source's list of builds may be incomplete, because the listing was cancelled.
        if stop.load(Memory::Relaxed) {
            return Err(ListError::Cancelled);
        }
    }
    if left_out > 0 {
        history.silent.push(format!(
            "{left_out} builds that are not nightly builds of the main branch (+bkc, .dev0) are skipped; to include \
             them, use one of them as an end"
        ));
    }
    history.builds = in_order(merged.into_values().collect());
    if let Some(release) = history.builds.iter().find(|build| build.is_release())
        && history
            .builds
            .iter()
            .any(|build| !build.is_release() && names::day(&build.version).is_some())
    {
        history.silent.push(format!(
            "{} is a release from its own branch: it is sorted after the last nightly build of its version, \
             regardless of its upload date; a fix that exists only on the release branch may look like a change \
             between the release and its neighbours",
            release.id
        ));
    }
    if history.builds.is_empty() {
        let holes = history.holes.iter().map(ListingGap::to_string);
        let reasons = holes.chain(history.silent).collect();
        return Err(ListError::Empty { gfx: wanted.gfx.clone(), reasons });
    }
    Ok(history)
}

/// Sorts nightly builds by day. Puts each release after the last nightly build of the release's version or of an
/// earlier version. The day on which a release was uploaded is not used, because it does not show when its branch was
/// created.
fn in_order(builds: Vec<Build>) -> Vec<Build> {
    let (mut releases, mut nights): (Vec<_>, Vec<_>) =
        builds.into_iter().partition(Build::is_release);
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

/// Compares two builds, by day first, because a later build of another release line can have a lower version.
fn order(a: &Build, b: &Build) -> Ordering {
    let version = |build: &Build| build.version.parse::<Version>().ok();
    // Builds of one day are ordered by the numbers of their CI runs, because versions that contain commits have no
    // order.
    let run = |build: &Build| build.run.as_ref().and_then(|run| run.parse::<u64>().ok());
    a.date
        .cmp(&b.date)
        .then_with(|| run(a).cmp(&run(b)))
        .then_with(|| version(a).cmp(&version(b)))
        .then_with(|| a.id.cmp(&b.id))
}

/// Reads the commits of the builds in a range from the manifests that their CI runs published. The builds are not
/// downloaded. Returns the number of builds in the range whose commits are then known. Ends early when `stop` becomes
/// true.
pub fn read_components(
    sources: &Sources,
    history: &mut History,
    range: Range<usize>,
    stop: &AtomicBool,
) -> usize {
    let http = &ListingClient { http: Http::new(BACKOFF), stop };
    let builds = history.builds.get_mut(range).unwrap_or_default();
    let learn = |build: &mut Build| {
        let named = |source: &&BuildSource| {
            build.places.iter().any(|place| {
                matches!(place, BuildLocation::Archives { source: name, .. } if *name == source.name)
            })
        };
        let mut own = sources.sources.iter().filter(named);
        let known = own.find_map(|source| listing::components(source, build, http));
        build.components = known;
    };
    // Each build needs two small files, so most of the time is spent waiting for hosts.
    let todo = Mutex::new(builds.iter_mut().filter(|build| build.components.is_none()));
    let next = || todo.lock().ok()?.next();
    download::run_on_threads(CONNECTIONS, || {
        while let Some(build) = next() {
            learn(build);
        }
    });
    builds.iter().filter(|build| build.components.is_some()).count()
}

impl History {
    /// Returns the index of the build that `text` names. The name is an id, a version, a day (`2026-07-02` or
    /// `20260702`), an abbreviated commit with or without its day (`361a3e7@2026-07-04`), `first` or `last`.
    ///
    /// A day means the last build of that day. In a history of pushes, a day or the version of a nightly build means
    /// the last push that the nightly build of that day contains. Nightly builds are made at midnight, so the build of
    /// 2 July contains the pushes up to 1 July.
    ///
    /// # Errors
    /// [`FindError`] with the neighbouring builds if the history does not contain the build, or any build of the day.
    pub fn find(&self, text: &str) -> Result<usize, FindError> {
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
        found.ok_or_else(|| FindError { wanted: text.into(), offered: self.around(day) })
    }

    /// Returns the builds of the day `text`, without those for single pushes, if there are at least two. Otherwise, or
    /// if `text` is not a day, returns an empty list.
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
                format!(
                    "the build before it is {}, the build after it is {}",
                    id(before),
                    id(after)
                )
            }
            None => format!(
                "the history has {} builds, from {} to {}",
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
    fn compares_the_days_of_a_gap_with_those_of_builds() {
        let gap = |from: &str, to: &str| ListingGap {
            source: "x".into(),
            from: from.parse().ok(),
            to: to.parse().ok(),
            reason: "y".into(),
        };
        let build = |day: &str| Build {
            date: day.parse().ok(),
            ..Build::named(day.to_owned(), day.to_owned())
        };
        let check = |gap: &ListingGap, after: &str, until: &str, expected: bool| {
            let between = gap.between(&build(after), &build(until));
            assert_eq!(between, expected, "{gap:?} between {after} and {until}");
        };
        let july = gap("2026-07-01", "2026-07-31");
        check(&july, "2026-07-05", "2026-07-09", true);
        check(&july, "2026-06-01", "2026-06-30", false);
        check(&july, "2026-06-01", "2026-07-01", true);
        check(&july, "2026-08-01", "2026-08-09", false);
        check(&july, "2026-07-31", "2026-08-09", true);
        check(&july, "unknown", "unknown", true);
        check(&gap("", ""), "2026-06-01", "2026-06-30", true);
    }

    #[test]
    fn orders_a_release_after_the_nights_of_its_version() {
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

    #[test]
    fn tells_releases_from_nights_and_commits() {
        let is_release = |version: &str| Build::named(version.into(), version.into()).is_release();
        assert!(is_release("7.14.0") && is_release("10.1.0rc3"));
        for other in ["7.14.0a20260620", "7.10.0.dev0+361a3e79", "0aa9c1d", "prefix"] {
            assert!(!is_release(other), "{other}");
        }
    }

    #[test]
    fn lists_the_builds_of_a_day_if_there_are_several() {
        let build = |id: &str, day: &str| Build {
            date: day.parse().ok(),
            ..Build::named(id.to_owned(), id.to_owned())
        };
        let builds = vec![
            build("7.14.0a20260702", "2026-07-02"),
            build("7.14.0", "2026-07-02"),
            build("7.14.0a20260703", "2026-07-03"),
        ];
        let history = History { builds, ..History::default() };
        let ids = |text: &str| -> Vec<_> {
            history.of_day(text).into_iter().map(|build| build.id.as_str()).collect()
        };
        assert_eq!(ids("2026-07-02"), ["7.14.0a20260702", "7.14.0"]);
        assert!(ids("2026-07-03").is_empty() && ids("2026-07-04").is_empty());
        assert!(ids("last").is_empty());
    }
}
