//! What was asked of a run besides its stack and its device, and what the text of its case was, keeps results apart.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::CASE;

#[track_caller]
fn ends(at: &Path, words: &[&str], code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.env_remove("ROCREPRO_STORE").args(words).current_dir(at).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said
}

const ON: [&str; 4] = ["--device", "emulated", "--rocm", "debian:7.2.4"];

/// `copies/rows-source-rewritten` fails on this release, and not where copies are awaited.
#[test]
fn a_pass_with_a_mitigation_is_not_called_fixed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let run = |more: &[&str]| {
        let trial = "copies/rows-source-rewritten[rows=16]";
        ends(at, &[&["run", trial], &ON[..], more, &["--record", "r"]].concat(), 0)
    };
    let told = run(&[]);
    assert!(told.contains("1 failed as known"), "{told}");
    for more in [&[][..], &["--trials"]] {
        let told = run(&[&["--env", "AMD_SERIALIZE_COPY=3"], more].concat());
        assert!(told.contains("passes with AMD_SERIALIZE_COPY=3; known to fail without"), "{told}");
        assert!(told.contains("not a GPU result; with AMD_SERIALIZE_COPY=3;"), "{told}");
        assert!(!told.contains("FIXED?") && !told.contains("ossibly fixed"), "{told}");
    }
    run(&["--limit", "stack=64M"]);
    ends(at, &["store", "add", "--store", "db", "r"], 0);
    let told = ends(at, &["history", "copies/rows-source-rewritten", "--store", "db"], 0);
    assert!(told.contains("4 trials on 3 grounds"), "{told}");
    assert!(!told.contains("1 of 2") && !told.contains("2 of 4"), "{told}");
    let listed = ends(at, &["store", "list", "--store", "db"], 0);
    assert!(listed.contains("on debian:7.2.4@gfx1151; with AMD_SERIALIZE_COPY=3\n"), "{listed}");
    assert!(listed.contains("on debian:7.2.4@gfx1151; limit stack=64M\n"), "{listed}");
}

/// What another text of the same case came to says nothing of what the runs stood on. A comment is no other text.
#[test]
fn another_text_of_a_case_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let run = |text: &str, file: &str, code: i32| {
        fs::write(at.join("case.yaml"), text).expect("a file");
        let from = ["run", "--cases-from", "case.yaml", "--record", file];
        ends(at, &[&from[..], &ON].concat(), code);
    };
    run(CASE, "old", 0);
    run(&format!("# A comment.\n{CASE}"), "same", 0);
    let wrong =
        CASE.replace("  - check: dst\n", "  - free: dst\n    returns: hipErrorInvalidValue\n");
    let wrong = wrong.replace("faults: [copy.zero]", "faults: [call.hang]");
    run(&wrong, "new", 1);
    let told = ends(at, &["diff", "old", "new"], 1);
    assert!(told.contains("another text    case\n    pass -> "), "{told}");
    assert!(told.contains("; the case's text differs\n") && !told.contains("now fails"), "{told}");
    ends(at, &["store", "add", "--store", "db", "old", "same", "new"], 0);
    let told = ends(at, &["history", "case", "--store", "db"], 0);
    assert!(told.contains("1 trial passed whenever it ran, 2 times in all"), "{told}");
    assert!(told.contains("The case's text changed in between"), "{told}");
    assert!(told.contains(" of the case: 1 of 1 failed;"), "{told}");
}

/// A folder is the one that it really is, from wherever and through whatever link it is given.
#[test]
fn a_stack_in_a_folder_is_known_by_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("case.yaml"), CASE).expect("a file");
    let run = |rocm: &str, file: &str| {
        let from = ["run", "--cases-from", "case.yaml", "--device", "emulated"];
        ends(at, &[&from[..], &["--rocm", rocm, "--record", file]].concat(), 0);
        let text = fs::read_to_string(at.join(file)).expect("records");
        report::records(&text).expect("records").remove(0).stack
    };
    let root = run("debian:7.2.4", "first").root;
    std::os::unix::fs::symlink(&root, at.join("here")).expect("a link");
    let linked = run("./here", "second");
    assert_eq!((linked.spec.as_str(), &linked.root), ("./here", &root));
    ends(at, &["store", "add", "--store", "db", "first", "second"], 0);
    let listed = ends(at, &["store", "list", "--store", "db"], 0);
    assert!(listed.contains("over on debian:7.2.4@gfx1151\n"), "{listed}");
    assert!(listed.contains(&format!("over on {root}@gfx1151\n")), "{listed}");
}
