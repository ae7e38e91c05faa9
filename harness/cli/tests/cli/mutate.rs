//! Tests `rocrepro prove --mutate` on small cases. It reports statements that can be removed without missing a declared
//! fault.

use std::process::{Command, Stdio};

use crate::common::output_text;

/// A case with two checks. Each detects a zeroed copy in another buffer, so both are needed. No declared fault changes
/// the status that the case expects.
const CASE: &str = "\
title: Two copies and a status
source: [made for this test]
buffers:
  src: {on: host.pageable, bytes: 64, fill: pattern}
  one: {on: device, bytes: 64}
  two: {on: device, bytes: 64}
  one_back: {on: host.pinned, bytes: 64}
  two_back: {on: host.pinned, bytes: 64}
steps:
  - copy: {to: one, from: src}
  - copy: {to: two, from: src}
  - copy: {to: one_back, from: one}
  - copy: {to: two_back, from: two}
  - get_last_error:
    returns: hipSuccess
expect:
  - check: one_back
  - check: two_back
faults: [copy.zero]
";

fn prove(case: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("it.yaml"), case).expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["prove", "--mutate", "--cases-from", ".", "--device", "emulated"]);
    command.args(["--rocm", "debian:7.2.4", "--gfx", "gfx1151"]);
    let output =
        command.current_dir(folder.path()).stdin(Stdio::null()).output().expect("it starts");
    (output.status.code(), output_text(&output))
}

#[test]
fn reports_statements_that_no_declared_fault_needs() {
    let (code, text) = prove(CASE);
    assert_eq!(code, Some(1), "{text}");
    let unnoticed: Vec<_> = text.lines().filter(|line| line.starts_with("UNNOTICED")).collect();
    let [line] = unnoticed[..] else { panic!("{text}") };
    assert!(line.starts_with("UNNOTICED it, line 14: returns of hipGetLastError;"), "{text}");
    assert!(text.contains("2 of 3 checks, expected statuses and values of the cases are needed"));
    assert!(text.contains("1 of 1 injected fault detected in 1 case"), "{text}");
}

#[test]
fn accepts_statements_that_each_have_a_fault() {
    let (code, text) = prove(&CASE.replace("[copy.zero]", "[copy.zero, call.denied]"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("3 of 3 checks, expected statuses and values of the cases are needed"));
    // If a check occurs twice, one of the two is not needed.
    let twice = CASE.replace("  - check: two_back\n", "  - check: two_back\n  - check: two_back\n");
    let (code, text) = prove(&twice.replace("[copy.zero]", "[copy.zero, call.denied]"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("UNNOTICED it, line 18: check of two_back"), "{text}");
}
