//! Tests delay injection (`--late`): a missing wait shows more often, and a correct program still passes.

use std::{
    fs,
    process::{Command, Stdio},
};

use judge::{Kind, VerdictKind};
use report::Record;

/// Two streams ordered by an event. The host sleeps between the copies, so the first copy has nearly always ended
/// before the second begins, and a missing wait rarely causes a failure.
const CASE: &str = "\
title: A stream that waits for an event sees what was copied before it
source: [this test]
streams: {a: non_blocking, b: non_blocking}
buffers:
  src: {on: host.pinned, bytes: 4096}
  dst: {on: device, bytes: 4096}
  back: {on: host.pinned, bytes: 4096}
steps:
  - repeat:
      count: 10
      steps:
        - fill: src
        - copy: {to: dst, from: src, stream: a}
        - record: {event: e, stream: a}
        - wait: {stream: b, event: e}
        - sleep: 1
        - copy: {to: back, from: dst, stream: b}
        - sync: b
        - check: back
faults: [copy.zero]
";

const RUNS: usize = 30;

fn run(options: &[&str]) -> Vec<Record> {
    let folder = tempfile::tempdir().expect("a folder");
    let (case, records) = (folder.path().join("late.yaml"), folder.path().join("records"));
    fs::write(&case, CASE).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(["run", "--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"])
        .args(["--repeat", &RUNS.to_string(), "--cases-from"])
        .arg(&case)
        .arg("--record")
        .arg(&records)
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = fs::read_to_string(&records).unwrap_or_default();
    let records = report::records(&text).expect("records");
    assert_eq!(records.len(), RUNS, "{options:?}: {output:?}");
    records
}

const MISSING_WAIT: [&str; 2] = ["--fault", "call.ignored,call=hipStreamWaitEvent"];
const LATE: [&str; 2] = ["--late", "seeded=1"];

#[test]
fn exposes_a_missing_wait_more_often() {
    let red = |records: &[Record]| {
        for record in records {
            let kind = record.outcome.kind;
            assert!(matches!(kind, Kind::Pass | Kind::WrongData), "{record:?}");
        }
        records.iter().filter(|record| record.outcome.kind == Kind::WrongData).count()
    };
    let plain = red(&run(&MISSING_WAIT));
    let late = run(&[MISSING_WAIT, LATE].concat());
    assert!(red(&late) > plain, "{} of {RUNS} red with delays, {plain} without", red(&late));
    // Each run has delays of its own, and the printed command repeats them.
    for record in &late {
        let asked = record.late.clone().expect("it is in the record").asked;
        assert!(record.again.contains(&format!("--late {asked} ")), "{}", record.again);
    }
    let mut seeds: Vec<_> = late.iter().filter_map(|r| Some(r.late.clone()?.asked)).collect();
    seeds.sort();
    seeds.dedup();
    assert_eq!(seeds.len(), RUNS);
}

#[test]
fn passes_correct_waits_under_delays() {
    for record in run(&LATE) {
        assert_eq!(record.verdict.kind, VerdictKind::Pass, "{record:?}");
        let times = record.late.and_then(|late| late.times);
        assert!(times.is_some_and(|times| times > 0), "{times:?}");
    }
}
