//! Writes reports/frameworks.md: which versions of the frameworks work on which releases and architectures.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use xshell::{Shell, cmd};

use super::{FRAMEWORKS, Framework, fetch_libraries};
use crate::{STACK, TaskResult};

const PAGE: &str = "reports/frameworks.md";

/// Folder of the records. If the folder contains the records for a cell of the table, the trials are not run again.
const FOLDER: &str = "target/frameworks";

/// A version of a framework to test in addition to the version that the cases use.
struct Version {
    framework: &'static str,
    packages: &'static [&'static str],
    /// Name of the Python that the version needs; `None` if it supports Python 3.11.
    python: Option<&'static str>,
}

/// Versions to test in addition to those in [`FRAMEWORKS`].
const ADDITIONAL_VERSIONS: &[Version] = &[
    Version {
        framework: "jax",
        packages: &[
            "jax==0.12.0",
            "jaxlib==0.12.0",
            "jax-rocm7-plugin==0.12.0",
            "jax-rocm7-pjrt==0.12.0",
        ],
        python: Some("python3.12"),
    },
    Version { framework: "triton", packages: &["triton==3.6.0", "numpy"], python: None },
];

/// Older releases, each with the architecture on which the cases run.
const OLDER_RELEASES: [(&str, &str); 2] =
    [("debian:6.4.3", "gfx1151"), ("debian:5.7.1", "gfx1100")];

/// Runs the cases of every version of every framework, and writes the table.
pub(crate) fn table(sh: &Shell, program: &Path) -> TaskResult {
    let mut rows = Vec::new();
    let mut dates = BTreeSet::new();
    for it in FRAMEWORKS {
        let own = Version { framework: it.name, packages: it.packages, python: None };
        let versions = ADDITIONAL_VERSIONS.iter().filter(|more| more.framework == it.name);
        for version in [&own].into_iter().chain(versions) {
            let newest = it.gfx.iter().take(2).map(|gfx| (STACK, *gfx));
            for (stack, gfx) in newest.chain(OLDER_RELEASES) {
                let cell = cell(sh, program, it, version, stack, gfx)?;
                let (label, release) = (version.packages[0], stack.trim_start_matches("debian:"));
                rows.push(format!("| {label} | {release} | {gfx} | {} |\n", cell.text));
                dates.extend(cell.date);
            }
        }
    }
    let date = dates.last().ok_or("no trial ran")?;
    let text = format!(
        "{PAGE_HEADER}{}\nMeasured {date}: `cases/programs`, `harness/engine`\n",
        rows.concat()
    );
    sh.write_file(PAGE, text)?;
    println!("wrote {PAGE}; read it before you commit it");
    Ok(())
}

const PAGE_HEADER: &str = "\
# Versions of frameworks on releases and architectures

Packages from PyPI, unmodified, on Debian's ROCm and the **emulated device**; not a GPU result. The last
column says how many of the checks that the cases `programs/NAME-*` made were right, or why they made none.

    cargo run -p ci -- frameworks

| package | ROCm | architecture | right checks, or why there are none |
| --- | --- | --- | --- |
";

#[derive(Debug, PartialEq, Eq)]
struct Cell {
    text: String,
    /// Date of the last trial.
    date: Option<String>,
}

fn cell(
    sh: &Shell,
    program: &Path,
    it: &Framework,
    version: &Version,
    stack: &str,
    gfx: &str,
) -> Result<Cell, Box<dyn std::error::Error>> {
    let release = stack.trim_start_matches("debian:");
    let name = version.packages[0].replace("==", "-");
    let folder = sh.create_dir(FOLDER)?;
    let [records, probe] =
        ["jsonl", "txt"].map(|end| folder.join(format!("{name}-{release}-{gfx}.{end}")));
    let env = if version.packages == it.packages { it.name } else { &name };
    if !records.exists() {
        if let Some(why) = environment(sh, program, env, version)? {
            return Ok(Cell { text: why, date: None });
        }
        if stack == STACK {
            fetch_libraries(sh, program, it, stack, gfx)?;
        }
        let cases = format!("programs/{}-*", it.name);
        let on = ["--rocm", stack, "--gfx", gfx, "--device", "emulated", "--in", env];
        cmd!(sh, "{program} run {cases} {on...} --record {records}").ignore_status().run()?;
    }
    let mut cell = summarize(&fs::read_to_string(&records)?)?;
    if cell.date.is_none() {
        if !probe.exists() {
            let (python, on) = (it.probe, ["--rocm", stack, "--gfx", gfx, "--device", "emulated"]);
            // The libraries that other frameworks need are too large to fetch for a probe.
            let with = it.with.filter(|with| *with == "dev").map(|dev| ["--with", dev]);
            let on = on.into_iter().chain(with.into_iter().flatten());
            let ran = cmd!(sh, "{program} exec {on...} --in {env} -- python3 -c {python}");
            let output = ran.ignore_status().quiet().output()?;
            fs::write(&probe, output.stderr)?;
        }
        if let Some(why) = last_error(&fs::read_to_string(&probe)?) {
            cell.text = why;
        }
    }
    Ok(cell)
}

/// Creates the Python environment of a version. Returns a text for the table if this machine lacks the Python that the
/// version needs; `None` if the environment exists.
fn environment(
    sh: &Shell,
    program: &Path,
    name: &str,
    version: &Version,
) -> Result<Option<String>, xshell::Error> {
    if cmd!(sh, "{program} env path {name}").quiet().ignore_stdout().ignore_stderr().run().is_ok() {
        return Ok(None);
    }
    let packages = version.packages;
    let python = version.python.map(|it| ["--python", it]).into_iter().flatten();
    if let Some(python) = version.python
        && cmd!(sh, "{python} --version").quiet().ignore_stdout().ignore_stderr().run().is_err()
    {
        return Ok(Some(format!("not run: {python} is not installed")));
    }
    cmd!(sh, "{program} env create {name} {python...} {packages...}").run()?;
    Ok(None)
}

/// Returns the cell of the table for the recorded trials. An example of its text is `3 of 4`, if three of four checks
/// were right. The failed trials and the skip reasons follow, separated by semicolons.
fn summarize(records: &str) -> Result<Cell, serde_json::Error> {
    let (mut right, mut all) = (0, 0);
    let (mut failed, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let mut date = None;
    for line in records.lines() {
        let record: Value = serde_json::from_str(line)?;
        let Some(summary) = record["outcome"]["summary"].as_str() else { continue };
        let checks = record["program"]["checks"].as_array().map_or(&[][..], Vec::as_slice);
        all += checks.len();
        right += checks.iter().filter(|check| check["held"] == true).count();
        let trial = record["trial"].as_str().unwrap_or_default();
        match record["outcome"]["kind"].as_str() {
            Some("pass") => {}
            Some("skip") => _ = skipped.insert(summary.to_owned()),
            _ => _ = failed.insert(format!("`{trial}`: {}", first_line(summary))),
        }
        if !checks.is_empty() {
            date = record["date"].as_str().and_then(|date| Some(date.get(..10)?.to_owned()));
        }
    }
    let mut parts = Vec::new();
    if all > 0 {
        parts.push(format!("{right} of {all}"));
    }
    parts.extend(failed.into_iter().chain(skipped));
    if parts.is_empty() {
        parts.push("not run".to_owned());
    }
    Ok(Cell { text: parts.join("; ").replace('|', "\\|"), date })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the last line of the framework's output that reports an error.
fn last_error(stderr: &str) -> Option<String> {
    let line = stderr.lines().map(str::trim).rfind(|line| line.contains("rror: "))?;
    Some(line.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = r#"{"date": "2026-11-29T11:09:19Z", "trial": "programs/a", "outcome": {"kind": "pass",
        "summary": "2 checks passed"}, "program": {"checks": [{"held": true}, {"held": true}]}}"#;
    const FAILED: &str = r#"{"date": "2026-11-30T11:09:19Z", "trial": "programs/b", "outcome": {"kind": "fail",
        "summary": "1 of 9 wrong\nmore"}, "program": {"checks": [{"held": true}, {"held": false}]}}"#;
    const SKIPPED: &str = r#"{"date": "2026-11-30T11:09:19Z", "trial": "programs/c", "outcome": {"kind": "skip",
        "summary": "needs ROCm 7.0"}}"#;

    fn text(records: &[&str]) -> Cell {
        let lines: Vec<_> = records.iter().map(|record| record.replace('\n', "")).collect();
        summarize(&lines.join("\n")).unwrap()
    }

    #[test]
    fn counts_right_checks_and_names_failed_trials() {
        let cell = text(&[r#"{"opened": "2026-11-29T11:09:14Z"}"#, PASSED, FAILED, SKIPPED]);
        let date = Some("2026-11-30".to_owned());
        assert_eq!(
            cell,
            Cell { text: "3 of 4; `programs/b`: 1 of 9 wrong; needs ROCm 7.0".to_owned(), date }
        );
    }

    #[test]
    fn reports_skip_reason_if_no_check_was_made() {
        assert_eq!(text(&[SKIPPED]), Cell { text: "needs ROCm 7.0".to_owned(), date: None });
        assert_eq!(text(&[]), Cell { text: "not run".to_owned(), date: None });
    }

    #[test]
    fn last_error_is_that_of_the_framework() {
        let stderr =
            "Traceback\nOSError: libx.so.7: a | b\n----\nrocrepro-device: note: process 7\n\n";
        assert_eq!(last_error(stderr).as_deref(), Some("OSError: libx.so.7: a \\| b"));
        assert_eq!(last_error("rocrepro: note\n"), None);
    }
}
