//! Defines the lines of a record file: a run begins, a trial begins, a provisional result, a final record, a run ends.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::{FORMAT, Record, RecordError, Shard, text::escape};

/// Plan of a run, written as the first line of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Opened")]
pub struct RunPlan {
    /// Version of the record format, 1.
    pub format: u32,
    /// Date on which the run began, RFC 3339 in UTC.
    pub opened: String,
    /// Name of the run.
    pub run: String,
    /// Name of the run that this run resumes, if any. The trials keep their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// Names of the trials, in the order of their numbers. If `repeat` is not 1, each trial has that many consecutive
    /// numbers.
    pub trials: Vec<String>,
    /// Number of times that each trial runs.
    #[serde(deserialize_with = "repetitions")]
    pub repeat: u32,
    /// Shard to which the trials belong; absent if the run contains all trials.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "shard")]
    pub shard: Option<Shard>,
    /// Digest of all trials, including those of other shards, of the options and of the libraries. Only runs with equal
    /// digests belong together.
    pub digest: String,
    /// Identity of the build of rocrepro that began the run, as in records. Empty if it is unknown, or if shards from
    /// several builds were merged.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// Names of the runs of the shards that were merged into this run; empty if the run was not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
}

impl RunPlan {
    /// Returns the name of the trial with this number; `None` if no such number is planned.
    pub fn trial(&self, number: u64) -> Option<&String> {
        let at = number.checked_div(u64::from(self.repeat))?;
        self.trials.get(usize::try_from(at).ok()?)
    }

    /// Returns the number of planned records: the number of trials times the number of repetitions.
    pub fn planned(&self) -> u64 {
        u64::from(self.repeat).saturating_mul(self.trials.len() as u64)
    }

    /// Returns the planned trials whose numbers are not in `recorded`.
    ///
    /// A short line in a file can plan billions of repetitions, so the time must not depend on the number of
    /// repetitions. It is proportional to the number of trials and of recorded numbers.
    pub fn missing(&self, recorded: impl IntoIterator<Item = u64>) -> Missing {
        let planned = self.planned();
        let recorded: BTreeSet<u64> = recorded.into_iter().filter(|n| *n < planned).collect();
        let of_each = MAX_LISTED.checked_div(self.trials.len()).unwrap_or_default().max(1);
        let repeat = u64::from(self.repeat);
        let listed = (0..).zip(&self.trials).flat_map(|(at, trial)| {
            let numbers = at * repeat..(at + 1) * repeat;
            let missing = numbers.filter(|number| !recorded.contains(number));
            missing.take(of_each).map(move |number| (number, trial.clone()))
        });
        Missing { listed: listed.collect(), count: planned - recorded.len() as u64 }
    }
}

/// Maximum number of missing repetitions that are listed by name. If a run has more trials than this, one repetition of
/// each trial is listed.
const MAX_LISTED: usize = 10_000;

/// Planned trials of a run that have no record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Number and name of the first missing repetitions of each trial. The list is complete if at most 10000
    /// repetitions are missing.
    pub listed: Vec<(u64, String)>,
    /// Number of all missing repetitions.
    pub count: u64,
}

/// Maximum number of times that a run may repeat a trial, as on the command line.
pub const MOST_REPETITIONS: u32 = 1_000_000;

fn shard<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Shard>, D::Error> {
    let shard = Option::<Shard>::deserialize(from)?;
    shard.map(Shard::validated).transpose().map_err(D::Error::custom)
}

fn repetitions<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let repeat = u32::deserialize(from)?;
    if (1..=MOST_REPETITIONS).contains(&repeat) {
        return Ok(repeat);
    }
    Err(D::Error::custom(format!("repeat must be 1 to {MOST_REPETITIONS}, not {repeat}")))
}

/// A trial begins. If no [`Record`] of the trial follows, the trial may have crashed the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Begun")]
pub struct TrialStart {
    /// Version of the record format, 1.
    pub format: u32,
    /// Date on which the trial began, RFC 3339 in UTC.
    pub begun: String,
    /// Name of the run to which the trial belongs.
    pub run: String,
    /// Number of the trial in the run.
    pub number: u64,
    /// Name of the trial, for example `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// Command that repeats the trial.
    pub again: String,
    /// Process id of the rocrepro that ran the trial.
    pub pid: u32,
    /// Boot id of Linux, which changes each time the machine starts.
    pub boot: String,
}

/// Provisional result of a trial, written before its GPU health check. The final [`Record`] follows. If rocrepro is
/// killed during the check, the provisional result is used as the trial's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Ended")]
pub struct ProvisionalRecord {
    /// Version of the record format, 1.
    pub format: u32,
    /// Date on which the trial ended, RFC 3339 in UTC.
    pub ended: String,
    /// Name of the run to which the trial belongs.
    pub run: String,
    /// Number of the trial in the run.
    pub number: u64,
    /// Record of the trial, without the result of the health check.
    pub record: Box<Record>,
}

/// End of a run: the run finished or was interrupted, or a run that resumed it found that it had ended. Trials that
/// began but have no record were given up, so they do not count as lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Over")]
pub struct RunEnd {
    /// Version of the record format, 1.
    pub format: u32,
    /// Date on which the run ended, RFC 3339 in UTC.
    pub over: String,
    /// Name of the run.
    pub run: String,
}

/// A line of a record file. The fields `opened`, `begun`, `ended` and `over` distinguish the kinds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Line {
    /// A run begins.
    Opened(RunPlan),
    /// A trial begins.
    Begun(TrialStart),
    /// A trial ended, and its GPU health check follows.
    Ended(ProvisionalRecord),
    /// A run is over.
    Over(RunEnd),
    /// A trial has its final record.
    Trial(Box<Record>),
}

impl Line {
    /// Parses a line of a record file.
    ///
    /// # Errors
    /// The text is not such a line, or has another version of the format.
    pub fn parse(line: &str) -> Result<Line, RecordError> {
        #[derive(Deserialize)]
        struct LineHeader {
            format: u32,
            opened: Option<serde::de::IgnoredAny>,
            begun: Option<serde::de::IgnoredAny>,
            ended: Option<serde::de::IgnoredAny>,
            over: Option<serde::de::IgnoredAny>,
        }
        // The version of the format is checked first, because a line with a later version may lack required fields.
        let head: LineHeader = serde_json::from_str(line)?;
        if head.format != FORMAT {
            return Err(RecordError::Format(head.format));
        }
        let mut line = match head {
            LineHeader { opened: Some(_), .. } => Line::Opened(serde_json::from_str(line)?),
            LineHeader { begun: Some(_), .. } => Line::Begun(serde_json::from_str(line)?),
            LineHeader { ended: Some(_), .. } => Line::Ended(serde_json::from_str(line)?),
            LineHeader { over: Some(_), .. } => Line::Over(serde_json::from_str(line)?),
            LineHeader { .. } => Line::Trial(Box::new(serde_json::from_str(line)?)),
        };
        line.escape_names();
        Ok(line)
    }

    /// Escapes control characters in all names, see [`Record::escape_names`].
    fn escape_names(&mut self) {
        match self {
            Line::Opened(RunPlan {
                opened, run, resumes, trials, digest, build, merged, ..
            }) => {
                [opened, run, digest, build].into_iter().chain(resumes).for_each(escape);
                trials.iter_mut().chain(merged).for_each(escape);
            }
            Line::Begun(TrialStart { begun, run, trial, again, boot, .. }) => {
                [begun, run, trial, again, boot].into_iter().for_each(escape);
            }
            Line::Ended(ProvisionalRecord { ended, run, record, .. }) => {
                [ended, run].into_iter().for_each(escape);
                record.escape_names();
            }
            Line::Over(RunEnd { over, run, .. }) => [over, run].into_iter().for_each(escape),
            Line::Trial(record) => record.escape_names(),
        }
    }
}

/// Parses a line that [`crate::to_line`] wrote.
///
/// # Errors
/// The text is not a record, or has another version of the format.
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

/// Returns the records of the finished trials in the text of a record file.
///
/// # Errors
/// A line is not valid in a record file. The first such line is reported.
pub fn records(text: &str) -> Result<Vec<Record>, RecordError> {
    let (mut records, mut ended) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match Line::parse(line)? {
            Line::Trial(record) => records.push(*record),
            Line::Ended(ProvisionalRecord { record, .. }) => ended.push(*record),
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

/// Returns the trials that began but have no record, in the order in which they began. Trials whose run has ended are
/// left out, and so are trials that have a record in a run that resumed their run. Incomplete lines are skipped.
pub fn unfinished(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<TrialStart> {
    /// Fields that show whether a line ends a trial. The rest of a long record is not parsed.
    #[derive(Deserialize)]
    struct LineIdentity {
        run: String,
        number: Option<u64>,
        begun: Option<serde::de::IgnoredAny>,
        opened: Option<serde::de::IgnoredAny>,
        resumes: Option<String>,
    }
    let mut begun: Vec<TrialStart> = Vec::new();
    let (mut over, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let mut resumed: BTreeMap<String, String> = BTreeMap::new();
    for line in lines {
        let line = line.as_ref();
        let Ok(LineIdentity { run, number, begun: begins, opened, resumes }) =
            serde_json::from_str(line)
        else {
            continue;
        };
        match (begins, number) {
            _ if opened.is_some() => drop(resumes.map(|first| resumed.insert(run, first))),
            (Some(_), _) => begun.extend(serde_json::from_str::<TrialStart>(line)),
            (None, Some(number)) => drop(ended.insert((run, number))),
            (None, None) => drop(over.insert(run)),
        }
    }
    let first = |run: &str| resumed.get(run).map_or(run, String::as_str).to_owned();
    let ended: BTreeSet<_> = ended.iter().map(|(run, number)| (first(run), *number)).collect();
    begun.iter_mut().for_each(|b| {
        [&mut b.run, &mut b.trial, &mut b.again, &mut b.boot].into_iter().for_each(escape);
    });
    begun.retain(|b| !over.contains(&b.run) && !ended.contains(&(first(&b.run), b.number)));
    // If a trial began several times, only the last time is returned.
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
        let begun = TrialStart {
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
        let over = RunEnd { format: FORMAT, over: "later".to_owned(), run: run.to_owned() };
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
        // A run that has ended has given up the trials without a record.
        check(&[begun("a", 0), begun("a", 1), ended("a", 0), over("a")], &[]);
        check(&[begun("a", 0), begun("a", 1), ended("a", 1)], &[("a", 0)]);
        // Another run uses the same numbers, and an incomplete line does not end a trial.
        let torn = ended("b", 1)[..40].to_owned();
        let lines = [begun("a", 0), ended("a", 0), over("a"), begun("b", 0), begun("b", 1), torn];
        check(&lines, &[("b", 0), ("b", 1)]);
        // Older versions wrote records without a run, and did not write a line when a trial began.
        check(&[ended("", 0), begun("a", 0)], &[("a", 0)]);
    }

    #[test]
    fn names_in_records_are_one_line() {
        let bad = "x\n1 passed\r\u{1b}[2J";
        let mut record = passed("copies/plain[n=1]");
        for name in [&mut record.trial, &mut record.case, &mut record.title, &mut record.run] {
            name.push_str(bad);
        }
        record.device.bdf = bad.to_owned();
        record.device.gfx = bad.to_owned();
        record.outcome.signature = bad.to_owned();
        record.outcome.summary = bad.to_owned();
        record.stacks = vec![format!("hipMalloc{bad} (libamdhip64.so.7)")];
        record.stderr_tail = "two\nlines".to_owned();
        let read = parse(&to_line(&record).unwrap()).unwrap();
        let shown = {
            let options = crate::ViewOptions { trials: true, ..Default::default() };
            crate::run_view(std::slice::from_ref(&read), options, None)
        };
        assert!(!shown.contains("\n1 passed"), "{shown}");
        assert_eq!(
            read.stacks,
            ["hipMalloc".to_owned() + r"x\u{a}1 passed\u{d}\u{1b}[2J (libamdhip64.so.7)"]
        );
        assert_eq!(read.device.bdf, r"x\u{a}1 passed\u{d}\u{1b}[2J");
        assert_eq!(read.stderr_tail, "two\nlines");
    }

    #[test]
    fn missing_trials_are_counted_without_listing_all() {
        let opened = |trials: usize, repeat: u32| RunPlan {
            format: FORMAT,
            opened: String::new(),
            run: "a".to_owned(),
            resumes: None,
            trials: (0..trials).map(|n| format!("copies/plain[n={n}]")).collect(),
            repeat,
            shard: None,
            digest: String::new(),
            build: String::new(),
            merged: Vec::new(),
        };
        let few = opened(2, 2).missing([0, 3, 99]);
        let names = [(1, "copies/plain[n=0]".to_owned()), (2, "copies/plain[n=1]".to_owned())];
        assert_eq!(few, Missing { listed: names.to_vec(), count: 2 });
        // The list contains at least one repetition of each trial, and the count contains all of them.
        for (trials, listed) in [(1, 10_000), (3, 9_999), (20_000, 20_000), (0, 0)] {
            let missing = opened(trials, MOST_REPETITIONS).missing([]);
            let all = trials as u64 * u64::from(MOST_REPETITIONS);
            assert_eq!((missing.listed.len(), missing.count), (listed, all));
        }
    }

    #[test]
    fn rejects_counts_that_no_run_has() {
        let line = |repeat: &str, shard: &str| {
            format!(
                r#"{{"format":1,"opened":"d","run":"a","trials":["x"],"repeat":{repeat},"shard":{shard},"digest":""}}"#
            )
        };
        assert!(Line::parse(&line("1000000", r#"{"number":1,"of":2}"#)).is_ok());
        for (repeat, shard) in [
            ("4000000000", "null"),
            ("0", "null"),
            ("1", r#"{"number":1,"of":4000000000}"#),
            ("1", r#"{"number":0,"of":2}"#),
            ("1", r#"{"number":1,"of":0}"#),
            ("1", r#"{"number":3,"of":2}"#),
        ] {
            assert!(Line::parse(&line(repeat, shard)).is_err(), "{repeat} {shard}");
        }
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
