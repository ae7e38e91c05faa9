//! Sections of the comparison page that explain its cells: failures, missing verdicts, and reasons for skips.

use std::collections::{BTreeMap, BTreeSet};

use judge::VerdictKind;
use maud::{Markup, html};

use super::{
    layout::{Text, issues},
    over_time::Column,
};
use crate::{
    Record,
    words::{count, rank, verdict_label},
};

/// Maximum number of columns or cases that a section lists by name.
const NAMED: usize = 6;

/// A failure or missing verdict of a case. The same failure in several columns is one finding.
pub(super) struct Finding<'a> {
    first: &'a Record,
    /// Names of the columns with this finding, each with the number of trials that show it.
    on: Vec<(String, usize)>,
}

type FindingKey<'a> = (&'a str, VerdictKind, &'a str);

fn finding_key(record: &Record) -> FindingKey<'_> {
    (&record.case, record.verdict.kind, &record.outcome.signature)
}

/// Trials that were skipped for the same reason.
struct SkipReason<'a> {
    cases: BTreeSet<&'a str>,
    trials: usize,
}

/// Findings and reasons for skips of a page, numbered in the order of their sections.
pub(super) struct Findings<'a> {
    findings: Vec<Finding<'a>>,
    numbers: BTreeMap<FindingKey<'a>, usize>,
    skips: BTreeMap<&'a str, SkipReason<'a>>,
}

impl<'a> Findings<'a> {
    /// Collects the findings of all columns. Unexpected results come first. `short` returns the heading of a column.
    pub(super) fn of(columns: &'a [Column], short: &dyn Fn(&str) -> String) -> Findings<'a> {
        let mut found: BTreeMap<FindingKey<'_>, Finding<'_>> = BTreeMap::new();
        let mut skips: BTreeMap<&str, SkipReason<'_>> = BTreeMap::new();
        for column in columns {
            let name = short(&column.name);
            for record in &column.records {
                match record.verdict.kind {
                    VerdictKind::Pass => {}
                    VerdictKind::Skip => {
                        let new = || SkipReason { cases: BTreeSet::new(), trials: 0 };
                        let reason = skips.entry(&record.outcome.summary).or_insert_with(new);
                        reason.cases.insert(&record.case);
                        reason.trials += 1;
                    }
                    _ => {
                        let new = || Finding { first: record, on: Vec::new() };
                        let finding = found.entry(finding_key(record)).or_insert_with(new);
                        match finding.on.last_mut() {
                            Some((last, trials)) if *last == name => *trials += 1,
                            _ => finding.on.push((name.clone(), 1)),
                        }
                    }
                }
            }
        }
        let mut findings: Vec<_> = found.into_values().collect();
        findings.sort_by_key(|f| (rank(f.first.verdict.kind), f.first.case.clone()));
        let numbers = findings
            .iter()
            .enumerate()
            .map(|(n, found)| (finding_key(found.first), n + 1))
            .collect();
        Findings { findings, numbers, skips }
    }

    /// Returns the id of the section that explains the result of a record; `None` for a pass.
    pub(super) fn section(&self, record: &Record) -> Option<String> {
        match record.verdict.kind {
            VerdictKind::Skip => {
                let at = self.skips.keys().position(|why| *why == record.outcome.summary)?;
                Some(format!("s{}", at + 1))
            }
            _ => self.numbers.get(&finding_key(record)).map(|number| format!("f{number}")),
        }
    }

    /// Renders the sections, with at most `details` bytes of details for each failure.
    pub(super) fn markup(&self, details: usize) -> Markup {
        html! {
            @if !self.findings.is_empty() { h2 { "Results" } }
            @for (number, finding) in self.findings.iter().enumerate() {
                (finding.markup(number + 1, details))
            }
            @if !self.skips.is_empty() {
                h2 { "Why trials were skipped" }
                @for (number, (why, reason)) in self.skips.iter().enumerate() {
                    section id=(format!("s{}", number + 1)) {
                        p { (Text(why)) }
                        p { (reason.trials_and_cases()) }
                    }
                }
            }
        }
    }
}

impl SkipReason<'_> {
    fn trials_and_cases(&self) -> String {
        let named: Vec<&str> = self.cases.iter().copied().take(NAMED).collect();
        let more = match self.cases.len() - named.len() {
            0 => String::new(),
            more => format!(", and {}", count(more, "more case")),
        };
        format!("{} of {}{more}", count(self.trials, "trial"), named.join(", "))
    }
}

impl Finding<'_> {
    fn markup(&self, number: usize, most: usize) -> Markup {
        let Finding { first, on } = self;
        let outcome = &first.outcome;
        let mut names: Vec<String> = on
            .iter()
            .take(NAMED)
            .map(|(name, trials)| format!("{name} ({})", count(*trials, "trial")))
            .collect();
        if on.len() > NAMED {
            names.push(format!("and {}", count(on.len() - NAMED, "more column")));
        }
        let details = shortened(outcome.details.join("\n"), most);
        html! {
            section.found id=(format!("f{number}")) {
                h3 { (verdict_label(first.verdict.kind)) " " (Text(&first.case)) ": " (Text(&outcome.signature)) }
                p { (Text(&first.title)) }
                @if !first.upstream.is_empty() { p { "Upstream: " (issues(&first.upstream)) } }
                p { "On " (Text(&names.join(", "))) "." }
                p { (Text(&outcome.summary)) }
                @if !details.is_empty() { pre { (Text(&details)) } }
                p { "Again: " code { (Text(&first.again)) } }
            }
        }
    }
}

/// Cuts a text to at most `most` bytes, and marks the cut.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n(cut)");
    }
    text
}
