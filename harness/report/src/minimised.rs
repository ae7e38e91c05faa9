//! The results of minimisations for people.

use std::{
    collections::BTreeSet,
    fmt::{self, Display, Write},
    path::Path,
    time::Duration,
};

use crate::{
    count,
    evidence::{Minimised, Needed},
};

/// Formats a reduced case: the case, the runs, and the failures with and without each element. `again` is the command
/// that runs the case.
pub fn minimised(found: &Minimised, complete: bool, time: Duration, again: &str) -> String {
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
            "The budget was spent: the case still fails, and may not be minimal; `--resume` continues the search.\n",
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
        ("Without these, a well-formed case cannot fail in this way", structural),
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

/// A shortened program to be shown.
#[derive(Clone, Copy, Debug)]
pub struct ShortenedProgram<'a> {
    /// Name of the trial.
    pub trial: &'a str,
    /// Number of lines of the shortened program.
    pub lines: usize,
    /// Number of lines of the original program.
    pub lines_before: usize,
    /// Number of texts that were tried.
    pub tries: u32,
    /// External reducer that ran first, and whether it ended by itself.
    pub reducer: Option<(&'a str, bool)>,
    /// Signature of the failure.
    pub signature: &'a str,
    /// Number of runs; all of them failed.
    pub runs: u32,
    /// Configuration on which the program passes, for example `on debian:5.7.1`.
    pub passes: Option<&'a str>,
    /// True if every remaining line is needed. False if the budget was spent before.
    pub complete: bool,
    /// File of the shortened program.
    pub file: &'a Path,
    /// Command that runs the shortened program.
    pub again: Option<&'a str>,
}

impl Display for ShortenedProgram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, tries) = (count(self.lines, "line"), count(self.tries, "trial"));
        writeln!(
            f,
            "{}: {lines} of {}, after {tries} of smaller texts",
            self.trial, self.lines_before
        )?;
        match self.reducer {
            Some((name, true)) => writeln!(f, "  made by    {name}, then by leaving out lines")?,
            Some((name, false)) => writeln!(
                f,
                "  made by    {name}, which was stopped before its end, then by leaving out lines"
            )?,
            None => {}
        }
        writeln!(f, "  fails as    {}, in {} of {} runs", self.signature, self.runs, self.runs)?;
        let passes = self.passes.unwrap_or(
            "on no release that was tried: the program itself may be wrong, so read what is left",
        );
        writeln!(f, "  passes      {passes}")?;
        if !self.complete {
            f.write_str("  not minimal: the budget was spent\n")?;
        }
        writeln!(f, "  {}", self.file.display())?;
        self.again.map_or(Ok(()), |again| writeln!(f, "  {again}"))
    }
}
