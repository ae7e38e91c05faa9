//! Defines wording and text styles that all views share.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use judge::{Known, VerdictKind};

use crate::{Record, conditions::unusual_options};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Removes all mentions of positions in the case file from a string, for example ` (line 20, iteration 2)`.
pub fn without_lines(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" (line ") {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find(')') else { break };
        out.push_str(before);
        rest = &from[end + 1..];
    }
    out += rest;
    replace_numbered(&out, " at line ", "")
}

/// Replaces every occurrence of `words`, together with the number that follows it, by `by`.
fn replace_numbered(text: &str, words: &str, by: &str) -> String {
    let mut parts = text.split(words);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(by);
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

/// Returns the label that a table shows for a verdict.
pub(crate) fn verdict_label(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Pass => "ok",
        VerdictKind::Known => "known",
        VerdictKind::Difference => "differs",
        VerdictKind::NewsFail => "FAIL",
        VerdictKind::NewsChanged => "CHANGED",
        VerdictKind::NewsFixed => "FIXED?",
        VerdictKind::Skip => "skip",
        VerdictKind::NoVerdict => "no verdict",
    }
}

/// Returns the label that follows a number of trials with this verdict.
pub(crate) fn count_label(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Pass => "passed",
        VerdictKind::Known => "failed as known",
        VerdictKind::Difference => "differed where no document defines the result",
        VerdictKind::NewsFail => "failed",
        VerdictKind::NewsChanged => "failed in a new way",
        VerdictKind::NewsFixed => "passed despite an expected failure",
        VerdictKind::Skip => "skipped",
        VerdictKind::NoVerdict => "without verdict",
    }
}

pub(crate) fn style(kind: VerdictKind) -> Style {
    let color = match kind {
        VerdictKind::Pass => AnsiColor::Green,
        VerdictKind::Known | VerdictKind::Difference => AnsiColor::Yellow,
        VerdictKind::NewsFail | VerdictKind::NewsChanged => AnsiColor::Red,
        VerdictKind::NewsFixed => AnsiColor::Cyan,
        VerdictKind::Skip => return DIM,
        VerdictKind::NoVerdict => AnsiColor::Magenta,
    };
    let style = Style::new().fg_color(Some(color.into()));
    if kind.is_unexpected() { style.bold() } else { style }
}

/// Returns the position of a verdict in the sort order: verdicts that need attention have low numbers.
pub(crate) fn rank(kind: VerdictKind) -> u8 {
    match kind {
        VerdictKind::NewsFail => 0,
        VerdictKind::NewsChanged => 1,
        VerdictKind::NewsFixed => 2,
        VerdictKind::NoVerdict => 3,
        VerdictKind::Known => 4,
        VerdictKind::Difference => 5,
        VerdictKind::Pass => 6,
        VerdictKind::Skip => 7,
    }
}

/// Describes stack, device and unusual options of a trial: `ROCm 7.2.4 (debian:7.2.4) on the emulated gfx1151; not a
/// GPU result`.
pub(crate) fn describe_setup(record: &Record) -> String {
    let start = describe_stack(record, true);
    unusual_options(record).into_iter().fold(start, |text, asked| format!("{text}; {asked}"))
}

/// Describes stack and device of a trial without the device's PCI address.
pub(crate) fn stack_and_device(record: &Record) -> String {
    describe_stack(record, false)
}

fn describe_stack(record: &Record, with_address: bool) -> String {
    let stack = match &record.stack.rocm {
        Some(version) => format!("ROCm {version} ({})", record.stack.identity()),
        None => format!("ROCm of {}", record.stack.identity()),
    };
    let device = &record.device;
    let gfx = &device.gfx;
    let name = match (device.emulated, device.name.as_str()) {
        (true, _) => format!("the emulated {gfx}; not a GPU result"),
        (false, "") if gfx.is_empty() => "a GPU that was not used".to_owned(),
        (false, "") => gfx.clone(),
        (false, name) => format!("{name} ({gfx})"),
    };
    let has_address = with_address && !device.emulated && !device.bdf.is_empty();
    let at = if has_address { format!(" at {}", device.bdf) } else { String::new() };
    // A skipped trial may have had no worker, so its text does not mention that the proof is missing.
    let planned = if device.proven || record.verdict.kind == VerdictKind::Skip {
        ""
    } else {
        "; no worker confirmed the device"
    };
    format!("{stack} on {name}{at}{planned}")
}

/// Sorts the strings and removes duplicates.
pub(crate) fn unique(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.collect::<std::collections::BTreeSet<String>>().into_iter().collect()
}

pub(crate) fn faults(record: &Record) -> Option<String> {
    let names: Vec<&str> = record.faults.iter().map(|planted| planted.fault.name()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Describes an expected failure and where it is expected: `wrong-data:back:zero in ROCm >=7.0 <7.1 on gfx1100
/// (ROCm/rocm-systems#1)`.
pub(crate) fn describe_expected_failure(known: &Known) -> String {
    if known.is_from_file() {
        let place = known.upstream.as_deref().unwrap_or_default();
        return format!("{} by {place}", known.signature);
    }
    let gfx = match known.gfx.as_slice() {
        [] => String::new(),
        gfx => format!(" on {}", gfx.join(", ")),
    };
    let rocm = match known.rocm.to_string().as_str() {
        "*" => "every ROCm".to_owned(),
        range => format!("ROCm {range}"),
    };
    let by = [&known.card, &known.driver].map(|name| match name {
        Some(name) => format!(" with {name}"),
        None => String::new(),
    });
    let upstream = known.upstream.as_ref().map_or(String::new(), |issue| format!(" ({issue})"));
    format!("{} in {rocm}{gfx}{}{upstream}", known.signature, by.concat())
}

/// Returns the web address of an issue that is written as `owner/name#number`. Any other text is returned unchanged.
pub(crate) fn link(issue: &str) -> String {
    match issue.split_once('#') {
        Some((repository, number))
            if repository.split('/').filter(|part| !part.is_empty()).count() == 2
                && !number.is_empty()
                && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            format!("https://github.com/{repository}/issues/{number}")
        }
        _ => issue.to_owned(),
    }
}

/// Formats a count with its noun: `1 trial`, `2 trials`.
pub fn count<N: From<u8> + PartialEq + Display>(n: N, what: &str) -> String {
    format!("{n} {what}{}", if n == N::from(1) { "" } else { "s" })
}

/// Formats a duration in its largest suitable unit: `25 s`, `8 min`, `3 h`.
pub fn format_duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 90.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_suits_them() {
        assert_eq!([30.0, 300.0, 9000.0].map(format_duration), ["30 s", "5 min", "2 h"]);
    }

    #[test]
    fn removes_line_numbers() {
        let text = "dst.back (line 20, iteration 2): 2 of 2 bytes wrong; right is written at line 14 (by src)";
        assert_eq!(without_lines(text), "dst.back: 2 of 2 bytes wrong; right is written (by src)");
        assert_eq!(without_lines("a (line 3"), "a (line 3");
        assert_eq!(
            without_lines("the result of kernel k at line 8 (in a)"),
            "the result of kernel k (in a)"
        );
    }

    #[test]
    fn issues_become_links() {
        let check = |issue: &str, expected: &str| assert_eq!(link(issue), expected);
        check("ROCm/hip#1401", "https://github.com/ROCm/hip/issues/1401");
        check("https://example.org/a#1", "https://example.org/a#1");
        check("seed document", "seed document");
        check("ROCm/hip#", "ROCm/hip#");
    }
}
