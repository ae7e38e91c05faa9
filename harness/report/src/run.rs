//! The lines of a record file: that a trial begins, how it ended, what came of it, that its run is over.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FORMAT, Record, RecordError, Shard};

/// What a run is going to do: the first line of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Opened {
    /// Version of this format, 1.
    pub format: u32,
    /// When, RFC 3339 in UTC.
    pub opened: String,
    /// The run.
    pub run: String,
    /// The run that it goes on with, where it resumes one: its trials have the numbers that they have there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// The trials, in the order of their numbers. Each has as many numbers as there are repetitions.
    pub trials: Vec<String>,
    /// How often each is run.
    pub repeat: u32,
    /// Which part of all trials these are; none where they are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// What is the same only for the same trials, of all shards, with the same options on the same libraries.
    pub digest: String,
    /// Identity of the build of rocrepro that began the run, as in records. Empty if it is unknown, or if shards of several builds were
    /// merged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The runs of the shards that were put together in it; empty where it was run itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
}

impl Opened {
    /// The trial of a number.
    pub fn trial(&self, number: u64) -> Option<&String> {
        let at = number.checked_div(u64::from(self.repeat))?;
        self.trials.get(usize::try_from(at).ok()?)
    }

    /// Every number, with its trial.
    pub fn all(&self) -> impl Iterator<Item = (u64, &str)> {
        let repeated = |trial| std::iter::repeat_n(trial, self.repeat as usize);
        (0..).zip(self.trials.iter().map(String::as_str).flat_map(repeated))
    }
}

/// That a trial begins. Its [`Record`] comes later; where none comes, this names the trial that took the machine down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Begun {
    /// Version of this format, 1.
    pub format: u32,
    /// When, RFC 3339 in UTC.
    pub begun: String,
    /// The run that the trial belongs to.
    pub run: String,
    /// Its number in the run.
    pub number: u64,
    /// The trial, such as `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// The command that repeats this trial.
    pub again: String,
    /// The process that runs it.
    pub pid: u32,
    /// The kernel's id of the time since the machine was started.
    pub boot: String,
}

/// How a trial ended after which its GPU is looked at. Its [`Record`] with what was found follows; where whoever looked was ended
/// meanwhile none does, and this one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// Version of this format, 1.
    pub format: u32,
    /// When, RFC 3339 in UTC.
    pub ended: String,
    /// The run that the trial belongs to.
    pub run: String,
    /// Its number in the run.
    pub number: u64,
    /// The record, as far as it is known.
    pub record: Box<Record>,
}

/// That a run is over, in good order, by an interruption that it saw, or as the run found that resumed it: what it began and has no record was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Over {
    /// Version of this format, 1.
    pub format: u32,
    /// When, RFC 3339 in UTC.
    pub over: String,
    /// The run.
    pub run: String,
}

/// A line of a record file. Which one it is shows by its fields `opened`, `begun`, `ended` and `over`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Line {
    /// A run begins.
    Opened(Opened),
    /// A trial begins.
    Begun(Begun),
    /// A trial ended, and its GPU is looked at.
    Ended(Ended),
    /// A run is over.
    Over(Over),
    /// A trial is over.
    Trial(Box<Record>),
}

impl Line {
    /// Reads a line of a record file.
    ///
    /// # Errors
    /// Text that is no such line, or one of another format.
    pub fn parse(line: &str) -> Result<Line, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
            opened: Option<serde::de::IgnoredAny>,
            begun: Option<serde::de::IgnoredAny>,
            ended: Option<serde::de::IgnoredAny>,
            over: Option<serde::de::IgnoredAny>,
        }
        // The format first: a line of a later one may lack what this one must have.
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

/// Reads a line that [`crate::to_line`] wrote.
///
/// # Errors
/// Text that is no record, or a record of another format.
pub fn parse(line: &str) -> Result<Record, RecordError> {
    match Line::parse(line)? {
        Line::Trial(record) => Ok(*record),
        Line::Opened(_) | Line::Begun(_) | Line::Ended(_) | Line::Over(_) => {
            Err(RecordError::NoTrial)
        }
    }
}

/// The JSON Schema of a line of a record file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Line).to_value()
}

/// The trials of a record file that are over.
///
/// # Errors
/// The first line that is none of a record file.
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

/// The trials that began and have neither a record nor the end of their run, in the order in which they began. A record of a run
/// that resumed theirs counts. A line that
/// was torn when its writer ended is passed over.
pub fn unfinished(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Begun> {
    /// What tells whether a line ends a trial; the rest of a long record is not read.
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
    // One that was begun again is told once, as it began last.
    let mut told = BTreeSet::new();
    begun.reverse();
    begun.retain(|b| told.insert((first(&b.run), b.number)));
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
    fn what_began_and_never_ended_is_found() {
        check(&[], &[]);
        check(&[begun("a", 0), ended("a", 0), over("a")], &[]);
        // The end of a run tells that the rest was given up.
        check(&[begun("a", 0), begun("a", 1), ended("a", 0), over("a")], &[]);
        check(&[begun("a", 0), begun("a", 1), ended("a", 1)], &[("a", 0)]);
        // Another run has the same numbers, and a torn line ends nothing.
        let torn = ended("b", 1)[..40].to_owned();
        let lines = [begun("a", 0), ended("a", 0), over("a"), begun("b", 0), begun("b", 1), torn];
        check(&lines, &[("b", 0), ("b", 1)]);
        // Records from before there were runs.
        check(&[ended("", 0), begun("a", 0)], &[("a", 0)]);
    }

    #[test]
    fn each_line_is_read_as_what_it_is() {
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
