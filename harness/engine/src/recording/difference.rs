//! Compares two recordings of the same program.
//!
//! Two calls are equal if they have the same function, arguments, status, results and contents of copies. A handle or
//! an address is compared by its object: the object that the nth call of a function in a thread created equals the
//! object that the nth call of this function created in the other recording. Addresses of the program's own memory
//! differ in each run, so all of them are equal.

mod calls;
mod common;
mod objects;
#[cfg(test)]
mod tests;

use std::{fs, path::Path};

use recorder::trace::{CONTENTS, Content, ProcessTrace};
use serde::Serialize;

use calls::{NormalCall, Part, walk};

/// Number of bytes that are shown of contents that differ.
const SHOWN_BYTES: usize = 8;

/// Largest number of characters that are shown of a value.
const SHOWN_LETTERS: usize = 120;

/// Differences between two recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecordingDifference {
    /// Number of calls that are the same.
    pub same: usize,
    /// Number of calls that only the first recording has.
    pub missing: usize,
    /// Number of calls that only the second recording has.
    pub additional: usize,
    /// The threads of all processes.
    pub threads: Vec<ThreadDifference>,
}

/// Differences between the calls of one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadDifference {
    /// Number of the process, from 1, in the order in which the processes made their first calls.
    pub process: usize,
    /// Number of the thread in its process, from 1, in the order of the first calls.
    pub thread: usize,
    /// Number of calls that are the same, in the longest sequence that both recordings contain in this order.
    pub same: usize,
    /// Number of the other calls of the first recording.
    pub missing: usize,
    /// Number of the other calls of the second recording.
    pub additional: usize,
    /// The first calls that differ; `None` if all calls are the same.
    pub first: Option<FirstDifference>,
}

/// The first calls that differ in a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstDifference {
    /// Call of the first recording; `None` if its thread made no further call.
    pub old: Option<ShownCall>,
    /// Call of the second recording; `None` if its thread made no further call.
    pub new: Option<ShownCall>,
    /// Parts that differ. Empty if the functions differ, or if one recording has no call.
    pub parts: Vec<PartDifference>,
}

/// A call for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownCall {
    /// Number of the call in its recording.
    pub number: u64,
    /// Name of the function.
    pub function: String,
    /// The function with its arguments.
    pub text: String,
    /// Status, or a text that says that the call did not return.
    pub status: String,
}

/// A part of two calls that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartDifference {
    /// Name of the part, for example that of an argument.
    pub part: String,
    /// Value in the first recording; `None` if its call does not have the part.
    pub old: Option<String>,
    /// Value in the second recording; `None` if its call does not have the part.
    pub new: Option<String>,
}

impl RecordingDifference {
    /// Returns true if the recordings have the same calls.
    pub fn is_empty(&self) -> bool {
        self.threads.iter().all(|thread| thread.first.is_none())
    }
}

/// Compares two recordings. Processes and threads are paired in the order of their first calls.
pub fn difference(old: &[ProcessTrace], new: &[ProcessTrace]) -> RecordingDifference {
    let mut found = RecordingDifference::default();
    for process in 0..old.len().max(new.len()) {
        let pair = (old.get(process), new.get(process));
        for mut thread in between(pair.0, pair.1) {
            thread.process = process + 1;
            found.same += thread.same;
            found.missing += thread.missing;
            found.additional += thread.additional;
            found.threads.push(thread);
        }
    }
    found
}

/// The calls of one thread: the key of each call, and its index among the visited calls of the process.
type ThreadCalls = Vec<(u128, usize)>;

fn threads(trace: Option<&ProcessTrace>) -> Vec<ThreadCalls> {
    let mut threads = Vec::<ThreadCalls>::new();
    let mut visited = 0;
    if let Some(trace) = trace {
        walk(trace, |thread, call| {
            if threads.len() <= thread {
                threads.resize_with(thread + 1, Vec::new);
            }
            if let Some(calls) = threads.get_mut(thread) {
                calls.push((call.key(), visited));
            }
            visited += 1;
        });
    }
    threads
}

fn between(old: Option<&ProcessTrace>, new: Option<&ProcessTrace>) -> Vec<ThreadDifference> {
    let (mut olds, mut news) = (threads(old), threads(new));
    let count = olds.len().max(news.len());
    olds.resize_with(count, Vec::new);
    news.resize_with(count, Vec::new);
    let pairs = olds.iter().zip(&news).enumerate();
    let compared = pairs.map(|(thread, (one, other))| {
        let keys = |calls: &ThreadCalls| calls.iter().map(|(key, _)| *key).collect::<Vec<_>>();
        let (one_keys, other_keys) = (keys(one), keys(other));
        let same = common::common(&one_keys, &other_keys);
        let start = one_keys.iter().zip(&other_keys).take_while(|(a, b)| a == b).count();
        let at = |calls: &ThreadCalls| calls.get(start).map(|(_, index)| *index);
        let first = match (at(one), at(other)) {
            (None, None) => None,
            (one, other) => Some(first(old.zip(one), new.zip(other))),
        };
        ThreadDifference {
            process: 0,
            thread: thread + 1,
            same,
            missing: one.len() - same,
            additional: other.len() - same,
            first,
        }
    });
    compared.collect()
}

/// A recorded process, and the index of one of its calls.
type At<'t> = (&'t ProcessTrace, usize);

fn first(old: Option<At<'_>>, new: Option<At<'_>>) -> FirstDifference {
    let folder = |at: Option<At<'_>>| at.map(|(trace, _)| trace.folder.clone()).unwrap_or_default();
    let (folders, old, new) = ((folder(old), folder(new)), old.and_then(nth), new.and_then(nth));
    let mut parts = Vec::new();
    if let (Some(one), Some(other)) = (&old, &new)
        && one.call.function == other.call.function
    {
        parts = differing((&one.parts, &folders.0), (&other.parts, &folders.1));
    }
    FirstDifference { old: old.as_ref().map(shown), new: new.as_ref().map(shown), parts }
}

fn nth((trace, index): At<'_>) -> Option<NormalCall<'_>> {
    let (mut visited, mut found) = (0, None);
    walk(trace, |_, call| {
        if visited == index {
            found = Some(call);
        }
        visited += 1;
    });
    found
}

/// Returns the parts in which two calls differ: first those of the first call, then those that only the second call
/// has. Each call has its parts, and the folder of its recording.
fn differing(
    (old, old_folder): (&[Part<'_>], &Path),
    (new, new_folder): (&[Part<'_>], &Path),
) -> Vec<PartDifference> {
    let named = |parts: &[Part<'_>], name: &str| parts.iter().position(|part| part.name == name);
    let mut found = Vec::new();
    for part in old {
        let other = named(new, &part.name).and_then(|at| new.get(at));
        if other.is_some_and(|other| other.value.key == part.value.key) {
            continue;
        }
        let contents = part.content.zip(other.and_then(|other| other.content));
        let bytes = contents.and_then(|(a, b)| bytes(a, old_folder, b, new_folder));
        let value = |part: &Part<'_>| short(&part.value.shown);
        let (old, new) = match bytes {
            Some((old, new)) => (old, Some(new)),
            None => (value(part), other.map(value)),
        };
        found.push(PartDifference { part: part.name.clone(), old: Some(old), new });
    }
    for part in new.iter().filter(|part| named(old, &part.name).is_none()) {
        let new = Some(short(&part.value.shown));
        found.push(PartDifference { part: part.name.clone(), old: None, new });
    }
    found
}

/// Describes the first bytes that differ in two contents; `None` if a content is not stored.
fn bytes(
    old: &Content,
    old_folder: &Path,
    new: &Content,
    new_folder: &Path,
) -> Option<(String, String)> {
    let read = |content: &Content, folder: &Path| {
        let file = folder.join(CONTENTS).join(&content.xxh3);
        content.stored.then(|| fs::read(file).ok()).flatten()
    };
    let (old, new) = (read(old, old_folder)?, read(new, new_folder)?);
    let at = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let shown = |bytes: &[u8]| {
        let rest = bytes.get(at..).unwrap_or_default();
        let digits = rest.iter().take(SHOWN_BYTES).map(|byte| format!(" {byte:02x}"));
        let more = if rest.len() > SHOWN_BYTES { " ..." } else { "" };
        format!("from byte {at} of {}:{}{more}", bytes.len(), digits.collect::<String>())
    };
    Some((shown(&old), shown(&new)))
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN_LETTERS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn shown(call: &NormalCall<'_>) -> ShownCall {
    let count = call.call.arguments.iter().flatten().count();
    let arguments = call.parts.iter().filter(|part| part.content.is_none());
    let arguments =
        arguments.take(count).map(|part| format!("{}={}", part.name, short(&part.value.shown)));
    let arguments: Vec<_> = arguments.collect();
    let function = call.call.function.clone();
    let kernel = call.call.kernel.as_ref().map(|kernel| format!(" of the kernel {}", kernel.name));
    let text = format!("{function}({}){}", arguments.join(", "), kernel.unwrap_or_default());
    let status = call.parts.iter().find(|part| part.name == "status");
    let status = status.map(|part| part.value.shown.clone()).unwrap_or_default();
    debug_assert!(call.end.is_some() || !status.is_empty());
    ShownCall { number: call.call.number, function, text, status }
}
