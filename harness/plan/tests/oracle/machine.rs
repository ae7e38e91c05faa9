//! An independent implementation of the order analysis. A plan is translated into operations on bytes, and into edges
//! for each order that the documentation of HIP promises. An operation precedes another one if a path of edges leads
//! from the first to the second, so vector clocks are not needed. The rules are quoted where they are applied, from
//! hip_runtime_api.h of 7.2.4 and the programming guides of HIP and CUDA.

mod captures;
mod ranges;
mod run;

use std::collections::{BTreeMap, BTreeSet};

use plan::{Call, CopyApi, Memory as Kind, Plan, Step, StreamKind};

use self::{captures::becomes_node, ranges::declared};
use crate::memory::Block;

pub(crate) struct Operation {
    /// Indices of the operations that directly precede this one.
    after: Vec<usize>,
    pub(crate) line: u32,
    pub(crate) does: Action,
    /// Allocation to which the name of each buffer refers at the time of the call.
    blocks: BTreeMap<String, Block>,
    /// Accesses that the call declares, each as block, start, end, and true for a write.
    declared: Vec<(Block, u64, u64, bool)>,
}

pub(crate) enum Action {
    /// No effect on memory: the operation only orders others.
    Nothing,
    /// The effect of a call on memory. The number counts earlier executions of its step.
    Call(Call, u32),
    /// The host copies the source of a copy to a staging buffer.
    Stage(Call),
    /// The device copies the data that the operation with this index has staged.
    Staged(usize, Call),
    /// The host reads a buffer for a check: step id, occurrence and buffer.
    Check(u32, u32, String),
    /// The host reads buffers.
    Read(Vec<String>),
    /// The host reads the guards of a buffer: step id, occurrence and number of bytes.
    Guards(u32, u32, u64),
    /// Uninitialised memory of this size in bytes is allocated.
    Allocate(Block, u64),
}

#[derive(Default)]
struct Stream {
    last: Option<usize>,
}

/// A graph node: the call, the allocations that were current when it was captured, and its predecessors.
#[derive(Clone)]
struct Node {
    call: Call,
    line: u32,
    after: BTreeSet<usize>,
    blocks: BTreeMap<String, Block>,
}

struct Capture {
    number: u32,
    nodes: Vec<Node>,
    /// For each stream of the capture: the nodes that precede the next node on that stream.
    streams: BTreeMap<String, BTreeSet<usize>>,
}

/// The work that precedes the latest record of an event.
#[derive(Clone)]
enum Event {
    Operation(usize),
    Capture { number: u32, nodes: BTreeSet<usize> },
}

pub(crate) struct Machine<'a> {
    plan: &'a Plan,
    pub(crate) operations: Vec<Operation>,
    host: Option<usize>,
    streams: BTreeMap<String, Stream>,
    events: BTreeMap<String, Event>,
    /// Captures that have not ended, by the name of the stream that began them.
    captures: BTreeMap<String, Capture>,
    begun: u32,
    destroyed: BTreeSet<String>,
    graphs: BTreeMap<String, Vec<Node>>,
    execs: BTreeMap<String, Vec<Node>>,
    /// Graphs that are built node by node.
    by_hand: BTreeSet<String>,
    generators: BTreeMap<String, String>,
    blocks: BTreeMap<String, Block>,
    allocations: u32,
    occurrences: BTreeMap<u32, u32>,
    illegal: Vec<(u32, String)>,
}

/// Bytes that each check has read, each as step id, occurrence and bytes.
pub(crate) type Results = Vec<(u32, u32, Vec<u8>)>;

impl<'a> Machine<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let mut machine = Machine {
            plan,
            operations: Vec::new(),
            host: None,
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            begun: 0,
            destroyed: BTreeSet::new(),
            graphs: BTreeMap::new(),
            execs: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            generators: BTreeMap::new(),
            blocks: BTreeMap::new(),
            allocations: 0,
            occurrences: BTreeMap::new(),
            illegal: Vec::new(),
        };
        for (_, steps) in plan.phases() {
            machine.steps(steps);
        }
        machine
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.call {
                Call::Repeat { count, body } => (0..*count).for_each(|_| self.steps(body)),
                // The host waits for the second thread at the end of the block, so executing its steps here has the
                // same result.
                Call::Thread { body } => self.steps(body),
                _ => self.step(step),
            }
        }
    }

    fn no(&mut self, step: &Step, why: impl Into<String>) {
        self.illegal.push((step.line, why.into()));
    }

    fn kind(&self, buffer: &str) -> Kind {
        self.plan.buffers[buffer].memory
    }

    fn blocking(&self, stream: &str) -> bool {
        self.plan.streams.get(stream) == Some(&StreamKind::Blocking)
    }

    fn last(&self, stream: &str) -> Option<usize> {
        self.streams.get(stream).and_then(|stream| stream.last)
    }

    /// Returns the stream that began the capture in which a stream takes part; `None` if the stream is not being
    /// captured.
    fn capture_of(&self, stream: &str) -> Option<String> {
        let mut all = self.captures.iter();
        all.find(|(_, capture)| capture.streams.contains_key(stream)).map(|(name, _)| name.clone())
    }

    /// Returns the current allocation of a buffer. If the buffer is not allocated, reports a mistake and returns
    /// `None`.
    fn block(&mut self, step: &Step, buffer: &str) -> Option<Block> {
        let block = self.blocks.get(buffer).cloned();
        if block.is_none() {
            self.no(step, format!("{buffer} is not there"));
        }
        block
    }

    fn add(
        &mut self,
        step_line: u32,
        after: Vec<usize>,
        does: Action,
        call: Option<&Call>,
    ) -> usize {
        let blocks = self.blocks.clone();
        let declared = call.map_or_else(Vec::new, |call| {
            let declared = declared(call).into_iter();
            declared
                .filter_map(|(buffer, from, to, write)| {
                    Some((blocks.get(&buffer)?.clone(), from, to, write))
                })
                .collect()
        });
        self.operations.push(Operation { after, line: step_line, does, blocks, declared });
        self.operations.len() - 1
    }

    fn host(&mut self, step: &Step, does: Action) -> usize {
        let after = self.host.into_iter().collect();
        let new = self.add(step.line, after, does, Some(&step.call));
        self.host = Some(new);
        new
    }

    fn wait(&mut self, step: &Step, others: impl IntoIterator<Item = usize>) {
        let after = self.host.into_iter().chain(others).collect();
        self.host = Some(self.add(step.line, after, Action::Nothing, None));
    }

    /// Returns the operations that precede a command which the host enqueues to a stream. Streams are queues
    /// (hipStreamCreate); the null stream and blocking streams wait for each other (hipStreamNonBlocking: "does not
    /// synchronize with stream 0").
    fn before_command(&self, stream: &str) -> Vec<usize> {
        let mut after: Vec<usize> = self.host.into_iter().chain(self.last(stream)).collect();
        if stream == "default" {
            let blocking = self.plan.streams.keys().filter(|name| self.blocking(name));
            after.extend(blocking.filter_map(|name| self.last(name)));
        } else if self.blocking(stream) {
            after.extend(self.last("default"));
        }
        after
    }

    fn command(&mut self, step: &Step, stream: &str, does: Action, call: Option<&Call>) -> usize {
        let after = self.before_command(stream);
        let new = self.add(step.line, after, does, call);
        self.streams.entry(stream.to_owned()).or_default().last = Some(new);
        new
    }

    fn everything(&self) -> std::ops::Range<usize> {
        0..self.operations.len()
    }

    fn occurrence(&mut self, step: &Step) -> u32 {
        let slot = self.occurrences.entry(step.id).or_insert(0);
        *slot += 1;
        *slot - 1
    }

    fn step(&mut self, step: &Step) {
        let occurrence = self.occurrence(step);
        self.refuse_destroyed(step);
        if let Some(stream) = self.stream_of(&step.call)
            && let Some(origin) = self.capture_of(&stream)
            && becomes_node(&step.call)
        {
            return self.record(step, &stream, &origin);
        }
        self.refuse(step);
        match &step.call {
            Call::Alloc { buffer, .. } => {
                self.allocations += 1;
                let block = (buffer.clone(), self.allocations);
                let does = Action::Allocate(block.clone(), self.plan.buffers[buffer].bytes);
                self.blocks.insert(buffer.clone(), block);
                match self.stream_of(&step.call) {
                    // "The allocation must not be accessed until the allocation operation completes" (hipMallocAsync).
                    Some(stream) => {
                        self.command(step, &stream, does, Some(&step.call));
                    }
                    None => {
                        let after = self.host.into_iter().collect();
                        self.host = Some(self.add(step.line, after, does, None));
                    }
                }
            }
            Call::Free { buffer, .. } => {
                if self.block(step, buffer).is_none() {
                    return;
                }
                match self.kind(buffer) {
                    Kind::DeviceAsync => {
                        let stream = self.stream_of(&step.call).expect("it has one");
                        self.command(step, &stream, Action::Nothing, Some(&step.call));
                    }
                    kind => {
                        // hipFree and hipHostFree: "performs an implicit hipDeviceSynchronize() call". free and
                        // hipHostUnregister do not promise this.
                        if !matches!(kind, Kind::HostPageable | Kind::HostRegistered) {
                            self.wait(step, self.everything());
                        }
                        self.host(step, Action::Nothing);
                    }
                }
                self.blocks.remove(buffer);
            }
            // The host writes the bytes, or hipMemset does.
            Call::Poison { buffer } => {
                if self.block(step, buffer).is_some() {
                    let does = Action::Call(step.call.clone(), occurrence);
                    match self.kind(buffer).on_host() {
                        true => self.host(step, does),
                        false => self.command(step, "default", does, Some(&step.call)),
                    };
                }
            }
            Call::Fill { buffer, .. } | Call::FillNumbers { buffer, .. } => {
                if self.block(step, buffer).is_some() {
                    self.host(step, Action::Call(step.call.clone(), occurrence));
                }
            }
            Call::Check { buffer, .. } => {
                if self.block(step, buffer).is_some() {
                    self.host(step, Action::Check(step.id, occurrence, buffer.clone()));
                }
            }
            Call::Equal { a, b } | Call::Differ { a, b } => {
                if self.block(step, a).is_some() && self.block(step, b).is_some() {
                    self.host(step, Action::Read(vec![a.clone(), b.clone()]));
                }
            }
            Call::AtLeast { buffer, .. } => {
                if self.block(step, buffer).is_some() {
                    self.host(step, Action::Read(vec![buffer.clone()]));
                }
            }
            Call::Guards { buffer } => {
                let bytes = 2 * self.plan.buffers[buffer].guard();
                let after = self.host.into_iter().collect();
                let does = Action::Guards(step.id, occurrence, bytes);
                self.host = Some(self.add(step.line, after, does, None));
            }
            Call::Copy { .. }
            | Call::Copy2d { .. }
            | Call::Copy3d { .. }
            | Call::SetRows { .. }
            | Call::Set { .. }
            | Call::SetHalves { .. }
            | Call::Launch { .. }
            | Call::HostFunc { .. }
            | Call::RandGenerate { .. }
            | Call::BlasltMatmul { .. }
            | Call::RocblasGemm { .. } => self.work(step, occurrence),
            Call::EventRecord { event, stream } => {
                let recorded = match self.capture_of(stream) {
                    Some(origin) => {
                        let capture = &self.captures[&origin];
                        let nodes = capture.streams[stream].clone();
                        Event::Capture { number: capture.number, nodes }
                    }
                    // "reach the head of the specified stream, after all previous commands in that stream have
                    // completed" (hipEventRecord)
                    None => Event::Operation(self.command(step, stream, Action::Nothing, None)),
                };
                self.events.insert(event.clone(), recorded);
            }
            Call::StreamWaitEvent { stream, event } => match self.events.get(event).cloned() {
                // hipStreamWaitEvent: an event that was never recorded counts as complete.
                None => {}
                // "All future work submitted to stream will wait until event reports completion"; "does not implicitly
                // wait for commands in the default stream" (hipStreamWaitEvent)
                Some(Event::Operation(recorded)) => {
                    let after = self.host.into_iter().chain(self.last(stream)).chain([recorded]);
                    let after = after.collect();
                    let new = self.add(step.line, after, Action::Nothing, None);
                    self.streams.entry(stream.clone()).or_default().last = Some(new);
                }
                Some(Event::Capture { number, nodes }) => {
                    if let Some(capture) = self.captures.values_mut().find(|c| c.number == number) {
                        capture.streams.entry(stream.clone()).or_default().extend(nodes);
                    }
                }
            },
            Call::EventSynchronize { event } => {
                if let Some(Event::Operation(recorded)) = self.events.get(event) {
                    let recorded = *recorded;
                    self.wait(step, [recorded]);
                }
            }
            Call::StreamSynchronize { stream } => {
                let mut all: Vec<usize> = self.last(stream).into_iter().collect();
                // "Specifying the null stream will cause the command to wait for other streams", which means the
                // blocking streams.
                if stream == "default" {
                    let blocking = self.plan.streams.keys().filter(|name| self.blocking(name));
                    all.extend(blocking.filter_map(|name| self.last(name)));
                }
                self.wait(step, all);
            }
            Call::DeviceSynchronize => self.wait(step, self.everything()),
            // "may be destroyed while some commands are still inflight"
            Call::StreamDestroy { stream } => {
                self.streams.remove(stream);
                self.destroyed.insert(stream.clone());
            }
            Call::EventCreate { event, .. } => drop(self.events.remove(event)),
            Call::BeginCapture { stream, .. } => {
                self.begun += 1;
                let streams = [(stream.clone(), BTreeSet::new())].into();
                let capture = Capture { number: self.begun, nodes: Vec::new(), streams };
                self.captures.insert(stream.clone(), capture);
            }
            Call::EndCapture { stream, graph } => match self.captures.remove(stream) {
                Some(capture) => {
                    self.graphs.insert(graph.clone(), capture.nodes);
                    self.by_hand.remove(graph);
                }
                None => self.no(step, "no capture began here"),
            },
            Call::EmptyGraph { graph, .. } => {
                self.graphs.insert(graph.clone(), Vec::new());
                self.by_hand.insert(graph.clone());
            }
            // The node follows the previous node of the graph: the worker calls hipGraphAddKernelNode and similar
            // functions with one dependency.
            Call::AddNode { graph, node } => {
                let by_hand = self.by_hand.contains(graph);
                let blocks = self.blocks.clone();
                match self.graphs.get_mut(graph).filter(|_| by_hand) {
                    Some(nodes) => {
                        let after = nodes.len().checked_sub(1).into_iter().collect();
                        nodes.push(Node { call: (**node).clone(), line: step.line, after, blocks });
                    }
                    None => self.no(step, "no graph that is made by hand"),
                }
            }
            Call::GraphInstantiate { exec, graph } => match self.graphs.get(graph).cloned() {
                Some(nodes) => drop(self.execs.insert(exec.clone(), nodes)),
                None => self.no(step, "no such graph"),
            },
            Call::GraphExecUpdate { exec, graph } => match self.graphs.get(graph).cloned() {
                Some(nodes) if self.execs.contains_key(exec) => {
                    self.execs.insert(exec.clone(), nodes);
                }
                _ => self.no(step, "no such graph, or nothing to update"),
            },
            Call::GraphNodeCount { graph } => {
                if !self.graphs.contains_key(graph) {
                    self.no(step, "no such graph");
                }
            }
            Call::GraphDestroy { graph } => {
                if self.graphs.remove(graph).is_none() {
                    self.no(step, "no such graph");
                }
            }
            Call::GraphExecDestroy { exec } => {
                if self.execs.remove(exec).is_none() {
                    self.no(step, "no such graph");
                }
            }
            Call::GraphLaunch { exec, stream } => self.launch(step, occurrence, exec, stream),
            // hiprandSetStream. A new generator uses the null stream.
            Call::RandCreate { generator, .. } => {
                self.generators.insert(generator.clone(), "default".to_owned());
            }
            Call::RandStream { generator, stream } => match self.generators.get_mut(generator) {
                Some(of) => of.clone_from(stream),
                None => self.no(step, "no such generator"),
            },
            Call::RandDestroy { generator } => {
                if self.generators.remove(generator).is_none() {
                    self.no(step, "no such generator");
                }
            }
            Call::RandSeed { generator, .. } | Call::RandOffset { generator, .. } => {
                if !self.generators.contains_key(generator) {
                    self.no(step, "no such generator");
                }
            }
            // The calls below neither order work nor access memory.
            Call::StreamQuery { .. }
            | Call::EventQuery { .. }
            | Call::EventElapsed { .. }
            | Call::EventDestroy { .. }
            | Call::StreamCreate { .. }
            | Call::IsCapturing { .. }
            | Call::GetLastError
            | Call::MemGetInfo
            | Call::TrimPool
            | Call::RocblasCreate { .. }
            | Call::Sleep { .. } => {}
            other => unreachable!("{other:?} is not drawn"),
        }
    }

    /// Returns the stream that executes the work of a call: the named stream, the generator's stream, or the null
    /// stream.
    fn stream_of(&self, call: &Call) -> Option<String> {
        let stream = match call {
            Call::Copy { api: CopyApi::Memcpy | CopyApi::MemcpyDirected, .. }
            | Call::Copy2d { asynchronous: false, .. }
            | Call::Copy3d { asynchronous: false, .. }
            | Call::SetRows { asynchronous: false, .. }
            | Call::Set { asynchronous: false, .. } => "default",
            Call::Alloc { buffer, stream } | Call::Free { buffer, stream } => {
                return (self.kind(buffer) == Kind::DeviceAsync).then(|| stream.clone());
            }
            // hiprand.h: the stream that hiprandSetStream has set, else the null stream.
            Call::RandGenerate { generator, .. } => {
                self.generators.get(generator).map_or("default", String::as_str)
            }
            Call::Copy { stream, .. }
            | Call::Copy2d { stream, .. }
            | Call::Copy3d { stream, .. }
            | Call::SetRows { stream, .. }
            | Call::Set { stream, .. }
            | Call::SetHalves { stream, .. }
            | Call::Launch { stream, .. }
            | Call::HostFunc { stream, .. }
            | Call::BlasltMatmul { stream, .. }
            | Call::RocblasGemm { stream, .. } => stream,
            _ => return None,
        };
        Some(stream.to_owned())
    }

    fn work(&mut self, step: &Step, occurrence: u32) {
        let call = &step.call;
        let stream = self.stream_of(call).expect("it is given to one");
        if matches!(call, Call::RandGenerate { generator, .. } if !self.generators.contains_key(generator))
        {
            self.no(step, "no such generator");
        }
        for (buffer, ..) in declared(call) {
            if self.block(step, &buffer).is_none() {
                return;
            }
        }
        let made = Action::Call(call.clone(), occurrence);
        let (to, from, asynchronous) = match call {
            Call::Copy { to, from, api, .. } => {
                (&to.buffer, &from.buffer, *api == CopyApi::MemcpyAsync)
            }
            Call::Copy2d { to, from, asynchronous, .. } => {
                (&to.buffer, &from.buffer, *asynchronous)
            }
            Call::Copy3d { to, from, asynchronous, .. } => {
                (&to.buffer, &from.buffer, *asynchronous)
            }
            _ => {
                self.command(step, &stream, made, Some(call));
                return;
            }
        };
        // hipMemcpy2D: "Device to Device copies don't need to wait for host synchronization".
        let inside = !self.kind(to).on_host() && !self.kind(from).on_host();
        let synchronous = !asynchronous && !inside;
        // "For transfers from pageable host memory to device memory, host memory is copied to a staging buffer
        // immediately" (CUDA, API synchronization behavior). For transfers to pageable memory, the stream is
        // synchronised first.
        if asynchronous && self.kind(from) == Kind::HostPageable {
            let staged = self.host(step, Action::Stage(call.clone()));
            self.operations[staged].declared.retain(|(.., write)| !write);
            let new = self.command(step, &stream, Action::Staged(staged, call.clone()), Some(call));
            self.operations[new].declared.retain(|(.., write)| *write);
            return;
        }
        let new = self.command(step, &stream, made, Some(call));
        if synchronous {
            self.wait(step, [new]);
        }
    }
}
