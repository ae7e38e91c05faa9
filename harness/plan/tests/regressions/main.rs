//! Regression tests: minimal plans that once revealed mistakes of `plan`. The random plans of `oracle` found some of
//! these mistakes. Other tests here detect mutants of the code that no earlier test detected.

mod formulas;
mod mutants;
mod small_plan;
mod types;

use std::collections::BTreeSet;

use plan::{
    Arg, BufferAddress, ByVersion, Call, CaseKernel, CopyApi, Dtype, KernelCode, MatmulProblem,
    Operands, Plan, RandKind, Reference, Step, captured_steps, digest, own_parameters, races,
    reference,
};

use self::small_plan::{
    accepted, add, alloc, at, begin, check, copy, end, fill, mistakes, plan, racy, record, refused,
    set, sync, wait,
};

#[test]
fn rejects_captures_with_unjoined_forks() {
    let fork = |end_of_it: Vec<Call>| {
        let start = [begin("s"), record("e", "s"), wait("t", "e")];
        let mut calls: Vec<Call> = start.into_iter().collect();
        calls.extend(end_of_it);
        calls.push(end("s"));
        calls
    };
    refused(fork(vec![add("dev", "pinned", "t")]), 5, "stream `t` forked off this capture");
    // The forked stream joins the captured stream, and then gets further work.
    let joins = || vec![add("dev", "pinned", "t"), record("f", "t"), wait("s", "f")];
    accepted(fork(joins()));
    let on = joins().into_iter().chain([add("dev", "pinned", "t")]).collect();
    refused(fork(on), 8, "stream `t` forked off this capture");
    // The forked stream has no work.
    accepted(fork(vec![]));
    // The forked stream joins the captured stream through a third stream.
    let around = vec![
        add("dev", "pinned", "t"),
        record("f", "t"),
        wait("b", "f"),
        record("f", "b"),
        wait("s", "f"),
    ];
    accepted(fork(around));
}

#[test]
fn rejects_mixing_captures_and_outside_work() {
    refused(vec![begin("default")], 1, "the null stream cannot be captured");
    refused(vec![begin("s"), begin("s"), end("s")], 2, "`s` is already captured");
    refused(vec![begin("s"), record("e", "s"), wait("default", "e"), end("s")], 3, "null stream");
    let two = |last: Call| vec![begin("s"), begin("t"), record("e", "s"), last, end("t"), end("s")];
    refused(two(wait("t", "e")), 4, "stream `t` and event `e` belong to different captures");
    accepted(two(wait("s", "e")));
    let outside = vec![record("e", "t"), begin("s"), wait("s", "e"), end("s")];
    refused(outside, 3, "`e` was recorded outside of that capture");
    // Waiting for an event that was never recorded has no effect.
    accepted(vec![begin("s"), wait("s", "e"), end("s")]);
    let over =
        |call: Call| vec![begin("s"), record("e", "s"), end("s"), begin("s"), call, end("s")];
    refused(over(wait("t", "e")), 5, "`e` was recorded in a capture that has ended");
    let ask = |call: Call| vec![begin("s"), record("e", "s"), call, end("s")];
    let e = || "e".to_owned();
    for call in [
        Call::EventQuery { event: e() },
        Call::EventSynchronize { event: e() },
        Call::EventElapsed { start: e(), end: "f".to_owned() },
        Call::EventElapsed { start: "f".to_owned(), end: e() },
    ] {
        refused(ask(call), 3, "event `e` was recorded in a capture");
    }
    // An event that is created or recorded again no longer belongs to the capture.
    let anew = Call::EventCreate { event: e(), timing: false };
    accepted(vec![begin("s"), record("e", "s"), end("s"), anew, wait("t", "e")]);
    accepted(vec![begin("s"), record("e", "s"), end("s"), record("e", "t"), wait("s", "e")]);
}

#[test]
fn rejects_calls_that_cannot_be_nodes_during_capture() {
    let stream = || "s".to_owned();
    let launch = Call::GraphLaunch { exec: "x".to_owned(), stream: stream() };
    let callback = Call::HostFunc {
        buffer: "pinned".to_owned(),
        api: plan::HostFuncApi::AddCallback,
        stream: stream(),
    };
    for call in [sync("s"), Call::StreamQuery { stream: stream() }, callback] {
        refused(vec![begin("s"), call, end("s")], 2, "this call is not allowed on stream `s`");
    }
    let made = [
        Call::EmptyGraph { graph: "h".to_owned(), nodes: 1 },
        Call::GraphInstantiate { exec: "x".to_owned(), graph: "h".to_owned() },
    ];
    let calls = made.into_iter().chain([begin("s"), launch, end("s")]).collect();
    refused(calls, 4, "this call is not allowed on stream `s`");
}

#[test]
fn declared_failures_are_not_rejected() {
    let mut plan = plan(vec![begin("s"), sync("s"), end("s")]);
    let names = vec!["hipSuccess".to_owned(), "hipErrorStreamCaptureUnsupported".to_owned()];
    plan.body[1].returns = Some(ByVersion::always(names));
    assert_eq!(mistakes(&plan), []);
}

/// A failed hipStreamEndCapture ends the capture, unless its status means that another thread or stream owns the
/// capture.
#[test]
fn failed_end_of_capture_releases_the_stream() {
    let after = |status: &str| {
        let copies = copy("pinned", "dev", CopyApi::MemcpyAsync, "s");
        let mut plan = plan(vec![begin("s"), end("s"), copies, check("pinned")]);
        plan.body[1].returns = Some(ByVersion::always(vec![status.to_owned()]));
        // A copy that executes at once races with the check. A captured copy does not race with it.
        !races(&plan).is_empty()
    };
    assert!(after("hipErrorStreamCaptureInvalidated"));
    assert!(after("hipErrorStreamCaptureUnjoined"));
    assert!(!after("hipErrorStreamCaptureWrongThread"));
}

#[test]
fn device_allocation_is_never_captured() {
    let names = |calls: Vec<Call>| captured_steps(&plan(calls)).inside;
    assert_eq!(names(vec![begin("s"), alloc("spare", "s"), end("s")]), BTreeSet::new());
    assert_eq!(names(vec![begin("s"), alloc("pool", "s"), end("s")]), [2].into());
    // An allocation during the capture takes effect at once.
    accepted(vec![begin("s"), alloc("spare", "s"), end("s"), set("spare", 64, "t", true)]);
}

#[test]
fn captured_steps_lists_steps_during_and_inside_captures() {
    let node =
        Call::AddNode { graph: "h".to_owned(), node: Box::new(set("dev", 64, "default", true)) };
    let plan = plan(vec![
        fill("pinned"),
        begin("s"),
        set("dev", 64, "s", true),
        copy("other", "dev", CopyApi::MemcpyAsync, "t"),
        end("s"),
        Call::EmptyGraph { graph: "h".to_owned(), nodes: 0 },
        node,
    ]);
    let found = captured_steps(&plan);
    assert_eq!(found.during, [2, 3, 4, 5].into());
    assert_eq!(found.inside, [3, 7].into());
}

#[test]
fn rejects_checks_of_uninitialised_memory() {
    let unknown = "cannot be computed in advance";
    let back = || copy("other", "spare", CopyApi::Memcpy, "default");
    let half = |bytes| set("spare", bytes, "default", false);
    let fresh = || alloc("spare", "default");
    refused(vec![fresh(), half(32), back(), check("other")], 4, unknown);
    accepted(vec![fresh(), half(64), back(), check("other")]);
    // Two memsets of one half each initialise the whole buffer.
    let mut other = half(32);
    if let Call::Set { to, .. } = &mut other {
        to.offset = 32;
    }
    accepted(vec![fresh(), half(32), other, back(), check("other")]);
    // After a kernel that overwrites the whole buffer, the content of the buffer is known. After a kernel that adds to
    // the buffer, its content stays unknown.
    accepted(vec![fresh(), add("spare", "dev", "default"), back(), check("other")]);
    let mut bins = add("spare", "dev", "default");
    if let Call::Launch { kernel, args, .. } = &mut bins {
        "histogram_u32".clone_into(kernel);
        args.pop();
    }
    refused(vec![fresh(), bins, back(), check("other")], 4, unknown);
    // Bytes after the last whole element keep their content.
    let numbers = Call::FillNumbers { buffer: "other".to_owned(), dtype: Dtype::F64, stamp: 1 };
    let mut short = plan(vec![alloc("other", "default"), numbers, check("other")]);
    short.buffers.get_mut("other").expect("it is one").bytes = 20;
    short.setup.clear();
    assert!(mistakes(&short)[0].1.contains(unknown));
}

#[test]
fn rejects_overlapping_row_copies() {
    let rows = |to: BufferAddress, from: BufferAddress, height| {
        vec![Call::Copy2d {
            to,
            to_pitch: 16,
            from,
            from_pitch: 16,
            width: 8,
            height,
            asynchronous: false,
            stream: "default".to_owned(),
        }]
    };
    refused(rows(at("dev", 4), at("dev", 0), 2), 1, "source and target of the copy overlap");
    refused(rows(at("dev", 16), at("dev", 0), 2), 1, "source and target of the copy overlap");
    accepted(rows(at("dev", 8), at("dev", 0), 4));
    accepted(rows(at("dev", 16), at("dev", 0), 1));
    accepted(rows(at("dev", 4), at("pinned", 0), 2));
}

#[test]
fn only_asynchronous_copies_stage_pageable_memory() {
    use CopyApi::{MemcpyAsync, MemcpyWithStream};
    racy(vec![copy("dev", "page", MemcpyAsync, "s"), fill("page")], false);
    // A kernel reads its input when it executes, not when it is launched.
    racy(vec![add("dev", "page", "s"), fill("page")], true);
    racy(vec![add("dev", "page", "s"), sync("s"), fill("page")], false);
    // A synchronous copy reads its source after the earlier work of its stream.
    let written = || copy("page", "dev", MemcpyAsync, "s");
    racy(vec![written(), copy("dev", "page", MemcpyWithStream, "s")], false);
    racy(vec![written(), copy("dev", "page", MemcpyAsync, "s")], true);
}

#[test]
fn zero_length_access_never_races() {
    let mut none = copy("dev", "pinned", CopyApi::MemcpyAsync, "s");
    if let Call::Copy { bytes, .. } = &mut none {
        *bytes = 0;
    }
    racy(vec![none, fill("pinned")], false);
}

#[test]
fn recreated_objects_lose_their_streams_and_records() {
    let generator = || "g".to_owned();
    let create =
        || Call::RandCreate { generator: generator(), kind: RandKind::Philox, host: false };
    let generate = || Call::RandGenerate { generator: generator(), to: at("dev", 0), count: 16 };
    let on = Call::RandStream { generator: generator(), stream: "s".to_owned() };
    let again = || set("dev", 64, "s", true);
    racy(vec![create(), on.clone(), generate(), again()], false);
    racy(vec![create(), on, create(), generate(), again()], true);
    let event = Call::EventCreate { event: "e".to_owned(), timing: false };
    let first = || [set("dev", 64, "s", true), record("e", "s")];
    let then = || [wait("t", "e"), set("dev", 64, "t", true)];
    racy(first().into_iter().chain(then()).collect(), false);
    racy(first().into_iter().chain([event]).chain(then()).collect(), true);
}

#[test]
fn graph_nodes_read_memory_at_launch() {
    let exec = || "x".to_owned();
    let launch = || Call::GraphLaunch { exec: exec(), stream: "s".to_owned() };
    let plan = plan(vec![
        begin("s"),
        add("dev", "dev", "s"),
        copy("other", "dev", CopyApi::MemcpyAsync, "s"),
        end("s"),
        Call::GraphInstantiate { exec: exec(), graph: "g".to_owned() },
        launch(),
        sync("s"),
        check("other"),
        launch(),
        sync("s"),
        check("other"),
    ]);
    assert_eq!(races(&plan), []);
    let got = reference(&plan).expect("it has a result").expected;
    let got: Vec<_> = got.into_iter().map(|e| (e.step, e.digest)).collect();
    let of = |word: u32| digest(&word.to_le_bytes().repeat(16));
    assert_eq!(got, [(8, of(0x0707_0708)), (11, of(0x0707_0709))]);
}

fn mistake_of(call: Call) -> String {
    let mistakes = reference(&plan(vec![call])).err().unwrap_or_default();
    mistakes.into_iter().map(|mistake| mistake.message).collect()
}

#[test]
fn rejects_launches_whose_inputs_and_outputs_overlap() {
    let launch = |kernel: &str, out: u64, input: u64, n: u32, groups: u32| {
        let mut args = vec![Arg::Address(at("dev", out)), Arg::Address(at("dev", input))];
        let numbers = plan::kernel(kernel).expect("it is one").parameters.len() - 2;
        args.extend([Arg::u32(n), Arg::u32(1)].into_iter().take(numbers));
        let (kernel, stream) = (kernel.to_owned(), "default".to_owned());
        mistake_of(Call::Launch {
            kernel,
            grid: [groups, 1, 1],
            block: [64, 1, 1],
            args,
            shared: 0,
            cooperative: false,
            stream,
        })
    };
    for kernel in ["add_u32", "copy_u32", "to_f32", "shuffle_u32"] {
        assert_eq!(launch(kernel, 0, 0, 16, 1), "", "{kernel}: each its own element");
        assert_eq!(launch(kernel, 0, 32, 8, 1), "", "{kernel}: next to each other");
        for (out, input) in [(0, 28), (28, 0), (0, 4), (4, 0)] {
            let message = launch(kernel, out, input, 8, 1);
            assert!(
                message.contains("make input and output identical or disjoint"),
                "{kernel} {out} {input}: {message}"
            );
        }
    }
    assert!(launch("histogram_u32", 0, 0, 16, 1).contains("depends on their order"));
    assert!(launch("histogram_u32", 0, 60, 1, 1).contains("bytes of buffer `dev`"));
    assert_eq!(launch("histogram_u32", 0, 0, 0, 1), "", "nothing is read");
    assert_eq!(launch("sum_u32", 8, 0, 16, 1), "", "a barrier is between");
    assert!(launch("sum_u32", 8, 0, 16, 2).contains("launch one workgroup"));
    assert_eq!(launch("sum_u32", 60, 0, 15, 2), "", "behind what is read");
}

#[test]
fn rejects_misaligned_elements() {
    let halves = |offset, count| {
        let stream = "default".to_owned();
        mistake_of(Call::SetHalves { to: at("dev", offset), value: 0xabcd, count, stream })
    };
    assert_eq!(halves(2, 31), "");
    assert!(halves(1, 4).contains("elements of 2 bytes must lie at multiples"), "{}", halves(1, 4));
    assert!(halves(0, 33).contains("lie outside buffer `dev`"));
    // The expected content is compared byte by byte.
    let stream = || "default".to_owned();
    let set = Call::SetHalves { to: at("dev", 2), value: 0xabcd, count: 1, stream: stream() };
    let plan = plan(vec![set, copy("other", "dev", CopyApi::Memcpy, "default"), check("other")]);
    let got = reference(&plan).expect("it has a result").expected;
    let mut bytes = [7; 64];
    (bytes[2], bytes[3]) = (0xcd, 0xab);
    assert_eq!(got.last().expect("a check").digest, digest(&bytes));
}

#[test]
fn success_is_recognised_for_every_library() {
    let accepted = |names: &[&str]| {
        plan::accepts_success(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    };
    assert!(accepted(&["hipSuccess"]));
    assert!(accepted(&["HIPBLAS_STATUS_SUCCESS"]));
    assert!(accepted(&["any"]));
    assert!(accepted(&["hipErrorInvalidValue", "hipSuccess"]));
    assert!(!accepted(&["hipErrorInvalidValue"]));
    assert!(!accepted(&["HIPBLAS_STATUS_NOT_SUPPORTED"]));
    assert!(!accepted(&[]));
}

/// Returns a plan with one launch per entry of `of`, each of a kernel that the case defines. An entry contains an
/// optional formula, the offset of the output in `dev`, and the argument `n`. The input is `other`. Before the
/// launches, each byte of `dev` is 7. After the launches, `dev` is copied to `pinned` and checked.
fn launches(of: &[(Option<&str>, u64, u32)]) -> Plan {
    let source =
        "extern \"C\" __global__ void own(unsigned* out, const unsigned* in, unsigned n) {}";
    let mut kernels = Vec::new();
    let mut calls = Vec::new();
    for (computes, offset, n) in of {
        let kernel = format!("own{}", kernels.len());
        calls.push(Call::Launch {
            kernel: kernel.clone(),
            grid: [1, 1, 1],
            block: [16, 1, 1],
            args: vec![Arg::Address(at("dev", *offset)), Arg::Input(at("other", 0)), Arg::u32(*n)],
            shared: 0,
            cooperative: false,
            stream: "default".to_owned(),
        });
        let own = CaseKernel {
            place: "line 1".to_owned(),
            parameters: own_parameters(source, "own"),
            computes: computes.iter().map(|text| (*text).to_owned()).collect(),
            ..CaseKernel::default()
        };
        kernels.push((kernel, own));
    }
    calls.extend([copy("pinned", "dev", CopyApi::Memcpy, "default"), check("pinned")]);
    let mut plan = plan(calls);
    plan.own_kernels.extend(kernels);
    plan
}

#[test]
fn formulas_of_own_kernels_determine_their_outputs() {
    let filled = plan(vec![check("other")]);
    let filled = Reference::content(&filled, 1, 0).expect("a check").want;
    let input: Vec<u32> =
        filled.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    assert_eq!(input.len(), 16);
    let checked = |of: &[(Option<&str>, u64, u32)], words: [u32; 16]| {
        let plan = launches(of);
        assert_eq!(mistakes(&plan), [], "{of:?}");
        let want: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(reference(&plan).expect("sound").expected[0].digest, digest(&want), "{of:?}");
    };
    let sevens = 0x0707_0707;
    let sum = Some("out[i] = in[i] + n for i < n");
    checked(&[(sum, 0, 16)], std::array::from_fn(|i| input[i].wrapping_add(16)));
    let some = |i: usize| if i < 5 { input[i].wrapping_add(5) } else { sevens };
    checked(&[(sum, 0, 5)], std::array::from_fn(some));
    let behind = |i: usize| if i < 2 { sevens } else { input[i - 2].wrapping_add(14) };
    checked(&[(sum, 8, 14)], std::array::from_fn(behind));
    // If a formula overwrites elements whose content was unknown, their content is known afterwards.
    checked(&[(None, 0, 1), (sum, 0, 16)], std::array::from_fn(|i| input[i].wrapping_add(16)));
    // Only the input elements that the formula reads must be known.
    let more = Some("out[i] = out[i] + in[i] for i < n");
    let halves = |i: usize| match i {
        0..8 => input[i].wrapping_mul(2).wrapping_add(8),
        _ => input[i - 8].wrapping_add(8),
    };
    checked(&[(None, 0, 1), (sum, 0, 8), (more, 0, 8), (sum, 32, 8)], std::array::from_fn(halves));
    let twice = Some("out[i] = out[i] + in[15 - i] for i < n");
    checked(
        &[(sum, 0, 16), (twice, 0, 16)],
        std::array::from_fn(|i| input[i].wrapping_add(16).wrapping_add(input[15 - i])),
    );
}

#[test]
fn files_give_the_bytes_that_the_model_does_not_know() {
    let mut plan = launches(&[(None, 0, 1)]);
    let size = plan.buffers["pinned"].bytes as usize;
    let [bytes, other]: [Vec<u8>; 2] = [1, 2].map(|byte| vec![byte; size]);
    plan.files.insert("right.bin".to_owned(), bytes.clone().into());
    plan.files.insert("other.bin".to_owned(), other.clone().into());
    plan.files.insert("short.bin".to_owned(), vec![1].into());
    let with = |file: &str, before: &[Call]| {
        let mut plan = plan.clone();
        let at = plan.body.len() - 1;
        if let Call::Check { file: of, .. } = &mut plan.body[at].call {
            *of = Some(file.to_owned());
        }
        for (n, call) in before.iter().enumerate() {
            let step = Step { id: 90 + n as u32, call: call.clone(), ..plan.body[at].clone() };
            plan.body.insert(at + n, step);
        }
        plan
    };
    let digest_of = |plan: &Plan| reference(plan).expect("sound").expected[0].digest.clone();
    let found = mistakes(&plan);
    assert!(
        found.iter().any(|(_, why)| why.contains("cannot be computed in advance")),
        "{found:?}"
    );
    assert_eq!(digest_of(&with("right.bin", &[])), digest(&bytes));
    for file in ["short.bin", "missing.bin"] {
        let found = mistakes(&with(file, &[]));
        assert!(found.iter().any(|(_, why)| why.contains(file)), "{found:?}");
    }
    // A kernel of a code object may write through all its pointers.
    let checked = plan.clone();
    let at = checked.body.len() - 1;
    let mut filled = checked.clone();
    let before = filled.body[at].clone();
    filled.body.insert(
        at,
        Step { id: 80, call: copy("pinned", "other", CopyApi::Memcpy, "default"), ..before },
    );
    assert_eq!(mistakes(&filled), []);
    for own in filled.own_kernels.values_mut() {
        let kernel = "k".to_owned();
        own.code = Some(KernelCode { file: "k.co".to_owned(), kernel });
    }
    let found = mistakes(&filled);
    assert!(
        found.iter().any(|(_, why)| why.contains("cannot be computed in advance")),
        "{found:?}"
    );
    // If the model can compute the content, the check compares with that content and ignores the file.
    let fill = Call::FillFile { buffer: "pinned".to_owned(), file: "other.bin".to_owned() };
    assert_eq!(digest_of(&with("right.bin", &[fill])), digest(&other));
}

#[test]
fn rejects_formulas_without_a_unique_result() {
    let refused = |of: &[(Option<&str>, u64, u32)], why: &str| {
        let found = mistakes(&launches(of));
        assert!(matches!(&found[..], [(_, text), ..] if text.contains(why)), "{of:?}: {found:?}");
    };
    let sum = Some("out[i] = in[i] + n for i < n");
    refused(&[(sum, 8, 15)], "for i = 14: an element is outside of its buffer");
    refused(&[(Some("out[i] = in[i + 1] for i < n"), 0, 16)], "for i = 15: an element is outside");
    refused(
        &[(Some("out[i / 2] = in[i] for i < n"), 0, 3)],
        "for i = 1: the element was already written",
    );
    refused(&[(Some("out[i] = nowhere for i < n"), 0, 3)], "`out[i] = nowhere for i < n`");
    refused(&[(None, 0, 16)], "cannot be computed in advance");
    // The formula writes one half of the buffer, and the content of the other half stays unknown.
    refused(&[(None, 0, 16), (sum, 0, 8)], "cannot be computed in advance");
    refused(
        &[(None, 0, 16), (Some("out[i] = out[i] for i < n"), 0, 16)],
        "cannot be computed in advance",
    );
}

#[test]
fn product_size_decides_only_for_small_numbers() {
    let numbers = || Call::FillNumbers { buffer: "other".to_owned(), dtype: Dtype::F32, stamp: 1 };
    let multiplied = |filled: Vec<Call>| {
        let name = |name: &str| name.to_owned();
        let problem = MatmulProblem {
            dtype: Dtype::F32,
            m: 4,
            n: 4,
            k: 4,
            transpose_a: false,
            transpose_b: false,
            bias: false,
        };
        let operands = Operands { a: name("dev"), b: name("dev"), d: name("spare"), bias: None };
        let mut calls = vec![alloc("spare", "default"), Call::RocblasCreate { handle: name("h") }];
        calls.extend(filled);
        calls.extend([
            Call::RocblasGemm { handle: name("h"), problem, operands, stream: name("default") },
            copy("pinned", "spare", CopyApi::Memcpy, "default"),
            check("pinned"),
        ]);
        // `mistakes` also checks that the analysis by sizes and the analysis by bytes agree.
        mistakes(&plan(calls)).is_empty()
    };
    let over = |buffer: &str| copy("dev", buffer, CopyApi::Memcpy, "default");
    assert!(multiplied(vec![numbers(), over("other")]));
    assert!(!multiplied(vec![over("other")]), "a pattern");
    assert!(!multiplied(vec![numbers(), fill("other"), over("other")]), "a pattern over them");
    assert!(!multiplied(vec![numbers(), over("other"), over("page")]), "copied over them");
    let part_of = |from: &str, to: u64| Call::Copy {
        to: at("dev", to),
        from: at(from, 0),
        bytes: 32,
        api: CopyApi::Memcpy,
        stream: "default".to_owned(),
    };
    assert!(!multiplied(vec![numbers(), over("other"), part_of("page", 0)]), "its first elements");
    assert!(!multiplied(vec![numbers(), over("other"), part_of("page", 16)]), "some within");
    assert!(multiplied(vec![numbers(), part_of("page", 16), over("other")]), "before");
    assert!(
        !multiplied(vec![numbers(), over("page"), part_of("other", 0)]),
        "numbers in half of it"
    );
    assert!(multiplied(vec![numbers(), over("other"), part_of("other", 32)]), "the same again");
}
