//! Recognises known failures of ROCm in the HIP calls of any program.

use std::collections::HashMap;

use ::case::{ArgumentPattern, CallPattern, StatusPattern};
use export::{LoggedCall, logged_calls};
use judge::{Ground, VerdictKind};
use report::{Record, issue::KnownBug};

use crate::{CaseLibrary, failing_trial::FailingTrial, record};

/// Returns the known failure that a `known` entry of the trial's own case describes, if the record has that failure.
pub(super) fn own_known_bug(subject: &FailingTrial<'_>, failed: &Record) -> Option<KnownBug> {
    let (case, trial) = (&subject.selected.case, &subject.selected.trial);
    let verdict = failed.verdict.known.as_ref().filter(|known| !known.is_of_a_file())?;
    let is_known = failed.verdict.kind == VerdictKind::Known && failed.faults.is_empty();
    let about = |known: &&::case::Known| {
        known.signature == verdict.signature
            && known.rocm == verdict.rocm
            && known.on.matches(trial)
            && known.upstream == verdict.upstream
    };
    let entry = case.known.iter().find(about);
    is_known.then(|| KnownBug {
        case: case.id.clone(),
        // The upstream issues of the case as a whole may be about another failure.
        upstream: verdict.upstream.clone(),
        about: entry.and_then(|known| known.about.clone()).unwrap_or_default(),
        calls: Vec::new(),
    })
}

/// Returns the known failures whose calls occur in a log of HIP calls, in the same order and on the same objects. Only
/// failures that are expected on the stack and device of the logged program are considered.
pub(super) fn known_bugs(library: &CaseLibrary, log: &str, on: &Ground<'_>) -> Vec<KnownBug> {
    let calls = logged_calls(log);
    let mut found: Vec<KnownBug> = Vec::new();
    for case in library.cases() {
        for known in &case.known {
            let upstream = known.upstream.clone().or_else(|| case.upstream.first().cloned());
            if known.calls.is_empty() || !record::window(known).holds(on) {
                continue;
            }
            if found.iter().any(|other| other.upstream == upstream && other.upstream.is_some()) {
                continue;
            }
            let Some(places) = occurrence(&known.calls, &calls) else { continue };
            found.push(KnownBug {
                case: case.id.clone(),
                upstream,
                about: known.about.clone().unwrap_or_else(|| case.title.clone()),
                calls: places.into_iter().map(|at| shown(&calls[at])).collect(),
            });
        }
    }
    found
}

/// Searches the calls for a sequence that matches the patterns. Returns the positions of the matching calls.
fn occurrence(patterns: &[CallPattern], calls: &[LoggedCall]) -> Option<Vec<usize>> {
    fn search<'c>(
        patterns: &[CallPattern],
        calls: &'c [LoggedCall],
        from: usize,
        bound: &HashMap<String, &'c str>,
        tries: &mut u32,
    ) -> Option<Vec<usize>> {
        let Some((pattern, rest)) = patterns.split_first() else { return Some(Vec::new()) };
        for (at, call) in calls.iter().enumerate().skip(from) {
            // A bound for logs in which a pattern with several names occurs very often.
            *tries += 1;
            if *tries > 2_000_000 {
                return None;
            }
            let Some(more) = matched(pattern, call, bound) else { continue };
            if let Some(mut places) = search(rest, calls, at + 1, &more, tries) {
                places.insert(0, at);
                return Some(places);
            }
        }
        None
    }
    search(patterns, calls, 0, &HashMap::new(), &mut 0)
}

/// Compares a call with a pattern. Returns the names in the patterns with their values so far; `None` if the call does
/// not match.
fn matched<'c>(
    pattern: &CallPattern,
    call: &'c LoggedCall,
    bound: &HashMap<String, &'c str>,
) -> Option<HashMap<String, &'c str>> {
    let is_function = pattern.function.as_ref().is_none_or(|name| *name == call.name);
    let is_status = match &pattern.status {
        StatusPattern::Any => true,
        StatusPattern::Status(status) => call.status.as_ref() == Some(status),
        StatusPattern::NoReturn => call.status.is_none(),
    };
    if !is_function || !is_status || pattern.arguments.len() > call.arguments.len() {
        return None;
    }
    if pattern.function.is_none() {
        let is_there = |argument: &ArgumentPattern| match argument {
            ArgumentPattern::Any => true,
            ArgumentPattern::Value(wanted) => call.arguments.contains(wanted),
            ArgumentPattern::Same(name) => {
                bound.get(name).is_some_and(|value| call.arguments.iter().any(|own| own == value))
            }
        };
        return pattern.arguments.iter().all(is_there).then(|| bound.clone());
    }
    let mut bound = bound.clone();
    for (argument, value) in pattern.arguments.iter().zip(&call.arguments) {
        let fits = match argument {
            ArgumentPattern::Any => true,
            ArgumentPattern::Value(wanted) => wanted == value,
            ArgumentPattern::Same(name) => {
                bound.entry(name.clone()).or_insert(value.as_str()) == value
            }
        };
        if !fits {
            return None;
        }
    }
    Some(bound)
}

fn shown(call: &LoggedCall) -> String {
    let status = call.status.as_deref().unwrap_or("no return");
    format!("{}({}) -> {status}", call.name, call.arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &[&str], status: &str) -> LoggedCall {
        LoggedCall {
            name: name.to_owned(),
            arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
            status: Some(status.to_owned()),
        }
    }

    #[test]
    fn calls_match_only_in_order_and_on_the_same_objects() {
        let patterns: Vec<CallPattern> = [
            "hipStreamBeginCapture(s)",
            "* -> hipErrorStreamCaptureUnsupported",
            "hipStreamEndCapture(s) -> hipErrorStreamCaptureInvalidated",
            "*(s) -> hipErrorStreamCaptureInvalidated",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        let begin = |s| call("hipStreamBeginCapture", &[s, "0"], "hipSuccess");
        let refused = call("hipHostMalloc", &["0x1"], "hipErrorStreamCaptureUnsupported");
        let end = |s| call("hipStreamEndCapture", &[s], "hipErrorStreamCaptureInvalidated");
        let launch = |s| call("hipLaunchKernel", &["0x1", s], "hipErrorStreamCaptureInvalidated");
        let found = |calls: &[&LoggedCall]| {
            occurrence(&patterns, &calls.iter().map(|call| (*call).clone()).collect::<Vec<_>>())
        };
        let (a, b) = ("0xa", "0xb");
        let whole = [&begin(a), &refused, &end(a), &launch(a)];
        assert_eq!(found(&whole), Some(vec![0, 1, 2, 3]));
        let with_another = [&begin(b), &begin(a), &refused, &end(a), &launch(b), &launch(a)];
        assert_eq!(found(&with_another), Some(vec![1, 2, 3, 5]));
        // The program's own mistake: a refused call in a capture, after which the stream is not used.
        assert_eq!(found(&whole[..3]), None);
        assert_eq!(found(&[&begin(b), &refused, &end(a), &launch(a)]), None);
        assert_eq!(found(&[&refused, &begin(a), &end(a), &launch(a)]), None);
        let fine = call("hipStreamEndCapture", &[a], "hipSuccess");
        assert_eq!(found(&[&begin(a), &refused, &fine, &launch(a)]), None);
    }
}
