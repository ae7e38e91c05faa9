//! What captures take, and what graphs are made of, as far as program order tells.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Call, CopyApi, DEFAULT_STREAM, HostFuncApi, Step};

/// The captures, graphs and executable graphs of a plan, followed in program order.
#[derive(Default)]
pub(crate) struct Captures<'a> {
    /// Captured streams, with the stream that began the capture.
    streams: BTreeMap<&'a str, &'a str>,
    /// Events recorded in a capture, with the stream that began it.
    events: HashMap<&'a str, &'a str>,
    open: HashMap<&'a str, Vec<Node<'a>>>,
    graphs: HashMap<&'a str, Vec<Node<'a>>>,
    execs: HashMap<&'a str, Vec<Node<'a>>>,
    /// Graphs that no capture made: their nodes come one by one.
    by_hand: HashSet<&'a str>,
    /// Streams of random generators, where they are not the null stream.
    generators: HashMap<&'a str, &'a str>,
    /// Allocations so far, as who follows them counts: what is captured works with the memory of that time.
    pub(crate) allocations: u32,
}

/// A captured call, or an event between captured calls, with the stream that it was given to.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) step: &'a Step,
    pub(crate) stream: &'a str,
    /// Allocations before it was captured.
    pub(crate) allocations: u32,
}

impl<'a> Captures<'a> {
    /// Takes a step into the capture that its stream is in, or that it brings its stream into. False: the call takes
    /// effect now.
    pub(crate) fn take(&mut self, step: &'a Step) -> bool {
        if let Call::RandStream { generator, stream } = &step.call {
            self.generators.insert(generator, stream);
        }
        if let Call::AddNode { graph, .. } = &step.call {
            return self.add(step, graph);
        }
        let Some(stream) = self.stream(&step.call) else { return false };
        let origin = match &step.call {
            Call::EventRecord { event, stream } => {
                match self.streams.get(stream.as_str()).copied() {
                    Some(origin) => self.events.insert(event, origin),
                    None => self.events.remove(event.as_str()),
                };
                self.streams.get(stream.as_str()).copied()
            }
            Call::StreamWaitEvent { stream, event } => {
                let origin = self.events.get(event.as_str()).copied();
                let origin = origin.filter(|origin| self.open.contains_key(origin));
                if let Some(origin) = origin {
                    self.streams.insert(stream, origin);
                }
                origin
            }
            call if recorded(call) => self.streams.get(stream).copied(),
            _ => None,
        };
        if let Some(origin) = origin {
            self.open.entry(origin).or_default().push(Node {
                step,
                stream,
                allocations: self.allocations,
            });
        }
        origin.is_some()
    }

    /// Adds a node behind the others. False: there is no such graph, or a capture made it.
    fn add(&mut self, step: &'a Step, graph: &'a str) -> bool {
        let Some(nodes) = self.graphs.get_mut(graph).filter(|_| self.by_hand.contains(graph))
        else {
            return false;
        };
        nodes.push(Node { step, stream: graph, allocations: self.allocations });
        true
    }

    /// The stream that orders a call, that of its generator for one that has none of its own.
    pub(crate) fn stream(&self, call: &'a Call) -> Option<&'a str> {
        match call {
            Call::RandGenerate { generator, .. } => {
                Some(self.generators.get(generator.as_str()).copied().unwrap_or(DEFAULT_STREAM))
            }
            Call::EventRecord { stream, .. } | Call::StreamWaitEvent { stream, .. } => Some(stream),
            call => stream_of(call),
        }
    }

    /// Follows the calls that make and change captures and graphs; others do nothing.
    ///
    /// # Errors
    /// Work on a capture or graph that is not there, in words.
    pub(crate) fn follow(&mut self, step: &'a Step) -> Result<(), String> {
        match &step.call {
            Call::BeginCapture { stream, .. } => {
                self.streams.insert(stream, stream);
                self.open.insert(stream, Vec::new());
            }
            Call::EndCapture { stream, graph } => {
                self.streams.retain(|_, origin| origin != stream);
                let steps = self.open.remove(stream.as_str());
                let steps =
                    steps.ok_or_else(|| format!("stream `{stream}` is not capturing here"))?;
                self.graphs.insert(graph, steps);
                self.by_hand.remove(graph.as_str());
            }
            // Its nodes do nothing.
            Call::EmptyGraph { graph, .. } => {
                self.graphs.insert(graph, Vec::new());
                self.by_hand.insert(graph);
            }
            Call::AddNode { graph, .. } => {
                self.graph(graph)?;
                return Err(format!(
                    "graph `{graph}` is of a capture; a node is added to one that `empty_graph` makes"
                ));
            }
            Call::GraphInstantiate { exec, graph } => {
                let steps = self.graph(graph)?;
                self.execs.insert(exec, steps);
            }
            Call::GraphExecUpdate { exec, graph } => {
                self.nodes(exec)?;
                let steps = self.graph(graph)?;
                self.execs.insert(exec, steps);
            }
            Call::GraphNodeCount { graph } => {
                self.graph(graph)?;
            }
            Call::GraphDestroy { graph } => {
                self.graph(graph)?;
                self.graphs.remove(graph.as_str());
            }
            Call::GraphExecDestroy { exec } => {
                self.nodes(exec)?;
                self.execs.remove(exec.as_str());
            }
            _ => {}
        }
        Ok(())
    }

    /// What an executable graph replays, in the order of its capture: calls in streams, and the events between them.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn nodes(&self, exec: &str) -> Result<Vec<Node<'a>>, String> {
        self.execs.get(exec).cloned().ok_or_else(|| format!("`{exec}` was not instantiated before"))
    }

    fn graph(&self, graph: &str) -> Result<Vec<Node<'a>>, String> {
        self.graphs
            .get(graph)
            .cloned()
            .ok_or_else(|| format!("graph `{graph}` was not made before"))
    }
}

/// Whether a step with declared statuses may succeed; a call that must fail has no effect.
pub fn may_succeed(step: &Step) -> bool {
    step.returns.as_ref().is_none_or(|by| by.0.iter().any(|(_, names)| accepts(names)))
}

/// Whether success is among the statuses that are right.
pub fn accepts(names: &[String]) -> bool {
    names
        .iter()
        .any(|n| n == "hipSuccess" || n.to_ascii_lowercase().ends_with("_success") || n == "any")
}

/// The stream that orders a call; none for calls that belong to no stream.
pub fn stream_of(call: &Call) -> Option<&str> {
    match call {
        Call::Alloc { stream, .. }
        | Call::Free { stream, .. }
        | Call::Copy { stream, .. }
        | Call::Copy2d { stream, .. }
        | Call::Set { stream, .. }
        | Call::Launch { stream, .. }
        | Call::HostFunc { stream, .. }
        | Call::BlasltMatmul { stream, .. }
        | Call::RocblasGemm { stream, .. }
        | Call::GraphLaunch { stream, .. } => Some(stream),
        _ => None,
    }
}

/// Whether the call becomes a node when its stream is captured.
pub fn recorded(call: &Call) -> bool {
    match call {
        Call::Copy { api, .. } => !matches!(api, CopyApi::Memcpy | CopyApi::MemcpyDirected),
        Call::Copy2d { asynchronous, .. } | Call::Set { asynchronous, .. } => *asynchronous,
        Call::HostFunc { api, .. } => *api == HostFuncApi::LaunchHostFunc,
        Call::Launch { .. }
        | Call::BlasltMatmul { .. }
        | Call::RocblasGemm { .. }
        | Call::RandGenerate { .. } => true,
        Call::Alloc { .. } | Call::Free { .. } => true,
        _ => false,
    }
}
