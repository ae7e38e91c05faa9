//! Draws random programs: copies between all kinds of memory, kernels, host functions, graphs and host accesses on
//! several streams, with synchronisation in between. The programs are well-formed, except that their accesses may be
//! unordered.

use plan::{
    Arg, BufferAddress, ByVersion, Call, CaptureMode, CopyApi, DEFAULT_STREAM, HostFuncApi, Step,
};

/// Size of each buffer, in bytes.
const BYTES: u64 = 1024;

/// Names of buffers that only the device can access. Two of them come from the memory pool; `spare` is sometimes freed
/// and allocated again.
const INSIDE: [&str; 6] = ["first", "second", "pitched", "pool", "other_pool", "spare"];
/// Names of buffers that the host can access. GPU kernels do not use `pageable`.
const HOST: [&str; 4] = ["managed", "pinned", "registered", "pageable"];
const POOLS: [&str; 2] = ["pool", "other_pool"];
/// Name of the stream on which pool memory is allocated and freed.
const POOL_STREAM: &str = "n";
const STREAMS: [&str; 5] = [DEFAULT_STREAM, "n", "o", "b", "c"];
const EVENTS: [&str; 2] = ["e", "f"];

/// The case into which the programs are put, with their buffers, set-up and checks. A program replaces the step
/// `get_last_error`.
pub(crate) const FRAME: &str = "\
title: A program that was drawn
source: [made for this test]
environment: {GPU_MAX_HW_QUEUES: 16}
streams: {n: non_blocking, o: non_blocking, b: blocking, c: blocking}
buffers:
  first: {on: device, bytes: 1024, fill: pattern}
  second: {on: device, bytes: 1024, fill: pattern}
  pitched: {on: device.pitched, bytes: 1024, fill: pattern}
  pool: {on: device.async, bytes: 1024}
  other_pool: {on: device.async, bytes: 1024}
  spare: {on: device, bytes: 1024}
  managed: {on: managed, bytes: 1024, fill: pattern}
  pinned: {on: host.pinned, bytes: 1024, fill: pattern}
  registered: {on: host.registered, bytes: 1024, fill: pattern}
  pageable: {on: host.pageable, bytes: 1024, fill: pattern}
steps:
  - alloc: {buffer: pool, stream: n}
  - alloc: {buffer: other_pool, stream: n}
  - alloc: spare
  - set: {to: pool, value: 1, async: true, stream: n}
  - set: {to: other_pool, value: 2, async: true, stream: n}
  - set: {to: spare, value: 3}
  - record: {event: e, stream: n}
  - record: {event: f, stream: n}
  - record: {event: fork, stream: n}
  - record: {event: join, stream: n}
  - launch: {kernel: add_u32, args: [second, first, 256, 1], items: 256}
  - sync: device
  - get_last_error:
  - sync: device
expect:
  - check: first
  - check: second
  - check: pitched
  - check: pool
  - check: other_pool
  - check: spare
  - check: managed
  - check: pinned
  - check: registered
  - check: pageable
faults: [copy.zero]
";

/// Generator of pseudo-random numbers that are the same in every run of the tests.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        let drawn = device::mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (drawn % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn name(&mut self, list: &[&str]) -> String {
        self.of(list).to_owned()
    }
}

/// A part of a program that can be removed on its own.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    One(Call),
    /// Calls that are removed only together.
    Together(Vec<Call>),
    /// Calls on a thread of their own.
    Thread(Vec<Call>),
    /// Work that is captured on a stream and instantiated as a graph.
    Graph {
        stream: String,
        mode: CaptureMode,
        graph: String,
        exec: String,
        nodes: Vec<Node>,
    },
}

/// Work on a captured stream.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    One(Call),
    /// Another stream joins the capture and does the work `there`. It is joined again after the work `here`.
    Fork {
        stream: String,
        there: Vec<Call>,
        here: Vec<Call>,
    },
}

/// A random program: a list of parts that can be removed one by one.
#[derive(Clone, Debug)]
pub(crate) struct Program(pub(crate) Vec<Action>);

impl Program {
    pub(crate) fn draw(number: u64) -> Program {
        let mut numbers = Numbers(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let numbers = &mut numbers;
        let mut actions = Vec::new();
        // Names of executable graphs, each with true if the graph has branches.
        let mut execs: Vec<(String, bool)> = Vec::new();
        for turn in 0..4 + numbers.below(9) {
            match numbers.below(24) {
                0..=8 => actions.push(Action::One(work(numbers))),
                9..=10 => actions.push(Action::One(host_access(numbers))),
                11..=16 => actions.push(Action::One(order(numbers))),
                17 => {
                    let calls = (0..1 + numbers.below(3)).map(|_| match numbers.below(3) {
                        0 => host_access(numbers),
                        1 => order(numbers),
                        _ => work(numbers),
                    });
                    actions.push(Action::Thread(calls.collect()));
                }
                18 => actions.push(Action::Together(recreate(numbers))),
                19..=20 => {
                    let exec = numbers.name(&["x", "y"]);
                    // The new executable graph replaces an existing one of the same name.
                    if execs.iter().any(|(name, _)| *name == exec) {
                        actions.push(Action::One(Call::GraphExecDestroy { exec: exec.clone() }));
                        execs.retain(|(name, _)| *name != exec);
                    }
                    let graph = graph(numbers, format!("g{turn}"), exec.clone());
                    execs.push((exec, graph.has_branches()));
                    actions.push(graph);
                }
                _ if execs.is_empty() => actions.push(Action::One(work(numbers))),
                _ => {
                    let (exec, branches) = execs[numbers.below(execs.len())].clone();
                    let launch = Call::GraphLaunch { exec, stream: numbers.name(&STREAMS) };
                    // ROCm 7.2.4 starts the branches of a graph too early, before the work for which their stream waits
                    // has ended. That work is the previous launch (graphs/forked-launches-in-order), or work of the
                    // null stream or of blocking streams.
                    actions.push(match branches {
                        true => Action::Together(vec![Call::DeviceSynchronize, launch]),
                        false => Action::One(launch),
                    });
                }
            }
        }
        Program(actions)
    }

    /// Returns the calls of the program, followed by calls that destroy the remaining graphs.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = self.0.iter().flat_map(Action::calls).collect();
        let mut left: Vec<Call> = Vec::new();
        for call in &calls {
            match call {
                Call::EndCapture { graph, .. } => {
                    left.push(Call::GraphDestroy { graph: graph.clone() });
                }
                Call::GraphInstantiate { exec, .. } => {
                    left.push(Call::GraphExecDestroy { exec: exec.clone() });
                }
                Call::GraphExecDestroy { exec } => {
                    left.retain(
                        |call| !matches!(call, Call::GraphExecDestroy { exec: e } if e == exec),
                    );
                }
                _ => {}
            }
        }
        calls.push(Call::DeviceSynchronize);
        calls.extend(left);
        calls
    }

    /// Returns all variants of the program that have one part less.
    pub(crate) fn smaller(&self) -> Vec<Program> {
        let mut all = Vec::new();
        for (n, action) in self.0.iter().enumerate() {
            let with = |new: Option<Action>| {
                let mut actions = self.0.clone();
                actions.splice(n..=n, new);
                Program(actions)
            };
            all.push(with(None));
            all.extend(action.smaller().into_iter().map(|new| with(Some(new))));
        }
        all
    }
}

impl Action {
    fn has_branches(&self) -> bool {
        let forks = |node: &Node| matches!(node, Node::Fork { .. });
        matches!(self, Action::Graph { nodes, .. } if nodes.iter().any(forks))
    }

    fn calls(&self) -> Vec<Call> {
        match self {
            Action::One(call) => vec![call.clone()],
            Action::Together(calls) => calls.clone(),
            Action::Thread(calls) => vec![Call::Thread { body: steps(calls.clone(), 0) }],
            Action::Graph { stream, mode, graph, exec, nodes } => {
                let mut calls = vec![Call::BeginCapture { stream: stream.clone(), mode: *mode }];
                calls.extend(nodes.iter().flat_map(|node| node.calls(stream)));
                let (stream, graph) = (stream.clone(), graph.clone());
                calls.push(Call::EndCapture { stream, graph: graph.clone() });
                calls.push(Call::GraphInstantiate { exec: exec.clone(), graph });
                calls
            }
        }
    }

    fn smaller(&self) -> Vec<Action> {
        match self {
            Action::One(_) | Action::Together(_) => Vec::new(),
            Action::Thread(calls) => without_one(calls)
                .into_iter()
                .filter(|c| !c.is_empty())
                .map(Action::Thread)
                .collect(),
            Action::Graph { stream, mode, graph, exec, nodes } => {
                let mut all = without_one(nodes);
                for (n, node) in nodes.iter().enumerate() {
                    let Node::Fork { stream, there, here } = node else { continue };
                    let fork = |there: Vec<Call>, here: Vec<Call>| {
                        let mut nodes = nodes.clone();
                        nodes[n] = Node::Fork { stream: stream.clone(), there, here };
                        nodes
                    };
                    all.extend(without_one(there).into_iter().map(|less| fork(less, here.clone())));
                    all.extend(without_one(here).into_iter().map(|less| fork(there.clone(), less)));
                }
                let again = |nodes| Action::Graph {
                    stream: stream.clone(),
                    mode: *mode,
                    graph: graph.clone(),
                    exec: exec.clone(),
                    nodes,
                };
                all.into_iter().map(again).collect()
            }
        }
    }
}

impl Node {
    fn calls(&self, captured: &str) -> Vec<Call> {
        match self {
            Node::One(call) => vec![call.clone()],
            Node::Fork { stream, there, here } => {
                let record = |event: &str, stream: &str| Call::EventRecord {
                    event: event.to_owned(),
                    stream: stream.to_owned(),
                };
                let wait = |event: &str, stream: &str| Call::StreamWaitEvent {
                    event: event.to_owned(),
                    stream: stream.to_owned(),
                };
                let mut calls = vec![record("fork", captured), wait("fork", stream)];
                calls.extend(there.iter().chain(here).cloned());
                calls.extend([record("join", stream), wait("join", captured)]);
                calls
            }
        }
    }
}

fn without_one<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    let without = |n: usize| {
        let mut less = list.to_vec();
        less.remove(n);
        less
    };
    (0..list.len()).map(without).collect()
}

/// Returns steps that make these calls, with ids from `first` on. A query may return that its stream is busy.
pub(crate) fn steps(calls: Vec<Call>, first: u32) -> Vec<Step> {
    let step = |(call, id): (Call, u32)| {
        let call = match call {
            Call::Fill { buffer, .. } => Call::Fill { buffer, stamp: id },
            Call::Thread { body } => {
                let calls = body.into_iter().map(|step| step.call).collect();
                Call::Thread { body: steps(calls, id * 100) }
            }
            call => call,
        };
        let asks = matches!(call, Call::StreamQuery { .. } | Call::EventQuery { .. });
        let either = ["hipSuccess", "hipErrorNotReady"].map(str::to_owned).to_vec();
        let returns = asks.then(|| ByVersion::always(either));
        Step { id, call, returns, gives: None, line: id, planted: Vec::new() }
    };
    calls.into_iter().zip(first..).map(step).collect()
}

/// Draws the whole of a buffer or one half of it, as offset and size in bytes.
fn part(numbers: &mut Numbers) -> (u64, u64) {
    numbers.of(&[(0, BYTES), (0, BYTES), (0, BYTES / 2), (BYTES / 2, BYTES / 2)])
}

fn place(buffer: &str, offset: u64) -> BufferAddress {
    BufferAddress { buffer: buffer.to_owned(), offset }
}

fn any_buffer(numbers: &mut Numbers) -> &'static str {
    match numbers.below(10) {
        0..=5 => numbers.of(&INSIDE),
        _ => numbers.of(&HOST),
    }
}

/// Draws two different buffers, one for writing and one for reading.
fn two(numbers: &mut Numbers, draw: impl Fn(&mut Numbers) -> &'static str) -> [&'static str; 2] {
    let to = draw(numbers);
    loop {
        let from = draw(numbers);
        if from != to {
            return [to, from];
        }
    }
}

fn reached(numbers: &mut Numbers) -> &'static str {
    loop {
        let buffer = any_buffer(numbers);
        if buffer != "pageable" {
            return buffer;
        }
    }
}

/// Draws the name of a buffer that a host function writes. Pageable memory is excluded, because ROCm since 6.0 reads it
/// before the function has run (copies/pageable-copy-waits-for-host-function).
fn counted(numbers: &mut Numbers) -> String {
    let buffer = numbers.of(&HOST);
    let written = if buffer == "pageable" { "pinned" } else { buffer };
    written.to_owned()
}

/// Draws a call that submits work to the device.
fn work(numbers: &mut Numbers) -> Call {
    let stream = numbers.name(&STREAMS);
    match numbers.below(10) {
        0 => {
            let both = two(numbers, any_buffer);
            // HIP's documentation promises that the call has read pageable memory when it returns.
            // copies/rows-source-rewritten shows that ROCm 7.2.4 breaks this promise.
            let asynchronous = both[1] != "pageable" && numbers.below(2) == 0;
            rows(numbers, both, asynchronous, stream)
        }
        1 => {
            let asynchronous = numbers.below(2) == 0;
            set(numbers, asynchronous, stream)
        }
        2 => {
            let api = numbers.of(&[HostFuncApi::AddCallback, HostFuncApi::LaunchHostFunc]);
            Call::HostFunc { buffer: counted(numbers), api, stream }
        }
        3..=4 => launch(numbers, stream),
        _ => {
            let both = two(numbers, any_buffer);
            let mut api = numbers.of(&[
                CopyApi::Memcpy,
                CopyApi::MemcpyAsync,
                CopyApi::MemcpyWithStream,
                CopyApi::MemcpyDirected,
            ]);
            // hipMemcpyHtoD, hipMemcpyDtoH and hipMemcpyDtoD do not copy from host to host.
            if api == CopyApi::MemcpyDirected && both.iter().all(|buffer| HOST.contains(buffer)) {
                api = CopyApi::MemcpyAsync;
            }
            flat(numbers, both, api, stream)
        }
    }
}

fn flat(numbers: &mut Numbers, [to, from]: [&str; 2], api: CopyApi, stream: String) -> Call {
    let (offset, bytes) = part(numbers);
    Call::Copy { to: place(to, offset), from: place(from, offset), bytes, api, stream }
}

fn rows(numbers: &mut Numbers, [to, from]: [&str; 2], asynchronous: bool, stream: String) -> Call {
    let (offset, bytes) = part(numbers);
    Call::Copy2d {
        to: place(to, offset),
        to_pitch: 64,
        from: place(from, offset),
        from_pitch: 64,
        width: 64,
        height: bytes / 64,
        asynchronous,
        stream,
    }
}

fn set(numbers: &mut Numbers, asynchronous: bool, stream: String) -> Call {
    let (offset, bytes) = part(numbers);
    let (to, value) = (place(reached(numbers), offset), numbers.below(256) as u32);
    Call::Set { to, value, words: numbers.below(2) == 0, bytes, asynchronous, stream }
}

fn launch(numbers: &mut Numbers, stream: String) -> Call {
    let [to, from] = two(numbers, reached);
    let args = vec![
        Arg::Address(place(to, 0)),
        Arg::Address(place(from, 0)),
        Arg::u32(BYTES as u32 / 4),
        Arg::u32(numbers.below(1000) as u32),
    ];
    Call::Launch {
        kernel: "add_u32".to_owned(),
        grid: [1, 1, 1],
        block: [256, 1, 1],
        args,
        shared: 0,
        cooperative: false,
        stream,
    }
}

fn host_access(numbers: &mut Numbers) -> Call {
    let buffer = numbers.name(&HOST);
    match numbers.below(2) {
        0 => Call::Fill { buffer, stamp: 0 },
        _ => Call::Check { buffer, file: None },
    }
}

/// Draws a call on a stream or an event that may put accesses into an order.
fn order(numbers: &mut Numbers) -> Call {
    let (stream, event) = (numbers.name(&STREAMS), numbers.name(&EVENTS));
    match numbers.below(12) {
        0..=2 => Call::EventRecord { event, stream },
        3..=5 => Call::StreamWaitEvent { stream, event },
        6 => Call::EventSynchronize { event },
        7..=8 => Call::StreamSynchronize { stream },
        9 => Call::StreamQuery { stream },
        10 => Call::EventQuery { event },
        _ => Call::DeviceSynchronize,
    }
}

/// Draws calls that free and reallocate memory, or destroy and recreate a stream.
fn recreate(numbers: &mut Numbers) -> Vec<Call> {
    let stream = numbers.name(&STREAMS);
    let set = |buffer: &str, stream: &str| Call::Set {
        to: place(buffer, 0),
        value: 5,
        words: false,
        bytes: BYTES,
        asynchronous: true,
        stream: stream.to_owned(),
    };
    match numbers.below(3) {
        0 => {
            let buffer = "spare".to_owned();
            vec![
                Call::Free { buffer: buffer.clone(), stream: DEFAULT_STREAM.to_owned() },
                Call::Alloc { buffer, stream: DEFAULT_STREAM.to_owned() },
                set("spare", &stream),
            ]
        }
        1 => {
            let buffer = numbers.name(&POOLS);
            // Memory that is freed on another stream would be reused too early (copies/pool-reused-by-its-stream).
            let stream = POOL_STREAM.to_owned();
            let set = set(&buffer, &stream);
            vec![
                Call::Free { buffer: buffer.clone(), stream: stream.clone() },
                Call::Alloc { buffer, stream },
                set,
            ]
        }
        _ => {
            let stream = numbers.name(&STREAMS[1..]);
            vec![Call::StreamDestroy { stream: stream.clone() }, Call::StreamCreate { stream }]
        }
    }
}

fn graph(numbers: &mut Numbers, graph: String, exec: String) -> Action {
    let stream = numbers.name(&STREAMS[1..]);
    let mode = numbers.of(&[CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed]);
    let nodes = (0..1 + numbers.below(3)).map(|_| {
        if numbers.below(3) > 0 {
            return Node::One(node(numbers, &stream));
        }
        let other = loop {
            let other = numbers.name(&STREAMS[1..]);
            if other != stream {
                break other;
            }
        };
        let mut some = |stream: &str| -> Vec<Call> {
            (0..1 + numbers.below(2)).map(|_| node(numbers, stream)).collect()
        };
        let (there, here) = (some(&other), some(&stream));
        Node::Fork { stream: other, there, here }
    });
    let nodes = nodes.collect();
    Action::Graph { stream, mode, graph, exec, nodes }
}

/// Draws two buffers between which a copy can be captured. ROCm 7.2.4 refuses to capture copies from host to host, and
/// reads pageable memory too early (graphs/pageable-copy-after-host-function).
fn capturable(numbers: &mut Numbers) -> [&'static str; 2] {
    loop {
        let both = two(numbers, any_buffer);
        if both[1] != "pageable" && !both.iter().all(|buffer| HOST.contains(buffer)) {
            return both;
        }
    }
}

/// Draws a call that becomes a node of a graph.
fn node(numbers: &mut Numbers, stream: &str) -> Call {
    let stream = stream.to_owned();
    match numbers.below(8) {
        0 => {
            let both = capturable(numbers);
            rows(numbers, both, true, stream)
        }
        1 => set(numbers, true, stream),
        2 => {
            let buffer = counted(numbers);
            Call::HostFunc { buffer, api: HostFuncApi::LaunchHostFunc, stream }
        }
        3..=5 => launch(numbers, stream),
        _ => {
            let both = capturable(numbers);
            flat(numbers, both, CopyApi::MemcpyAsync, stream)
        }
    }
}
