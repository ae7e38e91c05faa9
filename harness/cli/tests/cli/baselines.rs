//! Baselines of expected failures in deqp-runner's format, read and written by a run.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use judge::VerdictKind;
use report::Record;

use crate::common::output_text;

/// A case whose trial `n=16` fails: freeing a device buffer returns hipSuccess, not the stated error.
const CASE: &str = "\
title: A case
source: [this test]
matrix: {n: [8, 16, 24, 32]}
buffers:
  src: {on: host.pageable, bytes: 64}
  dst: {on: device, bytes: $n}
steps:
  - fill: src
  - copy: {to: dst, from: src, bytes: $n}
  - {free: dst, when: {n: 16}, returns: hipErrorInvalidValue}
faults: [copy.zero]
";

fn rocrepro(at: &Path, arguments: &[&str], code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).current_dir(at).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let said = output_text(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn run(at: &Path, more: &[&str], code: i32) -> String {
    let on = ["run", "--cases-from", "cases", "--rocm", "debian:7.2.4", "--device", "emulated"];
    rocrepro(at, &[&on[..], more].concat(), code)
}

fn verdicts(at: &Path, file: &str) -> Vec<(String, VerdictKind)> {
    let text = fs::read_to_string(at.join(file)).expect("a record file");
    let mut all: Vec<_> = report::records(&text)
        .expect("records")
        .into_iter()
        .map(|Record { trial, verdict, .. }| (trial, verdict.kind))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn at_work() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("cases/some")).expect("a folder");
    fs::write(folder.path().join("cases/some/case.yaml"), CASE).expect("a file");
    folder
}

#[test]
fn accepts_failures_of_a_baseline_and_reports_changed_ones() {
    let folder = at_work();
    let at = folder.path();
    run(at, &["--record", "first"], 1);
    rocrepro(at, &["show", "first", "--write-baseline", "fails.txt"], 1);
    let written = fs::read_to_string(at.join("fails.txt")).expect("a baseline");
    assert_eq!(written, "some/case[n=16],Fail\n");
    let again = rocrepro(at, &["show", "first", "--write-baseline", "fails.txt"], 2);
    assert!(again.contains("it exists\nhint: choose another file"), "{again}");

    // With its own failures as the baseline, the run has no unexpected result.
    let said = run(at, &["--baseline", "fails.txt", "--record", "second"], 0);
    assert!(said.contains("listed as an expected failure in fails.txt:1"), "{said}");
    use VerdictKind::*;
    let trial = |n: u32, kind| (format!("some/case[n={n}]"), kind);
    let wanted = [trial(16, Known), trial(24, Pass), trial(32, Pass), trial(8, Pass)];
    assert_eq!(verdicts(at, "second"), wanted);

    // A failure whose kind differs from the one in the baseline is unexpected, and so is a pass.
    let text = "# known\n\nsome/case[n=16],Crash\nsome/case[n=24],Timeout\nsome/case[n=32],Flake\n";
    fs::write(at.join("other.txt"), text).expect("a file");
    let said = run(at, &["--baseline", "other.txt", "--record", "third", "--trials"], 1);
    let wanted = [trial(16, NewsChanged), trial(24, NewsFixed), trial(32, Pass), trial(8, Pass)];
    assert_eq!(verdicts(at, "third"), wanted, "{said}");
    assert!(said.contains("other.txt:4"), "{said}");

    // The files of `--flakes` and `--skips` contain regular expressions.
    fs::write(at.join("flakes.txt"), "case\\[n=1[0-9]\\]\n").expect("a file");
    fs::write(at.join("skips.txt"), "# too long\nn=(24|32)\n").expect("a file");
    let files = ["--flakes", "flakes.txt", "--skips", "skips.txt"];
    let said = run(at, &[&files[..], &["--record", "fourth"]].concat(), 0);
    assert!(said.contains("2 trials left out by `--skips`"), "{said}");
    assert_eq!(verdicts(at, "fourth"), [trial(16, Known), trial(8, Pass)]);

    // A run can be resumed only with the same baseline with which it began.
    let said = run(at, &["--record", "second", "--resume"], 2);
    assert!(said.contains("has other trials, options"), "{said}");
    run(at, &["--baseline", "fails.txt", "--record", "second", "--resume"], 0);
}

#[test]
fn writes_an_intermittent_failure_as_flake() {
    let folder = at_work();
    let at = folder.path();
    let fault = "copy.zero,probability=0.5,seed=3";
    let case = CASE
        .replace("faults:", "  - check: dst\nfaults:")
        .replace("  - {free: dst, when: {n: 16}, returns: hipErrorInvalidValue}\n", "");
    fs::write(at.join("cases/some/case.yaml"), case).expect("a file");
    run(at, &["some/case[n=8]", "--repeat", "12", "--fault", fault, "--record", "r"], 1);
    rocrepro(at, &["show", "r", "--write-baseline", "fails.txt"], 1);
    let kinds: Vec<_> = verdicts(at, "r").into_iter().map(|(_, kind)| kind).collect();
    assert!(kinds.contains(&VerdictKind::Pass) && kinds.contains(&VerdictKind::NewsFail));
    let written = fs::read_to_string(at.join("fails.txt")).expect("a baseline");
    assert_eq!(written, "some/case[n=8],Flake\n");
}

#[test]
fn reports_all_mistakes_of_baseline_files_at_once() {
    let folder = at_work();
    let at = folder.path();
    let fails = "some/case[n=8],Fail\nsome/case\nsome/case[n=8],Crash\n\nsome/case[n=16],Maybe\n";
    fs::write(at.join("fails.txt"), fails).expect("a file");
    fs::write(at.join("flakes.txt"), "good\nbad(\n").expect("a file");
    let files = ["--baseline", "fails.txt", "--flakes", "flakes.txt", "--skips", "none.txt"];
    let said = run(at, &files, 2);
    for wanted in [
        "fails.txt:2:1: `some/case` is not TRIAL,STATUS",
        "fails.txt:3:1: `some/case[n=8]` is already in fails.txt:1",
        "fails.txt:5:17: `Maybe` is not a status",
        "flakes.txt:2:1: `bad(` is not a regular expression",
        "cannot read `none.txt`",
    ] {
        assert!(said.contains(wanted), "no {wanted}: {said}");
    }
    fs::write(at.join("all.txt"), ".\n").expect("a file");
    let said = run(at, &["--skips", "all.txt"], 4);
    assert!(said.contains("every trial is left out by `--skips`"), "{said}");
}

/// A skip that matches no trial stops the run, because the trial that it was meant for would run.
#[test]
fn warns_of_lines_without_a_trial_and_rejects_such_skips() {
    let folder = at_work();
    let at = folder.path();
    let write = |file: &str, text: &str| fs::write(at.join(file), text).expect("a file");
    // As a regular expression, the first line would match `some/case` followed by one letter of the brackets.
    write("skips.txt", "\u{feff}some/case[n=24]\r\nsome/case\\[n=32\\]\r\n");
    write("flakes.txt", "\u{feff}some/case[n=16]\r\n");
    let files = ["--flakes", "flakes.txt", "--skips", "skips.txt", "--record", "first"];
    let said = run(at, &files, 0);
    assert!(said.contains("2 trials left out by `--skips`") && !said.contains("warning"), "{said}");
    let trial = |n: u32, kind| (format!("some/case[n={n}]"), kind);
    assert_eq!(verdicts(at, "first"), [trial(16, VerdictKind::Known), trial(8, VerdictKind::Pass)]);

    write("fails.txt", "\u{feff}some/case[n=16],Fail\r\nsome/case[m=16],Fail\r\n");
    write("flakes.txt", "# none\nother/.*\n");
    let files = ["--baseline", "fails.txt", "--flakes", "flakes.txt", "--record", "second"];
    let said = run(at, &files, 0);
    for wanted in [
        "warning: fails.txt:2: `some/case[m=16]` matches no trial of the library; did you mean `some/case[n=16]`?\n",
        "warning: flakes.txt:2: `other/.*` matches no trial of the library\n",
    ] {
        assert!(said.contains(wanted), "no {wanted}: {said}");
    }
    assert_eq!(verdicts(at, "second")[0], trial(16, VerdictKind::Known));

    write("skips.txt", "some/case[n=8]\nsome/case[n=25]\n");
    // A line may name a trial of the library that this run does not select.
    write("unselected.txt", "some/case[n=24]\n");
    run(at, &["some/case[n=8]", "--skips", "unselected.txt"], 0);
    let said = run(at, &["some/case[n=8]", "--skips", "skips.txt", "--record", "third"], 2);
    let wanted = "error: skips.txt:2: `some/case[n=25]` matches no trial of the library; did you mean `some/case[n=24]`?\n";
    assert!(said.contains(wanted) && said.contains("nothing was run"), "{said}");
    assert!(!at.join("third").exists());
}
