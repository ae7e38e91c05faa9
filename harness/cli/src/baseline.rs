//! What somebody already knows of the trials of a run, in the files of deqp-runner: what fails, what fails now and then, what is
//! not run. The forms: <https://gitlab.freedesktop.org/mesa/deqp-runner/-/blob/main/README.md>.

use std::{collections::BTreeMap, fs, path::Path};

use judge::{Kind, Known, Verdict, VerdictKind};
use plan::VersionRange;
use regex::Regex;
use report::{Record, count};

use crate::{Selected, Stop, args::Baselines};

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

/// What is known of the trials of a run.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    fails: BTreeMap<String, (Status, Place)>,
    flakes: Vec<(Regex, Place)>,
    skips: Vec<(Regex, Place)>,
    /// All files as they were read, for who compares two runs.
    pub(crate) text: String,
}

impl Baseline {
    /// Reads the files that are named.
    ///
    /// # Errors
    /// All mistakes, each with file, line and column.
    pub(crate) fn read(args: &Baselines) -> Result<Baseline, Stop> {
        let (mut baseline, mut problems) = (Baseline::default(), Vec::new());
        for path in &args.baseline {
            for (place, line) in baseline.lines(path, &mut problems) {
                match status(&line) {
                    Ok((name, status)) => match baseline.fails.get(name) {
                        Some((_, first)) => {
                            problems.push(format!(
                                "error: {place}:1: `{name}` stands in {first} already"
                            ));
                        }
                        None => _ = baseline.fails.insert(name.to_owned(), (status, place)),
                    },
                    Err((column, why)) => problems.push(format!("error: {place}:{column}: {why}")),
                }
            }
        }
        for (path, skips) in
            args.flakes.iter().map(|p| (p, false)).chain(args.skips.iter().map(|p| (p, true)))
        {
            for (place, line) in baseline.lines(path, &mut problems) {
                match Regex::new(&line) {
                    Ok(regex) if skips => baseline.skips.push((regex, place)),
                    Ok(regex) => baseline.flakes.push((regex, place)),
                    Err(error) => {
                        let why = error.to_string();
                        let why =
                            why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                        problems.push(format!(
                            "error: {place}:1: `{line}` is no regular expression: {why}"
                        ));
                    }
                }
            }
        }
        if problems.is_empty() { Ok(baseline) } else { Err(Stop::usage(problems.join("\n"))) }
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
    pub(crate) fn without_skips(
        &self,
        selected: &mut Vec<Selected<'_>>,
    ) -> Result<Option<String>, Stop> {
        if self.skips.is_empty() {
            return Ok(None);
        }
        let all = selected.len();
        selected.retain(|selected| {
            let id = selected.id();
            !self.skips.iter().any(|(regex, _)| regex.is_match(&id))
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
        let flake = self.flakes.iter().find(|(regex, _)| regex.is_match(&record.trial));
        let (kind, how, place) = match (record.verdict.kind, line, flake) {
            (VerdictKind::NewsFail, Some((status, place)), _)
                if *status == Status::Flake || Status::of(record.outcome.kind) == Some(*status) =>
            {
                (VerdictKind::Known, status.word(), place)
            }
            (VerdictKind::NewsFail, _, Some((_, place))) => {
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
            gfx: Vec::new(),
            rocm: VersionRange::ALL,
            signature: how.to_owned(),
            upstream: Some(place.to_string()),
        };
        record.verdict = Verdict { kind, known: Some(known) };
    }
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
pub(crate) fn written(records: &[Record]) -> String {
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
