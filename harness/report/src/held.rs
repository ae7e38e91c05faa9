//! Reads one run from a record file, together with the runs that resumed it: its plan, its finished trials, and its
//! missing trials.

pub(crate) mod index;

use std::collections::{BTreeMap, BTreeSet};

use judge::{Kind, Location, Outcome, Verdict, VerdictKind};
use shell::quote;

use crate::{
    Missing, Record, RecordIndex, RequestedOptions, RunIdentity, RunPlan, Shard, TrialStart,
};

/// A recorded run together with the runs that resumed it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// Plan of the first run.
    pub opened: RunPlan,
    /// Final record of each finished trial, by the trial's number.
    pub records: BTreeMap<u64, Record>,
    /// Numbers of the trials that have only a provisional record, because their GPU health check was interrupted.
    pub without_health_check: BTreeSet<u64>,
    /// Trials that began but have no record, by number. Each value is the line that was written when the trial last
    /// began.
    pub lost: BTreeMap<u64, TrialStart>,
}

impl RecordedRun {
    /// Returns all runs in the text of a record file, see [`RecordIndex::read`]. Returns an empty list if the text
    /// cannot be read.
    pub fn parse_all(text: &str) -> Vec<RecordedRun> {
        let Ok(index) = RecordIndex::read(text.as_bytes()) else { return Vec::new() };
        index.runs.iter().filter_map(|run| run.read_run(text.as_bytes(), false).ok()).collect()
    }

    /// Returns the last run in the text of a record file, see [`RecordIndex::last`]. If that run is a shard, the other
    /// shards of the same run are included.
    pub fn parse_last(text: &str) -> Vec<RecordedRun> {
        let Ok(index) = RecordIndex::read(text.as_bytes()) else { return Vec::new() };
        let last = index.last().into_iter();
        last.filter_map(|run| run.read_run(text.as_bytes(), false).ok()).collect()
    }

    /// Returns the planned trials that have no record.
    pub fn missing(&self) -> Missing {
        self.opened.missing(self.records.keys().copied())
    }

    /// Creates records without a verdict for the missing trials. Stack and device are copied from `like`.
    pub fn missing_records(&self, like: &Record) -> Vec<Record> {
        let missing = self.missing().listed;
        let missing = missing.iter().map(|(number, trial)| (*number, trial.as_str()));
        not_run_records(missing, self.records.values(), like)
    }
}

/// Creates records without a verdict for trials that were not run, each given by its number and its name. Stack and
/// device are copied from `like`, titles from other records of the same cases.
pub fn not_run_records<'r>(
    missing: impl IntoIterator<Item = (u64, &'r str)>,
    records: impl IntoIterator<Item = &'r Record>,
    like: &Record,
) -> Vec<Record> {
    let titles: BTreeMap<&str, &str> =
        records.into_iter().map(|r| (r.case.as_str(), r.title.as_str())).collect();
    let missing = missing.into_iter().map(|(number, trial)| {
        let record = missing_record(like, number, trial);
        let title = titles.get(record.case.as_str()).copied().unwrap_or_default().to_owned();
        Record { title, ..record }
    });
    missing.collect()
}

/// Creates a record without a verdict for a trial that was not run. Run, stack and device are copied from `like`.
fn missing_record(like: &Record, number: u64, trial: &str) -> Record {
    let outcome = Outcome {
        kind: Kind::NoVerdict,
        signature: "no-verdict:not-run".to_owned(),
        at: Location::default(),
        summary: "the run ended before this trial finished".to_owned(),
        details: Vec::new(),
    };
    Record {
        number,
        case: trial.split('[').next().unwrap_or(trial).to_owned(),
        trial: trial.to_owned(),
        title: String::new(),
        upstream: Vec::new(),
        faults: Vec::new(),
        // The digest in `like` belongs to another trial; that of this trial is unknown.
        asked: like.asked.clone().map(|asked| RequestedOptions {
            text: String::new(),
            unnamed: String::new(),
            ..asked
        }),
        outcome,
        red: Vec::new(),
        program: None,
        acts: Vec::new(),
        verdict: Verdict { kind: VerdictKind::NoVerdict, known: None },
        wall_ns: 0,
        stderr_tail: String::new(),
        stdout_tail: String::new(),
        stacks: Vec::new(),
        again: like.again.replacen(&quote(&like.trial), &quote(trial), 1),
        ..like.clone()
    }
}

/// Reason why the runs in several files are not the shards of one run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Two files contain runs with different plans. The values are the names of the files.
    #[error("{0} and {1} belong to different runs: their trials, options or libraries differ")]
    Different(String, String),
    /// Two files contain the same shard. The values are the names of the files, and the shard.
    #[error("{0} and {1} both contain the same {2}")]
    Twice(String, String, String),
    /// Some shards are in none of the files. The value names the first of them, and the number of further ones, if any.
    #[error("no file contains {}", .0)]
    Missing(String),
}

/// Checks that the runs are the shards of one run, that none is missing, and that none occurs twice. Each run is given
/// with the name of its file.
///
/// # Errors
/// Returns the first violation.
pub fn check_shards(held: &[(String, RunIdentity)]) -> Result<(), ShardError> {
    let mut seen: BTreeMap<Option<Shard>, &str> = BTreeMap::new();
    let Some((first, whole)) = held.first() else { return Ok(()) };
    for (name, held) in held {
        let (ours, theirs) = (held.shard, whole.shard);
        if held.digest != whole.digest || ours.map(|s| s.of) != theirs.map(|s| s.of) {
            return Err(ShardError::Different(first.clone(), name.clone()));
        }
        if let Some(other) = seen.insert(ours, name) {
            let shard = ours.map_or("run".to_owned(), |shard| format!("shard, {shard}"));
            return Err(ShardError::Twice(other.to_owned(), name.clone(), shard));
        }
    }
    let all = whole.shard.into_iter().flat_map(|shard| shard.all());
    let missing: Vec<_> = all.filter(|shard| !seen.contains_key(&Some(*shard))).collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(ShardError::Missing(format!("shard {one}"))),
        [one, rest @ ..] => {
            Err(ShardError::Missing(format!("shard {one} and {} others", rest.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        FORMAT, ProvisionalRecord, RunEnd,
        fixture::{failed, passed},
        to_line,
    };

    fn opened(run: &str, resumes: Option<&str>, shard: Option<&str>) -> RunPlan {
        RunPlan {
            format: FORMAT,
            opened: "2026-11-22T01:02:03Z".to_owned(),
            run: run.to_owned(),
            resumes: resumes.map(str::to_owned),
            trials: vec!["copies/a".to_owned(), "copies/b".to_owned()],
            repeat: 2,
            shard: shard.map(|text| text.parse().expect("a shard")),
            digest: "d".to_owned(),
            build: "b".to_owned(),
            merged: Vec::new(),
        }
    }

    fn begun(run: &str, number: u64) -> String {
        let begun = TrialStart {
            format: FORMAT,
            begun: "2026-11-22T01:02:03Z".to_owned(),
            run: run.to_owned(),
            number,
            trial: "copies/a".to_owned(),
            again: "rocrepro run".to_owned(),
            pid: 42,
            boot: "b".to_owned(),
        };
        serde_json::to_string(&begun).unwrap()
    }

    fn trial(run: &str, number: u64) -> String {
        to_line(&Record { run: run.to_owned(), number, ..passed("copies/a") }).unwrap()
    }

    #[test]
    fn resumed_runs_are_one_run() {
        let line = |opened: RunPlan| serde_json::to_string(&opened).unwrap();
        let over = RunEnd { format: FORMAT, over: "x".to_owned(), run: "q".to_owned() };
        let over = serde_json::to_string(&over).unwrap();
        let text = [
            line(opened("old", None, None)),
            trial("old", 3),
            line(opened("p", None, None)),
            begun("p", 0),
            trial("p", 0),
            begun("p", 1),
            "{\"format\":1,\"begun\":\"2026".to_owned(),
            line(opened("q", Some("p"), None)),
            begun("q", 2),
            trial("q", 2),
            begun("q", 3),
            // The trial is not lost, because its run gave it up and then ended in good order.
            over,
        ];
        let held = RecordedRun::parse_all(&text.join("\n")).pop().expect("a run");
        assert_eq!(held.opened.run, "p");
        assert_eq!(held.records.keys().collect::<Vec<_>>(), [&0, &2]);
        assert_eq!(held.lost.keys().collect::<Vec<_>>(), [&1]);
        let missing = [(1, "copies/a".to_owned()), (3, "copies/b".to_owned())];
        assert_eq!(held.missing().listed, missing);
        let not_run = held.missing_records(&held.records[&0]);
        assert_eq!(not_run[1].trial, "copies/b");
        assert!(not_run[1].again.contains("copies/b") && !not_run[1].again.contains("copies/a"));
        assert_eq!([&not_run[0].title, &not_run[1].title], [&held.records[&0].title, ""]);
        assert!(not_run.iter().all(|r| r.verdict.kind == VerdictKind::NoVerdict));
        assert_eq!(RecordedRun::parse_all(&trial("p", 0)), []);
    }

    /// The first run was killed during a trial. The run that resumed it could not start the trial, because the GPU was
    /// broken. The trial still counts as lost.
    #[test]
    fn giving_up_a_trial_keeps_its_earlier_begin() {
        let line = |opened: RunPlan| serde_json::to_string(&opened).unwrap();
        let over = RunEnd { format: FORMAT, over: "x".to_owned(), run: "q".to_owned() };
        let mut text = vec![
            line(opened("p", None, None)),
            begun("p", 1),
            line(opened("q", Some("p"), None)),
            begun("q", 1),
            serde_json::to_string(&over).unwrap(),
        ];
        let lost = |text: &[String]| {
            let held = RecordedRun::parse_all(&text.join("\n")).pop().expect("a run");
            held.lost.into_values().map(|begun| (begun.number, begun.run)).collect::<Vec<_>>()
        };
        assert_eq!(lost(&text), [(1, "p".to_owned())]);
        text.extend([line(opened("r", Some("p"), None)), begun("r", 1)]);
        assert_eq!(lost(&text), [(1, "r".to_owned())]);
        text.push(trial("r", 1));
        assert_eq!(lost(&text), []);
    }

    /// If rocrepro is killed during a GPU health check, the trial's provisional record is used as its result, until a
    /// final record replaces it.
    #[test]
    fn provisional_record_counts_until_the_final_one() {
        let failed = |gpu_after: &str| {
            let (run, gpu_after) = ("p".to_owned(), gpu_after.to_owned());
            Record { run, number: 1, gpu_after, ..failed("copies/a") }
        };
        let ended = ProvisionalRecord {
            format: FORMAT,
            ended: "2026-11-22T01:02:03Z".to_owned(),
            run: "p".to_owned(),
            number: 1,
            record: Box::new(failed("not known")),
        };
        let ended = serde_json::to_string(&ended).unwrap();
        let opened = serde_json::to_string(&opened("p", None, None)).unwrap();
        let check = |lines: &[&str], after: &str, not_looked: &[u64]| {
            let text = [&[&*opened, &*begun("p", 1)][..], lines].concat().join("\n");
            let held = RecordedRun::parse_all(&text).pop().expect("a run");
            assert_eq!(held.lost, BTreeMap::new());
            assert_eq!(held.records[&1].gpu_after, after);
            assert_eq!(held.without_health_check, not_looked.iter().copied().collect());
            let index = RecordIndex::read(text.as_bytes()).expect("a text");
            assert_eq!((index.torn.first, index.foreign.first), (vec![], vec![]));
            let records = crate::records(&text).expect("records");
            assert_eq!(records, held.records.into_values().collect::<Vec<_>>());
            assert_eq!(crate::unfinished(text.lines()), []);
        };
        check(&[&ended], "not known", &[1]);
        check(&[&ended, &ended], "not known", &[1]);
        let looked = to_line(&failed("it worked")).unwrap();
        check(&[&ended, &looked], "it worked", &[]);
        check(&[&looked, &ended], "it worked", &[]);
    }

    #[test]
    fn failure_takes_precedence_over_pass() {
        let line = |record: Record| to_line(&Record { run: "p".to_owned(), ..record }).unwrap();
        let ends = [line(passed("copies/a")), line(failed("copies/a")), line(passed("copies/a"))];
        let text =
            [&[serde_json::to_string(&opened("p", None, None)).unwrap()][..], &ends].concat();
        let held = RecordedRun::parse_all(&text.join("\n")).pop().expect("a run");
        assert!(held.records[&0].verdict.kind.is_unexpected(), "{held:?}");
    }

    #[test]
    fn reads_several_shards_from_one_file() {
        let line = |run, shard| serde_json::to_string(&opened(run, None, shard)).unwrap();
        let text = [
            line("w", None),
            line("a", Some("1/2")),
            line("b", Some("2/2")),
            line("c", Some("1/2")),
        ];
        let last = RecordedRun::parse_last(&text.join("\n"));
        assert_eq!(
            last.iter().map(|held| held.opened.run.as_str()).collect::<Vec<_>>(),
            ["c", "b"]
        );
        assert_eq!(RecordedRun::parse_last(&text[0]).len(), 1);
    }

    #[test]
    fn accepts_only_complete_and_disjoint_shards() {
        let held = |name: &str, shard: Option<&str>, digest: &str| {
            let opened = RunPlan { digest: digest.to_owned(), ..opened(name, None, shard) };
            (name.to_owned(), RunIdentity::from(&opened))
        };
        let check = |files: &[(String, RunIdentity)], expected: Option<&str>| {
            assert_eq!(check_shards(files).err().map(|e| e.to_string()).as_deref(), expected);
        };
        let (a, b) = (held("a", Some("1/2"), "d"), held("b", Some("2/2"), "d"));
        check(&[held("w", None, "d")], None);
        check(&[b.clone(), a.clone()], None);
        check(std::slice::from_ref(&a), Some("no file contains shard 2/2"));
        check(&[a.clone(), a.clone()], Some("a and a both contain the same shard, 1/2"));
        let other = "a and c belong to different runs: their trials, options or libraries differ";
        check(&[a.clone(), held("c", Some("2/2"), "e")], Some(other));
        check(&[a.clone(), held("c", Some("2/3"), "d")], Some(other));
        check(&[a, held("c", None, "d")], Some(other));
    }
}
