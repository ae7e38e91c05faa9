//! Tests that interrupted commands leave the best result so far. `cargo run -p ci -- interrupts` interrupts every long
//! command at random moments.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{check_command, rocrepro, wait_until, write_script};
use crate::exec::namespaces;

const ON: [&str; 4] = ["--rocm", "debian:7.2.4", "--device", "emulated"];

/// Starts a command whose standard error goes to the file `err`.
fn start(folder: &Path, command: &mut Command, more: &[&str]) -> Child {
    command.args(ON).args(more).current_dir(folder).stdout(Stdio::null());
    command.stderr(File::create(folder.join("err")).expect("a file"));
    command.spawn().expect("it starts")
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Sends SIGINT once a file contains a text, and checks the exit code.
#[track_caller]
fn interrupt(folder: &Path, mut child: Child, file: &str, part: &str) {
    let pid = Pid::from_child(&child);
    wait_until(&format!("`{file}` never had {part:?}"), || text(folder, file).contains(part));
    kill_process(pid, Signal::INT).expect("it runs");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3), "{}", text(folder, "err"));
}

#[test]
fn minimise_leaves_the_smallest_case_so_far() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let mut command =
        rocrepro(&["minimise", "graphs/fork-join", "--fault", "kernel.drop", "--out", "out"]);
    let child = start(at, &mut command, &[]);
    interrupt(at, child, "err", " left");
    let said = text(at, "err");
    assert!(said.contains("the smallest case so far is `out/case.yaml`"), "{said}");
    let mut check = rocrepro(&["case", "check", "--cases-from", "out/case.yaml"]);
    check.current_dir(at);
    check_command(check, 0, &[], &[]);
}

#[test]
fn mitigate_leaves_the_changes_that_it_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let mut command = rocrepro(&["mitigate", "copies/tensors[bytes=262144]", "--out", "out"]);
    let child = start(at, &mut command, &["--fault", "sdma.zero"]);
    interrupt(at, child, "err", "1 of ");
    let said = text(at, "err");
    for part in [" in 10 of 10 runs; ", " changes to try\n", " changes tried, about "] {
        assert!(said.contains(part), "no {part:?}: {said}");
    }
    let found: serde_json::Value =
        serde_json::from_str(&text(at, "out/mitigate.json")).expect("JSON");
    let later = found["not_tried"].as_array().expect("a list");
    assert!(!found["factors"].as_array().expect("a list").is_empty(), "{found}");
    assert!(later.iter().any(|l| l["why"] == "the search ended before it was tried"), "{found}");
}

/// Each run of a hanging program lasts until its time limit, so the report does not wait for all runs.
#[test]
fn report_is_complete_after_the_first_failing_run() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let program = "\
import ctypes, time
hip = ctypes.CDLL('libamdhip64.so')
assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64)) == 0
time.sleep(600)
";
    fs::write(at.join("hangs.py"), program).expect("a program");
    let more = ["--quiet-timeout", "3", "--out", "out", "--", "python3", "hangs.py"];
    let child = start(at, &mut rocrepro(&["exec", "--report"]), &more);
    interrupt(at, child, "out/report.md", "still working on the other runs");
    let report = text(at, "out/report.md");
    assert!(report.contains("time.sleep(600)"), "{report}");
    assert_eq!(text(at, "out/record.jsonl").lines().count(), 1, "{report}");
}

/// The compiler is a child process, which the command must end, too.
#[test]
fn interrupts_a_compiler() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("bin")).expect("a folder");
    let script =
        format!("#!/bin/sh\necho compiles >'{}'\nexec sleep 600\n", at.join("it").display());
    write_script(&at.join("bin/c++"), &script);
    let path = std::env::var("PATH").expect("text");
    let mut command = rocrepro(&["export", "copies/tensors", "--verify", "--out", "program.cpp"]);
    command.env("PATH", format!("{}:{path}", at.join("bin").display()));
    let child = start(at, &mut command, &[]);
    interrupt(at, child, "it", "compiles");
}
