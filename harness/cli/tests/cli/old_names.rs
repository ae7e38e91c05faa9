//! Tests that the old names of commands, from earlier builds, still work.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::common::CASE;

const PAGE: &str = include_str!("../../../../docs/commands.md");

/// Returns the old names in docs/commands.md, each with the new name.
fn table() -> Vec<(&'static str, &'static str)> {
    let (_, section) = PAGE.split_once("## Old names").expect("it has a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |"));
    rows.filter_map(|row| row.split_once("` | `")).collect()
}

fn run(at: &Path, words: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(words.split(' ')).args(more).current_dir(at);
    command.env("ROCREPRO_DEVICE_KIND", "emulated").env("COLUMNS", "80");
    for name in ["ROCREPRO_ROCM", "ROCREPRO_GFX", "ROCREPRO_STORE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.output().expect("it starts")
}

/// Runs a command by both names, compares output, files and exit code, and returns the exit code.
#[track_caller]
fn compare(at: &Path, old: &str, new: &str, more: &[&str]) -> Option<i32> {
    let (by_old, by_new) = (run(at, old, more), run(at, new, more));
    let named = format!("{old} and {new} {more:?}");
    assert_eq!(by_old.status, by_new.status, "{named}: {by_old:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&by_old.stdout), text(&by_new.stdout), "{named}");
    assert_eq!(text(&by_old.stderr), text(&by_new.stderr), "{named}");
    by_old.status.code()
}

#[test]
fn every_old_name_has_the_help_and_the_errors_of_the_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let table = table();
    let old: Vec<&str> = table.iter().map(|(old, _)| *old).collect();
    let known = [
        "check",
        "list",
        "explain",
        "schema",
        "schema --record",
        "show",
        "diff",
        "merge",
        "store",
        "history",
        "unfinished",
        "redact",
        "rocm",
        "env",
    ];
    assert_eq!(old, known);
    for (old, new) in table {
        assert_eq!(compare(at, old, new, &["-h"]), Some(0));
        assert_eq!(compare(at, old, new, &["--help"]), Some(0));
        assert_eq!(compare(at, old, new, &["--no-such-option"]), Some(2));
    }
}

#[test]
fn old_names_do_what_the_new_ones_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    std::fs::write(at.join("case.yaml"), CASE).expect("a file");
    let ran = run(at, "run", &["--cases-from", "case.yaml", "--record", "runs"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let mut tried = Vec::new();
    let mut both = |old: &'static str, more: &[&str], code| {
        let table = table();
        let row =
            table.iter().rfind(|(name, _)| old == *name || old.starts_with(&format!("{name} ")));
        let (name, new) = row.expect("it is in the table");
        let new = old.replacen(name, new, 1);
        assert_eq!(compare(at, old, &new, more), Some(code), "{old} {more:?}");
        tried.push(*name);
    };
    both("check", &["--cases-from", "case.yaml"], 0);
    both("check", &["no/such-case"], 2);
    both("list", &["copies", "--trials"], 0);
    both("explain", &["copies/small-sizes"], 0);
    both("schema", &[], 0);
    both("schema --record", &[], 0);
    both("show", &["runs"], 0);
    both("diff", &["runs", "runs"], 0);
    both("merge", &["runs", "--out", "/nonexistent/merged"], 2);
    both("unfinished", &["runs"], 0);
    both("redact", &["runs"], 0);
    // At the second `store add`, the store already contains the run.
    assert_eq!(run(at, "store add", &["runs", "--store", "db"]).status.code(), Some(0));
    both("store add", &["runs", "--store", "db"], 0);
    both("store list", &["--store", "db"], 0);
    both("history", &["case", "--store", "db"], 0);
    both("rocm list", &[], 0);
    both("rocm path", &["debian:7.2.4"], 0);
    both("rocm path", &["nonsense"], 2);
    both("env list", &[], 0);
    both("env path", &["no-such-environment"], 2);
    for (name, _) in table() {
        assert!(tried.contains(&name), "{name} was not tried");
    }
}
