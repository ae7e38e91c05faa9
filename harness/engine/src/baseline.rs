//! Baselines: expected failures, flaky trials and trials to skip, in the formats of
//! [deqp-runner](https://gitlab.freedesktop.org/mesa/deqp-runner/-/blob/main/README.md).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use judge::{Kind, Known, Verdict, VerdictKind};
use plan::VersionRange;
use regex::Regex;
use report::{Record, count};

use thiserror::Error;

use crate::{
    CaseLibrary, FailedOperation, FailureClass, Selected, Stop, case_names, diagnostics, select,
};

#[derive(Debug, Error)]
enum BaselineError {
    #[error("cannot read `{0}`: {1}")]
    Unreadable(String, io::Error),
    /// The line is not valid: its place, the first wrong column, and the reason.
    #[error("{0}:{1}: {2}")]
    Line(LinePosition, usize, String),
    /// A trial is named twice: the place of the second line, the trial, and the place of the first line.
    #[error("{0}:1: `{1}` is already in {2}")]
    Repeated(LinePosition, String, String),
    /// A line of a skip file matches no trial.
    #[error("{0}")]
    UnusedSkip(String),
    #[error("nothing was run, because some lines of `--skips` match no trial")]
    UnusedSkips,
    #[error("every trial is left out by `--skips`")]
    NothingLeft,
}

impl FailedOperation for BaselineError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NothingLeft => FailureClass::Nothing,
            _ => FailureClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnusedSkips => Some("correct or remove these lines".to_owned()),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Fail,
    Crash,
    Timeout,
    /// The trial fails in several ways, or only sometimes.
    Flake,
}

impl Status {
    const ALL: [(&'static str, Status); 4] = [
        ("Fail", Status::Fail),
        ("Crash", Status::Crash),
        ("Timeout", Status::Timeout),
        ("Flake", Status::Flake),
    ];

    /// Returns the status of a kind of outcome in baselines; `None` if the outcome is not a failure.
    fn from_kind(kind: Kind) -> Option<Status> {
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

#[derive(Debug)]
struct LinePosition {
    file: String,
    line: usize,
}

impl std::fmt::Display for LinePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Debug)]
struct TrialPattern {
    regex: Regex,
    /// Id of the trial, if the line is the id of an existing trial. Ids are compared as text, because `[` is a special
    /// character in a regular expression.
    trial: Option<String>,
    place: LinePosition,
}

impl TrialPattern {
    fn matches(&self, id: &str) -> bool {
        self.trial.as_deref() == Some(id) || self.regex.is_match(id)
    }
}

/// The files of a baseline, in the formats of deqp-runner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaselineFiles {
    /// Files with one line `TRIAL,STATUS` for each expected failure.
    pub fails: Vec<PathBuf>,
    /// Files with one regular expression per line. Failures of matching trials are expected.
    pub flakes: Vec<PathBuf>,
    /// Files with one regular expression per line. Matching trials are left out.
    pub skips: Vec<PathBuf>,
}

/// The expected results of a run's trials.
#[derive(Debug, Default)]
pub struct Baseline {
    fails: BTreeMap<String, (Status, LinePosition)>,
    flakes: Vec<TrialPattern>,
    skips: Vec<TrialPattern>,
    /// Content of all files. An interrupted run can be resumed only if the files still have this content.
    pub text: String,
    /// Warnings about lines that match no trial. In a skip file, such a line is an error instead.
    pub idle: Vec<String>,
}

const MAX_LISTED: usize = 10;

impl Baseline {
    /// Reads the baseline files.
    ///
    /// # Errors
    /// Returns all mistakes, each with file, line and column.
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
                            Some((_, first)) => {
                                let (name, first) = (name.to_owned(), first.to_string());
                                problems.push(BaselineError::Repeated(place, name, first));
                            }
                            None => _ = baseline.fails.insert(name.to_owned(), (status, place)),
                        }
                    }
                    Err((column, why)) => problems.push(BaselineError::Line(place, column, why)),
                }
            }
        }
        let named = |all: &[TrialPattern], idle: &mut Vec<(String, String)>| {
            let none = |line: &&TrialPattern| !ids.iter().any(|id| line.matches(id));
            let lines = all.iter().filter(none);
            idle.extend(lines.map(|line| (line.place.to_string(), line.regex.to_string())));
        };
        baseline.flakes = baseline.expressions(&files.flakes, &ids, &mut problems);
        named(&baseline.flakes, &mut idle);
        let warnings = describe_unmatched(&idle, &ids).into_iter();
        baseline.idle = warnings.map(|text| format!("warning: {text}")).collect();
        let mut idle = Vec::new();
        baseline.skips = baseline.expressions(&files.skips, &ids, &mut problems);
        named(&baseline.skips, &mut idle);
        if !idle.is_empty() {
            problems
                .extend(describe_unmatched(&idle, &ids).into_iter().map(BaselineError::UnusedSkip));
            problems.push(BaselineError::UnusedSkips);
        }
        Stop::unless_empty(problems).map(|()| baseline)
    }

    fn expressions(
        &mut self,
        paths: &[PathBuf],
        ids: &BTreeSet<String>,
        problems: &mut Vec<BaselineError>,
    ) -> Vec<TrialPattern> {
        let mut all = Vec::new();
        for path in paths {
            for (place, line) in self.lines(path, problems) {
                let trial = ids.contains(&line).then(|| line.clone());
                // A trial's id need not be a valid regular expression, for example `[n=9-1]`.
                let alone = trial.as_ref().map(|trial| Regex::new(&regex::escape(trial)));
                match Regex::new(&line).or_else(|error| alone.unwrap_or(Err(error))) {
                    Ok(regex) => all.push(TrialPattern { regex, trial, place }),
                    Err(error) => {
                        let why = diagnostics::regex_error(&error);
                        let why = format!("`{line}` is not a regular expression: {why}");
                        problems.push(BaselineError::Line(place, 1, why));
                    }
                }
            }
        }
        all
    }

    fn lines(
        &mut self,
        path: &Path,
        problems: &mut Vec<BaselineError>,
    ) -> Vec<(LinePosition, String)> {
        let file = path.display().to_string();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                problems.push(BaselineError::Unreadable(file, error));
                return Vec::new();
            }
        };
        // Editors may write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines = (1..).zip(text.lines()).map(|(line, text)| (line, text.trim()));
        let lines = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
        let place = |line| LinePosition { file: file.clone(), line };
        let lines = lines.map(|(line, text)| (place(line), text.to_owned())).collect();
        self.text.push_str(&format!("{} {text}\n", text.len()));
        lines
    }

    /// Removes the trials that the baseline skips, and returns a note with their number.
    ///
    /// # Errors
    /// Returns an error if no trial is left.
    pub fn without_skips(&self, selected: &mut Vec<Selected<'_>>) -> Result<Option<String>, Stop> {
        if self.skips.is_empty() {
            return Ok(None);
        }
        let all = selected.len();
        selected.retain(|selected| {
            let id = selected.id();
            !self.skips.iter().any(|line| line.matches(&id))
        });
        let left_out = all - selected.len();
        if selected.is_empty() && all > 0 {
            return Err(BaselineError::NothingLeft.into());
        }
        Ok((left_out > 0).then(|| format!("{} left out by `--skips`", count(left_out, "trial"))))
    }

    /// Applies the baseline to the verdict of a record. An expected failure that the case declares takes precedence.
    pub(crate) fn judge(&self, record: &mut Record) {
        if record.verdict.known.is_some() {
            return;
        }
        let line = self.fails.get(&record.trial);
        let flake = self.flakes.iter().find(|line| line.matches(&record.trial));
        let (kind, how, place) = match (record.verdict.kind, line, flake) {
            (VerdictKind::NewsFail, Some((status, place)), _)
                if *status == Status::Flake
                    || Status::from_kind(record.outcome.kind) == Some(*status) =>
            {
                (VerdictKind::Known, status.word(), place)
            }
            (VerdictKind::NewsFail, _, Some(TrialPattern { place, .. })) => {
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
            about: None,
            difference: None,
        };
        record.verdict = Verdict { kind, known: Some(known) };
    }
}

fn describe_unmatched(lines: &[(String, String)], ids: &BTreeSet<String>) -> Vec<String> {
    let listed = lines.iter().take(MAX_LISTED).map(|(place, line)| {
        let help = case_names::nearest(line, ids.iter().map(String::as_str))
            .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        format!("{place}: `{line}` matches no trial of the library{help}")
    });
    let more = match lines.len().saturating_sub(MAX_LISTED) {
        0 => None,
        more => Some(format!("and {} that match no trial", count(more, "other line"))),
    };
    listed.chain(more).collect()
}

/// Splits a line into its trial and its status. Only the trial may contain commas.
fn status(line: &str) -> Result<(&str, Status), (usize, String)> {
    let words = || Status::ALL.map(|(word, _)| word).join(", ");
    let Some((name, word)) = line.rsplit_once(',') else {
        return Err((1, format!("`{line}` is not TRIAL,STATUS; a status is one of {}", words())));
    };
    match Status::ALL.iter().find(|(known, _)| *known == word.trim()) {
        Some((_, status)) => Ok((name.trim(), *status)),
        None => Err((
            line[..name.len() + 1].chars().count() + 1,
            format!("`{word}` is not a status; a status is one of {}", words()),
        )),
    }
}

/// Returns a baseline that expects the failures in `records`, in the order of trial ids. Trials that did not always
/// fail in one way get the status Flake.
pub fn format_baseline(records: &[Record]) -> String {
    let mut trials: BTreeMap<&str, (usize, Vec<Status>)> = BTreeMap::new();
    for record in records {
        let (passed, failed) = trials.entry(&record.trial).or_default();
        *passed += usize::from(record.outcome.kind == Kind::Pass);
        failed.extend(Status::from_kind(record.outcome.kind));
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
    fn parses_trial_and_status() {
        assert_eq!(status("a/b[x=1,y=2],Crash"), Ok(("a/b[x=1,y=2]", Status::Crash)));
        assert_eq!(status("a/b, Flake"), Ok(("a/b", Status::Flake)));
        let (column, why) = status("a/b[x=1,y=2]").unwrap_err();
        assert!(column == 9 && why.contains("`y=2]` is not a status"), "{column} {why}");
        let (column, why) = status("a/b").unwrap_err();
        assert!(column == 1 && why.contains("is not TRIAL,STATUS"), "{why}");
    }

    #[test]
    fn only_failures_have_a_status() {
        for kind in Kind::ALL {
            assert_eq!(Status::from_kind(kind).is_some(), kind.is_failure(), "{kind:?}");
        }
    }
}
