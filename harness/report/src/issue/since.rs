//! Writes the section of an issue about the first release that fails, from the result of a bisect.

use std::fmt::Write;

use super::{
    Findings,
    markdown::{fenced, percent},
    write::sentence,
};
use crate::evidence::BisectEvidence;

/// Lists failing and passing releases, and the result of a second search among the builds between two of them. `None`
/// if there was no bisect.
pub(super) fn versions(findings: &Findings) -> Option<String> {
    let found = findings.bisected.as_ref()?;
    let when = if found.fix { "Until when" } else { "Since when" };
    let mut text = format!("#### {when}\n\nSearched: {}. {}", found.axis, format_bisect(found));
    if let Some(finer) = &findings.finer {
        let _ = write!(text, "\n\n#### Between these two\n\n{}", format_bisect(finer));
    }
    Some(text)
}

/// Formats a bisect result, with the results of each build.
fn format_bisect(found: &BisectEvidence) -> String {
    let mut text = String::new();
    let (good, bad) =
        if found.fix { ("First good", "Last bad") } else { ("Last good", "First bad") };
    match (&found.last_good, &found.first_bad) {
        _ if found.band.is_some() => {
            let band = found.band.as_ref().map(|band| band.sentence());
            text.push_str(&sentence_from(&band.unwrap_or_default()));
        }
        (Some(a), Some(b)) if found.worse => {
            let (change, from, to, side) = match found.fix {
                true => ("less frequent", b, a, "after"),
                false => ("more frequent", a, b, "before"),
            };
            let _ = write!(
                text,
                "The failure becomes {change} between **{from}** and **{to}**; builds {side} the change failed, too."
            );
        }
        (Some(a), Some(b)) => {
            let _ = write!(text, "{good}: **{a}**. {bad}: **{b}**.");
        }
        (None, Some(_)) => text
            .push_str("Every tested build fails, so the failure is not a regression between them."),
        (Some(up_to), None) => {
            let _ = write!(text, "No tested build up to {up_to} fails.");
        }
        (None, None) => text.push_str("No result."),
    }
    if let Some(p) = found.confidence.filter(|_| found.band.is_none()) {
        let _ = write!(text, " Confidence {}.", percent(p, f64::floor));
    }
    text.push_str("\n\n| build | failures |\n| --- | --- |");
    for build in &found.rates {
        let _ = write!(text, "\n| {} | {} |", build.version, build.rate);
    }
    for skipped in &found.skipped {
        let _ = write!(text, "\n| {} | not tested: {} |", skipped.version, skipped.why);
    }
    if !found.crossed.is_empty() {
        text.push_str(
            "\n\n| good build with this component of the bad build | failures |\n| --- | --- |",
        );
        for crossed in &found.crossed {
            let shown = crossed.why.clone().unwrap_or_else(|| crossed.rate.to_string());
            let _ = write!(text, "\n| {} | {shown} |", crossed.component);
        }
    }
    if !found.components.is_empty() {
        let (good, bad) = (good.to_lowercase(), bad.to_lowercase());
        let _ = write!(text, "\n\n| component | {good} | {bad} |\n| --- | --- | --- |");
        for component in &found.components {
            let name = match &component.compare_url {
                Some(url) => format!("[{}]({url})", component.name),
                None => component.name.clone(),
            };
            let _ = write!(text, "\n| {name} | {} | {} |", component.good, component.bad);
        }
    }
    if !found.notes.is_empty() {
        let notes: Vec<_> =
            found.notes.iter().map(|note| format!("* {}", sentence(note))).collect();
        let _ = write!(text, "\n\n{}", notes.join("\n"));
    }
    if !found.rerun.is_empty() {
        let _ = write!(text, "\n\n{}", fenced("sh", &found.rerun.join("\n")));
    }
    text
}

/// Formats a sentence: its first letter becomes a capital.
fn sentence_from(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    sentence(&(first + letters.as_str()))
}
