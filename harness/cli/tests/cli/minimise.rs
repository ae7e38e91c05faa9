//! Tests `rocrepro minimise` on injected bugs.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

#[track_caller]
fn check(folder: &Path, arguments: &[&str], code: i32, wanted: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env("ROCREPRO_DEVICE_KIND", "emulated").env_remove("ROCREPRO_GFX");
    let output = command.output().expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown = format!("{command:?}\n{}\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for text in wanted {
        assert!(stdout.contains(text) || stderr.contains(text), "no {text:?}: {shown}");
    }
    output
}

const FORK: &str = "graphs/fork-join[words=1024,mode=global]";

fn found(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("out/minimise.json")).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn writes_a_minimal_case_with_the_same_signature() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let out = ["minimise", FORK, "--fault", "kernel.drop", "--out", "out"];
    check(at, &out, 0, &["wrong-data:left.back:poison", "launch of fill_u32"]);
    let json = found(at);
    assert!(json["calls_after"].as_u64() < json["calls_before"].as_u64(), "{json}");
    assert!(json["runs"].as_u64().is_some_and(|runs| runs < 30), "{json}");
    check(at, &["check", "--cases-from", "out/case.yaml"], 0, &[]);
    check(at, &["run", "--cases-from", "out/case.yaml"], 0, &[]);
    let failing = ["run", "--cases-from", "out/case.yaml", "--fault", "kernel.drop"];
    check(at, &failing, 1, &["wrong-data:left.back:poison"]);
    check(at, &["prove", "--cases-from", "out/case.yaml"], 0, &[]);
}

#[test]
fn resumes_a_search_from_its_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let base = ["minimise", FORK, "--fault", "kernel.drop", "--out", "out"];
    let stopped: Vec<_> = base.iter().copied().chain(["--budget-runs", "8"]).collect();
    check(at, &stopped, 1, &["may not be minimal"]);
    let journal = at.join("out/minimise.jsonl");
    // A process that is killed while it writes leaves an incomplete last line.
    let mut text = std::fs::read_to_string(&journal).expect("a journal");
    assert_eq!(text.lines().count(), 9, "{text}");
    text.push_str("{\"run\":{\"candidate\":\"ab");
    std::fs::write(&journal, text).expect("written");
    let resumed: Vec<_> = base.iter().copied().chain(["--resume"]).collect();
    check(at, &resumed, 0, &["launch of fill_u32"]);
    let json = found(at);
    let lines = std::fs::read_to_string(&journal).expect("a journal").lines().count() as u64;
    // The journal contains a first line, the incomplete line, and one line for each run of both searches.
    assert_eq!(json["runs"].as_u64().map(|runs| runs + 8 + 2), Some(lines), "{json}");
    let other = ["minimise", FORK, "--fault", "copy.zero", "--out", "out", "--resume"];
    check(at, &other, 2, &["omit `--resume` "]);
}

#[test]
fn keeps_the_free_of_memory_that_must_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let leak = ["minimise", "copies/free-returns-memory", "--fault", "alloc.leak", "--out", "out"];
    check(at, &leak, 0, &["free: block"]);
    check(at, &["run", "--cases-from", "out/case.yaml"], 0, &[]);
}

#[test]
fn rejects_trials_that_do_not_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let healthy = "copies/small-sizes[bytes=2,host=pinned,api=memcpy]";
    check(at, &["minimise", healthy, "--out", "out"], 4, &["nothing to minimise", "--fault"]);
    check(at, &["minimise", healthy, "--fault", "copy.zer"], 2, &["did you mean `copy.zero`?"]);
    check(at, &["minimise", "copies/smal-sizes"], 2, &["did you mean `copies/small-sizes`?"]);
}
