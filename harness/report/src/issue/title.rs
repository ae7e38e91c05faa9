//! Writes the title of an issue, and describes the failure in a few words.

use judge::Kind;

use super::{Control, Findings, program as own_program};
use crate::{text::visible, words::without_lines};

/// Describes the failure in a few words: `hipGraphInstantiate dies of SIGABRT`.
pub(super) fn symptom(findings: &Findings) -> String {
    let outcome = &findings.record.outcome;
    if own_program::unexported_program(findings).is_some() {
        return own_program::symptom(&findings.record, findings.refused_call.as_deref());
    }
    let parts: Vec<&str> = outcome.signature.split(':').collect();
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let api = outcome.at.api.as_deref().unwrap_or("the process");
    match outcome.kind {
        Kind::WrongData => wrong_data(part(1), part(2), &outcome.summary),
        Kind::ApiError if part(0) == "unexpected-value" => {
            format!("`{}` gives `{}`", part(1), part(2))
        }
        Kind::ApiError => format!("`{}` returns {}", part(1), part(2)),
        Kind::CompileError => "hipRTC refuses a valid kernel".to_owned(),
        Kind::Crash => match findings.record.exit {
            judge::End::Signalled { signal } => format!("{} in `{api}`", judge::signal(signal)),
            _ => format!("crash in `{api}`"),
        },
        Kind::MemoryFault => format!("memory access fault in `{}`", parts[1..].join(":")),
        Kind::Hang => format!("`{api}` does not return"),
        Kind::TeardownCrash => "crash after the work is done".to_owned(),
        Kind::LibraryExit => format!("`{api}` exits the process"),
        Kind::Leak => {
            let lost = outcome.summary.split(':').next().unwrap_or_default();
            match lost.contains("bytes of device memory") {
                true => lost.to_owned(),
                false => "memory is not freed".to_owned(),
            }
        }
        Kind::KernelError => {
            "the GPU driver logs an error although all results are right".to_owned()
        }
        Kind::Pass | Kind::Skip | Kind::NoVerdict => outcome.signature.clone(),
    }
}

/// Describes the wrong bytes of a buffer, given the class of wrong data in the signature.
fn wrong_data(buffer: &str, class: &str, summary: &str) -> String {
    match class {
        "zero" => format!("`{buffer}` holds zeros instead of its data"),
        "poison" => format!("`{buffer}` holds the bytes of fresh memory instead of its data"),
        "stale" => format!("`{buffer}` holds older data"),
        "later" => format!("`{buffer}` holds later data"),
        "other" => format!("`{buffer}` holds data of another buffer"),
        "same" | "unequal" => without_lines(summary),
        _ => format!("wrong data in `{buffer}` ({class})"),
    }
}

/// Returns the title of the issue, without the prefix that the form demands.
pub(super) fn title(findings: &Findings) -> String {
    let record = &findings.record;
    let values =
        record.trial.split_once('[').map_or("", |(_, values)| values.trim_end_matches(']'));
    // A minimal case has no axes. The value of an axis in the original case is named only if another value passes.
    let decides = |value: &&str| {
        let axis = value.split('=').next().unwrap_or_default();
        let other = |control: &Control| {
            control.rate.failed == 0
                && control.what.ends_with(&format!(" instead of {value}"))
                && control.what.starts_with(&format!("{axis}="))
        };
        findings.minimised.is_none() || findings.controls.iter().any(other)
    };
    let values: Vec<&str> = values.split(',').filter(|v| !v.is_empty()).filter(decides).collect();
    let values =
        if values.is_empty() { String::new() } else { format!(" with {}", values.join(",")) };
    let release = match &record.stack.rocm {
        Some(version) => format!("ROCm {version}"),
        None => record.stack.spec.clone(),
    };
    let emulated = if record.device.emulated { "emulated " } else { "" };
    let gfx = record.device.gfx.split(':').next().unwrap_or_default();
    let place = format!(" ({release}, {emulated}{gfx})");
    let words = record.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_own = own_program::unexported_program(findings).is_some();
    let states = !is_own || own_program::stated_property(findings).is_some();
    let test = if states { words.trim_end_matches('.') } else { "" };
    let known =
        findings.known_bugs.iter().find(|bug| bug.calls.is_empty() && !bug.about.is_empty());
    let title = match known {
        // The description of a known failure names the call and the trigger.
        Some(bug) => with_context(bug.about.trim_end_matches('.'), "", &place),
        None => with_context(&format!("{}{values}", symptom(findings)), test, &place),
    };
    let title = visible(&title).replace('`', "").replace(['\n', '\t'], " ");
    if findings.planted.is_empty() { title } else { format!("INJECTED, do not file: {title}") }
}

/// Longest title in characters, without the prefixes.
const LONGEST_TITLE: usize = 138;

/// Formats a title from the failure, the behaviour that the case expects (`test`, the title of the case), and the
/// release and device (`place`). The expected behaviour is left out if it does not fit.
fn with_context(failure: &str, test: &str, place: &str) -> String {
    let fits = |text: &str| text.chars().count() + place.chars().count() <= LONGEST_TITLE;
    let whole = format!("{failure}; expected: {test}");
    if !test.is_empty() && fits(&whole) {
        return whole + place;
    }
    if fits(failure) {
        return format!("{failure}{place}");
    }
    // The part before a comma is often a statement of its own.
    if let Some((at, _)) = failure.rmatch_indices(", ").find(|(at, _)| fits(&failure[..*at])) {
        return format!("{}{place}", &failure[..at]);
    }
    let mut shown = String::new();
    for word in failure.split(' ') {
        if !shown.is_empty() && !fits(&format!("{shown}{word} ...")) {
            break;
        }
        shown.push_str(word);
        shown.push(' ');
    }
    format!("{shown}...{place}")
}
