//! Compares the reports in reports/examples with those that `rocrepro report` writes now, except for what depends on
//! the machine, the date or the process. The results of `minimise` and `mitigate` are read from the folders of the
//! examples.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn good(folder: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_rocrepro"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the command starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = format!("{arguments:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{all}");
}

/// Returns the lines of a report that do not depend on the machine, date or process.
fn lasting(report: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let (mut section, mut of_machine) = (String::new(), false);
    for line in report.lines() {
        if line.starts_with("### ") {
            section = line.to_owned();
        }
        if let Some(title) = line.strip_prefix("<details><summary>") {
            let logs = ["AMD_LOG_LEVEL", "Kernel log", "Machine", "Native stacks"];
            of_machine = logs.iter().any(|log| title.starts_with(log));
        }
        let heading = line.starts_with("### ") || line.starts_with("<details>");
        let machine = section.ends_with("Operating System") || section.ends_with("CPU");
        // Rows of other releases depend on the releases that the machine has.
        let control = line.starts_with("| the same on ROCm ");
        if heading || !(of_machine || machine || control) {
            kept.push(unlimited(&undated(line)));
        }
        of_machine &= !line.starts_with("</details>");
    }
    kept
}

/// Removes the process limit, which depends on the machine's memory.
fn unlimited(line: &str) -> String {
    const LIMIT: &str = " processes=";
    match line.split_once(LIMIT) {
        Some((before, after)) => {
            format!("{before}{LIMIT}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_owned(),
    }
}

fn undated(line: &str) -> String {
    let is_day = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() >= 10
            && bytes[..10].iter().enumerate().all(|(n, b)| match n {
                4 | 7 => *b == b'-',
                _ => b.is_ascii_digit(),
            })
    };
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if is_day(rest) {
            out.push_str("DATE");
            rest = &rest[10..];
            if rest.starts_with('T') {
                rest = rest.split_once('Z').map_or("", |(_, after)| after);
            }
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

#[track_caller]
fn check(name: &str, trial: &str, passing: &str) {
    let shown =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/examples")).join(name);
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["case.yaml", "minimise.json", "mitigate.json"] {
        fs::create_dir_all(folder.path().join("out")).expect("a folder");
        fs::copy(shown.join(file), folder.path().join("out").join(file)).expect(file);
    }
    for release in ["debian:7.2.4", passing] {
        good(folder.path(), &["rocm", "fetch", release, "--with", "dev"]);
    }
    let on = ["--rocm", "debian:7.2.4", "--device", "emulated", "--gfx", "gfx1151", "--out", "out"];
    good(folder.path(), &[&["report", trial], &on[..]].concat());
    for file in ["repro.cpp", "report.md"] {
        let read = |folder: &Path| lasting(&fs::read_to_string(folder.join(file)).expect(file));
        let (old, new) = (read(&shown), read(&folder.path().join("out")));
        let at = (0..old.len().max(new.len())).find(|n| old.get(*n) != new.get(*n));
        let differs = at.map(|n| (old.get(n), new.get(n)));
        assert_eq!(
            differs, None,
            "{name}/{file} is stale (present and expected line); run `cargo run -p ci -- examples`"
        );
    }
}

#[cfg(feature = "long-tests")]
#[test]
fn keeps_the_long_chain_report_current() {
    check("graphs-long-chain", "graphs/long-chain[nodes=30000]", "debian:6.4.3");
}

#[test]
fn keeps_the_second_capture_report_current() {
    let trial = "capture/retry-after-invalidated-capture[node=copy]";
    check("capture-retry-after-invalidated", trial, "debian:5.7.1");
}

#[test]
fn compares_sentences_but_not_dates_or_machine_facts() {
    let text = "### CPU\n\nfast\n\n### Steps\n\nRun it. 2026-11-21T06:04:58Z\n| the same on ROCm 6.4.3 | 0/3 |\n";
    let other =
        text.replace("fast", "slow").replace("2026-11-21T06:04:58Z", "2027-01-02T01:01:01Z");
    assert_eq!(lasting(text), lasting(&other));
    assert_eq!(lasting(text), lasting(&text.replace("6.4.3", "5.7.1")));
    assert_ne!(lasting(text), lasting(&text.replace("Run", "Walk")));
    let limits = "Limits of the failing run (ulimit): `memory=unlimited processes=96551 stack=8M`.";
    assert_eq!(lasting(limits), lasting(&limits.replace("96551", "63")));
    assert_ne!(lasting(limits), lasting(&limits.replace("stack=8M", "stack=9M")));
    let log = "<details><summary>AMD_LOG_LEVEL=4 of the program</summary>\n:3: 12 us\n</details>\nafter\n";
    assert_eq!(lasting(log), lasting(&log.replace("12 us", "13 us")));
    assert_ne!(lasting(log), lasting(&log.replace("after", "behind")));
}
