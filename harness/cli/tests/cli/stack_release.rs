//! Tests stacks whose files do not state their release.

use std::{fs, os::unix::fs::symlink, path::Path, process::Output};

use judge::VerdictKind;
use report::Record;
use tempfile::TempDir;

use crate::common::rocrepro;

/// Folder of the libraries below Debian's root folder.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Returns a copy of ROCm 7.2.4 that does not state its release: it has no manifest, and the file name of the HIP
/// runtime contains only the version of the interface.
fn nameless() -> TempDir {
    let spec = "debian:7.2.4";
    let fetched = rocrepro(&["rocm", "fetch", spec]).output().expect("it starts");
    assert!(fetched.status.success(), "{fetched:?}");
    let store = stacks::StackCache::from_environment().expect("there is a cache");
    let spec = spec.parse().expect("it is a stack");
    let whole = stacks::locate(&spec, &store).expect("it is there").root.join(LIBRARIES);
    let root = tempfile::tempdir().expect("a temporary folder");
    let libraries = root.path().join(LIBRARIES);
    fs::create_dir_all(&libraries).expect("a folder");
    for entry in fs::read_dir(&whole).expect("the stack has libraries").flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with("libamdhip64") && !entry.path().is_dir() {
            symlink(entry.path(), libraries.join(name)).expect("a link");
        }
    }
    // The judge requires a HIP runtime inside the stack's folder, so the file is copied, not linked.
    let runtime = libraries.join("libamdhip64.so.7");
    fs::copy(whole.join("libamdhip64.so.7"), runtime).expect("a copy");
    root
}

fn run(root: &Path, trial: &str) -> (Output, Option<Record>) {
    let records = root.join("records");
    let output = rocrepro(&["run", trial, "--device", "emulated", "--gfx", "gfx1151", "--rocm"])
        .arg(root)
        .arg("--record")
        .arg(&records)
        .output()
        .expect("it starts");
    let text = fs::read_to_string(&records).unwrap_or_default();
    let record = report::records(&text).expect("records").pop();
    (output, record)
}

/// Name of a case that is expected to fail on some releases.
const EXPECTED_FAILURE: &str = "capture/unjoined-fork";

#[test]
fn asks_the_runtime_for_an_unknown_release() {
    let root = nameless();
    let asked = |doubt: &str| {
        let (output, record) = run(root.path(), EXPECTED_FAILURE);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("ROCm 7.2, as its HIP runtime reports"), "{said}");
        assert!(said.contains(doubt), "{said}");
        let record = record.expect("it was run");
        assert_eq!(record.verdict.kind, VerdictKind::Known, "{record:?}");
        assert_eq!(record.stack.rocm.map(|v| v.to_string()).as_deref(), Some("7.2"));
    };
    asked("has no .info/version");
    fs::create_dir(root.path().join(".info")).expect("a folder");
    fs::write(root.path().join(".info/version"), "7.2.0-local\n").expect("a file");
    asked("`7.2.0-local` is not a version");
}

#[test]
fn states_the_effect_of_an_unknown_release() {
    let root = nameless();
    let runtime = root.path().join(LIBRARIES).join("libamdhip64.so.7");
    fs::write(runtime, "no library").expect("a file");
    let (output, _) = run(root.path(), EXPECTED_FAILURE);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unknown ROCm version"), "{said}");
    assert!(said.contains("Expected failures count only if they apply to every version"), "{said}");
}
