//! Tests the command line in a record that repeats the record's trial.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use report::Record;

use crate::common::CASE;

/// Every option that affects a result, each with a value other than its default.
const OPTIONS: &[&str] = &[
    "--cases-from=case.yaml",
    "--trust",
    "--rocm=debian:6.4.3",
    "--device=emulated",
    "--gfx=gfx1100",
    "--env=LICENCE=it's mine",
    "--launcher=nice -n 0",
    "--timeout=200",
    "--quiet-timeout=20",
    "--late=seeded=3",
    "--limit=files=2048",
    "--schedule=lazy",
    "--sanitize=stop",
    "--device-option=threads=2",
    "--fault=copy.zero,probability=0.5,seed=3",
];

/// All other options. They select trials, limit parallel work, name files or download sources, or state expected
/// failures.
const OTHERS: &[&str] = &[
    "--annotations",
    "--baseline",
    "--budget-seconds",
    "--cards",
    "--exclude",
    "--fail-fast",
    "--flakes",
    "--help",
    // The tests of Python environments cover this option.
    "--in",
    "--jobs",
    "--junit",
    "--max-hangs",
    "--mirror",
    "--record",
    "--recover",
    "--repeat",
    "--resume",
    "--shard",
    "--skips",
    "--tap",
    "--trials",
    "--verbose",
    "--explain-skips",
    "--with",
];

fn rocrepro(folder: &Path, arguments: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env_remove("ROCREPRO_ROCM").env_remove("ROCREPRO_GFX");
    command.output().expect("it starts")
}

fn record(folder: &Path, arguments: &[String]) -> Record {
    let file = folder.join("records");
    let _ = fs::remove_file(&file);
    let output = rocrepro(folder, &[arguments, &["--record=records".to_owned()]].concat());
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    report::records(&text).expect("records").swap_remove(0)
}

#[test]
fn prints_every_option_on_which_a_result_depends() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("case.yaml"), CASE).expect("a file");
    let given = ["run", "case"].iter().chain(OPTIONS).map(|word| (*word).to_owned());
    let again = record(at, &given.collect::<Vec<_>>()).again;

    let words = shell::split(&again).expect("a shell takes it");
    assert_eq!(words[..3], ["rocrepro", "run", "case"], "{again}");
    for option in OPTIONS {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let follows = |pair: &[String]| pair[0] == name && pair[1] == value;
        let is_there = words.contains(&(*option).to_owned())
            || words.windows(2).any(follows)
            || value.is_empty() && words.iter().any(|word| word == name);
        assert!(is_there, "no {option} in: {again}");
    }
    assert_eq!(record(at, &words[1..]).again, again);

    // If this fails, a new option must be added to one of the two lists.
    let help = rocrepro(at, &["run".to_owned(), "--help".to_owned()]);
    let help = String::from_utf8(help.stdout).expect("text");
    // In the help, options that are mentioned in a description are indented further.
    let is_option = |line: &&str| {
        let text = line.trim_start();
        line.len() - text.len() < 10 && text.starts_with('-')
    };
    let starts = help.lines().filter(is_option).filter_map(|line| line.split("--").nth(1));
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(text.len());
        format!("--{}", &text[..end])
    };
    let shown: BTreeSet<String> = starts.map(name).collect();
    let listed = OPTIONS.iter().chain(OTHERS);
    let listed = listed.map(|option| name(option.trim_start_matches('-'))).collect();
    assert_eq!(shown, listed);
}
