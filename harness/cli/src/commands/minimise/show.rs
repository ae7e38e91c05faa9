//! The result of a minimisation for people.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use report::{count, evidence::Needed};

use super::Minimisation;

pub(super) fn result(result: &Minimisation, time: Duration, again: &str) -> String {
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
    let [needed, structural, open] = Needed::by_proof(&found.elements);
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
                let own = met.own.map(|why| format!(" ({})", why.mark())).unwrap_or_default();
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
    if found.elements.iter().any(Needed::makes_it_more_frequent) {
        out.push_str("  An element that also has failures without it was kept, because the failure is rarer then.\n");
    }
    let names = |elements: &[&Needed]| {
        let names = elements.iter().map(|e| e.what.as_str()).filter(|what| !shown.contains(what));
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ")
    };
    let groups = [
        ("Without these there is no well-formed case that could fail in this way", structural),
        ("Not tried without these", open),
    ];
    for (what, elements) in groups {
        let names = names(&elements);
        if !names.is_empty() {
            let _ = writeln!(out, "\n{what}: {names}.");
        }
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
    let _ = writeln!(out, "\nAgain: {again}");
    out
}
