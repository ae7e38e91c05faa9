//! Compares the differences of random recordings with those that a naive model finds in the programs.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use recorder::trace::{
    Address, Argument, ArgumentValue, CallReturn, Content, KernelArgument, KernelLaunch, TraceCall,
};

use super::*;

/// An object: the index of a thread, and the index of the object among those of its kind that the thread tried to
/// create.
type Named = (usize, usize);

#[derive(Clone, Debug, PartialEq)]
enum Action {
    CreateStream { fails: bool },
    DestroyStream(Named),
    Allocate { bytes: u64, fails: bool },
    Free(Named),
    Set { to: Named, offset: u64, value: u64, stream: Named },
    Launch { to: Named, number: u8 },
    Read { from: Named, byte: u8, status: i32 },
    Query { stream: Named, is_running: bool },
}

/// Actions in their order, each with the index of the thread that takes it.
type Program = Vec<(usize, Action)>;

/// A source of addresses, each of which is different in another recording.
struct Addresses {
    next: u64,
    freed: Vec<u64>,
}

impl Addresses {
    fn fresh(&mut self) -> u64 {
        self.next += 0x1000;
        self.next
    }

    /// Returns an address for a new object: sometimes that of an object that no longer exists.
    fn object(&mut self) -> u64 {
        match self.next % 0x3000 {
            0 => self.freed.pop().unwrap_or_else(|| self.fresh()),
            _ => self.fresh(),
        }
    }
}

fn number(name: &str, value: u64) -> Argument {
    Argument { name: name.to_owned(), value: ArgumentValue::Number(value.into()) }
}

fn address(name: &str, at: u64) -> Argument {
    Argument { name: name.to_owned(), value: ArgumentValue::Address(Address(at)) }
}

fn call(number: u64, thread: u32, function: &str, arguments: Vec<Argument>) -> TraceCall {
    let function = function.to_owned();
    TraceCall { number, thread, function, arguments: Some(arguments), kernel: None }
}

fn end(number: u64, status: i32) -> CallReturn {
    CallReturn {
        number,
        status,
        text: None,
        out: BTreeMap::new(),
        code: None,
        wrote: None,
        read_backs: Vec::new(),
    }
}

fn content(bytes: &[u8]) -> Content {
    Content { xxh3: plan::digest(bytes), bytes: bytes.len() as u64, stored: false }
}

fn trace(calls: Vec<(TraceCall, Option<CallReturn>)>) -> ProcessTrace {
    let folder = std::path::PathBuf::new();
    ProcessTrace { folder, start: None, calls, notes: Vec::new(), is_cut: false }
}

/// Returns the recording of a program.
fn recorded(program: &Program, first: u64) -> ProcessTrace {
    let mut addresses = Addresses { next: first, freed: Vec::new() };
    let (mut streams, mut memory) = (HashMap::<Named, u64>::new(), HashMap::<Named, u64>::new());
    let mut counts = HashMap::<(usize, bool), usize>::new();
    let mut calls = Vec::new();
    for (index, (thread, action)) in program.iter().enumerate() {
        let (at, id) = (index as u64, first as u32 + *thread as u32);
        let mut end = end(at, 0);
        let handle = |of: &HashMap<Named, u64>, name: &Named| of.get(name).copied().unwrap_or(0);
        let mut create = |is_stream: bool| {
            let count = counts.entry((*thread, is_stream)).or_default();
            *count += 1;
            (*thread, *count - 1)
        };
        let call = |function: &str, arguments| call(at, id, function, arguments);
        let begun = match action {
            Action::CreateStream { fails } => {
                let (name, to) = (create(true), addresses.object());
                end.out.insert("stream".to_owned(), ArgumentValue::Address(Address(to)));
                end.status = 2 * i32::from(*fails);
                if !fails {
                    streams.insert(name, to);
                }
                call("hipStreamCreate", vec![address("stream", addresses.fresh())])
            }
            Action::Allocate { bytes, fails } => {
                let (name, to) = (create(false), addresses.object());
                end.out.insert("ptr".to_owned(), ArgumentValue::Address(Address(to)));
                end.status = 2 * i32::from(*fails);
                if !fails {
                    memory.insert(name, to);
                }
                let pointer = address("ptr", addresses.fresh());
                call("hipMalloc", vec![pointer, number("size", *bytes)])
            }
            Action::DestroyStream(name) => {
                let at = streams.remove(name);
                addresses.freed.extend(at);
                call("hipStreamDestroy", vec![address("stream", at.unwrap_or(0))])
            }
            Action::Free(name) => {
                let at = memory.remove(name);
                addresses.freed.extend(at);
                call("hipFree", vec![address("ptr", at.unwrap_or(0))])
            }
            Action::Set { to, offset, value, stream } => {
                let start = memory.get(to).map_or(0, |start| start + offset);
                let stream = address("stream", handle(&streams, stream));
                let set = [address("dst", start), number("value", *value), stream];
                call("hipMemsetAsync", set.to_vec())
            }
            Action::Launch { to, number } => {
                let hex = |value: u64| format!("{:016x}", value.swap_bytes());
                let argument = |kind: &str, bytes| KernelArgument { kind: kind.to_owned(), bytes };
                let given = [
                    argument("global_buffer", hex(handle(&memory, to))),
                    argument("global_buffer", hex(addresses.fresh())),
                    argument("by_value", format!("{number:02x}000000")),
                    argument("by_value", hex(handle(&memory, to)) + &hex(u64::from(*number))),
                ];
                let kernel = KernelLaunch { name: "k".to_owned(), arguments: Some(given.to_vec()) };
                let launch = call("hipModuleLaunchKernel", vec![address("f", addresses.fresh())]);
                TraceCall { kernel: Some(kernel), ..launch }
            }
            Action::Read { from, byte, status } => {
                end.status = *status;
                end.wrote = (*status == 0).then(|| content(&[*byte; 4]));
                let copy =
                    [address("dst", addresses.fresh()), address("src", handle(&memory, from))];
                call("hipMemcpy", copy.to_vec())
            }
            Action::Query { stream, is_running } => {
                end.status = if *is_running { 600 } else { 0 };
                call("hipStreamQuery", vec![address("stream", handle(&streams, stream))])
            }
        };
        calls.push((begun, Some(end)));
    }
    trace(calls)
}

/// A call as the model sees it: its number, and an action that names only objects that exist. The name of any other
/// object is [`NOTHING`].
type ModelCall = (u64, Action);

const NOTHING: Named = (usize::MAX, 0);

/// Returns the calls of each thread.
fn modelled(program: &Program) -> Vec<Vec<ModelCall>> {
    let mut order = Vec::new();
    let mut objects = [Vec::<Named>::new(), Vec::new()];
    let mut counts = HashMap::<(usize, usize), usize>::new();
    let mut calls = Vec::<Vec<ModelCall>>::new();
    for (number, (thread, action)) in program.iter().enumerate() {
        if matches!(action, Action::Query { is_running: true, .. }) {
            continue;
        }
        if !order.contains(thread) {
            order.push(*thread);
            calls.push(Vec::new());
        }
        let mut action = action.clone();
        // Threads are named in the order of their first calls.
        let renamed = |name: &Named, kind: usize, objects: &[Vec<Named>; 2]| {
            let exists = objects[kind].contains(name);
            let place = order.iter().position(|of| *of == name.0).filter(|_| exists);
            place.map_or(NOTHING, |place| (place, name.1))
        };
        let mut create = |kind: usize, fails: bool, objects: &mut [Vec<Named>; 2]| {
            let count = counts.entry((*thread, kind)).or_default();
            if !fails {
                objects[kind].push((*thread, *count));
            }
            *count += 1;
        };
        match &mut action {
            Action::CreateStream { fails } => create(0, *fails, &mut objects),
            Action::Allocate { fails, .. } => create(1, *fails, &mut objects),
            Action::DestroyStream(name) => {
                let gone = *name;
                *name = renamed(name, 0, &objects);
                objects[0].retain(|of| *of != gone);
            }
            Action::Free(name) => {
                let gone = *name;
                *name = renamed(name, 1, &objects);
                objects[1].retain(|of| *of != gone);
            }
            Action::Set { to, offset, stream, .. } => {
                *to = renamed(to, 1, &objects);
                *stream = renamed(stream, 0, &objects);
                *offset *= u64::from(*to != NOTHING);
            }
            Action::Launch { to, .. } => *to = renamed(to, 1, &objects),
            Action::Read { from, byte, status } => {
                *from = renamed(from, 1, &objects);
                *byte *= u8::from(*status == 0);
            }
            Action::Query { stream, .. } => *stream = renamed(stream, 0, &objects),
        }
        let place = order.iter().position(|of| of == thread).unwrap();
        calls[place].push((number as u64, action));
    }
    calls
}

/// Returns the length of the longest common subsequence, by its definition.
fn naive_common(one: &[ModelCall], other: &[ModelCall]) -> usize {
    match (one.split_first(), other.split_first()) {
        (Some((a, rest)), Some((b, other_rest))) if a.1 == b.1 => {
            1 + naive_common(rest, other_rest)
        }
        (Some((_, rest)), Some((_, other_rest))) => {
            naive_common(rest, other).max(naive_common(one, other_rest))
        }
        _ => 0,
    }
}

/// The number of calls that are the same, missing and additional, and the numbers of the first calls that differ.
type Found = (usize, usize, usize, Option<(Option<u64>, Option<u64>)>);

fn expected(old: &Program, new: &Program) -> Vec<Found> {
    let (mut olds, mut news) = (modelled(old), modelled(new));
    let count = olds.len().max(news.len());
    olds.resize(count, Vec::new());
    news.resize(count, Vec::new());
    let pairs = olds.iter().zip(&news);
    let found = pairs.map(|(one, other)| {
        let same = naive_common(one, other);
        let longest = one.len().max(other.len());
        let action = |calls: &[ModelCall], at: usize| calls.get(at).map(|call| call.1.clone());
        let at = (0..longest).find(|at| action(one, *at) != action(other, *at));
        let number = |calls: &[ModelCall], at: usize| calls.get(at).map(|call| call.0);
        let first = at.map(|at| (number(one, at), number(other, at)));
        (same, one.len() - same, other.len() - same, first)
    });
    found.collect()
}

fn observed(found: &RecordingDifference) -> Vec<Found> {
    let of_thread = |thread: &ThreadDifference| {
        let number = |call: &Option<ShownCall>| call.as_ref().map(|call| call.number);
        let first = thread.first.as_ref().map(|first| (number(&first.old), number(&first.new)));
        (thread.same, thread.missing, thread.additional, first)
    };
    found.threads.iter().map(of_thread).collect()
}

fn action() -> impl Strategy<Value = Action> {
    let name = || (0..2_usize, 0..3_usize);
    prop_oneof![
        any::<bool>().prop_map(|fails| Action::CreateStream { fails }),
        name().prop_map(Action::DestroyStream),
        (prop_oneof![Just(4), Just(64)], prop::bool::weighted(0.2))
            .prop_map(|(bytes, fails)| Action::Allocate { bytes, fails }),
        name().prop_map(Action::Free),
        (name(), 0..2_u64, 0..2_u64, name()).prop_map(|(to, offset, value, stream)| Action::Set {
            to,
            offset,
            value,
            stream
        }),
        (name(), 0..2_u8).prop_map(|(to, number)| Action::Launch { to, number }),
        (name(), 0..2_u8, prop_oneof![3 => Just(0), 1 => Just(1)])
            .prop_map(|(from, byte, status)| Action::Read { from, byte, status }),
        (name(), any::<bool>())
            .prop_map(|(stream, is_running)| Action::Query { stream, is_running }),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    prop::collection::vec((prop_oneof![3 => Just(0), 1 => Just(1)], action()), 0..9)
}

/// A program, and the same program with a few changes.
fn programs() -> impl Strategy<Value = (Program, Program)> {
    let edits = prop::collection::vec((0..9_usize, 0..3, 0..2_usize, action()), 0..3);
    (program(), edits).prop_map(|(one, edits)| {
        let mut other = one.clone();
        for (at, kind, thread, action) in edits {
            let at = at.min(other.len());
            match kind {
                0 => other.insert(at, (thread, action)),
                1 if at < other.len() => drop(other.remove(at)),
                _ if at < other.len() => other[at] = (thread, action),
                _ => {}
            }
        }
        (one, other)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn differences_are_those_of_the_programs((old, new) in programs()) {
        let (one, other) = (recorded(&old, 0x7f00_0000_0000), recorded(&new, 0x7e00_0000_1000));
        let found = difference(&[one], &[other]);
        prop_assert_eq!(observed(&found), expected(&old, &new));
        prop_assert_eq!(found.is_empty(), modelled_actions(&old) == modelled_actions(&new));
    }

    #[test]
    fn recording_of_the_same_program_is_equal(program in program()) {
        let recordings = [0x7f00_0000_0000, 0x7e00_0000_1000].map(|at| recorded(&program, at));
        let [old, new] = recordings;
        let found = difference(&[old], &[new]);
        prop_assert!(found.is_empty(), "{:?}", found);
    }
}

/// Returns the actions of each thread without their numbers.
fn modelled_actions(program: &Program) -> Vec<Vec<Action>> {
    let actions = |calls: Vec<ModelCall>| calls.into_iter().map(|(_, action)| action).collect();
    modelled(program).into_iter().map(actions).collect()
}

#[test]
fn contents_that_are_read_again_count_once() {
    let sync = |at: u64, bytes: &[u8]| {
        let mut end = end(at, 0);
        end.read_backs.push((Address(0x7f00_0000_0000), content(bytes)));
        (call(at, 1, "hipStreamSynchronize", vec![address("stream", 0)]), Some(end))
    };
    let recording = |first: &[u8], last: &[u8]| [trace(vec![sync(0, first), sync(1, last)])];
    // The copy may not have been complete when the recorder read its target for the first time.
    assert!(difference(&recording(&[1], &[2]), &recording(&[3], &[2])).is_empty());
    let found = difference(&recording(&[1], &[2]), &recording(&[1], &[3]));
    let first = found.threads[0].first.as_ref().unwrap();
    assert_eq!(
        (first.parts[0].part.as_str(), first.old.as_ref().unwrap().number),
        ("read-back 1", 1)
    );
}

#[test]
fn times_and_versions_are_not_compared() {
    let recording = |function: &str, name: &str, value: u64| {
        let mut end = end(0, 0);
        end.out.insert(name.to_owned(), ArgumentValue::Number(value.into()));
        [trace(vec![(call(0, 1, function, Vec::new()), Some(end))])]
    };
    let differ = |function: &str, name: &str| {
        !difference(&recording(function, name, 1), &recording(function, name, 2)).is_empty()
    };
    assert!(!differ("hipEventElapsedTime", "ms"));
    assert!(!differ("hipRuntimeGetVersion", "runtimeVersion"));
    assert!(!differ("hiprtcGetCodeSize", "codeSizeRet"));
    assert!(differ("hipGetDeviceCount", "count"));
}

#[test]
fn result_without_an_object_differs() {
    let recording = |at: u64| {
        let mut end = end(0, 0);
        end.out.insert("ptr".to_owned(), ArgumentValue::Address(Address(at)));
        [trace(vec![(call(0, 1, "hipMalloc", vec![number("size", 0)]), Some(end))])]
    };
    assert!(difference(&recording(0x7f00_0000_0000), &recording(0x7e00_0000_0000)).is_empty());
    assert!(!difference(&recording(0x7f00_0000_0000), &recording(0)).is_empty());
}

#[test]
fn call_that_did_not_return_differs() {
    let sync = |returned: bool| {
        let sync = call(0, 1, "hipDeviceSynchronize", Vec::new());
        [trace(vec![(sync, returned.then(|| end(0, 0)))])]
    };
    let found = difference(&sync(true), &sync(false));
    let first = found.threads[0].first.as_ref().unwrap();
    let part = PartDifference {
        part: "status".to_owned(),
        old: Some("hipSuccess".to_owned()),
        new: Some("the call did not return".to_owned()),
    };
    assert_eq!(first.parts, [part]);
    assert!(difference(&sync(false), &sync(false)).is_empty());
}

#[test]
fn processes_and_threads_of_one_recording_count() {
    let calls = |thread| (call(thread, thread as u32, "hipDeviceSynchronize", Vec::new()), None);
    let one = || trace(vec![calls(0)]);
    let two = || trace(vec![calls(0), calls(1)]);
    let found = difference(&[one()], &[two(), one()]);
    let counts: Vec<_> =
        found.threads.iter().map(|t| (t.process, t.thread, t.same, t.additional)).collect();
    assert_eq!(counts, [(1, 1, 1, 0), (1, 2, 0, 1), (2, 1, 0, 1)]);
    assert_eq!((found.same, found.missing, found.additional), (1, 0, 2));
    assert!(!found.is_empty());
}
