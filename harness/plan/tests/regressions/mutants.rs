//! Tests that detect mutants of `plan` which no earlier test detected.

use plan::{
    Arg, Box3d, Buffer, BufferAddress, Call, CopyApi, Dtype, GUARD_BYTE, HipArg, MatmulProblem,
    Memory, Operands, RandKind, Scalar, ScalarType, digest, reference,
};

use super::small_plan::{
    accepted, add, alloc, at, begin, check, copy, end, fill, mistakes, plan, racy, record, refused,
    set, sync, wait,
};

fn graph(name: &str) -> String {
    name.to_owned()
}

/// Returns calls that capture `calls` on stream `s`, and add the captured graph as a child to a graph that is built
/// node by node.
fn with_child(calls: Vec<Call>) -> Vec<Call> {
    let mut all = vec![begin("s")];
    all.extend(calls);
    all.extend([
        end("s"),
        Call::EmptyGraph { graph: graph("h"), nodes: 1 },
        Call::GraphAddChild { graph: graph("h"), child: graph("g") },
    ]);
    all
}

#[test]
fn rejects_child_graphs_with_branches_or_events() {
    accepted(with_child(vec![set("dev", 64, "s", true)]));
    let fork = vec![
        record("e", "s"),
        wait("t", "e"),
        set("dev", 64, "t", true),
        record("f", "t"),
        wait("s", "f"),
    ];
    refused(with_child(fork), 9, "graph `g` has branches");
    // All nodes are on one stream, with an event between them.
    let event = vec![set("dev", 64, "s", true), record("e", "s"), wait("s", "e")];
    refused(with_child(event), 7, "graph `g` has branches");
    // The captured graph contains only event records and waits, on two streams.
    let apart = vec![record("e", "s"), wait("t", "e"), record("f", "t"), wait("s", "f")];
    refused(with_child(apart), 8, "graph `g` has branches");
}

#[test]
fn rejects_child_nodes_in_captured_graphs() {
    let calls = vec![
        begin("s"),
        set("dev", 64, "s", true),
        end("s"),
        begin("t"),
        Call::EndCapture { stream: "t".to_owned(), graph: graph("h") },
        Call::GraphAddChild { graph: graph("h"), child: graph("g") },
    ];
    refused(
        calls,
        6,
        "graph `h` comes from a capture; nodes can be added only to a graph that `empty_graph` makes",
    );
}

#[test]
fn error_points_at_the_failing_graph_node() {
    let launch = || Call::GraphLaunch { exec: graph("x"), stream: "s".to_owned() };
    let calls = vec![
        begin("s"),
        set("dev", 64, "s", true),
        end("s"),
        Call::GraphInstantiate { exec: graph("x"), graph: graph("g") },
        Call::Free { buffer: "dev".to_owned(), stream: "default".to_owned() },
        launch(),
    ];
    refused(calls, 2, "`dev`");
}

#[test]
fn guards_are_checked_on_both_sides() {
    let mut guarded = plan(vec![Call::Guards { buffer: "dev".to_owned() }]);
    let buffer = guarded.buffers.get_mut("dev").expect("it is one");
    buffer.guarded = true;
    let bytes = 2 * buffer.guard() as usize;
    assert!(bytes > 4, "{bytes}");
    let expected = reference(&guarded).expect("it has a result").expected;
    assert_eq!(expected[0].digest, digest(&vec![GUARD_BYTE; bytes]));
}

#[test]
fn fill_numbers_initialises_whole_elements_only() {
    let of = |bytes: u64, checked: u64| {
        let numbers =
            Call::FillNumbers { buffer: "pinned".to_owned(), dtype: Dtype::F32, stamp: 1 };
        let (to, from) = (at("other", 0), at("pinned", 0));
        let (api, stream) = (CopyApi::Memcpy, "default".to_owned());
        let copy = Call::Copy { to, from, bytes: checked, api, stream };
        let mut plan = plan(vec![alloc("pinned", "default"), numbers, copy, check("other")]);
        plan.buffers.get_mut("pinned").expect("it is one").bytes = bytes;
        plan.setup.retain(|step| {
            let of = [alloc("pinned", "default"), fill("pinned")];
            !of.contains(&step.call)
        });
        mistakes(&plan)
    };
    assert_eq!(of(64, 64), []);
    assert_eq!(of(62, 60), []);
    let found = of(62, 62);
    assert!(matches!(&found[..], [(4, text)] if text.contains("cannot be computed")), "{found:?}");
}

#[test]
fn rejects_memsets_with_misaligned_ends() {
    let words = |offset, bytes| {
        let (to, stream) = (at("dev", offset), "default".to_owned());
        Call::Set { to, value: 7, words: true, bytes, asynchronous: false, stream }
    };
    accepted(vec![words(4, 8)]);
    for (offset, bytes) in [(2, 8), (4, 6), (2, 6)] {
        refused(vec![words(offset, bytes)], 1, "elements of 4 bytes must lie at multiples");
    }
    // A range beyond the end of the buffer has a message of its own.
    refused(vec![words(4, u64::MAX)], 1, "outside buffer `dev`");
}

/// `analyse` knows only the sizes of most buffers. It can accept a product only if the factors and the bias are small
/// numbers.
#[test]
fn product_size_does_not_decide_for_other_content() {
    let multiplied = |before: Vec<Call>| {
        let name = |name: &str| name.to_owned();
        let (dtype, stream) = (Dtype::F32, name("default"));
        let problem = MatmulProblem {
            dtype,
            m: 4,
            n: 4,
            k: 4,
            transpose_a: false,
            transpose_b: false,
            bias: true,
        };
        let numbers = |buffer: &str| Call::FillNumbers { buffer: name(buffer), dtype, stamp: 1 };
        let bias = Some(name("other"));
        let operands = Operands { a: name("page"), b: name("pinned"), d: name("dev"), bias };
        let mut calls = vec![numbers("page"), numbers("pinned"), numbers("other")];
        calls.extend(before);
        let handle = name("h");
        calls.push(Call::BlasltCreate { handle: handle.clone() });
        calls.push(Call::BlasltMatmul { handle, problem, operands, stream });
        mistakes(&plan(calls)).into_iter().map(|(_, why)| why).collect::<Vec<_>>()
    };
    let copy = |to: BufferAddress, bytes: u64| {
        let (api, stream) = (CopyApi::Memcpy, "default".to_owned());
        Call::Copy { to, from: at("other", 0), bytes, api, stream }
    };
    assert_eq!(multiplied(vec![]), [""; 0]);
    let both = |offset, bytes| ["page", "pinned"].map(|to| copy(at(to, offset), bytes)).to_vec();
    assert_eq!(multiplied(both(4, 8)), [""; 0]);
    for before in [vec![fill("other")], vec![fill("pinned")], both(2, 60), both(1, 63)] {
        let found = multiplied(before.clone());
        let no_result = |why: &String| why.contains("is not exact in its type");
        assert!(matches!(&found[..], [why] if no_result(why)), "{before:?}: {found:?}");
    }
}

#[test]
fn guards_enlarge_the_allocation() {
    let buffer = |guarded| Buffer { memory: Memory::Device, bytes: 100, guarded };
    assert_eq!((buffer(false).guard(), buffer(false).allocation()), (0, 100));
    assert_eq!((buffer(true).guard(), buffer(true).allocation()), (256, 612));
}

#[test]
fn hip_functions_write_unknown_bytes_and_read_existing_buffers() {
    let number = |bits| HipArg::Number(Scalar { ty: ScalarType::U64, bits });
    let call = |function: &str, args| vec![Call::Hip { function: function.to_owned(), args }];
    let place = |buffer: &str| HipArg::Place(at(buffer, 0));
    let (null, bytes, first) = (|| HipArg::Null, || number(64), || number(0));
    let with = |mut calls: Vec<Call>, checked: &str| {
        calls.push(check(checked));
        calls
    };
    // The reference model does not know the content of an array.
    let written = |to: &str| call("hipMemcpyAtoH", vec![place(to), null(), first(), bytes()]);
    refused(with(written("pinned"), "pinned"), 2, "cannot be computed in advance");
    accepted(with(written("pinned"), "other"));
    let read = |from: &str| call("hipMemcpyHtoA", vec![null(), first(), place(from), bytes()]);
    accepted(with(read("pinned"), "pinned"));
    refused(read("spare"), 1, "buffer `spare` is used before a step allocates it (`alloc`)");
    // The table of functions treats a function that reads and writes ranges of equal size as a copy.
    let stream = HipArg::Stream("default".to_owned());
    let copied = vec![place("pinned"), place("other"), bytes(), stream];
    let copied = plan(with(call("hipMemcpyHtoDAsync", copied), "pinned"));
    assert_eq!(mistakes(&copied), []);
    let other = plan(vec![check("other")]);
    let last = |plan| reference(plan).expect("it has a result").expected.pop().map(|it| it.digest);
    assert_eq!(last(&copied), last(&other));
}

#[test]
fn kernel_results_of_unknown_inputs_are_unknown() {
    let random = || Call::RandGenerate { generator: "r".to_owned(), to: at("dev", 0), count: 16 };
    let seeded = || {
        let kind = RandKind::Philox;
        vec![
            alloc("spare", "default"),
            Call::RandCreate { generator: "r".to_owned(), kind, host: false },
        ]
    };
    let looked_at = |from| vec![copy("pinned", from, CopyApi::Memcpy, "default"), check("pinned")];
    let sum = || add("spare", "dev", "default");
    accepted([seeded(), vec![sum()], looked_at("spare")].concat());
    let unknown = [seeded(), vec![random(), sum()], looked_at("spare")].concat();
    refused(unknown, 6, "cannot be computed in advance");
    // The arguments of the kernel are wrong: an address in place of a number, or one number too many.
    for change in [
        |args: &mut Vec<Arg>| args[2] = args[1].clone(),
        |args: &mut Vec<Arg>| args.push(Arg::u32(1)),
    ] {
        let mut launch = add("dev", "other", "default");
        let Call::Launch { args, .. } = &mut launch else { panic!() };
        change(args);
        refused(vec![launch], 1, "kernel `add_u32` takes");
    }
}

#[test]
fn bias_has_one_element_per_row() {
    let multiplied = |rows: u64, bias: u64| {
        let name = |name: &str| name.to_owned();
        let (dtype, stream) = (Dtype::I8, name("default"));
        let problem = MatmulProblem {
            dtype,
            m: rows,
            n: 1,
            k: 1,
            transpose_a: false,
            transpose_b: false,
            bias: true,
        };
        let bias_of = Some(name("pinned"));
        let operands = Operands { a: name("dev"), b: name("dev"), d: name("spare"), bias: bias_of };
        let mut plan = plan(vec![
            alloc("spare", "default"),
            Call::BlasltCreate { handle: name("h") },
            Call::BlasltMatmul { handle: name("h"), problem, operands, stream },
        ]);
        plan.buffers.get_mut("spare").expect("it is one").bytes = 4 * rows;
        plan.buffers.get_mut("pinned").expect("it is one").bytes = bias;
        mistakes(&plan)
    };
    assert_eq!(multiplied(16, 64), []);
    let found = multiplied(17, 64);
    assert!(
        matches!(&found[..], [(3, text)] if text.contains("outside buffer `pinned`")),
        "{found:?}"
    );
}

/// `analyse` does not compute contents. It cannot accept sums of many products, because some of the sums are rounded.
#[test]
fn size_does_not_prove_long_sums_exact() {
    let multiplied = |k: u64| {
        let name = |name: &str| name.to_owned();
        let (dtype, stream) = (Dtype::Bf16, name("default"));
        let problem = MatmulProblem {
            dtype,
            m: 1,
            n: 1,
            k,
            transpose_a: false,
            transpose_b: false,
            bias: false,
        };
        let operands = Operands { a: name("dev"), b: name("dev"), d: name("spare"), bias: None };
        let over = Call::Copy {
            to: at("dev", 0),
            from: at("other", 0),
            bytes: 2 * k,
            api: CopyApi::Memcpy,
            stream: name("default"),
        };
        let mut plan = plan(vec![
            alloc("spare", "default"),
            Call::RocblasCreate { handle: name("h") },
            Call::FillNumbers { buffer: name("other"), dtype, stamp: 1 },
            over,
            Call::RocblasGemm { handle: name("h"), problem, operands, stream },
        ]);
        for buffer in ["other", "dev"] {
            plan.buffers.get_mut(buffer).expect("it is one").bytes = 2 * k;
        }
        // `mistakes` also checks that the analysis by sizes and the analysis by bytes agree.
        mistakes(&plan)
    };
    assert_eq!(multiplied(32), []);
    // bf16 represents every whole number only up to 256. A sum of this many squares can exceed 256.
    let refused: Vec<_> = (100..250).filter_map(|k| multiplied(k).pop()).collect();
    assert!(!refused.is_empty() && refused.iter().all(|(line, _)| *line == 5), "{refused:?}");
}

#[test]
fn rejects_zero_row_copies_of_freed_buffers() {
    let free = || Call::Free { buffer: "dev".to_owned(), stream: "default".to_owned() };
    let rows = |width, height| Call::Copy2d {
        to: at("pinned", 0),
        to_pitch: 16,
        from: at("dev", 0),
        from_pitch: 16,
        width,
        height,
        asynchronous: false,
        stream: "default".to_owned(),
    };
    let of = |buffer: &str| Box3d { buffer: buffer.to_owned(), pitch: 4, rows: 2, at: [0; 3] };
    let boxes = |width| Call::Copy3d {
        to: of("dev"),
        from: of("pinned"),
        width,
        height: 1,
        depth: 1,
        asynchronous: false,
        stream: "default".to_owned(),
    };
    let set = |width| Call::SetRows {
        to: of("dev"),
        value: 1,
        width,
        height: 1,
        depth: Some(1),
        asynchronous: false,
        stream: "default".to_owned(),
    };
    for call in [rows(0, 1), rows(1, 0), rows(1, 1), boxes(0), boxes(1), set(0), set(1)] {
        accepted(vec![call.clone()]);
        refused(vec![free(), call], 2, "buffer `dev` is used after it was freed");
    }
}

fn set_part(first: u64, bytes: u64, stream: &str) -> Call {
    let (to, stream) = (at("dev", first), stream.to_owned());
    Call::Set { to, value: 1, words: false, bytes, asynchronous: true, stream }
}

/// A later access replaces an earlier one in the analysis only if its range covers the earlier range. A read never
/// replaces a write.
#[test]
fn accesses_are_kept_until_fully_covered() {
    for (later, apart) in [(0, 32), (32, 0)] {
        let first = || vec![set_part(0, 64, "s"), set_part(later, 32, "s")];
        racy([first(), vec![set_part(apart, 32, "t")]].concat(), true);
        racy([first(), vec![record("e", "s"), wait("t", "e")]].concat(), false);
    }
    let within = vec![set_part(0, 64, "s"), set_part(16, 32, "s")];
    for end in [0, 56] {
        racy([within.clone(), vec![set_part(end, 8, "t")]].concat(), true);
    }
    let read = |to: &str, stream: &str| copy(to, "dev", CopyApi::MemcpyAsync, stream);
    racy(vec![set_part(0, 64, "s"), read("other", "s"), read("pinned", "t")], true);
    racy(vec![read("other", "s"), read("pinned", "t")], false);
    // The memset on `s` is ordered after the first read of `dev`. The read on `t` is not ordered after the memset.
    racy(vec![read("other", "s"), set_part(0, 64, "s"), read("pinned", "t")], true);
}

#[test]
fn rejects_overlapping_copies_within_a_buffer() {
    let within = |to, from| Call::Copy {
        to: at("dev", to),
        from: at("dev", from),
        bytes: 16,
        api: CopyApi::Memcpy,
        stream: "default".to_owned(),
    };
    for (to, from) in [(0, 16), (16, 0)] {
        accepted(vec![within(to, from)]);
    }
    for (to, from) in [(0, 15), (15, 0), (3, 3)] {
        refused(vec![within(to, from)], 1, "source and target of the copy overlap");
    }
}

/// The access that copying rows makes extends to the last byte of the last row. A box may fill its buffer completely.
#[test]
fn row_accesses_extend_to_the_last_byte() {
    let rows = Call::Copy2d {
        to: at("dev", 0),
        to_pitch: 16,
        from: at("pinned", 0),
        from_pitch: 16,
        width: 4,
        height: 2,
        asynchronous: true,
        stream: "s".to_owned(),
    };
    for (first, touched) in [(19, true), (20, false)] {
        racy(vec![rows.clone(), set_part(first, 1, "t")], touched);
    }
    let whole = |buffer: &str| Box3d { buffer: buffer.to_owned(), pitch: 4, rows: 2, at: [0; 3] };
    let boxes = |depth| Call::Copy3d {
        to: whole("dev"),
        from: whole("pinned"),
        width: 4,
        height: 2,
        depth,
        asynchronous: false,
        stream: "default".to_owned(),
    };
    accepted(vec![boxes(8)]);
    refused(vec![boxes(9)], 1, "lie outside buffer `pinned`");
}

#[test]
fn box_accesses_extend_to_the_last_byte() {
    let of = |buffer: &str, at| Box3d { buffer: buffer.to_owned(), pitch: 4, rows: 2, at };
    let boxed = |stream: &str| Call::Copy3d {
        to: of("dev", [1, 1, 1]),
        from: of("other", [0, 0, 0]),
        width: 2,
        height: 1,
        depth: 4,
        asynchronous: true,
        stream: stream.to_owned(),
    };
    // The box covers bytes 13 to 38.
    let byte = |offset| Call::Set {
        to: at("dev", offset),
        value: 1,
        words: false,
        bytes: 1,
        asynchronous: true,
        stream: "t".to_owned(),
    };
    for (offset, touched) in [(12, false), (13, true), (38, true), (39, false)] {
        let together = vec![boxed("s"), byte(offset)];
        racy(together, touched);
        let ordered = vec![boxed("s"), sync("s"), byte(offset), sync("t")];
        racy(ordered, false);
    }
}

#[test]
fn events_order_only_earlier_work() {
    let first = || set("dev", 64, "s", true);
    let then = || [wait("t", "e"), set("dev", 64, "t", true)];
    racy([first(), record("e", "s")].into_iter().chain(then()).collect(), false);
    racy([record("e", "s"), first()].into_iter().chain(then()).collect(), true);
    racy([first(), record("e", "s"), first()].into_iter().chain(then()).collect(), true);
}

#[test]
fn rejects_replay_with_reallocated_buffers() {
    let stream = || "default".to_owned();
    let captured = |between: Vec<Call>| {
        let mut calls = vec![
            begin("s"),
            set("dev", 64, "s", true),
            end("s"),
            Call::GraphInstantiate { exec: graph("x"), graph: graph("g") },
        ];
        calls.extend(between);
        calls.push(Call::GraphLaunch { exec: graph("x"), stream: "s".to_owned() });
        calls
    };
    accepted(captured(vec![]));
    accepted(captured(vec![alloc("spare", "default")]));
    let free = Call::Free { buffer: "dev".to_owned(), stream: stream() };
    refused(captured(vec![free, alloc("dev", "default")]), 2, "`dev`");
}

#[test]
fn parameter_types_select_result_types() {
    for (ty, of) in [
        ("unsigned char", Some(ScalarType::U8)),
        ("const unsigned short", Some(ScalarType::U16)),
        ("uint32_t", Some(ScalarType::U32)),
        ("size_t", Some(ScalarType::U64)),
        ("int", Some(ScalarType::I32)),
        ("unsigned char*", None),
        ("hipStream_t", None),
    ] {
        assert_eq!(plan::scalar(ty), of, "{ty}");
    }
    let first = |name: &str| plan::hip_function(name).expect("it is in the table").first_given();
    assert_eq!(first("hipMalloc"), Some(0));
    assert_eq!(first("hipStreamGetDevice"), Some(1));
    assert_eq!(first("hipInit"), None);
}

#[test]
fn struct_members_are_aligned() {
    let number = |ty, text| HipArg::Number(Scalar::parse(ty, text).expect("a number"));
    let inner = HipArg::Struct(vec![number(ScalarType::U8, "1"), number(ScalarType::U16, "2")]);
    assert_eq!(inner.alignment(), 2);
    let whole =
        HipArg::Struct(vec![number(ScalarType::U8, "3"), inner, number(ScalarType::U64, "4")]);
    let bytes = [3, 0, 1, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!((whole.alignment(), whole.to_bytes(&|_| 0)), (8, bytes.to_vec()));
}

#[test]
fn delays_go_to_the_stream_of_the_work() {
    let (set, copy) =
        (|stream| set("dev", 64, stream, true), copy("pinned", "dev", CopyApi::MemcpyAsync, "s"));
    assert_eq!(plan::delayed_stream(&set("s")), Some("s"));
    assert_eq!(plan::delayed_stream(&set("default")), Some("default"));
    assert_eq!(plan::delayed_stream(&copy), Some("s"));
    assert_eq!(plan::delayed_stream(&Call::DeviceSynchronize), None);
    assert_eq!(plan::delayed_stream(&record("e", "s")), None);
}

#[test]
fn phases_have_names() {
    use plan::Phase::{Body, Init, Load, Setup, Start, Teardown, Verify};
    let names: Vec<_> =
        [Start, Load, Init, Setup, Body, Verify, Teardown].map(|p| p.to_string()).into();
    assert_eq!(names, ["start", "load", "init", "setup", "body", "verify", "teardown"]);
}

#[test]
fn asynchronous_calls_can_be_made_synchronous() {
    let copy = |api| copy("pinned", "dev", api, "s");
    for (mut call, goes_on, is_plain) in [
        (set("dev", 64, "s", true), true, false),
        (set("dev", 64, "s", false), false, true),
        (copy(CopyApi::MemcpyAsync), true, false),
        (copy(CopyApi::Memcpy), false, true),
        (copy(CopyApi::MemcpyWithStream), false, false),
    ] {
        let field = call.asynchronous_mut().expect("it has such a field");
        assert_eq!((field.is_asynchronous(), field.is_plain()), (goes_on, is_plain));
        field.make_plain();
        assert_eq!((field.is_asynchronous(), field.is_plain()), (false, true));
    }
    assert!(Call::DeviceSynchronize.asynchronous_mut().is_none());
}

#[test]
fn rejects_launches_of_invalid_size() {
    let launch = |grids: [u32; 3], blocks: [u32; 3]| {
        let mut call = add("dev", "pinned", "s");
        let Call::Launch { grid, block, .. } = &mut call else { unreachable!("it is a launch") };
        (*grid, *block) = (grids, blocks);
        vec![call]
    };
    accepted(launch([1, 1, 1], [1024, 1, 1]));
    accepted(launch([1, 2, 3], [8, 8, 16]));
    for (grid, block, why) in [
        ([1, 1, 1], [1025, 1, 1], "more than 1024 threads"),
        ([1, 1, 1], [64, 16, 2], "more than 1024 threads"),
        ([0, 1, 1], [64, 1, 1], "without threads"),
        ([1, 1, 1], [64, 0, 1], "without threads"),
        ([1 << 31, 1, 1], [2, 1, 1], "2^32 threads in a dimension"),
    ] {
        refused(launch(grid, block), 1, why);
    }
}
