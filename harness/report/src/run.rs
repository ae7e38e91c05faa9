//! Kinds of lines in a record file: a run begins, a trial begins, a provisional result, a final record, a run ends.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FORMAT, Record, RecordError, Shard};

/// Plan of a run, the first line of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Opened {
    /// Version of this format, 1.
    pub format: u32,
    /// Date of the line, RFC 3339 in UTC.
    pub opened: String,
    /// Name of the run.
    pub run: String,
    /// Run that this one resumes, if any. Trials keep the numbers of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// Trials in the order of their numbers. With repetitions, each trial has that many consecutive numbers.
    pub trials: Vec<String>,
    /// Number of repetitions of each trial.
    pub repeat: u32,
    /// Shard of the trials; absent if the run has all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Digest of all trials (of all shards), the options and the libraries. Only runs with equal digests belong
    /// together.
    pub digest: String,
    /// Identity of the build of rocrepro that began the run, as in records. Empty if unknown, or if shards of several
    /// builds were merged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// Runs of the shards that were merged into this one; empty if it was not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
}

impl Opened {
    /// Returns the trial with this number.
    pub fn trial(&self, number: u64) -> Option<&String> {
        let at = number.checked_div(u64::from(self.repeat))?;
        self.trials.get(usize::try_from(at).ok()?)
    }

    /// Returns all numbers with their trials.
    pub fn all(&self) -> impl Iterator<Item = (u64, &str)> {
        let repeated = |trial| std::iter::repeat_n(trial, self.repeat as usize);
        (0..).zip(self.trials.iter().map(String::as_str).flat_map(repeated))
    }
}

/// Begin of a trial. If no [`Record`] follows, this line names the trial that took the machine down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Begun {
    /// Version of this format, 1.
    pub format: u32,
    /// Date of the line, RFC 3339 in UTC.
    pub begun: String,
    /// The run that the trial belongs to.
    pub run: String,
    /// Number of the trial in the run.
    pub number: u64,
    /// The trial, such as `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// Command that repeats the trial.
    pub again: String,
    /// Process id of the rocrepro that runs it.
    pub pid: u32,
    /// Boot id of the kernel, which changes at every start of the machine.
    pub boot: String,
}

/// Provisional result of a trial, written before its GPU health check. The final [`Record`] follows; if rocrepro is
/// killed during the check, this line counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// Version of this format, 1.
    pub format: u32,
    /// Date of the line, RFC 3339 in UTC.
    pub ended: String,
    /// The run that the trial belongs to.
    pub run: String,
    /// Number of the trial in the run.
    pub number: u64,
    /// Provisional record.
    pub record: Box<Record>,
}

/// End of a run: it finished, was interrupted, or was found ended by the run that resumed it. Begun trials without a
/// record were given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Over {
    /// Version of this format, 1.
    pub format: u32,
    /// Date of the line, RFC 3339 in UTC.
    pub over: String,
    /// Name of the run.
    pub run: String,
}

/// A line of a record file. The fields `opened`, `begun`, `ended` and `over` distinguish the kinds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Line {
    /// A run begins.
    Opened(Opened),
    /// A trial begins.
    Begun(Begun),
    /// A trial ended, and its GPU health check follows.
    Ended(Ended),
    /// A run is over.
    Over(Over),
    /// A trial has its final record.
    Trial(Box<Record>),
}

impl Line {
    /// Parses a line of a record file.
    ///
    /// # Errors
    /// Returns an error for another text or for a line of another format.
    pub fn parse(line: &str) -> Result<Line, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
            opened: Option<serde::de::IgnoredAny>,
            begun: Option<serde::de::IgnoredAny>,
            ended: Option<serde::de::IgnoredAny>,
            over: Option<serde::de::IgnoredAny>,
        }
        // The format is checked first, because a line of a later format may lack required fields.
        let head: Head = serde_json::from_str(line)?;
        if head.format != FORMAT {
            return Err(RecordError::Format(head.format));
        }
        Ok(match head {
            Head { opened: Some(_), .. } => Line::Opened(serde_json::from_str(line)?),
            Head { begun: Some(_), .. } => Line::Begun(serde_json::from_str(line)?),
            Head { ended: Some(_), .. } => Line::Ended(serde_json::from_str(line)?),
            Head { over: Some(_), .. } => Line::Over(serde_json::from_str(line)?),
            Head { .. } => Line::Trial(Box::new(serde_json::from_str(line)?)),
        })
    }
}

/// Parses a line that [`crate::to_line`] wrote.
///
/// # Errors
/// Returns an error for another text or for a record of another format.
pub fn parse(line: &str) -> Result<Record, RecordError> {
    match Line::parse(line)? {
        Line::Trial(record) => Ok(*record),
        Line::Opened(_) | Line::Begun(_) | Line::Ended(_) | Line::Over(_) => {
            Err(RecordError::NoTrial)
        }
    }
}

/// Returns the JSON Schema of a line of a record file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

/// Returns the records of the finished trials in a record file.
///
/// # Errors
/// Returns an error for the first line that is not valid in a record file.
pub fn records(text: &str) -> Result<Vec<Record>, RecordError> {
    let (mut records, mut ended) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match Line::parse(line)? {
            Line::Trial(record) => records.push(*record),
            Line::Ended(Ended { record, .. }) => ended.push(*record),
            Line::Opened(_) | Line::Begun(_) | Line::Over(_) => {}
        }
    }
    let same = |a: &Record, b: &Record| (&a.run, a.number) == (&b.run, b.number);
    for one in ended {
        if !records.iter().any(|record| same(&one, record)) {
            records.push(one);
        }
    }
    Ok(records)
}

/// Returns the trials that began and have neither a record nor the end of their run, in the order in which they began.
/// Records of a run that resumed theirs count. Incomplete lines are skipped.
pub fn unfinished(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Begun> {
    /// Fields that show whether a line ends a trial; the rest of a long record is not parsed.
    #[derive(Deserialize)]
    struct Of {
        run: String,
        number: Option<u64>,
        begun: Option<serde::de::IgnoredAny>,
        opened: Option<serde::de::IgnoredAny>,
        resumes: Option<String>,
    }
    let mut begun: Vec<Begun> = Vec::new();
    let (mut over, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let mut resumed: BTreeMap<String, String> = BTreeMap::new();
    for line in lines {
        let line = line.as_ref();
        let Ok(Of { run, number, begun: begins, opened, resumes }) = serde_json::from_str(line)
        else {
            continue;
        };
        match (begins, number) {
            _ if opened.is_some() => drop(resumes.map(|first| resumed.insert(run, first))),
            (Some(_), _) => begun.extend(serde_json::from_str::<Begun>(line)),
            (None, Some(number)) => drop(ended.insert((run, number))),
            (None, None) => drop(over.insert(run)),
        }
    }
    let first = |run: &str| resumed.get(run).map_or(run, String::as_str).to_owned();
    let ended: BTreeSet<_> = ended.iter().map(|(run, number)| (first(run), *number)).collect();
    begun.retain(|b| !over.contains(&b.run) && !ended.contains(&(first(&b.run), b.number)));
    // A trial that began several times is returned once, with its last begin.
    let mut seen = BTreeSet::new();
    begun.reverse();
    begun.retain(|b| seen.insert((first(&b.run), b.number)));
    begun.reverse();
    begun
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture::passed, to_line};

    fn begun(run: &str, number: u64) -> String {
        let begun = Begun {
            format: FORMAT,
            begun: "2026-11-21T01:02:03Z".to_owned(),
            run: run.to_owned(),
            number,
            trial: format!("copies/plain[n={number}]"),
            again: "rocrepro run".to_owned(),
            pid: 42,
            boot: "b".to_owned(),
        };
        serde_json::to_string(&begun).unwrap()
    }

    fn over(run: &str) -> String {
        let over = Over { format: FORMAT, over: "later".to_owned(), run: run.to_owned() };
        serde_json::to_string(&over).unwrap()
    }

    fn ended(run: &str, number: u64) -> String {
        let record = Record { run: run.to_owned(), number, ..passed("copies/plain[n=1]") };
        to_line(&record).unwrap()
    }

    #[track_caller]
    fn check(lines: &[String], expected: &[(&str, u64)]) {
        let found = unfinished(lines.iter().map(String::as_str));
        let found: Vec<_> = found.iter().map(|b| (b.run.as_str(), b.number)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn finds_trials_without_an_end() {
        check(&[], &[]);
        check(&[begun("a", 0), ended("a", 0), over("a")], &[]);
        // The end of a run means that its other trials were given up.
        check(&[begun("a", 0), begun("a", 1), ended("a", 0), over("a")], &[]);
        check(&[begun("a", 0), begun("a", 1), ended("a", 1)], &[("a", 0)]);
        // Another run uses the same numbers, and an incomplete line ends nothing.
        let torn = ended("b", 1)[..40].to_owned();
        let lines = [begun("a", 0), ended("a", 0), over("a"), begun("b", 0), begun("b", 1), torn];
        check(&lines, &[("b", 0), ("b", 1)]);
        // Records of versions that did not write begins.
        check(&[ended("", 0), begun("a", 0)], &[("a", 0)]);
    }

    #[test]
    fn distinguishes_kinds_of_lines() {
        let text = [begun("a", 0), ended("a", 0), over("a")];
        let lines: Vec<_> = text.iter().map(|line| Line::parse(line).unwrap()).collect();
        assert!(matches!(lines[..], [Line::Begun(_), Line::Trial(_), Line::Over(_)]));
        let again: Vec<_> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        assert_eq!(again, text);
        assert_eq!(records(&text.join("\n")).unwrap().len(), 1);
        assert!(records("{}").is_err());
        assert!(matches!(Line::parse(r#"{"format":2,"over":"x"}"#), Err(RecordError::Format(2))));
    }
}
