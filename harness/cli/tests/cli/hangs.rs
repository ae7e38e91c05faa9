//! Tests that the record of a hung trial contains the call stacks of the trial's threads.

use std::process::Command;

#[test]
fn reports_where_the_threads_of_a_hang_stood() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("runs.jsonl");
    let trial = "copies/small-sizes[bytes=2,host=pageable,api=memcpy]";
    let run = ["run", trial, "--fault", "signal.stuck", "--quiet-timeout", "1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(run).args(["--rocm", "debian:7.2.4", "--device", "emulated", "--record"]);
    let output = command.arg(&record).output().expect("it starts");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("    Call stacks of its threads:\n        process "), "{shown}");
    let waits = shown.lines().find(|line| line.contains("thread ") && line.contains("; "));
    let waits = waits.expect("a thread with its calls");
    let calls = "hsa_signal_wait_relaxed (libhsa-runtime64.so.1) < libamdhip64.so.7";
    // The thread repeats its wait with a time limit. On a busy machine it may be between two waits, and then it may be
    // in the body of the waiting function.
    let sleeps =
        waits.contains(" sleeps in the kernel's ") && waits.contains(&format!(" < {calls}"));
    let runs = waits.contains(" runs; ") && waits.contains(calls);
    assert!(sleeps || runs, "{waits}");

    let record = std::fs::read_to_string(&record).expect("a record");
    let mut lines = record.lines().filter_map(|line| serde_json::from_str(line).ok());
    let printed = lines.find_map(|line: serde_json::Value| line["stacks"].as_array().cloned());
    let printed = printed.expect("a record of the trial");
    assert_eq!(printed[0].as_str(), Some(waits.trim_start()), "{printed:?}");
    let leash =
        printed.iter().filter_map(|line| line.as_str()).find(|line| line.contains("`leash`"));
    assert!(leash.is_some_and(|line| line.contains("read (libc.so.6)")), "{printed:?}");
}
