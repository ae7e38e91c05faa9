//! Cases, sessions and programs that several tests use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use device::{Arch, Config, Sanitize};
use rocrepro::{CaseLibrary, DeviceChoice, Session, SessionOptions};
use serde_json::Value;
use supervise::Cancel;

/// A case with one copy, which passes.
pub(crate) const CASE: &str = "\
title: A case
source: [this test]
buffers:
  src: {on: host.pageable, bytes: 64}
  dst: {on: device, bytes: 64}
steps:
  - fill: src
  - copy: {to: dst, from: src}
  - check: dst
faults: [copy.zero]
";

pub(crate) fn library() -> CaseLibrary {
    CaseLibrary::load(None).expect("the library is well-formed")
}

/// Opens a session on ROCm 7.2.4 and the emulated gfx1151. It does not depend on this machine or its environment;
/// `change` edits the options.
pub(crate) fn session(change: impl FnOnce(&mut SessionOptions)) -> Session {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_rocrepro"));
    let mut options = rocrepro::options_from_environment(worker).expect("the environment is good");
    options.rocm = "debian:7.2.4".to_owned();
    options.device = DeviceChoice::Emulated(Arch::Gfx1151);
    options.emulation = Config::for_arch(Arch::Gfx1151, Sanitize::Off);
    change(&mut options);
    Session::open(options).expect("the stack can be had")
}

/// Runs the named test in a process of its own and returns true, or returns false in that process. A session adopts the
/// orphans of its process, so orphans of other tests would count as processes that the session's worker left behind.
#[track_caller]
pub(crate) fn ran_in_own_process(test: &str) -> bool {
    const OWN: &str = "ROCREPRO_TEST_IN_OWN_PROCESS";
    if std::env::var_os(OWN).is_some() {
        return false;
    }
    let this = std::env::current_exe().expect("the path of this test");
    let output = Command::new(this).args(["--exact", "--nocapture", test]).env(OWN, "1").output();
    let output = output.expect("the test starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
    true
}

/// Returns [`CASE`] with a step that fails: the case expects an error, but the free returns hipSuccess.
pub(crate) fn failing_case() -> String {
    let case = CASE.replace("- check: dst\n", "- free: dst\n    returns: hipErrorInvalidValue\n");
    case.replace("[copy.zero]", "[call.hang]")
}

/// Returns a record file of many trials. Each record is a copy of the single record in `text`, edited by `change`.
pub(crate) fn repeat_record(text: &str, records: usize, change: impl FnOnce(&mut Value)) -> String {
    let line = |field: &str| {
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.find(|line| !line[field].is_null()).expect("there is such a line")
    };
    let (mut opened, mut record) = (line("opened"), line("verdict"));
    change(&mut record);
    let trials: Vec<String> = (0..records).map(|n| format!("case[n={n}]")).collect();
    opened["trials"] = trials.clone().into();
    let mut many = opened.to_string() + "\n";
    for (number, trial) in trials.into_iter().enumerate() {
        record["number"] = number.into();
        record["trial"] = trial.into();
        many.push_str(&(record.to_string() + "\n"));
    }
    many
}

/// Waits up to 300 s until `holds` returns true, and panics with the message `failure` otherwise.
#[track_caller]
pub(crate) fn wait_until(failure: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(300), "{failure}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns a command that starts rocrepro with an empty standard input.
pub(crate) fn rocrepro(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Runs a command, and checks its exit code and that the outputs contain these texts.
#[track_caller]
pub(crate) fn check_command(mut command: Command, code: i32, out: &[&str], err: &[&str]) -> Output {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown = format!("{command:?}\n{}\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    for wanted in out {
        assert!(stdout.contains(wanted), "no {wanted:?} on stdout: {shown}");
    }
    for wanted in err {
        assert!(stderr.contains(wanted), "no {wanted:?} on stderr: {shown}");
    }
    assert!(!stderr.contains("panicked"), "{shown}");
    assert!(!stdout.contains('\u{1b}') && !stderr.contains('\u{1b}'), "styles in a pipe: {shown}");
    output
}

/// Writes an executable file by another process. If this process wrote it, a child that another test forks meanwhile
/// would inherit the open descriptor, and Linux would refuse to start the file (ETXTBSY).
pub(crate) fn write_program(at: &Path, content: &Path) {
    let done = Command::new("install").args(["-m", "755"]).args([content, at]).status();
    assert!(done.expect("coreutils are here").success(), "{}", at.display());
}

pub(crate) fn write_script(at: &Path, text: &str) {
    let text_at = at.with_extension("text");
    std::fs::write(&text_at, text).expect("a file");
    write_program(at, &text_at);
    std::fs::remove_file(text_at).expect("it is ours");
}

/// Returns a cancellation that is never triggered.
pub(crate) fn never() -> Cancel {
    Cancel::new().expect("a descriptor is free")
}
