use std::collections::HashSet;

use plan::{BufferWrite, Call, Reference, Scalar};

use crate::{
    Context, Kind, Outcome,
    attribution::{Evidence, attribute},
    bytes,
    index::Index,
    phrases::{self, AT_LEAST, SAME_BYTES, UNEQUAL},
};

/// Bytes of a buffer that a check has read, as the worker reported them.
pub(crate) struct BufferRead<'a> {
    pub(crate) buffer: &'a str,
    pub(crate) bytes: u64,
    pub(crate) digest: &'a str,
    pub(crate) file: Option<&'a str>,
}

impl BufferRead<'_> {
    fn spooled(&self, context: &Context<'_>) -> Option<Vec<u8>> {
        self.file.and_then(context.spool)
    }
}

/// Returns the outcome of a check whose buffer or guards differ from the content that the reference model computed.
pub(crate) fn wrong(
    context: &Context<'_>,
    index: &Index<'_>,
    (step, occurrence): (u32, u32),
    read: &BufferRead<'_>,
) -> Outcome {
    let (what, buffer, guards) = match index.step(step).map(|s| &s.call) {
        Some(Call::Guards { buffer }) => (format!("{buffer}.guards"), buffer.as_str(), true),
        _ => (read.buffer.to_owned(), read.buffer, false),
    };
    let place = index.place(step, occurrence);
    let outcome = |class: &str, text: String| {
        let signature = format!("wrong-data:{what}:{class}");
        Outcome::new(Kind::WrongData, signature, format!("{what}{place}: {text}"))
            .at(index.location(step, occurrence))
    };
    let Some(got) = read.spooled(context) else {
        let text = "the bytes are wrong, but were not saved, so they cannot be explained";
        return outcome("unknown", text.to_owned());
    };
    let Some(content) = Reference::content(context.plan, step, occurrence) else {
        let text = "the bytes are wrong; the reference model cannot compute the expected bytes";
        return outcome("unknown", text.to_owned());
    };
    let diff = bytes::diff(&got, &content.want);
    let Some(first) = diff.first() else {
        let text =
            "the digest is wrong, but the saved bytes are right: the bytes changed in between";
        return outcome("changing", text.to_owned());
    };
    let now = content.history.len();
    let history = with_later(context, content.history);
    let (earlier, later) = history.split_at(now);
    let evidence = Evidence {
        plan: context.plan,
        buffer,
        guards,
        got: &got,
        want: &content.want,
        earlier,
        later,
    };
    let found = attribute(&evidence, &diff.runs);
    let mut text = format!(
        "{} of {} wrong from offset {first}: {}",
        diff.wrong,
        phrases::count(content.want.len(), "byte"),
        found.text
    );
    if guards {
        text.push_str(guard_side(&diff, content.want.len() / 2));
    }
    if got.len() != content.want.len() {
        text.push_str(&format!("; {} were read", phrases::count(got.len(), "byte")));
    }
    outcome(found.class.name(), text).with(found.lines).with(bytes::excerpt(
        ("got", &got),
        ("right", &content.want),
        first,
    ))
}

/// Returns the outcome of a failed comparison of two buffers: the buffers had to be equal but differ, or had to differ
/// but are equal.
pub(crate) fn compared(
    context: &Context<'_>,
    index: &Index<'_>,
    (step, occurrence): (u32, u32),
    a: &BufferRead<'_>,
    b: &BufferRead<'_>,
) -> Outcome {
    let place = index.place(step, occurrence);
    let at = index.location(step, occurrence);
    if a.digest == b.digest {
        let signature = format!("wrong-data:{}:same", a.buffer);
        let summary = format!("{} and {}{place}{SAME_BYTES}", a.buffer, b.buffer);
        return Outcome::new(Kind::WrongData, signature, summary).at(at);
    }
    let signature = format!("wrong-data:{}:unequal", a.buffer);
    let both = a.spooled(context).zip(b.spooled(context));
    let diff = both.as_ref().map(|(x, y)| bytes::diff(x, y));
    let first = diff.as_ref().and_then(bytes::Diff::first);
    let text = match (&diff, first) {
        (Some(diff), Some(first)) => {
            format!(" in {}, from offset {first} on", phrases::count(diff.wrong, "byte"))
        }
        _ => String::new(),
    };
    let summary = format!("{} and {}{place}{UNEQUAL}{text}", a.buffer, b.buffer);
    let outcome = Outcome::new(Kind::WrongData, signature, summary).at(at);
    match (both, first) {
        (Some((x, y)), Some(first)) => {
            outcome.with(bytes::excerpt((a.buffer, &x), (b.buffer, &y), first))
        }
        _ => outcome,
    }
}

/// Judges a check that each element of a buffer is at least `least`: returns the outcome if the check failed, and
/// `None` if it passed. `reported` is the worker's report of the least element and its index, for example `3 at 17`.
pub(crate) fn check_at_least(
    index: &Index<'_>,
    (step, occurrence): (u32, u32),
    buffer: &str,
    least: Scalar,
    reported: Option<&str>,
) -> Option<Outcome> {
    let place = index.place(step, occurrence);
    let read = reported.and_then(|text| text.split_once(" at ")).and_then(|(number, at)| {
        Some((Scalar::parse(least.ty, number).ok()?, at.parse::<u64>().ok()?))
    });
    let Some((number, at)) = read else {
        let summary = format!("the worker did not report the least element of {buffer}{place}");
        return Some(Outcome::no_verdict("worker", summary));
    };
    if number.is_at_least(least) {
        return None;
    }
    let signature = format!("wrong-data:{buffer}:below");
    let summary = format!("{buffer}{place}: element {at} is {number}{AT_LEAST}{least}");
    let outcome = Outcome::new(Kind::WrongData, signature, summary);
    Some(outcome.at(index.location(step, occurrence)))
}

/// Returns a `no-verdict` outcome if the worker ended normally although it did not report the bytes of all buffers that
/// the checks read.
pub(crate) fn missing_reads(
    context: &Context<'_>,
    index: &Index<'_>,
    read: &HashSet<(u32, u32)>,
) -> Option<Outcome> {
    let left: Vec<_> =
        context.wanted.iter().filter(|(step, o, _)| !read.contains(&(*step, *o))).collect();
    let (step, occurrence, _) = left.first()?;
    let summary = format!(
        "the worker ended normally but did not report {} of {}, the first in step {step}{}",
        left.len(),
        phrases::count(context.wanted.len(), "check"),
        index.place(*step, *occurrence)
    );
    Some(Outcome::no_verdict("worker", summary))
}

/// Returns all writes of the trial up to its last check. The list begins with `earlier`, the writes before the failed
/// check.
fn with_later(context: &Context<'_>, earlier: Vec<BufferWrite>) -> Vec<BufferWrite> {
    let Some((step, occurrence, _)) = context.wanted.last() else { return earlier };
    match Reference::content(context.plan, *step, *occurrence) {
        Some(whole) if whole.history.len() >= earlier.len() => whole.history,
        _ => earlier,
    }
}

/// Returns the end of a message about overwritten guards. It states on which side of the buffer they were overwritten.
/// `guard` is the size in bytes of the guard on one side.
fn guard_side(diff: &bytes::Diff, guard: usize) -> &'static str {
    let before = diff.runs.iter().any(|run| run.start < guard);
    let after = diff.runs.iter().any(|run| run.end > guard);
    match (before, after) {
        _ if diff.wrong == 2 * guard => {
            "; all guard bytes were overwritten, or the guards were not read"
        }
        (true, true) => "; something wrote on both sides of the buffer",
        (true, false) => "; something wrote before the buffer",
        _ => "; something wrote after the buffer",
    }
}
