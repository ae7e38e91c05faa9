//! The axis of a search: an ordered list of points, for example builds or values of a variable, at which the subject of
//! the search can run. Points are numbered from the good end to the bad end.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use stacks::{Build, BuildQuery, History, ListingGap, Sources};

use crate::{
    error::{AxisError, SearchError},
    kind::AxisKind,
    nights::{NightlyBuild, NightlyPair},
    packages,
};
use engine::{Stop, case_names::nearest, stack_source, stop::chain};

pub(crate) enum Points {
    Builds(Vec<Build>),
    Stacks(Vec<String>),
    Values(Values),
}

pub(crate) enum Values {
    Listed(Vec<String>),
    Range(u64, u64),
}

/// Indices of the good end and of the bad end. An entry is an error if the named end is not a point of the axis.
type EndIndices = (Result<usize, AxisError>, Result<usize, AxisError>);

/// An ordered list of points, and the two ends between which a search takes place.
pub struct Axis {
    /// Kind of the points, for example builds or values of a variable.
    pub kind: AxisKind,
    points: Points,
    /// Index of the good end in `points`. The points are in the order of the axis, even if the bad end comes first.
    good: usize,
    bad: usize,
    /// Notes for the user about the list of builds.
    pub silent: Vec<String>,
    gaps: Vec<ListingGap>,
}

impl Axis {
    pub(crate) fn builds(
        names: &[String],
        file: Option<&Path>,
        gfx: &str,
        (good, bad): (&str, &str),
        stop: &AtomicBool,
    ) -> Result<Axis, Stop> {
        let names = if names.is_empty() { &["debian".to_owned()] } else { names };
        let sources = Sources::load(file)
            .and_then(|all| all.select(names))
            .map_err(stack_source::bad_sources)?;
        let wanted = BuildQuery::between(gfx, good, bad);
        let mut history = stacks::list_builds(&sources, &wanted, stop).map_err(list_error)?;
        let find = |history: &History, option, text: &str| {
            let unknown = |e| AxisError::Option(option, text.to_owned(), chain(&e));
            history.find(text).map_err(unknown)
        };
        let ends = (find(&history, "--good", good), find(&history, "--bad", bad));
        for text in [good, bad] {
            if let [builds @ .., last] = history.of_day(text).as_slice()
                && !builds.is_empty()
            {
                let several = format!("{text} has {} builds", builds.len() + 1);
                let meant = format!("{several}; using the last one, {}", last.id);
                history.silent.push(meant);
            }
        }
        Axis::from_history(&sources, history, ends, stop)
    }

    /// Returns an axis of the builds that another download source has between two nightly builds.
    pub(crate) fn from_nights(
        source: &str,
        file: Option<&Path>,
        gfx: &str,
        nights: &NightlyPair,
        stop: &AtomicBool,
    ) -> Result<Axis, Stop> {
        let sources = Sources::load(file).and_then(|all| all.select(&[source.to_owned()]));
        let sources = sources.map_err(stack_source::bad_sources)?;
        let days = nights.good.day.zip(nights.bad.day);
        let wanted = BuildQuery {
            from: days.map(|(a, b)| a.min(b)),
            to: days.map(|(a, b)| a.max(b)),
            ..BuildQuery::between(gfx, "", "")
        };
        let mut history = stacks::list_builds(&sources, &wanted, stop).map_err(list_error)?;
        let mut notes = Vec::new();
        let mut find = |night: &NightlyBuild| {
            night.find_in_history(&history, source, &mut notes).map_err(AxisError::NoPush)
        };
        let ends = (find(&nights.good), find(&nights.bad));
        if let (Ok(good), Ok(bad)) = &ends
            && good == bad
        {
            let [good, bad, build] =
                [&nights.good.id, &nights.bad.id, &history.builds[*good].id].map(String::clone);
            return Err(AxisError::SamePush(good, bad, build, source.to_owned()).into());
        }
        history.silent.extend(notes);
        Axis::from_history(&sources, history, ends, stop)
    }

    fn from_history(
        sources: &Sources,
        mut history: History,
        ends: EndIndices,
        stop: &AtomicBool,
    ) -> Result<Axis, Stop> {
        if let (Ok(good), Ok(bad)) = &ends {
            // Builds whose commits are known get a prior weight in the search.
            let range = *good.min(bad)..good.max(bad) + 1;
            stacks::read_components(sources, &mut history, range, stop);
            if stop.load(Ordering::Relaxed) {
                return Err(list_error(stacks::ListError::Cancelled));
            }
        }
        let History { builds, silent, holes } = history;
        Axis::from_points(AxisKind::Builds, Points::Builds(builds), ends, silent)
            .map(|axis| Axis { gaps: holes, ..axis })
    }

    /// Parses an axis, written as `NAME=V1,V2,...` or `NAME=LOW..HIGH`. `good` and `bad` name the two ends: each is a
    /// point, `first` or `last`. Without them, the good end is the first point and the bad end the last.
    pub(crate) fn parse(text: &str, good: Option<&str>, bad: Option<&str>) -> Result<Axis, Stop> {
        let usage = |why: String| AxisError::Option("--axis", text.to_owned(), why);
        let (name, values) = text
            .split_once('=')
            .filter(|(name, values)| !name.is_empty() && !values.is_empty())
            .ok_or_else(|| usage("write NAME=V1,V2,... or NAME=LOW..HIGH".to_owned()))?;
        let listed = || values.split(',').map(str::to_owned).collect::<Vec<_>>();
        let listed_values = || Points::Values(Values::Listed(listed()));
        let (kind, points) = if name == "rocm" {
            (AxisKind::Stacks, Points::Stacks(listed()))
        } else if let Some(variable) = name.strip_prefix("env:") {
            (AxisKind::Environment(variable.to_owned()), listed_values())
        } else if let Some(package) = name.strip_prefix(packages::PREFIX) {
            (AxisKind::package(package), listed_values())
        } else {
            (AxisKind::Parameter(name.to_owned()), Points::Values(range(values).map_err(usage)?))
        };
        let last = points.len().saturating_sub(1);
        let mut labels: Vec<String> = Vec::new();
        if !matches!(points, Points::Values(Values::Range(..))) {
            for n in 0..=last {
                let label = points.label(n);
                if labels.contains(&label) {
                    return Err(usage(format!("`{label}` is given twice")).into());
                }
                labels.push(label);
            }
        }
        let find = |option, given: Option<&str>, default: usize| match given {
            None => Ok(default),
            Some("first") => Ok(0),
            Some("last") => Ok(last),
            Some(value) => points
                .find(value)
                .ok_or_else(|| AxisError::NotListed(option, value.to_owned(), values.to_owned())),
        };
        let ends = (find("--good", good, 0), find("--bad", bad, last));
        Axis::from_points(kind, points, ends, Vec::new())
    }

    pub(crate) fn versions(package: &str, (good, bad): (&str, &str)) -> Result<Axis, Stop> {
        let points = Points::Values(Values::Listed(packages::versions(package)?));
        let last = points.len() - 1;
        let find = |option, text: &str| match text {
            "first" => Ok(0),
            "last" => Ok(last),
            _ => points.find(text).ok_or_else(|| {
                let all = (0..=last).map(|n| points.label(n)).collect::<Vec<_>>();
                let near = nearest(text, all.iter().map(String::as_str));
                let near = near.map(|near| format!("; did you mean `{near}`?"));
                let near = near.unwrap_or_default();
                let why = format!("pip finds no such version of {package}{near}");
                AxisError::Option(option, text.to_owned(), why)
            }),
        };
        let ends = (find("--good", good), find("--bad", bad));
        Axis::from_points(AxisKind::package(package), points, ends, Vec::new())
    }

    fn from_points(
        kind: AxisKind,
        points: Points,
        ends: EndIndices,
        silent: Vec<String>,
    ) -> Result<Axis, Stop> {
        match ends {
            (Ok(good), Ok(bad)) if good == bad => {
                Err(AxisError::OnePoint(points.label(good)).into())
            }
            (Ok(good), Ok(bad)) => Ok(Axis { kind, points, good, bad, silent, gaps: Vec::new() }),
            (good, bad) => {
                let problems = good.err().into_iter().chain(bad.err());
                Err(Stop::unless_empty(problems).unwrap_err())
            }
        }
    }

    /// Returns the number of points from the good end to the bad end, including both.
    pub fn point_count(&self) -> usize {
        self.good.abs_diff(self.bad) + 1
    }

    /// Returns true if the bad end is older than the good one, because the search looks for a fix.
    pub(crate) fn is_fix(&self) -> bool {
        self.bad < self.good
    }

    fn position(&self, n: usize) -> usize {
        if self.is_fix() { self.good - n } else { self.good + n }
    }

    /// Returns the name of the point with index `n`. Points are numbered from the good end.
    pub fn label(&self, n: usize) -> String {
        self.points.label(self.position(n))
    }

    pub(crate) fn position_of(&self, label: &str) -> Option<usize> {
        let at = self.points.find(label)?;
        let (low, high) = (self.good.min(self.bad), self.good.max(self.bad));
        (low..=high).contains(&at).then(|| at.abs_diff(self.good))
    }

    /// Returns the indices of the points with these names. A date names all builds of that day. Returns an error if a
    /// name matches no point, or if it matches one of the two ends.
    pub(crate) fn indices_of(&self, names: &[String]) -> Result<Vec<usize>, Stop> {
        let (mut points, mut problems) = (Vec::new(), Vec::new());
        let skip = |name: &str, why| AxisError::Option("--skip", name.to_owned(), why);
        for name in names {
            let day = name.parse::<stacks::Date>().ok();
            let of_day = |n: &usize| day.is_some() && self.build(*n).is_some_and(|b| b.date == day);
            let named: Vec<usize> = match self.find_point(name) {
                Some(point) => vec![point],
                None => (0..self.point_count()).filter(of_day).collect(),
            };
            let near = || self.nearest(name).map(|near| format!("; did you mean `{near}`?"));
            match named.iter().any(|point| *point == 0 || *point + 1 == self.point_count()) {
                true => {
                    problems.push(skip(name, "an end of the search cannot be skipped".to_owned()))
                }
                false if named.is_empty() => {
                    let (good, bad) = (self.label(0), self.label(self.point_count() - 1));
                    let near = near().unwrap_or_else(|| "; `--list` shows all points".to_owned());
                    let why = format!("no such point between {good} and {bad}{near}");
                    problems.push(skip(name, why));
                }
                false => points.extend(named),
            }
        }
        Stop::unless_empty(problems).map(|()| points)
    }

    /// Finds a point by its full name, or by the part of the name after the colon (`6.4.3` for `debian:6.4.3`).
    fn find_point(&self, text: &str) -> Option<usize> {
        let behind = |label: &str| label.split_once(':').is_some_and(|(_, name)| name == text);
        let called = |n: &usize| match &self.points {
            Points::Builds(_) => self.build(*n).is_some_and(|build| build.is_called(text)),
            Points::Stacks(_) => behind(&self.label(*n)),
            Points::Values(_) => false,
        };
        self.position_of(text).or_else(|| match self.points {
            Points::Values(_) => None,
            _ => (0..self.point_count()).find(called),
        })
    }

    fn nearest(&self, text: &str) -> Option<String> {
        if matches!(self.points, Points::Values(Values::Range(..))) {
            return None;
        }
        let labels: Vec<String> = (0..self.point_count()).map(|n| self.label(n)).collect();
        let behind = labels.iter().filter_map(|label| Some(label.split_once(':')?.1));
        nearest(text, labels.iter().map(String::as_str).chain(behind)).map(str::to_owned)
    }

    /// Returns the build of the point with index `n`; `None` if the points are not builds.
    pub fn build(&self, n: usize) -> Option<&Build> {
        match &self.points {
            Points::Builds(builds) => builds.get(self.position(n)),
            _ => None,
        }
    }

    /// Returns the gaps in the list of builds. A gap is a period for which a download source could not be read, so that
    /// builds of this period may be missing.
    pub fn gaps(&self) -> impl Iterator<Item = &ListingGap> {
        self.gaps.iter()
    }

    pub(crate) fn gaps_between(&self, good: usize, bad: usize) -> Vec<&ListingGap> {
        let (older, newer) = if self.is_fix() { (bad, good) } else { (good, bad) };
        let Some((older, newer)) = self.build(older).zip(self.build(newer)) else {
            return Vec::new();
        };
        self.gaps.iter().filter(|hole| hole.between(older, newer)).collect()
    }

    /// Returns one flag for the good and one for the bad end: true if the end is a release and the point next to it is
    /// not. A release is built from a branch of its own.
    pub(crate) fn other_line(&self) -> [bool; 2] {
        let last = self.point_count() - 1;
        let release = |point: usize| self.build(point).map(Build::is_release);
        [(0, 1), (last, last - 1)]
            .map(|(end, next)| release(end) == Some(true) && release(next) == Some(false))
    }

    /// Returns the number of builds that may be missing between two points. Returns 0 if the list of builds has no gap
    /// there. Otherwise assumes one build for each day between the two points, and at least one.
    pub(crate) fn hidden_builds(&self, good: usize, bad: usize) -> u32 {
        if self.gaps_between(good, bad).is_empty() {
            return 0;
        }
        let day = |point| self.build(point).and_then(|build| build.date);
        let days = day(good).zip(day(bad)).map_or(0, |(a, b)| a.until(b).unsigned_abs());
        u32::try_from(days).unwrap_or(u32::MAX).saturating_sub(1).max(1)
    }

    /// Returns, for each point, the relative prior probability that it introduced the change; `None` if all are equal.
    /// A build gets a low weight if none of its relevant components differs from the build before it. `relevant`
    /// returns true for the name of a component that can affect the subject of the search.
    pub(crate) fn weights(&self, relevant: &dyn Fn(&str) -> bool) -> Option<Vec<f64>> {
        const UNMOVED: f64 = 0.05;
        let weight = |n: usize| {
            let moved = || {
                let (before, at) = (self.build(n - 1)?, self.build(n)?);
                let (before, at) = (before.components.as_ref()?, at.components.as_ref()?);
                Some(before.moved(at).iter().any(|moved| relevant(&moved.component)))
            };
            if n > 0 && moved() == Some(false) { UNMOVED } else { 1.0 }
        };
        let Points::Builds(_) = self.points else { return None };
        let weights: Vec<f64> = (0..self.point_count()).map(weight).collect();
        weights.iter().any(|w| *w < 1.0).then_some(weights)
    }
}

impl Points {
    fn len(&self) -> usize {
        match self {
            Points::Builds(builds) => builds.len(),
            Points::Stacks(values) | Points::Values(Values::Listed(values)) => values.len(),
            Points::Values(Values::Range(low, high)) => (high - low) as usize + 1,
        }
    }

    fn label(&self, n: usize) -> String {
        match self {
            Points::Builds(builds) => builds[n].id.clone(),
            Points::Stacks(values) | Points::Values(Values::Listed(values)) => values[n].clone(),
            Points::Values(Values::Range(low, _)) => (low + n as u64).to_string(),
        }
    }

    fn find(&self, value: &str) -> Option<usize> {
        match self {
            Points::Builds(builds) => builds.iter().position(|build| build.id == value),
            Points::Stacks(values) | Points::Values(Values::Listed(values)) => {
                values.iter().position(|v| v == value)
            }
            Points::Values(Values::Range(low, high)) => {
                let n: u64 = value.parse().ok()?;
                (*low..=*high).contains(&n).then(|| (n - low) as usize)
            }
        }
    }
}

fn list_error(error: stacks::ListError) -> Stop {
    match error {
        stacks::ListError::Cancelled => SearchError::Interrupted(chain(&error)).into(),
        _ => stack_source::unlisted(error),
    }
}

/// Parses a range such as `1..30000`, which includes both ends, or a list of values.
fn range(text: &str) -> Result<Values, String> {
    let Some((low, high)) = text.split_once("..") else {
        return Ok(Values::Listed(text.split(',').map(str::to_owned).collect()));
    };
    let number = |text: &str| {
        text.trim_start_matches('=')
            .parse::<u64>()
            .map_err(|_| format!("`{text}` is not a whole number"))
    };
    match (number(low)?, number(high)?) {
        (low, high) if low < high && high - low < u64::from(u32::MAX) => {
            Ok(Values::Range(low, high))
        }
        (low, high) => {
            Err(format!("{low}..{high} is not an increasing range of fewer than 2^32 values"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, good: Option<&str>, bad: Option<&str>, expected: Result<&[&str], &str>) {
        let got = Axis::parse(text, good, bad)
            .map(|axis| (0..axis.point_count()).map(|n| axis.label(n)).collect::<Vec<_>>())
            .map_err(|stop| stop.to_string());
        match (got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{text}"),
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{text}: {got}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn numbers_points_from_the_good_end() {
        check("env:A=1,2,4", None, None, Ok(&["1", "2", "4"]));
        check("bytes=7..10", None, None, Ok(&["7", "8", "9", "10"]));
        check("bytes=7..10", Some("9"), Some("7"), Ok(&["9", "8", "7"]));
        check("rocm=a,b,c", Some("last"), Some("b"), Ok(&["c", "b"]));
        check("x=a,b,c", None, Some("b"), Ok(&["a", "b"]));
    }

    #[test]
    fn rejects_invalid_axes() {
        check("bytes", None, None, Err("write NAME="));
        check("bytes=9..7", None, None, Err("is not an increasing"));
        check("bytes=1..x", None, None, Err("`x` is not a whole number"));
        check("x=a,a", None, None, Err("`a` is given twice"));
        check("x=a", None, None, Err("needs two points"));
        check("x=a,b", Some("c"), Some("d"), Err("`--bad d` is not one of a,b"));
    }

    #[test]
    fn skip_accepts_names_with_and_without_source() {
        let axis = Axis::parse("rocm=debian:5.7.1,debian:6.4.3,debian:7.2.4", None, None).unwrap();
        let points = |name: &str| {
            let points = axis.indices_of(&[name.to_owned()]);
            points.map_err(|stop| stop.to_string())
        };
        assert_eq!(points("6.4.3"), Ok(vec![1]));
        assert_eq!(points("debian:6.4.3"), Ok(vec![1]));
        assert!(points("7.2.4").is_err_and(|text| text.contains("an end of the search")));
        assert!(points("6.4.4").is_err_and(|text| text.contains("did you mean `6.4.3`?")));
    }
}
