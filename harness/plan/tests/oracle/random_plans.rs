//! Random small plans of calls that concern memory, order, captures and graphs. Many plans are correct. The other plans
//! contain mistakes, of every kind that an execution in program order can find. proptest shrinks failing plans.

use std::collections::BTreeMap;

use plan::{
    Arg, Box3d, Buffer, BufferAddress, Call, CaptureMode, CopyApi, Dtype, HostFuncApi,
    MatmulProblem, Memory, Operands, PLAN_VERSION, Plan, RandKind, Scalar, Step, StreamKind,
};
use proptest::prelude::*;

const BYTES: u64 = 64;

pub(crate) const BUFFERS: [(&str, Memory); 8] = [
    ("page", Memory::HostPageable),
    ("pinned", Memory::HostPinned),
    ("registered", Memory::HostRegistered),
    ("managed", Memory::Managed),
    ("first", Memory::Device),
    ("second", Memory::DevicePitched),
    ("pool", Memory::DeviceAsync),
    ("spare", Memory::Device),
];
const STREAMS: [&str; 5] = ["n", "o", "b", "c", "default"];
const EVENTS: [&str; 2] = ["e", "f"];

/// A part of a plan that proptest can remove on its own.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    One(Call),
    Repeat(u32, Vec<Call>),
    Thread(Vec<Call>),
    /// A capture that results in a graph. The graph is instantiated, and launched in the streams `launches`.
    Graph {
        origin: &'static str,
        nodes: Vec<Piece>,
        launches: Vec<&'static str>,
    },
    /// A graph that is built node by node, instantiated, and launched in the streams `launches`.
    ByHand {
        nodes: Vec<Call>,
        launches: Vec<&'static str>,
    },
    /// A matrix product. Its factors are filled with small numbers, some of which may be overwritten, and the
    /// result is checked.
    Product {
        factors: [String; 2],
        between: Vec<Call>,
        product: Call,
    },
    /// A fork inside a capture: calls on the forked stream, calls on the captured stream, and possibly a join.
    Fork {
        stream: &'static str,
        there: Vec<Call>,
        here: Vec<Call>,
        joins: bool,
    },
}

fn of(list: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(list).prop_map(str::to_owned)
}

fn stream() -> impl Strategy<Value = String> {
    of(&STREAMS)
}

fn event() -> impl Strategy<Value = String> {
    of(&EVENTS)
}

fn buffer() -> impl Strategy<Value = String> {
    prop::sample::select(&BUFFERS[..]).prop_map(|(name, _)| name.to_owned())
}

fn host_buffer() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(&BUFFERS[..4]), 1 => prop::sample::select(&BUFFERS[..])]
        .prop_map(|(name, _)| name.to_owned())
}

/// Draws an offset and a size: often the whole buffer or half of it, sometimes a range beyond the end.
fn part() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        6 => Just((0, BYTES)),
        4 => Just((0, BYTES / 2)),
        4 => Just((BYTES / 2, BYTES / 2)),
        4 => (0..4u64, 0..4u64).prop_map(|(offset, bytes)| (8 * offset, 8 * bytes)),
        1 => (0..BYTES, 0..BYTES),
    ]
}

fn place() -> impl Strategy<Value = (BufferAddress, u64)> {
    (buffer(), part())
        .prop_map(|(buffer, (offset, bytes))| (BufferAddress { buffer, offset }, bytes))
}

fn copy() -> impl Strategy<Value = Call> {
    let apis =
        [CopyApi::MemcpyAsync, CopyApi::Memcpy, CopyApi::MemcpyWithStream, CopyApi::MemcpyDirected];
    let apis = prop::sample::select(apis.to_vec());
    let offsets = prop_oneof![8 => Just(0), 1 => 0..BYTES];
    (place(), buffer(), offsets, apis, stream()).prop_map(
        |((to, bytes), from, more, api, stream)| {
            let from = BufferAddress { buffer: from, offset: (to.offset + more) % BYTES };
            Call::Copy { to, from, bytes, api, stream }
        },
    )
}

fn rows() -> impl Strategy<Value = Call> {
    let pitch = || prop::sample::select(vec![16, 16, 16, 8, 4, 20]);
    let sizes = (0..9u64, 0..5u64, prop::sample::select(vec![0, 0, 0, 8, 4]));
    (buffer(), buffer(), pitch(), pitch(), sizes, any::<bool>(), stream()).prop_map(
        |(to, from, to_pitch, from_pitch, (width, height, offset), asynchronous, stream)| {
            Call::Copy2d {
                to: BufferAddress { buffer: to, offset },
                to_pitch,
                from: BufferAddress { buffer: from, offset },
                from_pitch,
                width,
                height,
                asynchronous,
                stream,
            }
        },
    )
}

fn in_box() -> impl Strategy<Value = Box3d> {
    let at = prop_oneof![3 => Just([0; 3]), 1 => (0..3u64, 0..2u64, 0..2u64).prop_map(|(x, y, z)| [x, y, z])];
    let (pitch, rows) =
        (prop::sample::select(vec![4, 4, 8, 3]), prop::sample::select(vec![2, 2, 3, 1]));
    (buffer(), pitch, rows, at).prop_map(|(buffer, pitch, rows, at)| Box3d {
        buffer,
        pitch,
        rows,
        at,
    })
}

fn boxes() -> impl Strategy<Value = Call> {
    let sizes = (0..5u64, 0..3u64, 0..4u64);
    (in_box(), in_box(), sizes, any::<bool>(), stream()).prop_map(
        |(to, from, (width, height, depth), asynchronous, stream)| Call::Copy3d {
            to,
            from,
            width,
            height,
            depth,
            asynchronous,
            stream,
        },
    )
}

fn set_rows() -> impl Strategy<Value = Call> {
    let sizes = (0..5u64, 0..3u64, prop::option::of(0..4u64));
    (in_box(), any::<u8>(), sizes, any::<bool>(), stream()).prop_map(
        |(to, value, (width, height, depth), asynchronous, stream)| Call::SetRows {
            to,
            value,
            width,
            height,
            depth,
            asynchronous,
            stream,
        },
    )
}

fn set() -> impl Strategy<Value = Call> {
    (place(), any::<u32>(), any::<bool>(), any::<bool>(), stream()).prop_map(
        |((to, bytes), value, words, asynchronous, stream)| {
            let value = if words { value } else { value % 256 };
            Call::Set { to, value, words, bytes, asynchronous, stream }
        },
    )
}

fn halves() -> impl Strategy<Value = Call> {
    (place(), any::<u16>(), stream()).prop_map(|((to, bytes), value, stream)| Call::SetHalves {
        to,
        value,
        count: bytes / 2,
        stream,
    })
}

fn launch() -> impl Strategy<Value = Call> {
    let kernels = vec![
        "add_u32",
        "copy_u32",
        "fill_u32",
        "copy_u8",
        "to_f32",
        "lcg_u32",
        "variable_u32",
        "histogram_u32",
        "sum_u32",
        "shuffle_u32",
    ];
    let offsets = || prop_oneof![6 => Just(0u64), 1 => prop::sample::select(vec![4, 32, 64])];
    let n = prop_oneof![4 => Just(16u32), 4 => 1..16u32, 1 => 0..20u32];
    let to = (buffer(), offsets());
    let from = (buffer(), offsets());
    (prop::sample::select(kernels), to, from, n, 0..9u32, stream()).prop_map(
        |(kernel, (to, to_offset), (from, from_offset), n, number, stream)| {
            let to = Arg::Address(BufferAddress { buffer: to, offset: to_offset });
            let from = Arg::Address(BufferAddress { buffer: from, offset: from_offset });
            let (n, k) = (Arg::u32(n), Arg::u32(number));
            let args = match kernel {
                "fill_u32" => vec![to, n, k],
                "add_u32" | "lcg_u32" => vec![to, from, n, k],
                _ => vec![to, from, n],
            };
            // For a kernel whose work-items are independent, the launch sometimes has only a few work-items.
            let together = matches!(kernel, "sum_u32" | "shuffle_u32");
            let block = if number == 8 && !together { [3, 2, 1] } else { [256, 1, 1] };
            Call::Launch {
                kernel: kernel.to_owned(),
                grid: [1, 1, 1],
                block,
                args,
                shared: 0,
                cooperative: false,
                stream,
            }
        },
    )
}

fn gemm() -> impl Strategy<Value = Call> {
    let names = (buffer(), buffer(), buffer());
    (names, 1..4u64, 1..4u64, 1..4u64, any::<bool>(), any::<bool>(), stream()).prop_map(
        |((a, b, d), m, n, k, transpose_a, transpose_b, stream)| {
            let dtype = Dtype::I8;
            let problem = MatmulProblem { dtype, m, n, k, transpose_a, transpose_b, bias: false };
            let operands = Operands { a, b, d, bias: None };
            Call::RocblasGemm { handle: "h".to_owned(), problem, operands, stream }
        },
    )
}

fn product() -> impl Strategy<Value = Piece> {
    let between = prop_oneof![3 => work(), 1 => Just(Call::DeviceSynchronize)];
    let factors = (host_buffer(), host_buffer());
    (factors, prop::collection::vec(between, 0..3), gemm())
        .prop_map(|((a, b), between, product)| Piece::Product { factors: [a, b], between, product })
}

fn generate() -> impl Strategy<Value = Call> {
    (place(), 1..8u64).prop_map(|((to, _), count)| Call::RandGenerate {
        generator: "g".to_owned(),
        to,
        count,
    })
}

fn host_func() -> impl Strategy<Value = Call> {
    let apis = vec![HostFuncApi::LaunchHostFunc, HostFuncApi::AddCallback];
    (host_buffer(), prop::sample::select(apis), stream())
        .prop_map(|(buffer, api, stream)| Call::HostFunc { buffer, api, stream })
}

fn work() -> BoxedStrategy<Call> {
    prop_oneof![
        8 => copy(),
        3 => set(),
        4 => launch(),
        2 => host_func(),
        1 => rows(),
        1 => boxes(),
        1 => set_rows(),
        2 => halves(),
        1 => gemm(),
        1 => generate(),
    ]
    .boxed()
}

fn host() -> BoxedStrategy<Call> {
    prop_oneof![
        4 => host_buffer().prop_map(|buffer| Call::Check { buffer, file: None }),
        2 => host_buffer().prop_map(|buffer| Call::Fill { buffer, stamp: 0 }),
        1 => host_buffer().prop_map(|buffer| {
            Call::FillNumbers { buffer, dtype: Dtype::F32, stamp: 0 }
        }),
        1 => (host_buffer(), host_buffer()).prop_map(|(a, b)| Call::Equal { a, b }),
        1 => (host_buffer(), host_buffer()).prop_map(|(a, b)| Call::Differ { a, b }),
        1 => host_buffer().prop_map(|buffer| Call::AtLeast { buffer, least: Scalar::u32(1) }),
    ]
    .boxed()
}

fn order() -> BoxedStrategy<Call> {
    prop_oneof![
        3 => stream().prop_map(|stream| Call::StreamSynchronize { stream }),
        2 => Just(Call::DeviceSynchronize),
        3 => (event(), stream()).prop_map(|(event, stream)| Call::EventRecord { event, stream }),
        3 => (event(), stream()).prop_map(|(event, stream)| Call::StreamWaitEvent { stream, event }),
        2 => event().prop_map(|event| Call::EventSynchronize { event }),
        1 => stream().prop_map(|stream| Call::StreamQuery { stream }),
        1 => event().prop_map(|event| Call::EventQuery { event }),
        1 => event().prop_map(|event| Call::EventCreate { event, timing: false }),
    ]
    .boxed()
}

fn things() -> BoxedStrategy<Call> {
    let graph = || of(&["g0", "g1"]);
    let exec = || of(&["x0", "x1"]);
    let generator = || "g".to_owned();
    let mode = CaptureMode::Relaxed;
    prop_oneof![
        2 => (buffer(), stream()).prop_map(|(buffer, stream)| Call::Free { buffer, stream }),
        2 => (buffer(), stream()).prop_map(|(buffer, stream)| Call::Alloc { buffer, stream }),
        1 => buffer().prop_map(|buffer| Call::Poison { buffer }),
        1 => of(&STREAMS[..4]).prop_map(|stream| Call::StreamDestroy { stream }),
        1 => stream().prop_map(move |stream| Call::BeginCapture { stream, mode }),
        1 => (stream(), graph()).prop_map(|(stream, graph)| Call::EndCapture { stream, graph }),
        1 => (graph(), 1..3u32).prop_map(|(graph, nodes)| Call::EmptyGraph { graph, nodes }),
        1 => (exec(), graph()).prop_map(|(exec, graph)| Call::GraphInstantiate { exec, graph }),
        1 => (exec(), graph()).prop_map(|(exec, graph)| Call::GraphExecUpdate { exec, graph }),
        2 => (exec(), stream()).prop_map(|(exec, stream)| Call::GraphLaunch { exec, stream }),
        1 => graph().prop_map(|graph| Call::GraphNodeCount { graph }),
        1 => graph().prop_map(|graph| Call::GraphDestroy { graph }),
        1 => exec().prop_map(|exec| Call::GraphExecDestroy { exec }),
        1 => Just(Call::RandCreate { generator: generator(), kind: RandKind::Philox, host: false }),
        2 => stream().prop_map(move |stream| Call::RandStream { generator: generator(), stream }),
        1 => Just(Call::RandDestroy { generator: "g".to_owned() }),
        1 => Just(Call::RandSeed { generator: "g".to_owned(), seed: 1 }),
        1 => stream().prop_map(|stream| Call::IsCapturing { stream }),
        1 => Just(Call::MemGetInfo),
    ]
    .boxed()
}

fn call() -> BoxedStrategy<Call> {
    prop_oneof![9 => work(), 6 => host(), 8 => order(), 2 => things()].boxed()
}

fn node() -> BoxedStrategy<Piece> {
    let forked = (
        prop::sample::select(&STREAMS[..4]),
        prop::collection::vec(work(), 1..3),
        prop::collection::vec(work(), 0..2),
        prop::bool::weighted(0.9),
    );
    prop_oneof![
        3 => work().prop_map(Piece::One),
        2 => forked.prop_map(|(stream, there, here, joins)| Piece::Fork { stream, there, here, joins }),
        1 => call().prop_map(Piece::One),
    ]
    .boxed()
}

fn piece() -> BoxedStrategy<Piece> {
    let some = || prop::collection::vec(call(), 1..4);
    let launches = || prop::collection::vec(prop::sample::select(&STREAMS[..]), 1..3);
    let nodes = prop::collection::vec(node(), 1..4);
    let graph = (prop::sample::select(&STREAMS[..4]), nodes, launches());
    let added = prop_oneof![copy(), set(), launch(), host_func()];
    let by_hand = (prop::collection::vec(added, 0..3), launches());
    prop_oneof![
        20 => call().prop_map(Piece::One),
        2 => product(),
        1 => (1..5u32, some()).prop_map(|(count, calls)| Piece::Repeat(count, calls)),
        1 => some().prop_map(Piece::Thread),
        1 => by_hand.prop_map(|(nodes, launches)| Piece::ByHand { nodes, launches }),
        3 => graph.prop_map(|(origin, nodes, launches)| Piece::Graph { origin, nodes, launches }),
    ]
    .boxed()
}

pub(crate) fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec(piece(), 1..9)
}

fn onto(mut call: Call, stream: &str) -> Call {
    if let Some(name) = call.stream_mut() {
        stream.clone_into(name);
    }
    call
}

fn calls(piece: &Piece, origin: &str, out: &mut Vec<Call>) {
    let mode = CaptureMode::Relaxed;
    match piece {
        Piece::One(call) => {
            out.push(call.clone());
            // In three of four cases, the destroyed stream is created again under the same name.
            if let Call::StreamDestroy { stream } = call
                && !out.len().is_multiple_of(4)
            {
                out.push(Call::StreamCreate { stream: stream.clone() });
            }
        }
        Piece::Repeat(count, calls) => {
            out.push(Call::Repeat { count: *count, body: bare(calls.clone()) });
        }
        Piece::Thread(calls) => out.push(Call::Thread { body: bare(calls.clone()) }),
        Piece::Graph { origin, nodes, launches } => {
            out.push(Call::BeginCapture { stream: (*origin).to_owned(), mode });
            for node in nodes {
                match node {
                    // The independent implementation does not support nodes that allocate or free.
                    Piece::One(Call::Alloc { .. } | Call::Free { .. }) => {}
                    Piece::One(call) if call.stream().is_some() => {
                        out.push(onto(call.clone(), origin));
                    }
                    node => calls(node, origin, out),
                }
            }
            let (graph, exec) = ("g0".to_owned(), "x0".to_owned());
            out.push(Call::EndCapture { stream: (*origin).to_owned(), graph: graph.clone() });
            out.push(Call::GraphInstantiate { exec: exec.clone(), graph });
            out.extend(launches.iter().map(|stream| Call::GraphLaunch {
                exec: exec.clone(),
                stream: (*stream).to_owned(),
            }));
        }
        Piece::ByHand { nodes, launches } => {
            let (graph, exec) = ("g1".to_owned(), "x1".to_owned());
            out.push(Call::EmptyGraph { graph: graph.clone(), nodes: 1 });
            out.extend(
                nodes.iter().map(|node| Call::AddNode {
                    graph: graph.clone(),
                    node: Box::new(node.clone()),
                }),
            );
            out.push(Call::GraphInstantiate { exec: exec.clone(), graph });
            out.extend(launches.iter().map(|stream| Call::GraphLaunch {
                exec: exec.clone(),
                stream: (*stream).to_owned(),
            }));
        }
        Piece::Product { factors: [a, b], between, product } => {
            let fill = |buffer: &String| Call::FillNumbers {
                buffer: buffer.clone(),
                dtype: Dtype::I8,
                stamp: 0,
            };
            out.extend([fill(a), fill(b)]);
            out.extend(between.iter().cloned());
            let mut product = product.clone();
            let mut result = None;
            if let Call::RocblasGemm { operands, .. } = &mut product {
                (operands.a, operands.b) = (a.clone(), b.clone());
                result = Some(operands.d.clone());
            }
            out.extend([product, Call::DeviceSynchronize]);
            // True for the names of host buffers.
            let of_host = |name: &String| BUFFERS[..4].iter().any(|(host, _)| host == name);
            out.extend(result.filter(of_host).map(|buffer| Call::Check { buffer, file: None }));
        }
        Piece::Fork { stream, there, here, joins } => {
            let record = |event: &str, stream: &str| Call::EventRecord {
                event: event.to_owned(),
                stream: stream.to_owned(),
            };
            let wait = |event: &str, stream: &str| Call::StreamWaitEvent {
                event: event.to_owned(),
                stream: stream.to_owned(),
            };
            out.extend([record("fork", origin), wait("fork", stream)]);
            out.extend(there.iter().map(|call| onto(call.clone(), stream)));
            out.extend(here.iter().map(|call| onto(call.clone(), origin)));
            if *joins {
                out.extend([record("join", stream), wait("join", origin)]);
            }
        }
    }
}

fn bare(calls: Vec<Call>) -> Vec<Step> {
    let step =
        |call| Step { id: 0, call, returns: None, gives: None, line: 0, planted: Vec::new() };
    calls.into_iter().map(step).collect()
}

fn number(steps: &mut [Step], next: &mut u32) {
    for step in steps {
        *next += 1;
        (step.id, step.line) = (*next, *next);
        match &mut step.call {
            Call::Repeat { body, .. } | Call::Thread { body } => number(body, next),
            Call::Fill { stamp, .. } | Call::FillNumbers { stamp, .. } => *stamp = *next,
            _ => {}
        }
    }
}

/// Returns a plan that consists of these pieces. Its set-up initialises all buffers.
pub(crate) fn plan(pieces: &[Piece]) -> Plan {
    let default = || "default".to_owned();
    let mut setup = Vec::new();
    for (name, memory) in BUFFERS {
        let buffer = || name.to_owned();
        setup.push(Call::Alloc { buffer: buffer(), stream: default() });
        setup.push(match memory.on_host() {
            true => Call::Fill { buffer: buffer(), stamp: 0 },
            false => Call::Set {
                to: BufferAddress { buffer: buffer(), offset: 0 },
                value: 7,
                words: false,
                bytes: BYTES,
                asynchronous: false,
                stream: default(),
            },
        });
    }
    setup.push(Call::RandCreate { generator: "g".to_owned(), kind: RandKind::Philox, host: false });
    setup.push(Call::RocblasCreate { handle: "h".to_owned() });
    setup.push(Call::DeviceSynchronize);
    let mut body = Vec::new();
    for piece in pieces {
        calls(piece, "n", &mut body);
    }
    // The verification checks all host buffers.
    let mut verify = vec![Call::DeviceSynchronize];
    verify.extend(
        BUFFERS[..4].iter().map(|(name, _)| Call::Check { buffer: (*name).to_owned(), file: None }),
    );
    let (mut setup, mut body, mut verify) = (bare(setup), bare(body), bare(verify));
    let mut next = 0;
    [&mut setup, &mut body, &mut verify].into_iter().for_each(|steps| number(steps, &mut next));
    let buffer = |memory| Buffer { memory, bytes: BYTES, guarded: false };
    let kinds = [
        StreamKind::NonBlocking,
        StreamKind::NonBlocking,
        StreamKind::Blocking,
        StreamKind::Blocking,
    ];
    Plan {
        version: PLAN_VERSION,
        trial: "drawn".to_owned(),
        buffers: BUFFERS.map(|(name, memory)| (name.to_owned(), buffer(memory))).into(),
        streams: STREAMS[..4]
            .iter()
            .map(|name| (*name).to_owned())
            .zip(kinds)
            .collect::<BTreeMap<_, _>>(),
        events: EVENTS.map(str::to_owned).to_vec(),
        setup,
        body,
        verify,
        ..Plan::empty()
    }
}
