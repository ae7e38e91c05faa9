//! The result of a minimisation for people.

use std::{fmt::Write, path::Path, time::Duration};

use report::{count, evidence::CASE_FILE};

use super::Minimisation;

pub(super) fn result(result: &Minimisation, folder: &Path, time: Duration) -> String {
    let found = &result.found;
    let mut out = String::new();
    let _ = writeln!(out, "{}\n{}\n", found.trial, found.signature);
    for line in found.yaml.lines() {
        let _ = writeln!(out, "    {line}");
    }
    let _ = writeln!(
        out,
        "\nCalls: {} before, {} after; {} in {:.1} s; the minimal case failed in {} runs.",
        found.calls_before,
        found.calls_after,
        count(found.runs, "run"),
        time.as_secs_f64(),
        found.rate,
    );
    if !result.complete {
        out.push_str(
            "The budget was spent: what is left still fails, and may not be minimal; `--resume` goes on.\n",
        );
    }
    let (needed, without): (Vec<_>, Vec<_>) =
        found.elements.iter().partition(|e| e.without.runs > 0);
    if !needed.is_empty() {
        out.push_str("\nFailures with and without each element:\n");
        let width = needed.iter().map(|e| e.what.chars().count()).max().unwrap_or(0);
        for element in needed {
            let line = match element.line {
                0 => String::new(),
                line => format!("line {line}"),
            };
            let _ = writeln!(
                out,
                "  {:width$}  {:>8}  with {:>7}  without {:>7}",
                element.what,
                line,
                element.with.to_string(),
                element.without.to_string()
            );
        }
    }
    if !without.is_empty() {
        let shown =
            |what: &str| found.elements.iter().any(|e| e.without.runs > 0 && e.what == what);
        let mut names: Vec<_> =
            without.iter().map(|e| e.what.as_str()).filter(|what| !shown(what)).collect();
        names.sort_unstable();
        names.dedup();
        let _ = writeln!(
            out,
            "\nWithout these there is no well-formed case that could fail in this way: {}.",
            names.join("; ")
        );
    }
    if !found.others.is_empty() {
        out.push_str("\nOther failures that were met on the way, kept apart:\n");
        for (n, other) in found.others.iter().enumerate() {
            let _ = writeln!(
                out,
                "  {} ({}, other-{}.yaml)",
                other.signature,
                count(other.count, "time"),
                n + 1
            );
        }
    }
    let case = folder.join(CASE_FILE);
    let fault: String = found
        .fault
        .iter()
        .flat_map(|faults| faults.split(' '))
        .map(|fault| format!(" --fault {fault}"))
        .collect();
    let _ = writeln!(
        out,
        "\nAgain: rocrepro run --cases-from {} --rocm {}{fault}",
        case.display(),
        found.on.stack
    );
    out
}
