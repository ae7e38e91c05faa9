use std::collections::BTreeMap;

use super::*;
use crate::{Buffer, BufferAddress, CopyApi, Memory, PLAN_VERSION};

/// Returns the races in a plan with these calls. The buffers are `host` (pinned), `page` (pageable), `registered`,
/// `dev` and `other` (device memory), and `pool`. The streams are `s` and `t` (non-blocking), and `b` (blocking).
fn races_of(calls: Vec<Call>) -> Vec<String> {
    let buffer = |memory| Buffer { memory, bytes: 64, guarded: false };
    let plan = Plan {
        version: PLAN_VERSION,
        trial: "test".into(),
        environment: BTreeMap::new(),
        limits: BTreeMap::new(),
        libraries: vec![],
        functions: vec![],
        buffers: [
            ("host", Memory::HostPinned),
            ("page", Memory::HostPageable),
            ("registered", Memory::HostRegistered),
            ("pool", Memory::DeviceAsync),
            ("dev", Memory::Device),
            ("other", Memory::Device),
        ]
        .map(|(name, memory)| (name.to_owned(), buffer(memory)))
        .into(),
        streams: [
            ("s", StreamKind::NonBlocking),
            ("t", StreamKind::NonBlocking),
            ("b", StreamKind::Blocking),
        ]
        .map(|(name, kind)| (name.to_owned(), kind))
        .into(),
        events: vec!["e".into()],
        kernels: BTreeMap::new(),
        own_kernels: BTreeMap::new(),
        files: BTreeMap::new(),
        setup: vec![],
        body: calls
            .into_iter()
            .zip(1..)
            .map(|(call, id)| Step {
                id,
                call,
                returns: None,
                gives: None,
                line: id,
                planted: Vec::new(),
            })
            .collect(),
        verify: vec![],
        teardown: vec![],
    };
    races(&plan).into_iter().map(|m| m.message).collect()
}

fn copy(to: &str, from: &str, api: CopyApi, stream: &str) -> Call {
    let place = |b: &str| BufferAddress { buffer: b.into(), offset: 0 };
    Call::Copy { to: place(to), from: place(from), bytes: 64, api, stream: stream.into() }
}

fn fill(buffer: &str) -> Call {
    Call::Fill { buffer: buffer.into(), stamp: 1 }
}

#[track_caller]
fn check(calls: Vec<Call>, racy: bool) {
    let found = races_of(calls);
    assert_eq!(!found.is_empty(), racy, "{found:?}");
}

#[test]
fn pinned_source_must_outlive_its_copy_but_pageable_source_is_staged() {
    use CopyApi::MemcpyAsync;
    check(vec![copy("dev", "host", MemcpyAsync, "s"), fill("host")], true);
    check(vec![copy("dev", "page", MemcpyAsync, "s"), fill("page")], false);
    let sync = Call::StreamSynchronize { stream: "s".into() };
    check(vec![copy("dev", "host", MemcpyAsync, "s"), sync, fill("host")], false);
    let other = Call::StreamSynchronize { stream: "t".into() };
    check(vec![copy("dev", "host", MemcpyAsync, "s"), other, fill("host")], true);
}

#[test]
fn events_and_the_null_stream_order_streams() {
    use CopyApi::{Memcpy, MemcpyAsync};
    let write = |s: &str| copy("dev", "host", MemcpyAsync, s);
    let record = Call::EventRecord { event: "e".into(), stream: "s".into() };
    let wait = Call::StreamWaitEvent { stream: "t".into(), event: "e".into() };
    check(vec![write("s"), write("t")], true);
    check(vec![write("s"), record.clone(), wait.clone(), write("t")], false);
    check(vec![record, write("s"), wait, write("t")], true);
    check(vec![write("b"), copy("host", "dev", Memcpy, DEFAULT_STREAM)], false);
    check(vec![write("s"), copy("host", "dev", Memcpy, DEFAULT_STREAM)], true);
}

#[test]
fn device_to_device_copy_continues_after_return() {
    use CopyApi::{Memcpy, MemcpyAsync, MemcpyDirected, MemcpyWithStream};
    for api in [Memcpy, MemcpyDirected] {
        let inside = copy("dev", "other", api, DEFAULT_STREAM);
        check(vec![inside.clone(), copy("host", "dev", MemcpyAsync, "s")], true);
        check(vec![inside.clone(), copy("host", "dev", MemcpyAsync, "b")], false);
        check(vec![inside.clone(), copy("host", "dev", Memcpy, DEFAULT_STREAM)], false);
        let wait = Call::StreamSynchronize { stream: DEFAULT_STREAM.into() };
        check(vec![inside, wait, copy("host", "dev", MemcpyAsync, "s")], false);
    }
    let inside = copy("dev", "other", MemcpyWithStream, "t");
    check(vec![inside, copy("host", "dev", MemcpyAsync, "s")], true);
    // A copy to or from the host has completed when it returns.
    check(vec![copy("dev", "host", Memcpy, "s"), copy("host", "dev", MemcpyAsync, "s")], false);
    check(vec![copy("host", "dev", MemcpyWithStream, "t"), fill("host")], false);
    let rows = |asynchronous| Call::Copy2d {
        to: BufferAddress { buffer: "dev".into(), offset: 0 },
        to_pitch: 8,
        from: BufferAddress { buffer: "other".into(), offset: 0 },
        from_pitch: 8,
        width: 8,
        height: 8,
        asynchronous,
        stream: "t".into(),
    };
    check(vec![rows(false), copy("host", "dev", MemcpyAsync, "s")], true);
    check(vec![rows(true), copy("host", "dev", MemcpyAsync, "t")], false);
}

#[test]
fn destroying_a_stream_does_not_wait_for_its_work() {
    let work = copy("dev", "host", CopyApi::MemcpyAsync, "s");
    let destroy = Call::StreamDestroy { stream: "s".into() };
    let create = Call::StreamCreate { stream: "s".into() };
    let wait = Call::StreamSynchronize { stream: "s".into() };
    check(vec![work.clone(), destroy.clone(), fill("host")], true);
    check(vec![work.clone(), wait.clone(), destroy.clone(), fill("host")], false);
    check(vec![work.clone(), destroy.clone(), Call::DeviceSynchronize, fill("host")], false);
    // A new stream with the same name does not wait for the work of the destroyed stream.
    check(vec![work.clone(), destroy.clone(), create.clone(), work.clone()], true);
    check(vec![work.clone(), destroy.clone(), create.clone(), wait, fill("host")], true);
    check(vec![work, Call::Unload { kernel: "k".into() }, fill("host")], true);
}

#[test]
fn pool_memory_is_allocated_and_freed_in_stream_order() {
    let on = |stream: &str| stream.to_owned();
    let alloc = |stream| Call::Alloc { buffer: "pool".into(), stream: on(stream) };
    let free = |stream| Call::Free { buffer: "pool".into(), stream: on(stream) };
    let write = |stream| copy("pool", "page", CopyApi::MemcpyAsync, stream);
    check(vec![alloc("s"), write("s"), free("s")], false);
    check(vec![alloc("s"), write("t")], true);
    check(vec![alloc("s"), write("s"), free("t")], true);
    // The second allocation returns different memory.
    check(vec![alloc("s"), write("s"), free("s"), alloc("t"), write("t")], false);
}

#[test]
fn freeing_waits_only_for_some_memory_kinds() {
    let work = copy("other", "host", CopyApi::MemcpyAsync, "s");
    let free = |buffer: &str| Call::Free { buffer: buffer.into(), stream: "default".into() };
    check(vec![work.clone(), free("dev"), fill("host")], false);
    check(vec![work.clone(), free("page"), fill("host")], true);
    let registered = copy("dev", "registered", CopyApi::MemcpyAsync, "s");
    check(vec![registered.clone(), free("registered")], true);
    check(vec![registered, Call::DeviceSynchronize, free("registered")], false);
}

#[test]
fn waiting_for_the_null_stream_waits_for_blocking_streams() {
    let wait = |stream: &str| Call::StreamSynchronize { stream: stream.into() };
    let work = |stream: &str| copy("dev", "host", CopyApi::MemcpyAsync, stream);
    check(vec![work("b"), wait(DEFAULT_STREAM), fill("host")], false);
    check(vec![work("s"), wait(DEFAULT_STREAM), fill("host")], true);
    check(vec![work(DEFAULT_STREAM), wait("b"), fill("host")], true);
}

#[test]
fn only_streams_order_launches_of_one_graph() {
    let launch = |stream: &str| Call::GraphLaunch { exec: "x".into(), stream: stream.into() };
    let graph = |streams: [&str; 2]| {
        vec![
            Call::BeginCapture { stream: "s".into(), mode: crate::CaptureMode::Global },
            copy("dev", "host", CopyApi::MemcpyAsync, "s"),
            Call::EndCapture { stream: "s".into(), graph: "g".into() },
            Call::GraphInstantiate { exec: "x".into(), graph: "g".into() },
            launch(streams[0]),
            launch(streams[1]),
        ]
    };
    check(graph(["s", "s"]), false);
    check(graph(["b", DEFAULT_STREAM]), false);
    check(graph(["s", "t"]), true);
}

#[test]
fn generator_writes_in_its_stream() {
    let generate = || Call::RandGenerate {
        generator: "g".into(),
        to: BufferAddress { buffer: "dev".into(), offset: 0 },
        count: 16,
    };
    let on = |stream: &str| Call::RandStream { generator: "g".into(), stream: stream.into() };
    let read = |stream: &str| copy("host", "dev", CopyApi::MemcpyAsync, stream);
    check(vec![generate(), read("s")], true);
    check(vec![generate(), read("b")], false);
    check(vec![on("s"), generate(), read("s")], false);
    check(vec![on("s"), generate(), read("t")], true);
    let capture = |reader: &str| {
        vec![
            on("s"),
            Call::BeginCapture { stream: "s".into(), mode: crate::CaptureMode::Global },
            generate(),
            Call::EndCapture { stream: "s".into(), graph: "g".into() },
            Call::GraphInstantiate { exec: "x".into(), graph: "g".into() },
            Call::GraphLaunch { exec: "x".into(), stream: "s".into() },
            read(reader),
        ]
    };
    check(capture("s"), false);
    check(capture("t"), true);
}

#[test]
fn host_functions_and_products_are_stream_ordered() {
    let function = Call::HostFunc {
        buffer: "host".into(),
        api: crate::HostFuncApi::LaunchHostFunc,
        stream: "s".into(),
    };
    let wait = Call::StreamSynchronize { stream: "s".into() };
    check(vec![function.clone(), fill("host")], true);
    check(vec![function.clone(), wait.clone(), fill("host")], false);
    check(vec![function, copy("dev", "host", CopyApi::MemcpyAsync, "t")], true);
    let problem = crate::MatmulProblem {
        dtype: crate::Dtype::F32,
        m: 2,
        n: 2,
        k: 2,
        transpose_a: false,
        transpose_b: false,
        bias: false,
    };
    let operands =
        crate::Operands { a: "host".into(), b: "other".into(), d: "dev".into(), bias: None };
    let (handle, stream) = ("h".to_owned(), "s".to_owned());
    let product = Call::RocblasGemm { handle, problem, operands, stream };
    check(vec![product.clone(), copy("page", "dev", CopyApi::Memcpy, "t")], true);
    check(vec![product, wait, copy("page", "dev", CopyApi::Memcpy, "t")], false);
}

#[test]
fn only_captured_events_order_graph_branches() {
    use CopyApi::MemcpyAsync;
    let graph = |joined: bool| {
        let event = |stream: &str| Call::EventRecord { event: "e".into(), stream: stream.into() };
        let wait =
            |stream: &str| Call::StreamWaitEvent { stream: stream.into(), event: "e".into() };
        let mut calls = vec![
            Call::BeginCapture { stream: "s".into(), mode: crate::CaptureMode::Global },
            event("s"),
            wait("t"),
            copy("dev", "host", MemcpyAsync, "t"),
        ];
        // The fork joins before the copy on the captured stream in one case, and after it in the other.
        let copy = [copy("host", "dev", MemcpyAsync, "s")];
        let join = [event("t"), wait("s")];
        if joined {
            calls.extend(join.into_iter().chain(copy));
        } else {
            calls.extend(copy.into_iter().chain(join));
        }
        calls.extend([
            Call::EndCapture { stream: "s".into(), graph: "g".into() },
            Call::GraphInstantiate { exec: "x".into(), graph: "g".into() },
            Call::GraphLaunch { exec: "x".into(), stream: "s".into() },
        ]);
        calls
    };
    check(graph(true), false);
    check(graph(false), true);
}

#[test]
fn ordered_reads_are_reported_once_in_linear_time() {
    let mut calls = vec![fill("host")];
    for _ in 0..20_000 {
        calls.push(copy("dev", "host", CopyApi::MemcpyAsync, "s"));
    }
    calls.push(fill("host"));
    let found = races_of(calls);
    assert_eq!(found.len(), 1, "{} races", found.len());
    assert!(found[0].contains("(line 20001)"), "{found:?}");
}
