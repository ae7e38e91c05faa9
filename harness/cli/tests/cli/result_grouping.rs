//! Tests that results are grouped by stack, device, environment, limits and version of the case.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{CASE, failing_case, output_text};

#[track_caller]
fn ends(at: &Path, words: &[&str], code: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.env_remove("ROCREPRO_STORE").args(words).current_dir(at).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let said = output_text(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said
}

const ON: [&str; 4] = ["--device", "emulated", "--rocm", "debian:7.2.4"];

/// On this release `copies/rows-source-rewritten` fails, and it passes if HIP waits for each copy.
#[test]
fn never_calls_a_pass_under_a_mitigation_fixed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let run = |more: &[&str]| {
        let trial = "copies/rows-source-rewritten[rows=16]";
        ends(at, &[&["run", trial], &ON[..], more, &["--record", "r"]].concat(), 0)
    };
    let printed = run(&[]);
    assert!(printed.contains("1 failed as known"), "{printed}");
    for more in [&[][..], &["--trials"]] {
        let printed = run(&[&["--env", "AMD_SERIALIZE_COPY=3"], more].concat());
        assert!(
            printed.contains("passes with AMD_SERIALIZE_COPY=3; expected to fail without it"),
            "{printed}"
        );
        assert!(printed.contains("not a GPU result; with AMD_SERIALIZE_COPY=3;"), "{printed}");
        assert!(!printed.contains("FIXED?") && !printed.contains("ossibly fixed"), "{printed}");
    }
    run(&["--limit", "stack=64M"]);
    ends(at, &["store", "add", "--store", "db", "r"], 0);
    let printed = ends(at, &["history", "copies/rows-source-rewritten", "--store", "db"], 0);
    assert!(printed.contains("4 trials on 3 configurations"), "{printed}");
    assert!(!printed.contains("1 of 2") && !printed.contains("2 of 4"), "{printed}");
    let listed = ends(at, &["store", "list", "--store", "db"], 0);
    assert!(listed.contains("on debian:7.2.4@gfx1151; with AMD_SERIALIZE_COPY=3\n"), "{listed}");
    assert!(listed.contains("on debian:7.2.4@gfx1151; limit stack=64M\n"), "{listed}");
}

/// A changed case explains a changed result, so the change must not be attributed to the stack. Changes of comments in
/// the case are ignored.
#[test]
fn separates_results_by_the_text_of_the_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let run = |text: &str, file: &str, code: i32| {
        fs::write(at.join("case.yaml"), text).expect("a file");
        let from = ["run", "--cases-from", "case.yaml", "--record", file];
        ends(at, &[&from[..], &ON].concat(), code);
    };
    run(CASE, "old", 0);
    run(&format!("# A comment.\n{CASE}"), "same", 0);
    run(&failing_case(), "new", 1);
    let printed = ends(at, &["diff", "old", "new"], 1);
    assert!(printed.contains("another text    case\n    pass -> "), "{printed}");
    assert!(
        printed.contains("; the text of the case differs\n") && !printed.contains("now fails"),
        "{printed}"
    );
    ends(at, &["store", "add", "--store", "db", "old", "same", "new"], 0);
    let printed = ends(at, &["history", "case", "--store", "db"], 0);
    assert!(printed.contains("1 trial passed whenever it ran, 2 times in total"), "{printed}");
    assert!(printed.contains("The text of the case changed in between"), "{printed}");
    assert!(printed.contains(" of the case: 1 of 1 failed;"), "{printed}");
}

#[test]
fn resolves_links_in_the_path_of_a_stack() {
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
    assert!(listed.contains("finished on debian:7.2.4@gfx1151\n"), "{listed}");
    assert!(listed.contains(&format!("finished on {root}@gfx1151\n")), "{listed}");
}
