//! Tests the sources of expectations, as `rocrepro case list --expectations` prints them.

use std::process::Command;

fn rocrepro(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    let output = command.args(arguments).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const PAGEABLE: &str = "graphs/pageable-copy-after-host-function[host=pageable]";
const ON: [&str; 6] = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151"];

/// CUDA behaves in the same way, so the result is not a bug of ROCm.
#[test]
fn shows_a_difference_and_refuses_to_report_it() {
    let (code, text, stderr) = rocrepro(&[&["run", PAGEABLE][..], &ON].concat());
    assert_eq!(code, Some(0), "{text}{stderr}");
    assert!(text.contains("differs    graphs/pageable-copy-after-host-function"), "{text}");
    assert!(text.contains("1 differed where no document defines the result"), "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("found");
    let out = out.to_str().expect("a path");
    let (code, text, stderr) = rocrepro(
        &[&["report", PAGEABLE, "--budget-seconds", "40", "--out", out][..], &ON].concat(),
    );
    assert_eq!(code, Some(2), "{text}{stderr}");
    assert!(stderr.contains("no document promises") && stderr.contains("CUDA 13"), "{stderr}");
    assert!(!std::path::Path::new(out).join("report.md").exists());
}

#[test]
fn lists_a_source_for_every_expectation() {
    let (code, text, stderr) = rocrepro(&["list", "--expectations"]);
    assert_eq!(code, Some(0), "{stderr}");
    for line in text.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let kinds = ["documented", "cuda", "releases-differ", "difference"];
        assert!(columns.len() >= 3 && kinds.contains(&columns[1]), "{line}");
    }
    for expected in [
        "graphs/exec-destroyed-twice\tdifference\tapi-error:hipGraphExecDestroy:hipSuccess\t",
        "capture/forbidden-calls\treleases-differ\tline ",
        "capture/event-query-after-invalidated\tcuda\tall\t",
        "errors/bad-free\tdocumented\tline ",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
}
