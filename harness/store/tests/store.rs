//! Checks that a store returns the records that were added. Histories and differences must match the counts that the
//! test computes independently, from the lines of the record files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use report::{Changes, History, MergedRun, Record, RecordedRun, RunConfiguration, Shard};
use serde_json::{Value, json};
use store::{AddStatistics, ResultsStoreError, Store};

/// Generator of pseudo-random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }
}

const CASES: [&str; 4] = ["copies/a", "copies/b", "graphs/c", "graphs/d"];
const GROUNDS: [(&str, &str, &str, bool); 4] = [
    ("debian:7.2.4", "7.2.4", "gfx1151", true),
    ("debian:6.4.3", "6.4.3", "gfx1151", true),
    ("debian:7.2.4", "7.2.4", "gfx1100", true),
    ("debian:7.2.4", "7.2.4", "gfx1100", false),
];

/// Returns the JSON of one line of a record file: the record of a trial.
fn trial(
    run: &str,
    number: usize,
    trial: &str,
    at: usize,
    draw: &mut Draw,
    ground: usize,
) -> Value {
    let (spec, rocm, gfx, emulated) = GROUNDS[ground];
    let (kind, signature, verdict) = match draw.below(9) {
        0 => ("wrong-data", "wrong-data:dst:zero", "news-fail"),
        1 => ("hang", "hang:hipGraphLaunch", "known"),
        2 => ("skip", "skip:libhiprand", "skip"),
        3 => ("no-verdict", "no-verdict:worker", "no-verdict"),
        _ => ("pass", "pass", "pass"),
    };
    json!({
        "format": 1, "run": run, "number": number, "date": format!("2026-11-{:02}T01:{:02}:00Z", at / 60 + 1, at % 60),
        "rocrepro": "0.1.0", "case": trial.split('[').next(), "trial": trial, "title": "A title",
        "stack": {"spec": spec, "root": "/stack", "rocm": rocm, "libraries": [
            {"name": "libamdhip64.so.7", "path": "/stack/libamdhip64.so.7", "build_id": draw.of(&["0123", "4567"])},
        ]},
        "device": {"name": "a device", "gfx": gfx, "bdf": "0000:03:00.0", "emulated": emulated, "proven": true},
        "outcome": {"kind": kind, "signature": signature, "at": {}, "summary": "what was seen", "details": ["  got: 00"]},
        "verdict": {"kind": verdict}, "exit": {"exited": 0}, "phases": [], "calls": 3, "wall_ns": 1000 + draw.below(1000),
        "environment": {"HOME": "/root", "N": draw.of(&["1", "2"])}, "limits": {"stack": "8M"},
        "nonce": format!("{run}-{number}"), "again": "rocrepro run",
    })
}

/// Returns the lines of a record file with one run. The first line is the plan.
fn run(name: &str, at: usize, ground: usize, draw: &mut Draw) -> Vec<Value> {
    let trials: Vec<String> = (0..3 + draw.below(8))
        .map(|n| format!("{}[n={n}]", draw.of(&CASES)))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let repeat = 1 + draw.below(3);
    let mut lines = vec![json!({
        "format": 1, "opened": format!("2026-11-{:02}T00:{:02}:00Z", at / 60 + 1, at % 60), "run": name, "trials": trials,
        "repeat": repeat, "digest": name,
    })];
    for (number, of) in trials.iter().flat_map(|of| vec![of; repeat]).enumerate() {
        // One trial in twelve has no record, as if it had not ended.
        if draw.below(12) > 0 {
            lines.push(trial(name, number, of, at, draw, ground));
        }
    }
    lines
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| line.to_string() + "\n").collect()
}

fn held(lines: &[Value]) -> Vec<RecordedRun> {
    RecordedRun::parse_all(&text(lines))
}

fn drawn(seed: u64) -> Vec<Vec<Value>> {
    let mut draw = Draw(seed);
    (0..12)
        .map(|n| run(&format!("r{n:02}"), n * 17, draw.below(GROUNDS.len()), &mut draw))
        .collect()
}

fn everything(store: &Store) -> Vec<(String, Vec<Record>)> {
    let runs = store.runs().expect("runs");
    runs.iter().map(|run| (run.opened.run.clone(), store.records(run).expect("records"))).collect()
}

fn is_failure(line: &Value) -> bool {
    !matches!(line["outcome"]["kind"].as_str(), Some("pass" | "skip" | "no-verdict"))
}

fn counts(line: &Value) -> bool {
    !matches!(line["outcome"]["kind"].as_str(), Some("skip" | "no-verdict"))
}

/// Number of runs, number of failures, and number of occurrences of each signature. The key is the configuration, true
/// if the device is emulated, and the trial.
type Counted = BTreeMap<(String, bool, String), (u64, u64, BTreeMap<String, u64>)>;

/// Counts the results of a case, using only the lines of record files.
fn counted(lines: &[&Value], case: &str) -> Counted {
    let mut all = Counted::new();
    for line in lines.iter().filter(|line| line["case"] == case && counts(line)) {
        let word = |value: &Value| value.as_str().expect("a text").to_owned();
        let on = format!("{}@{}", word(&line["stack"]["spec"]), word(&line["device"]["gfx"]));
        let emulated = line["device"]["emulated"] == true;
        let (ran, failed, signatures) =
            all.entry((on, emulated, word(&line["trial"]))).or_default();
        *ran += 1;
        *failed += u64::from(is_failure(line));
        *signatures.entry(word(&line["outcome"]["signature"])).or_default() += 1;
    }
    all
}

#[test]
fn store_returns_what_was_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    for seed in 1..6 {
        let _ = fs::remove_file(&path);
        let runs = drawn(seed);
        let mut store = Store::open_or_make(&path).expect("a store");
        let wanted: Vec<(String, Vec<Record>)> = runs
            .iter()
            .flat_map(|lines| held(lines))
            .map(|held| (held.opened.run.clone(), held.records.into_values().collect()))
            .collect();
        for lines in &runs {
            let added = store.add(&held(lines)).expect("it is added");
            assert_eq!((added.runs, added.trials), (1, lines.len() - 1));
            // Adding the same run again changes nothing.
            let again = store.add(&held(lines)).expect("it is there");
            assert_eq!(again, AddStatistics { there: lines.len() - 1, ..AddStatistics::default() });
        }
        assert_eq!(everything(&store), wanted);
        drop(store);
        assert_eq!(everything(&Store::open(&path).expect("a store")), wanted);
    }
}

#[test]
fn histories_and_differences_match_the_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut failures = 0;
    for seed in 1..8 {
        let runs = drawn(seed);
        let path = folder.path().join(format!("{seed}.db"));
        let mut store = Store::open_or_make(&path).expect("a store");
        store.add(&runs.iter().flat_map(|lines| held(lines)).collect::<Vec<_>>()).expect("added");
        let lines: Vec<&Value> =
            runs.iter().flatten().filter(|line| line["verdict"].is_object()).collect();
        for case in CASES {
            let mut of_case = store.case_records(case).expect("records");
            let kept = store.runs().expect("runs").into_iter();
            let kept: Vec<(RunConfiguration, Vec<Record>)> = kept
                .filter_map(|run| Some((run.ground?, of_case.remove(&run.opened.run)?)))
                .collect();
            let history = serde_json::to_value(History::from_runs(case, &kept)).expect("JSON");
            let of_case = lines.iter().filter(|line| line["case"] == case);
            assert_eq!(history["trials"], of_case.clone().count());
            let mut found = Counted::new();
            for on in history["grounds"].as_array().expect("grounds") {
                let name = on["ground"].as_str().expect("a name");
                // The PCI address that follows the name of a GPU's configuration is removed.
                let name = name.split(' ').next().expect("a word").to_owned();
                for trial in on["trials"].as_array().expect("trials") {
                    let number = |what: &str| trial[what].as_u64().expect("a number");
                    let signatures = trial["signatures"].as_object().expect("signatures");
                    let signatures =
                        signatures.iter().map(|(s, n)| (s.clone(), n.as_u64().expect("a number")));
                    found.insert(
                        (
                            name.clone(),
                            on["emulated"] == true,
                            trial["trial"].as_str().expect("a name").to_owned(),
                        ),
                        (number("ran"), number("failed"), signatures.collect()),
                    );
                }
            }
            assert_eq!(found, counted(&lines, case), "seed {seed}");
            for failure in history["failures"].as_array().expect("failures") {
                let same = of_case.clone().filter(|line| {
                    is_failure(line) && line["outcome"]["signature"] == failure["signature"]
                });
                let dates = same.clone().map(|line| line["date"].as_str().expect("a date"));
                let on = failure["on"].as_array().expect("sightings");
                let number = |on: &Value| on["trials"].as_u64().expect("a number");
                assert_eq!(on.iter().map(number).sum::<u64>(), same.count() as u64);
                let end = |what: &'static str| on.iter().filter_map(move |on| on[what].as_str());
                assert_eq!(end("first").min(), dates.clone().min());
                assert_eq!(end("last").max(), dates.max());
                failures += 1;
            }
        }
        differences(&store, &runs);
    }
    assert!(failures > 20, "{failures} failures were drawn");
}

/// Compares the changes that are reported between each run and the next one with the changes between their lines.
fn differences(store: &Store, runs: &[Vec<Value>]) {
    let kept = everything(store);
    for (pair, lines) in kept.windows(2).zip(runs.windows(2)) {
        let changes =
            serde_json::to_value(Changes::compare_records(&pair[0].1, &pair[1].1)).expect("JSON");
        let seen = |lines: &[Value]| {
            let mut trials: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
            for line in lines.iter().filter(|line| line["verdict"].is_object()) {
                let trial = line["trial"].as_str().expect("a name").to_owned();
                let signatures = trials.entry(trial).or_default();
                if counts(line) {
                    let signature = line["outcome"]["signature"].as_str().expect("a text");
                    *signatures.entry(signature.to_owned()).or_default() += 1;
                }
            }
            trials
        };
        let (old, new) = (seen(&lines[0]), seen(&lines[1]));
        let both: Vec<&String> = old.keys().filter(|trial| new.contains_key(*trial)).collect();
        assert_eq!(changes["in_both"], both.len());
        let changed = changes["changed"].as_array().expect("changes");
        for of in &both {
            let change = changed.iter().find(|change| change["trial"] == **of);
            let (before, after) = (&old[*of], &new[*of]);
            let keys = |seen: &BTreeMap<String, u64>| seen.keys().cloned().collect::<BTreeSet<_>>();
            match change {
                // There are too few runs to detect another failure rate, so no reported change means equal signatures.
                None => assert_eq!(keys(before), keys(after), "{of}"),
                Some(change) => {
                    assert_ne!(before, after, "{of}");
                    assert_eq!(change["old"], json!(before));
                    assert_eq!(change["new"], json!(after));
                }
            }
        }
    }
}

/// Values that many records share are stored once, so a store is smaller than the record files that were added.
#[test]
fn store_is_smaller_than_its_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    let (mut draw, mut lines) = (Draw(1), Vec::new());
    let trials: Vec<String> = (0..1000).map(|n| format!("copies/a[n={n}]")).collect();
    lines.push(json!({
        "format": 1, "opened": "2026-11-01T00:00:00Z", "run": "r", "trials": trials, "repeat": 1, "digest": "d",
    }));
    for (number, of) in trials.iter().enumerate() {
        let mut line = trial("r", number, of, 7, &mut draw, 0);
        line["environment"]["PATH"] = json!("/usr/bin:".repeat(100));
        line["phases"] = json!(vec![json!({"phase": "body", "calls": 12, "ns": number}); 8]);
        lines.push(line);
    }
    let mut store = Store::open_or_make(&path).expect("a store");
    store.add(&held(&lines)).expect("it is added");
    drop(store);
    let (records, kept) = (text(&lines).len(), fs::metadata(&path).expect("a file").len());
    assert!(kept < records as u64 * 3 / 4, "{kept} bytes for {records}");
}

#[test]
fn failed_addition_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    let mut store = Store::open_or_make(&path).expect("a store");
    let runs = drawn(3);
    store.add(&held(&runs[0])).expect("it is added");
    let before = everything(&store);
    let mut other = held(&runs[0]);
    other[0].opened.digest = "another".to_owned();
    let both = [held(&runs[1]), other].concat();
    let trouble = store.add(&both).expect_err("another plan");
    assert!(matches!(&trouble, ResultsStoreError::OtherPlan(run) if run == "r00"), "{trouble}");
    assert_eq!(everything(&store), before);
}

/// Adds an interrupted run, and then the same run after it was resumed. If a trial has two records, the failure takes
/// precedence.
#[test]
fn resumed_run_is_extended() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open_or_make(&folder.path().join("results.db")).expect("a store");
    let mut lines = drawn(5).swap_remove(0);
    let all = lines.len() - 1;
    let part = &lines[..2];
    assert_eq!(store.add(&held(part)).expect("added").trials, 1);
    assert_eq!(store.add(&held(&lines)).expect("added").trials, all - 1);
    let passed = lines.iter().position(|line| line["verdict"]["kind"] == "pass").expect("one");
    let mut fails = lines[passed].clone();
    fails["verdict"]["kind"] = json!("news-fail");
    fails["outcome"]["kind"] = json!("crash");
    lines.push(fails);
    let added = store.add(&held(&lines)).expect("added");
    assert_eq!(added, AddStatistics { replaced: 1, there: all - 1, ..AddStatistics::default() });
    let kept = everything(&store).swap_remove(0).1;
    assert_eq!(kept, held(&lines)[0].records.values().cloned().collect::<Vec<_>>());
}

fn shards(of: u32, draw: &mut Draw) -> Vec<RecordedRun> {
    let trials: Vec<String> = (0..9).map(|n| format!("copies/a[n={n}]")).collect();
    let mut shards = Vec::new();
    for number in 1..=of {
        let shard = Shard { number, of };
        let (name, trials): (String, Vec<_>) =
            (format!("p{number}"), trials.iter().filter(|trial| shard.contains(trial)).collect());
        let mut lines = vec![json!({
            "format": 1, "opened": "2026-11-01T00:00:00Z", "run": name, "trials": trials, "repeat": 2, "digest": "d",
            "shard": shard,
        })];
        for (number, of) in trials.iter().flat_map(|of| [of, of]).enumerate() {
            lines.push(trial(&name, number, of, 3, draw, 0));
        }
        shards.extend(held(&lines));
    }
    shards
}

fn merged(parts: &[&RecordedRun]) -> RecordedRun {
    let parts: Vec<_> =
        parts.iter().map(|held| (held.opened.run.clone(), (*held).clone())).collect();
    let MergedRun { opened, records, .. } = MergedRun::from_shards(&parts).expect("one run");
    let records = records.into_iter().map(|record| (record.number, record)).collect();
    RecordedRun { opened, records, without_health_check: BTreeSet::new(), lost: BTreeMap::new() }
}

fn orders<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let with = |at: usize| {
        let mut rest = of.to_vec();
        let first = rest.remove(at);
        orders(&rest).into_iter().map(move |rest| [vec![first.clone()], rest].concat())
    };
    (0..of.len()).flat_map(with).collect()
}

/// Shards and merged runs are added in all orders. No record is lost, and the returned counts are right.
#[test]
fn shards_and_merged_runs_are_united() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut draw = Draw(9);
    let parts = shards(3, &mut draw);
    let whole = merged(&parts.iter().collect::<Vec<_>>());
    // The shards were copied before they had finished. One lacks its last record, another one some records in the
    // middle.
    let mut cut = parts.clone();
    cut[1].records.pop_last();
    cut[1].records.pop_last();
    cut[2].records.retain(|number, _| number % 2 == 0);
    let merged_cut = merged(&cut.iter().collect::<Vec<_>>());
    let some = [merged_cut, parts[1].clone(), cut[1].clone(), cut[2].clone()];
    for last in [whole.clone(), parts[0].clone()] {
        let all = [&some[..], &[last]].concat();
        let nonces = |records: &BTreeMap<u64, Record>| {
            records.values().map(|record| record.nonce.clone()).collect::<Vec<_>>()
        };
        let wanted: BTreeSet<String> = all.iter().flat_map(|held| nonces(&held.records)).collect();
        for (n, order) in orders(&all).into_iter().enumerate() {
            let path = folder.path().join(format!("{n}.db"));
            let mut store = Store::open_or_make(&path).expect("a store");
            let mut there = 0;
            for held in &order {
                let added = store.add(std::slice::from_ref(held)).expect("it is added");
                assert_eq!(added.trials + added.there, held.records.len());
                let kept = everything(&store);
                let now: usize = kept.iter().map(|(_, records)| records.len()).sum();
                assert_eq!(now, there + added.trials, "nothing is lost: {added:?}");
                there = now;
            }
            let kept = everything(&store);
            let [(run, records)] = &kept[..] else { panic!("one run is left: {kept:?}") };
            assert_eq!(*run, whole.opened.run);
            let got: BTreeSet<String> = records.iter().map(|r| r.nonce.clone()).collect();
            assert_eq!(got, wanted);
            for record in records {
                assert_eq!(*record, whole.records[&record.number]);
            }
            assert!(store.runs().expect("runs")[0].ground.is_some());
            drop(store);
            fs::remove_file(path).expect("it is there");
        }
    }
}

#[test]
fn rejects_a_merged_run_whose_part_has_other_trials() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open_or_make(&folder.path().join("results.db")).expect("a store");
    let mut parts = shards(2, &mut Draw(4));
    let whole = merged(&parts.iter().collect::<Vec<_>>());
    parts[1].opened.trials.pop();
    parts[1].opened.trials.insert(0, "copies/other".to_owned());
    store.add(&parts).expect("added");
    let before = everything(&store);
    let trouble = store.add(std::slice::from_ref(&whole)).expect_err("another plan");
    assert!(matches!(&trouble, ResultsStoreError::NoPart(run, _) if run == "p2"), "{trouble}");
    assert_eq!(everything(&store), before);
}

#[test]
fn concurrent_writers_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.db");
    let runs = drawn(4);
    std::thread::scope(|scope| {
        for lines in &runs {
            let path = &path;
            scope.spawn(move || {
                let mut store = Store::open_or_make(path).expect("a store");
                store.add(&held(lines)).expect("it is added");
            });
        }
    });
    let store = Store::open(&path).expect("a store");
    let wanted: usize = runs.iter().map(|lines| lines.len() - 1).sum();
    assert_eq!(everything(&store).iter().map(|(_, records)| records.len()).sum::<usize>(), wanted);
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn foreign_files_are_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let refused = |path: &Path| {
        let before = fs::read(path).ok();
        let trouble = Store::open_or_make(path).expect_err("it is not ours").to_string();
        assert_eq!(fs::read(path).ok(), before, "{trouble}");
        trouble
    };
    fs::write(at("text"), "hello").expect("a file");
    fs::write(at("empty"), "").expect("a file");
    for name in ["text", "empty"] {
        assert!(refused(&at(name)).ends_with("is not a results store of rocrepro"));
    }
    assert!(refused(folder.path()).ends_with("is not a results store of rocrepro"));
    // The first file is the database of a later rocrepro, and the second one is that of another program.
    drop(Store::open_or_make(&at("store")).expect("a store"));
    let mut bytes = fs::read(at("store")).expect("a file");
    bytes[60..64].copy_from_slice(&7_u32.to_be_bytes());
    fs::write(at("later"), &bytes).expect("a file");
    assert!(
        refused(&at("later")).contains("has tables of version 7; this rocrepro knows version 1")
    );
    bytes[68..72].copy_from_slice(&[0; 4]);
    fs::write(at("other"), &bytes).expect("a file");
    assert!(refused(&at("other")).ends_with("is not a results store of rocrepro"));
    // A path that SQLite would treat as a URI can be the path of a store.
    let named = at("file:store");
    let mut store = Store::open_or_make(&named).expect("a store");
    store.add(&held(&drawn(1)[0])).expect("it is added");
    assert!(fs::metadata(&named).expect("a file").len() > bytes.len() as u64);
    let none = Store::open(&at("none")).expect_err("it does not exist").to_string();
    assert!(none.contains("does not exist") && !at("none").exists());
    std::os::unix::fs::symlink(at("none"), at("link")).expect("a link");
    let nowhere = Store::open_or_make(&at("link")).expect_err("it leads nowhere").to_string();
    assert!(nowhere.starts_with("cannot open the store") && !at("none").exists(), "{nowhere}");
}
