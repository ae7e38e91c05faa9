//! Tests which lines of a program the command `report` leaves out, and which it keeps.

use std::{fs, path::Path, process::Command};

use crate::exec::namespaces;

/// Returns the program that a report about a trial prints.
fn printed(folder: &Path, words: &[&str]) -> String {
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--out", "found", "--repeat", "2"];
    // On a busy machine, a search that ends by itself takes longer than the default.
    let long = ["--budget-seconds", "900"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    let output = command.arg("report").args(words).args(on).args(long).current_dir(folder).output();
    let output = output.expect("the command starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let report = fs::read_to_string(folder.join("found/report.md")).expect("a report");
    let mut blocks = report.split("\n```");
    let program = blocks.find_map(|block| {
        let languages = ["cpp\n", "python\n"];
        languages.iter().find_map(|language| block.strip_prefix(language))
    });
    program.expect("a program").to_owned()
}

/// The trial passes on no release, so another trial of the case, which passes, is the control.
#[test]
fn leaves_out_calls_of_a_program_that_fails_on_every_release() {
    let folder = tempfile::tempdir().unwrap();
    let program = printed(folder.path(), &["copies/set-rows[depth=3,width=64,async=false]"]);
    for needless in ["hipStream", "Synchronize", "hipMemset(", "std::memset"] {
        assert!(!program.contains(needless), "{needless}: {program}");
    }
    for needed in
        ["hipMemset3D(", "hipMemcpyHostToDevice", "hipMemcpyDeviceToHost", "std::fill_n(want_dst."]
    {
        assert_eq!(program.matches(needed).count(), 1, "{needed}: {program}");
    }
}

/// The printed program contains the injected fault, and passes without the line that injects it.
#[test]
fn shortens_a_program_with_a_fault_at_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let trial = "graphs/destroyed-in-flight[destroyed=exec,words=65536]";
    let program = printed(folder.path(), &[trial, "--fault", "teardown.crash"]);
    let fault = "std::abort();  // Injected fault: hipGraphDestroy kills the process.";
    assert_eq!(program.matches(fault).count(), 1, "{program}");
    assert_eq!(program.matches("abort").count(), 1, "{program}");
    let passed = program.find("std::puts(\"PASS\");\n  std::fflush(stdout);").expect("it passed");
    assert!(passed < program.find(fault).expect("a fault"), "{program}");
    assert!(program.contains("CHECK(hipGraphDestroy(g), hipSuccess);"), "{program}");
    assert!(!program.contains("hiprtc") && !program.contains("hipMalloc"), "{program}");
    let removed = ::export::without_injected(&program);
    assert!(!removed.contains("abort") && removed.contains("hipGraphDestroy(g)"), "{removed}");
}

/// The case fails on every release. The same program with another axis value passes.
#[test]
fn shortens_a_program_case_by_a_trial_that_passes() {
    if !namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = printed(folder.path(), &["programs/masked-multiply[level=O1,add=v]"]);
    for needless in ["phase", "hipDeviceSynchronize", "isinstance", "return bool"] {
        assert!(!program.contains(needless), "{needless}: {program}");
    }
    // Without its bound, the kernel writes past the end of the array, which the sanitizer finds.
    for needed in ["if (i >= n) return;", "rocrepro.equal(\"product\"", "rocrepro.done()"] {
        assert!(program.contains(needed), "{needed}: {program}");
    }
}
