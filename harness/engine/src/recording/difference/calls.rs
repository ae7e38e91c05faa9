//! Brings the calls of a recording into a form in which equal calls of two recordings are equal.

use std::collections::{BTreeMap, HashMap, HashSet};

use recorder::trace::{Address, ArgumentValue, CallReturn, Content, ProcessTrace, TraceCall};

use super::{
    super::{NOT_READY, has_status, status_name},
    objects::{Normal, Objects},
};

/// Functions that ask whether work is done. How often a program calls them while work is running depends on time.
const POLLS: [&str; 4] =
    ["hipEventQuery", "hipEventQuery_spt", "hipStreamQuery", "hipStreamQuery_spt"];

/// Functions whose results differ between runs or releases without a difference in what the program does: times,
/// versions, and free memory.
const CHANGING: [&str; 4] =
    ["hipDriverGetVersion", "hipEventElapsedTime", "hipMemGetInfo", "hipRuntimeGetVersion"];

/// Addresses of a process on x86-64 Linux to which programs, libraries and stacks are mapped.
const MAPPED: std::ops::RangeInclusive<u64> = 0x5000_0000_0000..=0x7fff_ffff_ffff;

/// A part of a call that is compared, for example an argument or the status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part<'t> {
    pub(super) name: String,
    pub(super) value: Normal,
    /// The recorded content, if the part is the content of memory.
    pub(super) content: Option<&'t Content>,
}

/// A call with its parts.
pub(super) struct NormalCall<'t> {
    pub(super) call: &'t TraceCall,
    pub(super) end: Option<&'t CallReturn>,
    pub(super) parts: Vec<Part<'t>>,
}

impl NormalCall<'_> {
    /// Returns a hash that is equal for equal calls.
    pub(super) fn key(&self) -> u128 {
        let mut text = self.call.function.clone();
        for part in &self.parts {
            // Names and values may contain any character, so their lengths separate them.
            for piece in [&part.name, &part.value.key] {
                text.push_str(&format!("\n{} {piece}", piece.len()));
            }
        }
        u128::from_str_radix(&plan::digest(text.as_bytes()), 16).unwrap_or_default()
    }
}

/// Calls `visit` with the index of the thread and with each call of a process, in the order of the calls. Threads are
/// numbered in the order of their first calls. `visit` is not called for polls of work that is still running.
pub(super) fn walk<'t>(trace: &'t ProcessTrace, mut visit: impl FnMut(usize, NormalCall<'t>)) {
    let unfinished = unfinished_reads(trace);
    let mut objects = Objects::default();
    let mut threads = HashMap::new();
    let mut counts = HashMap::<(usize, &str), usize>::new();
    for (at, (call, end)) in trace.calls.iter().enumerate() {
        let function = call.function.as_str();
        if POLLS.contains(&function) && end.as_ref().is_some_and(|end| end.status == NOT_READY) {
            continue;
        }
        let next = threads.len();
        let thread = *threads.entry(call.thread).or_insert(next);
        let count = counts.entry((thread, function)).or_default();
        let key = format!("thread {thread} {function} {count}");
        *count += 1;
        let mut parts = arguments(call, &objects);
        let created = end.as_ref().map(|end| objects.follow(call, end, &key)).unwrap_or_default();
        results(call, end.as_ref(), (&objects, &created), &mut parts);
        let reads = end.iter().flat_map(|end| end.read_backs.iter().enumerate());
        for (index, (Address(address), content)) in reads {
            if !unfinished.contains(&(at, index)) {
                let name = format!("read-back {}", index + 1);
                parts.push(of_content(name, &objects.address(*address).key, content));
            }
        }
        visit(thread, NormalCall { call, end: end.as_ref(), parts });
    }
}

/// Returns the read-backs that the recorder repeated at a later call. A read-back is the recorder's read of the memory
/// to which a copy wrote. It is repeated because the copy may not have been complete. Each is the index of a call, and
/// the index of the read-back in that call.
fn unfinished_reads(trace: &ProcessTrace) -> HashSet<(usize, usize)> {
    let mut unfinished = HashSet::new();
    let mut last = BTreeMap::<(u64, u64), (usize, usize)>::new();
    for (at, (call, end)) in trace.calls.iter().enumerate() {
        if call.function.starts_with("hipGraphLaunch") {
            last.clear();
        }
        for argument in call.arguments.iter().flatten() {
            if let ArgumentValue::Memory { at: Address(start), bytes, .. } = argument.value {
                last.remove(&(start, bytes));
            }
        }
        let reads = end.iter().flat_map(|end| end.read_backs.iter().enumerate());
        for (index, (Address(start), content)) in reads {
            unfinished.extend(last.insert((*start, content.bytes), (at, index)));
        }
    }
    unfinished
}

fn part<'t>(name: impl Into<String>, value: Normal) -> Part<'t> {
    Part { name: name.into(), value, content: None }
}

fn of_content<'t>(name: String, place: &str, content: &'t Content) -> Part<'t> {
    let Content { xxh3, bytes, .. } = content;
    let key = format!("{place}: {bytes} bytes with the hash {xxh3}");
    let shown = format!("{bytes} bytes with the hash {xxh3}");
    Part { name, value: Normal { key, shown }, content: Some(content) }
}

fn arguments<'t>(call: &'t TraceCall, objects: &Objects) -> Vec<Part<'t>> {
    let mut parts = Vec::new();
    for argument in call.arguments.iter().flatten() {
        let name = argument.name.clone();
        if let ArgumentValue::Memory { content: Some(content), .. } = &argument.value {
            parts.push(part(&name, value(&argument.value, objects)));
            parts.push(of_content(format!("content of `{name}`"), "", content));
        } else {
            parts.push(part(name, value(&argument.value, objects)));
        }
    }
    let Some(kernel) = &call.kernel else { return parts };
    parts.push(part("kernel", Normal::plain(&kernel.name)));
    for (index, argument) in kernel.arguments.iter().flatten().enumerate() {
        // The program can pass pointers to its own memory, which differ between runs. Other words may be numbers.
        let is_pointer = argument.kind != "by_value";
        let value = objects.words(&argument.bytes, |word| is_pointer && word != 0);
        parts.push(part(format!("kernel argument {}", index + 1), value));
    }
    parts
}

fn value(value: &ArgumentValue, objects: &Objects) -> Normal {
    match value {
        ArgumentValue::Number(number) => Normal::plain(number.to_string()),
        ArgumentValue::Address(Address(at)) => objects.address(*at),
        ArgumentValue::Text(text) => Normal::plain(format!("{text:?}")),
        ArgumentValue::Texts(texts) => Normal::plain(format!("{texts:?}")),
        // A size of three words of 4 bytes has no addresses.
        ArgumentValue::Bytes(hex) if hex.len() % 16 != 0 => Normal::plain(hex),
        ArgumentValue::Bytes(hex) => objects.words(hex, |word| MAPPED.contains(&word)),
        ArgumentValue::Memory { at: Address(at), bytes, content: _ } => {
            let Normal { key, shown } = objects.address(*at);
            Normal {
                key: format!("{key}, {bytes} bytes"),
                shown: format!("{shown}, {bytes} bytes"),
            }
        }
        ArgumentValue::Unknown(Address(at), why) => {
            let Normal { key, shown } = objects.address(*at);
            Normal { key: format!("{key} ({why})"), shown: format!("{shown} ({why})") }
        }
    }
}

/// Adds the results of a call. `created` contains the names of the results that are new objects.
fn results<'t>(
    call: &'t TraceCall,
    end: Option<&'t CallReturn>,
    (objects, created): (&Objects, &[&str]),
    parts: &mut Vec<Part<'t>>,
) {
    let function = call.function.as_str();
    let Some(end) = end else {
        parts.push(part("status", Normal::plain("the call did not return")));
        return;
    };
    let status = match has_status(function) {
        true => status_name(function, end.status),
        false => "the call returned".to_owned(),
    };
    parts.push(part("status", Normal::plain(status)));
    if let Some(text) = &end.text {
        parts.push(part("text", Normal::plain(format!("{text:?}"))));
    }
    // Compilers of different releases compile to different code.
    let is_compared = !CHANGING.contains(&function) && !function.starts_with("hiprtc");
    // A call that failed may not have written its results.
    if is_compared && (end.status == 0 || !has_status(function)) {
        for (name, given) in &end.out {
            // The place of a new object among others is not a property of the call that creates it.
            let value = match created.contains(&name.as_str()) {
                true => Normal::plain("a new object"),
                false => value(given, objects),
            };
            parts.push(part(format!("result `{name}`"), value));
        }
    }
    if let Some(content) = &end.wrote {
        parts.push(of_content("bytes that the call copied".to_owned(), "", content));
    }
}
