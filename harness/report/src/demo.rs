//! Formats the results of `rocrepro demo`: three lines for each trial, and a summary.

use judge::{Kind, VerdictKind};
use regex::Regex;

use crate::{
    Record,
    words::{BOLD, count, describe_setup, link, style, styled, without_lines},
};

/// Kind of finding that a trial of the demonstration is expected to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoFinding {
    /// An expected failure of the release.
    Bug,
    /// A failure under an injected fault.
    Fault,
    /// A race that the sanitizer reports.
    Race,
}

impl DemoFinding {
    fn label(self) -> &'static str {
        match self {
            DemoFinding::Bug => "bug",
            DemoFinding::Fault => "fault",
            DemoFinding::Race => "race",
        }
    }

    fn is_shown_by(self, record: &Record) -> bool {
        match self {
            DemoFinding::Bug => record.verdict.kind == VerdictKind::Known,
            DemoFinding::Fault => record.verdict.kind == VerdictKind::NewsFail,
            DemoFinding::Race => record.outcome.kind == Kind::MemoryFault,
        }
    }
}

/// A result of the demonstration, and the texts that explain it.
pub struct Demonstrated<'a> {
    /// Finding that the trial is expected to show.
    pub finding: DemoFinding,
    /// Description of what the program does, as a sentence.
    pub does: &'a str,
    /// Description of what should happen, as a sentence without its full stop.
    pub should: &'a str,
    /// The record of the trial.
    pub record: &'a Record,
}

impl Demonstrated<'_> {
    fn appeared(&self) -> bool {
        self.finding.is_shown_by(self.record)
    }

    /// Formats the result: what the program does, what should happen and what happened, the upstream issue, and the
    /// case.
    pub fn text(&self) -> String {
        // Two spaces after each label make continuation lines align with its text.
        let word = self.finding.label();
        let label = styled(style(self.record.verdict.kind), word);
        let gap = " ".repeat(7 - word.len());
        let (does, should, happened) = (self.does, self.should, self.describe_result());
        let (issue, case) = (self.issue(), &self.record.trial);
        format!("{label}{gap}{does}\nseen   {should}; {happened}.\nissue  {issue}\ncase   {case}\n")
    }

    fn describe_result(&self) -> String {
        let summary = &self.record.outcome.summary;
        match (self.appeared(), self.record.verdict.kind) {
            (true, _) => format!("in this run, {}", observed(self.record)),
            (false, VerdictKind::Skip) => format!("not run: {summary}"),
            (false, VerdictKind::NoVerdict) => format!("no verdict: {summary}"),
            (false, _) if self.record.outcome.kind.is_failure() => {
                format!("but in this run IT FAILED IN ANOTHER WAY: {}", observed(self.record))
            }
            (false, _) => {
                format!("the {} DID NOT APPEAR in this run: {summary}", self.finding.label())
            }
        }
    }

    fn issue(&self) -> String {
        let record = self.record;
        if !record.faults.is_empty() {
            return "none: injected on purpose, not a bug of ROCm".to_owned();
        }
        match record.upstream.first() {
            Some(issue) => link(issue),
            None => "none is known".to_owned(),
        }
    }
}

/// Describes an outcome without positions in the case file. For a finding of the sanitizer, the description ends after
/// the two accesses. For a failed check of a program, it also contains the checked values.
fn observed(record: &Record) -> String {
    let outcome = &record.outcome;
    let summary = without_lines(&outcome.summary);
    if outcome.kind == Kind::MemoryFault {
        let accesses = summary.splitn(3, "; ").take(2).collect::<Vec<_>>().join("; ");
        return without(
            r" of line \d+| \(packet \d+ of queue \d+\)|, `[^`]*` at \+0x[0-9a-f]+",
            &accesses,
        );
    }
    let values: Vec<&str> = match record.program.is_some() {
        true => outcome.details.iter().filter_map(|line| first_value(line)).take(2).collect(),
        false => Vec::new(),
    };
    match values[..] {
        [got, right] => format!("{summary}, which is {got} instead of {right}"),
        // Names of steps mean nothing without the case.
        _ => without(r" \((in )?[\w ]+(, iteration \d+)?\)", &summary),
    }
}

/// Removes all matches of a regular expression from a text.
fn without(pattern: &str, text: &str) -> String {
    Regex::new(pattern).map_or(text.to_owned(), |regex| regex.replace_all(text, "").into_owned())
}

/// Returns the first value of a line such as `got at 0, 3: 12, 34`.
fn first_value(line: &str) -> Option<&str> {
    let (_, values) = line.split_once(": ")?;
    values.split(',').next().map(str::trim)
}

/// Returns the first line of the demonstration, which names the stack and the device.
pub fn demonstration_header(record: &Record) -> String {
    format!("{}\n\n", styled(BOLD, describe_setup(record)))
}

/// Returns the line that counts the findings that appeared.
pub fn demonstration_summary(results: &[Demonstrated<'_>], seconds: f64) -> String {
    let appeared = results.iter().filter(|result| result.appeared()).count();
    let skipped = results.iter().filter(|r| r.record.verdict.kind == VerdictKind::Skip).count();
    let not_run = match skipped {
        0 => String::new(),
        n => format!(", {n} could not run here"),
    };
    format!(
        "{appeared} of {} appeared{not_run}, in {seconds:.1} s\n",
        count(results.len(), "finding")
    )
}

/// Returns the exit code of the demonstration: 1 if a finding did not appear, otherwise 3 if a trial has no verdict,
/// otherwise 0. Skipped trials are ignored.
pub fn demonstration_status(results: &[Demonstrated<'_>]) -> u8 {
    let missed = results.iter().filter(|result| !result.appeared());
    let codes = missed.map(|result| match result.record.verdict.kind {
        VerdictKind::Skip => 0,
        VerdictKind::NoVerdict => 3,
        _ => 1,
    });
    let codes: Vec<u8> = codes.collect();
    if codes.contains(&1) { 1 } else { codes.into_iter().max().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failed, known, passed, plain, skipped, unproven, with_fault};

    fn result(finding: DemoFinding, record: &Record) -> Demonstrated<'_> {
        Demonstrated {
            finding,
            does: "A program copies.",
            should: "The bytes should arrive",
            record,
        }
    }

    fn shown(record: &Record) -> String {
        plain(&result(DemoFinding::Bug, record).text())
    }

    #[test]
    fn names_what_happened_and_the_issue() {
        let mut record = known("copies/a");
        record.upstream = vec!["ROCm/hip#1982".to_owned()];
        assert_eq!(
            shown(&record),
            "bug    A program copies.\nseen   The bytes should arrive; in this run, back: 2 of 2 bytes wrong from offset \
             0: all zero; expected the pattern written.\n\
             issue  https://github.com/ROCm/hip/issues/1982\ncase   copies/a\n"
        );
        record.upstream.clear();
        assert!(shown(&record).ends_with("issue  none is known\ncase   copies/a\n"));
        let fault = with_fault(device::Fault::CopyZero, failed("copies/a"));
        assert!(
            plain(&result(DemoFinding::Fault, &fault).text())
                .contains("issue  none: injected on purpose, not a bug of ROCm\n")
        );
    }

    #[test]
    fn says_if_a_bug_did_not_appear() {
        let text = shown(&passed("copies/a"));
        assert!(text.contains("the bug DID NOT APPEAR in this run: every status"), "{text}");
        let text = shown(&failed("copies/a"));
        assert!(text.contains("but in this run IT FAILED IN ANOTHER WAY: back: 2 of 2"), "{text}");
        let text = shown(&skipped("copies/a"));
        assert!(text.contains("not run: the stack has no libhiprand"), "{text}");
    }

    #[test]
    fn exit_code_says_if_all_findings_appeared() {
        let records = [known("a/a"), passed("a/b"), skipped("a/c"), unproven("a/d"), failed("a/e")];
        let status = |at: &[usize]| {
            let of = |at: &usize| result(DemoFinding::Bug, &records[*at]);
            demonstration_status(&at.iter().map(of).collect::<Vec<_>>())
        };
        assert_eq!([&[0, 2][..], &[0, 3], &[1, 3], &[0, 4]].map(status), [0, 3, 1, 1]);
        let results = [0, 1, 2].map(|at| result(DemoFinding::Bug, &records[at]));
        let text = demonstration_summary(&results, 1.0);
        assert_eq!(text, "1 of 3 findings appeared, 1 could not run here, in 1.0 s\n");
    }
}
