//! Builds a small plan with given calls for tests, and collects the mistakes in a plan.

use plan::{
    Arg, Buffer, BufferAddress, Call, CaptureMode, CopyApi, Memory, PLAN_VERSION, Plan, Step,
    StreamKind, races, reference,
};

/// Returns a plan whose body consists of these calls. All buffers have 64 bytes: `page`, `pinned` and `other` are host
/// memory, `dev`, `spare` and `pool` are device memory. The set-up allocates and initialises all of them except `spare`
/// and `pool`. The streams are `s` and `t` (non-blocking), and `b` (blocking). Steps and lines are numbered from 1.
pub(crate) fn plan(calls: Vec<Call>) -> Plan {
    let memory = [
        ("page", Memory::HostPageable),
        ("pinned", Memory::HostPinned),
        ("other", Memory::HostPinned),
        ("dev", Memory::Device),
        ("spare", Memory::Device),
        ("pool", Memory::DeviceAsync),
    ];
    let kinds = [
        ("s", StreamKind::NonBlocking),
        ("t", StreamKind::NonBlocking),
        ("b", StreamKind::Blocking),
    ];
    let steps = |calls: Vec<Call>, first: u32| -> Vec<Step> {
        let step = |(id, call)| Step {
            id,
            call,
            returns: None,
            gives: None,
            line: id,
            planted: Vec::new(),
        };
        (first..).zip(calls).map(step).collect()
    };
    let mut setup = Vec::new();
    for (name, memory) in &memory[..4] {
        setup.push(alloc(name, "default"));
        setup.push(if memory.on_host() { fill(name) } else { set(name, 64, "default", false) });
    }
    setup.push(Call::DeviceSynchronize);
    let buffer = |memory| Buffer { memory, bytes: 64, guarded: false };
    Plan {
        version: PLAN_VERSION,
        buffers: memory.map(|(name, memory)| (name.to_owned(), buffer(memory))).into(),
        streams: kinds.map(|(name, kind)| (name.to_owned(), kind)).into(),
        events: vec!["e".to_owned(), "f".to_owned()],
        setup: steps(setup, 1000),
        body: steps(calls, 1),
        ..Plan::empty()
    }
}

pub(crate) fn at(buffer: &str, offset: u64) -> BufferAddress {
    BufferAddress { buffer: buffer.to_owned(), offset }
}

pub(crate) fn alloc(buffer: &str, stream: &str) -> Call {
    Call::Alloc { buffer: buffer.to_owned(), stream: stream.to_owned() }
}

pub(crate) fn fill(buffer: &str) -> Call {
    Call::Fill { buffer: buffer.to_owned(), stamp: 1 }
}

pub(crate) fn check(buffer: &str) -> Call {
    Call::Check { buffer: buffer.to_owned(), file: None }
}

pub(crate) fn set(buffer: &str, bytes: u64, stream: &str, asynchronous: bool) -> Call {
    let (to, stream) = (at(buffer, 0), stream.to_owned());
    Call::Set { to, value: 7, words: false, bytes, asynchronous, stream }
}

pub(crate) fn copy(to: &str, from: &str, api: CopyApi, stream: &str) -> Call {
    let stream = stream.to_owned();
    Call::Copy { to: at(to, 0), from: at(from, 0), bytes: 64, api, stream }
}

pub(crate) fn add(to: &str, from: &str, stream: &str) -> Call {
    Call::Launch {
        kernel: "add_u32".to_owned(),
        grid: [1, 1, 1],
        block: [64, 1, 1],
        args: vec![Arg::Address(at(to, 0)), Arg::Address(at(from, 0)), Arg::u32(16), Arg::u32(1)],
        shared: 0,
        cooperative: false,
        stream: stream.to_owned(),
    }
}

pub(crate) fn begin(stream: &str) -> Call {
    Call::BeginCapture { stream: stream.to_owned(), mode: CaptureMode::Relaxed }
}

pub(crate) fn end(stream: &str) -> Call {
    Call::EndCapture { stream: stream.to_owned(), graph: "g".to_owned() }
}

pub(crate) fn record(event: &str, stream: &str) -> Call {
    Call::EventRecord { event: event.to_owned(), stream: stream.to_owned() }
}

pub(crate) fn wait(stream: &str, event: &str) -> Call {
    Call::StreamWaitEvent { stream: stream.to_owned(), event: event.to_owned() }
}

pub(crate) fn sync(stream: &str) -> Call {
    Call::StreamSynchronize { stream: stream.to_owned() }
}

pub(crate) fn mistakes(plan: &Plan) -> Vec<(u32, String)> {
    let mistakes = reference(plan).err().unwrap_or_default();
    assert_eq!(plan::analyse(plan).err().unwrap_or_default(), mistakes, "by sizes as by bytes");
    mistakes.into_iter().map(|mistake| (mistake.line, mistake.message)).collect()
}

#[track_caller]
pub(crate) fn refused(calls: Vec<Call>, line: u32, why: &str) {
    let found = mistakes(&plan(calls));
    assert!(
        matches!(&found[..], [(at, text)] if *at == line && text.contains(why)),
        "{line}: {why}: {found:?}"
    );
}

#[track_caller]
pub(crate) fn accepted(calls: Vec<Call>) {
    assert_eq!(mistakes(&plan(calls)), []);
}

#[track_caller]
pub(crate) fn racy(calls: Vec<Call>, racy: bool) {
    let plan = plan(calls);
    assert_eq!(mistakes(&plan), []);
    let found = races(&plan);
    assert_eq!(!found.is_empty(), racy, "{found:?}");
}
