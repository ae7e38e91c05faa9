//! Formats code blocks, collapsed sections and rates for Markdown.

use crate::evidence::Rate;

/// Returns a code block that contains the text. Its fence is longer than any fence in the text.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

/// Returns a section with this title and text that is collapsed until the reader opens it.
pub(super) fn folded(title: &str, text: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{text}\n\n</details>")
}

/// Collapses a section whose first line is a heading, which becomes the title.
pub(super) fn folded_section(text: &str) -> String {
    let (title, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    folded(title.trim_start_matches('#').trim(), rest)
}

/// Formats a failure rate: `5/5`, or `3/5 (95 % interval 14 % to 95 %)` if the failure does not always occur.
pub(super) fn with_interval(rate: Rate) -> String {
    if rate.runs == 0 { "not run".to_owned() } else { format!("{rate}{}", interval(rate)) }
}

/// Formats the interval of a rate in parentheses, with a space before them. Empty if the failure always occurs, or if
/// there were no runs.
pub(super) fn interval(rate: Rate) -> String {
    match rate.interval() {
        Some((low, high)) if rate.failed < rate.runs => {
            let (low, high) = (percent(low, f64::floor), percent(high, f64::ceil));
            format!(" (95 % interval {low} to {high})")
        }
        _ => String::new(),
    }
}

/// Formats a probability in percent. `round` must round away from the interval's middle, so that an interval is never
/// shown narrower than it is.
pub(super) fn percent(p: f64, round: fn(f64) -> f64) -> String {
    let scale = if p < 0.1 { 10.0 } else { 1.0 };
    format!("{} %", round(p * 100.0 * scale) / scale)
}
