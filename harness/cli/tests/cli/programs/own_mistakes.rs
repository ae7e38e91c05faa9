//! Tests that a user's own mistake is not reported as an error of ROCm.

use std::{collections::BTreeSet, fs, path::Path, process::Output, thread};

use super::shown;
use crate::exec::namespaces;

/// Programs with a mistake, selected by the argument.
const SOURCE: &str = include_str!("own_mistakes.hip");

/// Mistakes that the sanitizer finds, so that `report` writes nothing.
const FOUND_BY_SANITIZER: [&str; 9] = [
    "counter_race",
    "host_pointer_in_kernel",
    "kernel_out_of_bounds",
    "lds_too_small",
    "missing_sync_streams",
    "missing_syncthreads",
    "null_from_failed_malloc",
    "race_streams",
    "uninitialised",
];

fn rocrepro(folder: &Path, words: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words).current_dir(folder).stdin(std::process::Stdio::null());
    command.output().expect("it starts")
}

/// Compiles the programs, and returns the folder and their names.
fn compile() -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("mistakes.hip"), SOURCE).expect("a program");
    let on = ["exec", "--rocm", "debian:7.2.4", "--device", "emulated"];
    let compiler = ["--with", "hipcc,dev", "--", "hipcc", "--offload-arch=gfx1151", "-w", "-O2"];
    let files = ["mistakes.hip", "-o", "mistakes"];
    let output = rocrepro(folder.path(), &[&on[..], &compiler, &files].concat());
    assert!(output.status.success(), "{}", shown(&output));
    let output = rocrepro(folder.path(), &[&on[..], &["--", "./mistakes"]].concat());
    let names = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    (folder, names)
}

/// Runs `report` on one program, and returns what it printed and the page, if it wrote one.
fn report(folder: &Path, name: &str, more: &[&str]) -> (Output, Option<String>) {
    let on = [
        "report",
        "--budget-seconds",
        "1",
        "--rocm",
        "debian:7.2.4",
        "--device",
        "emulated",
        "--gfx",
        "gfx1151",
    ];
    let out = format!("out-{name}");
    // Races of the host do not show in every run.
    let races = ["race_streams", "missing_sync_streams", "read_before_sync"];
    let repeat = if races.contains(&name) { "20" } else { "1" };
    let words = ["--repeat", repeat, "--out", &out];
    let output = rocrepro(folder, &[&on[..], &words, more, &["--", "./mistakes", name]].concat());
    (output, fs::read_to_string(folder.join(out).join("report.md")).ok())
}

#[test]
fn own_mistakes_are_no_issues_of_rocm() {
    if !namespaces() {
        return;
    }
    let (folder, names) = compile();
    assert!(names.len() >= 26, "{names:?}");
    let half = names.len() / 2;
    let (first, second) = names.split_at(half);
    let reports = |names: &[String]| -> Vec<_> {
        names.iter().map(|name| (name.clone(), report(folder.path(), name, &[]))).collect()
    };
    let results: Vec<_> = thread::scope(|scope| {
        let other = scope.spawn(|| reports(second));
        let mut results = reports(first);
        results.extend(other.join().expect("no panic"));
        results
    });
    let mut found = BTreeSet::new();
    for (name, (output, page)) in &results {
        let printed = shown(output);
        match page {
            None => {
                assert_eq!(output.status.code(), Some(3), "{name}: {printed}");
                assert!(printed.contains("no issue was written"), "{name}: {printed}");
                found.insert(name.as_str());
            }
            Some(page) => {
                assert_eq!(output.status.code(), Some(0), "{name}: {printed}");
                assert!(page.starts_with("<!-- title: Not an issue yet: "), "{name}: {page}");
                assert!(page.contains("<!-- repository: none yet -->"), "{name}: {page}");
                assert!(page.contains("**This is not an issue yet"), "{name}: {page}");
                assert!(!page.contains("Filed here because"), "{name}: {page}");
                assert!(printed.contains("belongs to  no repository yet"), "{name}: {printed}");
            }
        }
    }
    let expected = BTreeSet::from(FOUND_BY_SANITIZER);
    assert_eq!(found, expected);
}

#[test]
fn anyway_and_a_passing_control_make_an_issue() {
    if !namespaces() {
        return;
    }
    let (folder, _) = compile();
    let (output, page) = report(folder.path(), "second_device", &["--anyway", "--open"]);
    let page = page.unwrap_or_else(|| panic!("{}", shown(&output)));
    assert!(page.starts_with("<!-- title: [Issue]: "), "{page}");
    assert!(page.contains("**Nothing shows that ROCm caused this failure.**"), "{page}");
    assert!(page.contains("**Filed here because**"), "{page}");
    assert!(shown(&output).contains("https://github.com/ROCm/rocm-systems/issues/new?"));
    let (output, page) = report(folder.path(), "second_device", &["--open"]);
    assert!(page.is_some_and(|page| page.starts_with("<!-- title: Not an issue yet: ")));
    assert!(shown(&output).contains("No address, because a draft must not be filed."));
    // Injected, it passes on a healthy device.
    let (output, page) = report(folder.path(), "healthy", &["--fault", "copy.zero"]);
    let page = page.unwrap_or_else(|| panic!("{}", shown(&output)));
    assert!(page.starts_with("<!-- title: [Issue]: INJECTED, do not file: "), "{page}");
}
