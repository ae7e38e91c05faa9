//! Searches the calls of a program for a sequence that matches the patterns of a `known` entry.

use std::collections::HashMap;

use case::{ArgumentPattern, CallPattern, StatusPattern, Times};
use export::LoggedCall;

/// Maximum number of comparisons, for logs in which a pattern with several names occurs very often.
const MOST_TRIES: u32 = 20_000_000;

/// Names in the patterns, each with the object or value that the name means.
type Names<'c> = HashMap<String, &'c str>;

/// Searches the calls for a sequence that matches the patterns. Returns the position of the call that matches each
/// pattern; if several calls must match one pattern, the position of the first of them. Patterns of calls that must not
/// occur have no position. `None` if no sequence matches. A sequence ends where one of its objects is destroyed,
/// because a later object may have the same address.
pub(super) fn occurrence(patterns: &[CallPattern], calls: &[&LoggedCall]) -> Option<Vec<usize>> {
    Search { calls, tries: 0 }.from(0, patterns, &Names::new())
}

struct Search<'s, 'c> {
    calls: &'s [&'c LoggedCall],
    tries: u32,
}

impl<'c> Search<'_, 'c> {
    fn from(
        &mut self,
        start: usize,
        patterns: &[CallPattern],
        names: &Names<'c>,
    ) -> Option<Vec<usize>> {
        let of_absent = patterns.iter().take_while(|pattern| pattern.times == Times::Never).count();
        let (absent, patterns) = patterns.split_at(of_absent);
        let Some((pattern, rest)) = patterns.split_first() else { return Some(Vec::new()) };
        for at in start..self.calls.len() {
            self.tries += 1;
            if self.tries > MOST_TRIES {
                return None;
            }
            let call = self.calls[at];
            if let Some(more) = matched(pattern, call, names) {
                if let Times::AtLeast(number) = pattern.times {
                    let last = self.repeated(at, number, pattern, absent, &more)?;
                    let places = self.from(last + 1, rest, &more)?;
                    return Some([vec![at], places].concat());
                }
                if let Some(places) = self.from(at + 1, rest, &more) {
                    return Some([vec![at], places].concat());
                }
            }
            if breaks(call, absent, names) {
                return None;
            }
        }
        None
    }

    /// Returns the position of the last of `number` calls that match the pattern, the first of them at `start`. `None`
    /// if there are fewer, or if a call that breaks the sequence is among them.
    fn repeated(
        &mut self,
        start: usize,
        number: u32,
        pattern: &CallPattern,
        absent: &[CallPattern],
        names: &Names<'c>,
    ) -> Option<usize> {
        let mut found = 0;
        for at in start..self.calls.len() {
            self.tries += 1;
            let call = self.calls[at];
            if matched(pattern, call, names).is_some() {
                found += 1;
                if found >= number {
                    return Some(at);
                }
            } else if breaks(call, absent, names) {
                return None;
            }
        }
        None
    }
}

/// Returns true if a call must not occur between two others of a sequence: it matches one of the patterns in `absent`,
/// or destroys an object of the sequence.
fn breaks(call: &LoggedCall, absent: &[CallPattern], names: &Names<'_>) -> bool {
    const ENDS: [&str; 4] = ["hipFree", "hipHostFree", "hipMemUnmap", "hipMemAddressFree"];
    let ends_object =
        call.name.contains("Destroy") || ENDS.iter().any(|n| call.name.starts_with(n));
    let is_named = |object: &String| names.values().any(|value| value == object);
    let destroyed = ends_object
        && call.status.as_deref() == Some("hipSuccess")
        && call.arguments.first().is_some_and(is_named);
    destroyed || absent.iter().any(|pattern| matched(pattern, call, names).is_some())
}

/// Compares a call with a pattern. Returns the names in the patterns with their values so far; `None` if the call does
/// not match.
fn matched<'c>(
    pattern: &CallPattern,
    call: &'c LoggedCall,
    names: &Names<'c>,
) -> Option<Names<'c>> {
    let is_function = pattern.function.as_ref().is_none_or(|name| match name.strip_suffix('*') {
        Some(beginning) => call.name.starts_with(beginning),
        None => *name == call.name,
    });
    let is_status = match &pattern.status {
        StatusPattern::Any => true,
        StatusPattern::OneOf(statuses) => {
            call.status.as_ref().is_some_and(|status| statuses.contains(status))
        }
        StatusPattern::NoReturn => call.status.is_none(),
    };
    if !is_function || !is_status || pattern.arguments.len() > call.arguments.len() {
        return None;
    }
    if pattern.function.is_none() {
        let is_there = |argument: &ArgumentPattern| match argument {
            ArgumentPattern::Any => true,
            ArgumentPattern::Null => call.arguments.iter().any(|own| is_null(own)),
            ArgumentPattern::Value(wanted) => call.arguments.contains(wanted),
            ArgumentPattern::Same(name) => {
                names.get(name).is_some_and(|value| call.arguments.iter().any(|own| own == value))
            }
        };
        return pattern.arguments.iter().all(is_there).then(|| names.clone());
    }
    let mut names = names.clone();
    for (argument, value) in pattern.arguments.iter().zip(&call.arguments) {
        let fits = match argument {
            ArgumentPattern::Any => true,
            ArgumentPattern::Null => is_null(value),
            ArgumentPattern::Value(wanted) => wanted == value,
            ArgumentPattern::Same(name) => {
                names.entry(name.clone()).or_insert(value.as_str()) == value
            }
        };
        if !fits {
            return None;
        }
    }
    Some(names)
}

/// Returns true for a null pointer, which the log shows as `stream:<null>` or `char array:<null>`.
fn is_null(argument: &str) -> bool {
    argument.ends_with("<null>") || ["0", "0x0", "nullptr", "(nil)"].contains(&argument)
}

#[cfg(test)]
mod tests {
    use export::logged_calls;

    use super::*;

    fn patterns(texts: &[&str]) -> Vec<CallPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Searches calls that are written as `hipEventRecord(0xe, 0x1) -> hipSuccess`; a call without a status did not
    /// return.
    fn found(texts: &[&str], calls: &[&str]) -> Option<Vec<usize>> {
        let mut log = String::new();
        for (thread, call) in calls.iter().enumerate() {
            let (call, status) =
                call.split_once(" -> ").map_or((*call, None), |(c, s)| (c, Some(s)));
            let name = call.split('(').next().unwrap();
            let ids = format!("us: [pid:1 tid: 0x{thread:x}]");
            log.push_str(&format!(":3: :0 : 1 {ids} {call}\n"));
            if let Some(status) = status {
                log.push_str(&format!(":3: :0 : 1 {ids} {name}: Returned {status} : \n"));
            }
        }
        let calls = logged_calls(&log);
        occurrence(&patterns(texts), &calls.iter().collect::<Vec<_>>())
    }

    const INVALIDATED: [&str; 4] = [
        "hipStreamBeginCapture(s)",
        "* -> hipErrorStreamCaptureUnsupported",
        "hipStreamEndCapture(s) -> hipErrorStreamCaptureInvalidated",
        "*(s) -> hipErrorStreamCaptureInvalidated",
    ];

    #[test]
    fn calls_match_only_in_order_and_on_the_same_objects() {
        let begin = |s| format!("hipStreamBeginCapture(0x{s}, 0) -> hipSuccess");
        let refused = "hipHostMalloc(0x1) -> hipErrorStreamCaptureUnsupported".to_owned();
        let end = |s| format!("hipStreamEndCapture(0x{s}) -> hipErrorStreamCaptureInvalidated");
        let launch = |s| format!("hipLaunchKernel(0x1, 0x{s}) -> hipErrorStreamCaptureInvalidated");
        let found = |calls: &[&String]| {
            let calls: Vec<&str> = calls.iter().map(|call| call.as_str()).collect();
            found(&INVALIDATED, &calls)
        };
        let (a, b) = ("a", "b");
        let whole = [&begin(a), &refused, &end(a), &launch(a)];
        assert_eq!(found(&whole), Some(vec![0, 1, 2, 3]));
        let with_another = [&begin(b), &begin(a), &refused, &end(a), &launch(b), &launch(a)];
        assert_eq!(found(&with_another), Some(vec![1, 2, 3, 5]));
        // The program's own mistake: a refused call in a capture, after which the stream is not used.
        assert_eq!(found(&whole[..3]), None);
        assert_eq!(found(&[&begin(b), &refused, &end(a), &launch(a)]), None);
        assert_eq!(found(&[&refused, &begin(a), &end(a), &launch(a)]), None);
        let fine = "hipStreamEndCapture(0xa) -> hipSuccess".to_owned();
        assert_eq!(found(&[&begin(a), &refused, &fine, &launch(a)]), None);
        // Another stream may have the address of a destroyed one.
        let destroyed = "hipStreamDestroy(0xa) -> hipSuccess".to_owned();
        assert_eq!(found(&[&begin(a), &refused, &end(a), &destroyed, &launch(a)]), None);
    }

    #[test]
    fn absent_call_ends_the_sequence() {
        let texts = [
            "hipEventRecord(e, 0x1) -> hipSuccess",
            "not hipEventRecord(e)",
            "hipStreamWaitEvent(_, e) -> no return",
        ];
        let legacy = "hipEventRecord(0xe, 0x1) -> hipSuccess";
        let wait = "hipStreamWaitEvent(0x5, 0xe, 0)";
        assert_eq!(found(&texts, &[legacy, wait]), Some(vec![0, 1]));
        let other = "hipEventRecord(0xf, 0x5) -> hipSuccess";
        assert_eq!(found(&texts, &[legacy, other, wait]), Some(vec![0, 2]));
        let again = "hipEventRecord(0xe, 0x5) -> hipSuccess";
        assert_eq!(found(&texts, &[legacy, again, wait]), None);
        assert_eq!(found(&texts, &[legacy, again, legacy, wait]), Some(vec![2, 3]));
        assert_eq!(found(&texts, &[legacy, "hipStreamWaitEvent(0x5, 0xe, 0) -> hipSuccess"]), None);
    }

    #[test]
    fn many_calls_are_counted_within_one_capture() {
        let texts = [
            "hipStreamBeginCapture(s)",
            "not hipStreamEndCapture(s)",
            "at least 3 hipLaunchKernel(_, s)",
            "hipStreamEndCapture(s) -> hipSuccess",
            "hipGraphInstantiate* -> no return",
        ];
        let (begin, end) =
            ("hipStreamBeginCapture(0xa) -> hipSuccess", "hipStreamEndCapture(0xa) -> hipSuccess");
        let (launch, other) =
            ("hipLaunchKernel(0x1, 0xa) -> hipSuccess", "hipLaunchKernel(0x1, 0xb) -> hipSuccess");
        let instantiate = "hipGraphInstantiateWithFlags(0x2, 0x3, 1)";
        let long = [begin, launch, other, launch, launch, end, instantiate];
        assert_eq!(found(&texts, &long), Some(vec![0, 1, 5, 6]));
        assert_eq!(found(&texts, &[begin, launch, other, launch, end, instantiate]), None);
        let two_captures = [begin, launch, launch, end, begin, launch, end, instantiate];
        assert_eq!(found(&texts, &two_captures), None);
    }

    #[test]
    fn null_and_alternatives_of_a_status_match() {
        let null = ["hipMallocAsync(_, _, null) -> no return"];
        for (stream, is_found) in
            [("stream:<null>", true), ("char array:<null>", true), ("0x7f", false)]
        {
            let call = format!("hipMallocAsync(0x1, 64, {stream})");
            assert_eq!(found(&null, &[&call]).is_some(), is_found, "{stream}");
        }
        let refused =
            ["hipStreamEndCapture(s)", "*(s) -> hipErrorIllegalState or hipErrorInvalidValue"];
        for (status, is_found) in [
            ("hipErrorInvalidValue", true),
            ("hipErrorIllegalState", true),
            ("hipErrorNotReady", false),
        ] {
            let calls = [
                "hipStreamEndCapture(0xa) -> hipSuccess",
                &format!("hipStreamQuery(0xa) -> {status}"),
            ];
            assert_eq!(found(&refused, &calls).is_some(), is_found, "{status}");
        }
    }
}
