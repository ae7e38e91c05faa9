//! Formats the results of `rocrepro minimise` for people.

use std::{collections::BTreeSet, fmt::Write, path::Path, time::Duration};

use crate::{
    count,
    evidence::{MinimiseEvidence, MinimisedProgram, NeededElement, Rate},
};

/// Formats a reduced case: the case itself, the number of runs, and the failure rates with and without each element.
/// `complete` is false if the search ended before it had tried everything, and `time` is its duration. `again` is the
/// command that runs the reduced case.
pub fn minimised(found: &MinimiseEvidence, complete: bool, time: Duration, again: &str) -> String {
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
    if !complete {
        out.push_str(
            "The budget was spent: the case still fails, but may not be minimal; `--resume` continues the search.\n",
        );
    }
    let [needed, structural, open] = NeededElement::split_by_evidence(&found.elements);
    let shown: BTreeSet<&str> = needed.iter().map(|e| e.what.as_str()).collect();
    let own = needed.iter().any(|e| e.instead.iter().any(|met| met.own.is_some()));
    if !needed.is_empty() {
        out.push_str("\nFailures with and without each element:\n");
        let width = needed.iter().map(|e| e.what.chars().count()).max().unwrap_or(0);
        for element in needed {
            let line = match element.line {
                0 => String::new(),
                line => format!("line {line}"),
            };
            let (with, without) = (element.with.to_string(), element.without.to_string());
            let what = &element.what;
            let _ =
                writeln!(out, "  {what:width$}  {line:>8}  with {with:>7}  without {without:>7}");
            for met in &element.instead {
                let own = met.own.map(|why| format!(" ({})", why.label())).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "  {:width$}  {} {}{own}",
                    "",
                    count(met.count, "time"),
                    met.signature
                );
            }
        }
    }
    if own {
        out.push_str(
            "  A failure marked as own does not count: the smaller case itself may be wrong.\n",
        );
    }
    if found.elements.iter().any(NeededElement::makes_it_more_frequent) {
        out.push_str("  An element that also has failures without it was kept, because the failure is rarer then.\n");
    }
    let names = |elements: &[&NeededElement]| {
        let names = elements.iter().map(|e| e.what.as_str()).filter(|what| !shown.contains(what));
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ")
    };
    let groups = [
        ("Without these, no valid case can fail in this way", structural),
        ("The search ended before it tried to remove these", open),
    ];
    for (what, elements) in groups {
        let names = names(&elements);
        if !names.is_empty() {
            let _ = writeln!(out, "\n{what}: {names}.");
        }
    }
    if !found.others.is_empty() {
        out.push_str("\nOther failures found during the search:\n");
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
    let _ = writeln!(out, "\nAgain: {again}");
    out
}

/// Formats the result of shortening a program. `folder` is the evidence folder that contains the shorter program, and
/// `again` is the command that runs it, if there is one.
pub fn minimised_program(found: &MinimisedProgram, folder: &Path, again: Option<&str>) -> String {
    let mut out = String::new();
    let (lines, tries) = (count(found.lines, "line"), count(found.tries, "shorter text"));
    let _ = writeln!(
        out,
        "{}: {lines} of {} remain, after trying {tries}",
        found.trial, found.lines_before
    );
    match &found.reducer {
        Some((name, true)) => {
            let _ = writeln!(out, "  made by    {name}, then by removing lines");
        }
        Some((name, false)) => {
            let _ = writeln!(
                out,
                "  made by    {name}, which was stopped early, then by removing lines"
            );
        }
        None => {}
    }
    let Rate { failed, runs } = found.rate;
    let _ = writeln!(out, "  fails as    {}, in {failed} of {runs} runs", found.signature);
    let passes = found.passes.as_deref().unwrap_or(
        "on no release that was tried: the program itself may be wrong, so check the remaining text",
    );
    let _ = writeln!(out, "  passes      {passes}");
    if !found.complete {
        out.push_str("  not minimal: the budget was spent\n");
    }
    let _ = writeln!(out, "  {}", folder.join(&found.file).display());
    if let Some(again) = again {
        let _ = writeln!(out, "  {again}");
    }
    out
}
