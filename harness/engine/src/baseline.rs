//! What somebody already knows of the trials of a run, in the files of deqp-runner: what fails, what fails now and then, what is
//! not run. The forms: <https://gitlab.freedesktop.org/mesa/deqp-runner/-/blob/main/README.md>.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use judge::{Kind, Known, Verdict, VerdictKind};
use plan::VersionRange;
use regex::Regex;
use report::{Record, count};

use crate::{CaseLibrary, Selected, Stop, case_names, select};

/// How a trial failed, in the words of deqp-runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Fail,
    Crash,
    Timeout,
    /// In one way or another, and sometimes not.
    Flake,
}

impl Status {
    const ALL: [(&'static str, Status); 4] = [
        ("Fail", Status::Fail),
        ("Crash", Status::Crash),
        ("Timeout", Status::Timeout),
        ("Flake", Status::Flake),
    ];

    /// None of what is no failure.
    fn of(kind: Kind) -> Option<Status> {
        match kind {
            Kind::Pass | Kind::Skip | Kind::NoVerdict => None,
            Kind::Crash | Kind::MemoryFault | Kind::TeardownCrash | Kind::LibraryExit => {
                Some(Status::Crash)
            }
            Kind::Hang => Some(Status::Timeout),
            Kind::WrongData
            | Kind::ApiError
            | Kind::CompileError
            | Kind::Leak
            | Kind::KernelError => Some(Status::Fail),
        }
    }

    fn word(self) -> &'static str {
        Status::ALL.iter().find(|(_, status)| *status == self).map_or("", |(word, _)| word)
    }
}

/// A line of a file.
#[derive(Debug)]
struct Place {
    file: String,
    line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A line that names trials.
#[derive(Debug)]
struct Names {
    regex: Regex,
    /// A trial of that very name, whose `[` the expression takes for something else.
    trial: Option<String>,
    place: Place,
}

impl Names {
    /// Whether it names a trial.
    fn names(&self, id: &str) -> bool {
        self.trial.as_deref() == Some(id) || self.regex.is_match(id)
    }
}

/// The files that describe known results of trials, in the formats of deqp-runner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaselineFiles {
    /// Files with a line `TRIAL,STATUS` for each trial that is expected to fail.
    pub fails: Vec<PathBuf>,
    /// Files with a regular expression on each line, which names trials whose failures are expected.
    pub flakes: Vec<PathBuf>,
    /// Files with a regular expression on each line, which names trials to leave out.
    pub skips: Vec<PathBuf>,
}

/// What is known of the trials of a run.
#[derive(Debug, Default)]
pub struct Baseline {
    fails: BTreeMap<String, (Status, Place)>,
    flakes: Vec<Names>,
    skips: Vec<Names>,
    /// All files as they were read, for who compares two runs.
    pub text: String,
    /// Lines that name no trial of the library, in words. A skip is none of them: what it was to keep from running would run.
    pub idle: Vec<String>,
}

/// Lines without a trial that are told one by one.
const TOLD: usize = 10;

impl Baseline {
    /// Reads the files that are named, about the trials of this library.
    ///
    /// # Errors
    /// All mistakes, each with file, line and column.
    pub fn read(files: &BaselineFiles, library: &CaseLibrary) -> Result<Baseline, Stop> {
        let (mut baseline, mut problems) = (Baseline::default(), Vec::new());
        if [&files.fails, &files.flakes, &files.skips].iter().all(|files| files.is_empty()) {
            return Ok(baseline);
        }
        let ids: BTreeSet<String> =
            select::select(library, &[])?.iter().map(Selected::id).collect();
        let mut idle = Vec::new();
        for path in &files.fails {
            for (place, line) in baseline.lines(path, &mut problems) {
                match status(&line) {
                    Ok((name, status)) => {
                        if !ids.contains(name) {
                            idle.push((place.to_string(), name.to_owned()));
                        }
                        match baseline.fails.get(name) {
                            Some((_, first)) => problems
                                .push(format!("error: {place}:1: `{name}` is in {first} already")),
                            None => _ = baseline.fails.insert(name.to_owned(), (status, place)),
                        }
                    }
                    Err((column, why)) => problems.push(format!("error: {place}:{column}: {why}")),
                }
            }
        }
        let named = |all: &[Names], idle: &mut Vec<(String, String)>| {
            let none = |line: &&Names| !ids.iter().any(|id| line.names(id));
            let lines = all.iter().filter(none);
            idle.extend(lines.map(|line| (line.place.to_string(), line.regex.to_string())));
        };
        baseline.flakes = baseline.expressions(&files.flakes, &ids, &mut problems);
        named(&baseline.flakes, &mut idle);
        baseline.idle = without_a_trial("warning", &idle, &ids);
        let mut idle = Vec::new();
        baseline.skips = baseline.expressions(&files.skips, &ids, &mut problems);
        named(&baseline.skips, &mut idle);
        let idle = without_a_trial("error", &idle, &ids);
        if !idle.is_empty() {
            problems.extend(idle);
            problems.push(
                "error: nothing was run, because lines of `--skips` name no trial: mend or remove these lines"
                    .to_owned(),
            );
        }
        if problems.is_empty() { Ok(baseline) } else { Err(Stop::usage(problems.join("\n"))) }
    }

    /// Lines that are regular expressions, or the very names of trials.
    fn expressions(
        &mut self,
        paths: &[PathBuf],
        ids: &BTreeSet<String>,
        problems: &mut Vec<String>,
    ) -> Vec<Names> {
        let mut all = Vec::new();
        for path in paths {
            for (place, line) in self.lines(path, problems) {
                let trial = ids.contains(&line).then(|| line.clone());
                // Values of an axis may make a name no expression: `[n=9-1]`.
                let alone = trial.as_ref().map(|trial| Regex::new(&regex::escape(trial)));
                match Regex::new(&line).or_else(|error| alone.unwrap_or(Err(error))) {
                    Ok(regex) => all.push(Names { regex, trial, place }),
                    Err(error) => {
                        let why = error.to_string();
                        let why =
                            why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                        problems.push(format!(
                            "error: {place}:1: `{line}` is not a regular expression: {why}"
                        ));
                    }
                }
            }
        }
        all
    }

    /// The lines of a file that say something.
    fn lines(&mut self, path: &Path, problems: &mut Vec<String>) -> Vec<(Place, String)> {
        let file = path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                problems.push(format!("error: cannot read `{file}`: {error}"));
                return Vec::new();
            }
        };
        // Editors put a mark of the byte order in front, which is no part of the first name.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines = (1..).zip(text.lines()).map(|(line, text)| (line, text.trim()));
        let lines = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
        let place = |line| Place { file: file.clone(), line };
        let lines = lines.map(|(line, text)| (place(line), text.to_owned())).collect();
        self.text.push_str(&format!("{} {text}\n", text.len()));
        lines
    }

    /// Takes out what is not to be run, and says how much that is.
    ///
    /// # Errors
    /// Nothing is left.
    pub fn without_skips(&self, selected: &mut Vec<Selected<'_>>) -> Result<Option<String>, Stop> {
        if self.skips.is_empty() {
            return Ok(None);
        }
        let all = selected.len();
        selected.retain(|selected| {
            let id = selected.id();
            !self.skips.iter().any(|line| line.names(&id))
        });
        let left_out = all - selected.len();
        if selected.is_empty() && all > 0 {
            return Err(Stop::nothing("error: every trial is left out by `--skips`"));
        }
        Ok((left_out > 0).then(|| format!("{} left out by `--skips`", count(left_out, "trial"))))
    }

    /// The verdict with what is known here. What a window of the case says comes first.
    pub(crate) fn judge(&self, record: &mut Record) {
        if record.verdict.known.is_some() {
            return;
        }
        let line = self.fails.get(&record.trial);
        let flake = self.flakes.iter().find(|line| line.names(&record.trial));
        let (kind, how, place) = match (record.verdict.kind, line, flake) {
            (VerdictKind::NewsFail, Some((status, place)), _)
                if *status == Status::Flake || Status::of(record.outcome.kind) == Some(*status) =>
            {
                (VerdictKind::Known, status.word(), place)
            }
            (VerdictKind::NewsFail, _, Some(Names { place, .. })) => {
                (VerdictKind::Known, Status::Flake.word(), place)
            }
            (VerdictKind::NewsFail, Some((status, place)), None) => {
                (VerdictKind::NewsChanged, status.word(), place)
            }
            (VerdictKind::Pass, Some((status, place)), None) if *status != Status::Flake => {
                (VerdictKind::NewsFixed, status.word(), place)
            }
            _ => return,
        };
        let known = Known {
            card: None,
            driver: None,
            gfx: Vec::new(),
            rocm: VersionRange::ALL,
            signature: how.to_owned(),
            upstream: Some(place.to_string()),
            difference: None,
        };
        record.verdict = Verdict { kind, known: Some(known) };
    }
}

/// What is told of lines, by their places, that name none of these trials.
fn without_a_trial(level: &str, lines: &[(String, String)], ids: &BTreeSet<String>) -> Vec<String> {
    let told = lines.iter().take(TOLD).map(|(place, line)| {
        let help = case_names::nearest(line, ids.iter().map(String::as_str))
            .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        format!("{level}: {place}: `{line}` names no trial of the library{help}")
    });
    let more = match lines.len().saturating_sub(TOLD) {
        0 => None,
        more => Some(format!("{level}: and {} that name no trial", count(more, "other line"))),
    };
    told.chain(more).collect()
}

/// The trial and status of a line. A name has commas, a status has none.
fn status(line: &str) -> Result<(&str, Status), (usize, String)> {
    let words = || Status::ALL.map(|(word, _)| word).join(", ");
    let Some((name, word)) = line.rsplit_once(',') else {
        return Err((1, format!("`{line}` is not TRIAL,STATUS; a status is one of {}", words())));
    };
    match Status::ALL.iter().find(|(known, _)| *known == word.trim()) {
        Some((_, status)) => Ok((name.trim(), *status)),
        None => Err((
            line[..name.len() + 1].chars().count() + 1,
            format!("`{word}` is no status that a baseline can have; it is one of {}", words()),
        )),
    }
}

/// The trials that failed, as a baseline: `TRIAL,STATUS`, in the order of names. Those that failed in several ways, or passed
/// besides, are flakes.
pub fn written(records: &[Record]) -> String {
    let mut trials: BTreeMap<&str, (usize, Vec<Status>)> = BTreeMap::new();
    for record in records {
        let (passed, failed) = trials.entry(&record.trial).or_default();
        *passed += usize::from(record.outcome.kind == Kind::Pass);
        failed.extend(Status::of(record.outcome.kind));
    }
    let line = |(trial, (passed, failed)): (&str, (usize, Vec<Status>))| {
        let first = *failed.first()?;
        let same = passed == 0 && failed.iter().all(|status| *status == first);
        let status = if same { first } else { Status::Flake };
        Some(format!("{trial},{}\n", status.word()))
    };
    trials.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_trial_and_a_status() {
        assert_eq!(status("a/b[x=1,y=2],Crash"), Ok(("a/b[x=1,y=2]", Status::Crash)));
        assert_eq!(status("a/b, Flake"), Ok(("a/b", Status::Flake)));
        let (column, why) = status("a/b[x=1,y=2]").unwrap_err();
        assert!(column == 9 && why.contains("`y=2]` is no status"), "{column} {why}");
        let (column, why) = status("a/b").unwrap_err();
        assert!(column == 1 && why.contains("is not TRIAL,STATUS"), "{why}");
    }

    #[test]
    fn every_kind_has_one_status_or_is_no_failure() {
        for kind in Kind::ALL {
            assert_eq!(Status::of(kind).is_some(), kind.is_failure(), "{kind:?}");
        }
    }
}
