//! State of captures and graphs, updated step by step in program order. Only this module contains the rules of capture:
//! every analysis calls [`Captures::visit`] at each step.
//!
//! | rule | source |
//! | --- | --- |
//! | a call on a captured stream becomes a node, and has no effect before the graph is launched | \[1\] |
//! | an event recorded in a captured stream refers to the captured work so far; a stream that waits for it joins the capture | \[1\] |
//! | no other call may wait for or query such an event, even after the capture | \[2\] hipErrorCapturedEvent |
//! | two captures cannot be merged | \[2\] hipErrorStreamCaptureMerge |
//! | captured work cannot wait for an event from outside | \[2\] hipErrorStreamCaptureIsolation |
//! | all forks must join before the capture ends, and it ends on the stream that began it | \[2\] hipErrorStreamCaptureUnjoined |
//! | a captured stream cannot be synchronised, queried, or given a call that cannot be a node | \[2\] hipErrorStreamCaptureUnsupported |
//! | the null stream cannot be captured | \[1\] |
//! | hipStreamEndCapture fails for an invalidated or unjoined capture, and the capture is ended nevertheless | \[1\], \[3\] |
//!
//! 1. HIP documentation, "HIP graph API", stream capture; CUDA driver API, cuStreamBeginCapture and cuStreamEndCapture,
//!    which HIP follows.
//! 2. hip_runtime_api.h of 7.2.4, the statuses 900 to 908.
//! 3. hip_runtime_api.h, hipStreamEndCapture; the case capture/stream-after-invalidated-capture shows which releases
//!    differ.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{
    Call, CaptureEffect, CaptureHandling, DEFAULT_STREAM, NamedObject, ObjectKind, ObjectUse,
    OrderEffect, Plan, Step,
};

/// Effect of stream captures on one step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRole<'a> {
    /// The call must fail and has no effect.
    Nothing,
    /// The call takes effect at once.
    Now,
    /// The call joins the capture that began on this stream: it becomes a node, or it orders nodes.
    Captured(&'a str),
    /// The call becomes a node of this graph, which is built node by node.
    Added(&'a str),
}

/// State of the captures, graphs and executable graphs before or after one step of a plan.
pub struct Captures<'a> {
    plan: &'a Plan,
    streams: BTreeMap<&'a str, CapturedStream<'a>>,
    events: HashMap<&'a str, Recorded<'a>>,
    /// Captures that have not ended, by the name of the stream that began them.
    open: BTreeMap<&'a str, Capture<'a>>,
    /// Number of captures that have begun so far.
    capture_count: u32,
    graphs: HashMap<&'a str, Vec<Node<'a>>>,
    execs: HashMap<&'a str, Vec<Node<'a>>>,
    /// Graphs and executable graphs that were destroyed.
    destroyed: HashSet<(ObjectKind, &'a str)>,
    /// Graphs and executable graphs that do not exist because the step that would make them must fail, with the verb
    /// and the line of that step.
    failed: HashMap<&'a str, (&'static str, u32)>,
    /// Graphs that `empty_graph` created, which are built node by node.
    by_hand: HashSet<&'a str>,
    /// Streams that were assigned to random generators. A generator without an entry uses the null stream.
    generators: HashMap<&'a str, &'a str>,
    /// Number of allocations and library handles created so far. A captured node uses the objects that existed when it
    /// was captured, not later ones with the same names.
    creations: u32,
}

/// Vector clock of a node: the number of preceding nodes on each captured stream.
type NodeClock<'a> = BTreeMap<&'a str, u32>;

struct CapturedStream<'a> {
    origin: &'a str,
    before: NodeClock<'a>,
}

struct Capture<'a> {
    number: u32,
    nodes: Vec<Node<'a>>,
}

/// Where an event was recorded last: in a stream outside of captures, or in a capture.
enum Recorded<'a> {
    Stream,
    Capture { number: u32, origin: &'a str, before: NodeClock<'a> },
}

/// A captured call with its stream. Event records and event waits are included, because they order captured calls.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) step: &'a Step,
    pub(crate) stream: &'a str,
    pub(crate) creations: u32,
}

impl<'a> Captures<'a> {
    /// Creates the state before the first step of a plan.
    pub fn new(plan: &'a Plan) -> Self {
        Captures {
            plan,
            streams: BTreeMap::new(),
            events: HashMap::new(),
            open: BTreeMap::new(),
            capture_count: 0,
            graphs: HashMap::new(),
            failed: HashMap::new(),
            execs: HashMap::new(),
            destroyed: HashSet::new(),
            by_hand: HashSet::new(),
            generators: HashMap::new(),
            creations: 0,
        }
    }

    /// Applies one step to the state and returns the effect of captures on the step. For a block, call this method for
    /// each step inside the block instead.
    ///
    /// # Errors
    /// Returns a message if the call must fail but the step does not expect it. Such a call has no effect.
    pub fn visit(&mut self, step: &'a Step) -> Result<CaptureRole<'a>, String> {
        if !may_succeed(step) {
            match step.call.capture_effect() {
                CaptureEffect::End { graph, .. } => {
                    self.failed.insert(graph, ("end_capture", step.line));
                }
                CaptureEffect::Instantiate { exec, .. } => {
                    self.failed.insert(exec, ("instantiate", step.line));
                }
                CaptureEffect::Nothing
                | CaptureEffect::Begin(_)
                | CaptureEffect::EmptyGraph(_)
                | CaptureEffect::AddChild { .. }
                | CaptureEffect::Clone { .. }
                | CaptureEffect::InspectGraph(_)
                | CaptureEffect::Update { .. }
                | CaptureEffect::DestroyExec(_)
                | CaptureEffect::DestroyGraph(_)
                | CaptureEffect::RandStream { .. }
                | CaptureEffect::NewGenerator(_)
                | CaptureEffect::NewEvent(_)
                | CaptureEffect::Allocated => {}
            }
            if let CaptureEffect::End { stream, .. } = step.call.capture_effect()
                && failure_ends_capture(step)
            {
                self.end_capture(stream);
            }
            return Ok(CaptureRole::Nothing);
        }
        // A step that lists accepted statuses is applied even if the call should fail.
        if step.returns.is_none() {
            self.check_allowed(&step.call)?;
        }
        if let Call::AddNode { graph, .. } = &step.call {
            return self.add_node(step, graph).map(|()| CaptureRole::Added(graph));
        }
        match self.capture(step) {
            Some(origin) => Ok(CaptureRole::Captured(origin)),
            None => {
                self.apply(step.call.capture_effect())?;
                let makes = |n: &NamedObject<'_>| n.role == ObjectUse::Created && is_handle(n.kind);
                self.creations += u32::from(step.call.named().iter().any(makes));
                Ok(CaptureRole::Now)
            }
        }
    }

    /// Returns true if any stream is being captured.
    pub fn capturing(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the stream that executes the work of a call; `None` if the call has no work on a stream.
    pub(crate) fn stream(&self, call: &'a Call) -> Option<&'a str> {
        let of_generator =
            |generator: &str| self.generators.get(generator).copied().unwrap_or(DEFAULT_STREAM);
        call.work_stream().stream(self.plan, of_generator)
    }

    /// Returns an error if the call would fail because of a capture. The error is a message for the author of the case.
    fn check_allowed(&self, call: &Call) -> Result<(), String> {
        let refused =
            |why: String| Err(format!("{why}; if this is intended, list the status in `returns`"));
        let origin = |stream: &str| self.streams.get(stream).map(|captured| captured.origin);
        let in_capture =
            |event: &str| matches!(self.events.get(event), Some(Recorded::Capture { .. }));
        if let Some(stream) = call.stream()
            && call.in_capture() == CaptureHandling::Refused
            && origin(stream).is_some()
        {
            return refused(format!(
                "this call is not allowed on stream `{stream}`, which is being captured"
            ));
        }
        if let CaptureEffect::Begin(stream) = call.capture_effect() {
            if stream == DEFAULT_STREAM {
                return refused("the null stream cannot be captured".to_owned());
            }
            if origin(stream).is_some() {
                return refused(format!("stream `{stream}` is already captured here"));
            }
        }
        if let CaptureEffect::End { stream, .. } = call.capture_effect()
            && let Some(at) = origin(stream).filter(|at| *at == stream)
        {
            let joined = |name: &str| {
                let count = |stream: &str| {
                    let before = self.streams.get(stream).map(|captured| &captured.before);
                    before.and_then(|before| before.get(name)).copied().unwrap_or(0)
                };
                count(at) >= count(name)
            };
            let mut forks = self.streams.iter().filter(|(_, of)| of.origin == at);
            if let Some((name, _)) = forks.find(|(name, _)| !joined(name)) {
                return refused(format!(
                    "stream `{name}` forked off this capture and has not joined it"
                ));
            }
        }
        let order = call.order_effect();
        if let OrderEffect::WaitEvent { stream, event } = order {
            return match self.events.get(event) {
                Some(Recorded::Capture { .. }) if self.open_capture(event).is_none() => {
                    refused(format!("event `{event}` was recorded in a capture that has ended"))
                }
                Some(Recorded::Capture { .. }) if stream == DEFAULT_STREAM => {
                    refused("the null stream cannot be captured".to_owned())
                }
                Some(Recorded::Capture { origin: of, .. })
                    if origin(stream).is_some_and(|at| at != *of) =>
                {
                    refused(format!(
                        "stream `{stream}` and event `{event}` belong to different captures"
                    ))
                }
                Some(Recorded::Stream) if origin(stream).is_some() => refused(format!(
                    "stream `{stream}` is being captured, but event `{event}` was recorded outside of that capture"
                )),
                Some(Recorded::Capture { .. } | Recorded::Stream) | None => Ok(()),
            };
        }
        // Every other call that uses an event waits for the event or queries it.
        let asks = |named: &NamedObject<'_>| {
            let records = matches!(order, OrderEffect::Record { .. });
            named.kind == ObjectKind::Event && named.role == ObjectUse::Used && !records
        };
        match call.named().into_iter().find(|named| asks(named) && in_capture(named.name)) {
            Some(event) => refused(format!("event `{}` was recorded in a capture", event.name)),
            None => Ok(()),
        }
    }

    /// Adds a step to the capture of its stream. A wait for an event of a capture makes the waiting stream join that
    /// capture. Returns the stream that began the capture; `None` if the call takes effect at once.
    fn capture(&mut self, step: &'a Step) -> Option<&'a str> {
        let stream = self.stream(&step.call)?;
        let order = step.call.order_effect();
        if let OrderEffect::Record { event, .. } = order {
            let recorded = match self.streams.get(stream) {
                None => Recorded::Stream,
                Some(CapturedStream { origin, before }) => {
                    let number = self.open.get(origin)?.number;
                    Recorded::Capture { number, origin, before: before.clone() }
                }
            };
            self.events.insert(event, recorded);
        } else if let OrderEffect::WaitEvent { event, .. } = order {
            let (origin, before) = self.open_capture(event)?;
            let captured = self
                .streams
                .entry(stream)
                .or_insert(CapturedStream { origin, before: NodeClock::new() });
            captured.origin = origin;
            for (name, count) in before {
                let slot = captured.before.entry(name).or_insert(0);
                *slot = count.max(*slot);
            }
        } else if recorded(&step.call) {
            *self.streams.get_mut(stream)?.before.entry(stream).or_insert(0) += 1;
        } else {
            return None;
        }
        let origin = self.streams.get(stream)?.origin;
        let node = Node { step, stream, creations: self.creations };
        self.open.get_mut(origin)?.nodes.push(node);
        Some(origin)
    }

    fn add_node(&mut self, step: &'a Step, graph: &'a str) -> Result<(), String> {
        self.graph(graph)?;
        match self.graphs.get_mut(graph).filter(|_| self.by_hand.contains(graph)) {
            Some(nodes) => {
                nodes.push(Node { step, stream: graph, creations: self.creations });
                Ok(())
            }
            None => Err(not_extensible(graph)),
        }
    }

    /// Returns the stream that began the capture in which an event was recorded, and the event's clock; `None` if the
    /// event was recorded outside of captures or the capture has ended.
    fn open_capture(&self, event: &str) -> Option<(&'a str, NodeClock<'a>)> {
        match self.events.get(event)? {
            Recorded::Capture { number, origin, before } => {
                let open = self.open.get(origin).is_some_and(|open| open.number == *number);
                open.then(|| (*origin, before.clone()))
            }
            Recorded::Stream => None,
        }
    }

    fn end_capture(&mut self, stream: &str) -> Option<Vec<Node<'a>>> {
        self.streams.retain(|_, captured| captured.origin != stream);
        self.open.remove(stream).map(|capture| capture.nodes)
    }

    fn apply(&mut self, effect: CaptureEffect<'a>) -> Result<(), String> {
        match effect {
            CaptureEffect::Nothing => {}
            CaptureEffect::Begin(stream) => self.begin_capture(stream),
            CaptureEffect::End { stream, graph } => {
                let nodes = self.end_capture(stream);
                let nodes =
                    nodes.ok_or_else(|| format!("stream `{stream}` is not capturing here"))?;
                self.graphs.insert(graph, nodes);
                self.by_hand.remove(graph);
            }
            // The nodes of an empty graph have no effect.
            CaptureEffect::EmptyGraph(graph) => {
                self.graphs.insert(graph, Vec::new());
                self.by_hand.insert(graph);
            }
            CaptureEffect::AddChild { graph, child } => self.add_child(graph, child)?,
            CaptureEffect::Clone { clone, graph } => {
                let nodes = self.graph(graph)?;
                // The worker does not track the last node of a clone, so nodes cannot be added to it.
                self.by_hand.remove(clone);
                self.graphs.insert(clone, nodes);
            }
            CaptureEffect::InspectGraph(graph) => drop(self.graph(graph)?),
            CaptureEffect::Instantiate { exec, graph } => {
                let nodes = self.graph(graph)?;
                self.execs.insert(exec, nodes);
            }
            CaptureEffect::Update { exec, graph } => {
                self.nodes(exec)?;
                let nodes = self.graph(graph)?;
                self.execs.insert(exec, nodes);
            }
            CaptureEffect::DestroyExec(exec) => {
                self.nodes(exec)?;
                self.execs.remove(exec);
                self.destroyed.insert((ObjectKind::Exec, exec));
            }
            CaptureEffect::DestroyGraph(graph) => {
                self.graph(graph)?;
                self.graphs.remove(graph);
                self.destroyed.insert((ObjectKind::Graph, graph));
            }
            CaptureEffect::RandStream { generator, stream } => {
                self.generators.insert(generator, stream);
            }
            CaptureEffect::NewGenerator(generator) => drop(self.generators.remove(generator)),
            CaptureEffect::NewEvent(event) => drop(self.events.remove(event)),
            CaptureEffect::Allocated => self.creations += 1,
        }
        Ok(())
    }

    fn begin_capture(&mut self, stream: &'a str) {
        self.capture_count += 1;
        self.end_capture(stream);
        self.streams.insert(stream, CapturedStream { origin: stream, before: NodeClock::new() });
        self.open.insert(stream, Capture { number: self.capture_count, nodes: Vec::new() });
    }

    fn add_child(&mut self, graph: &'a str, child: &str) -> Result<(), String> {
        let mut added = self.graph(child)?;
        self.graph(graph)?;
        let one = added.first().map(|node| node.stream);
        if added.iter().any(|node| Some(node.stream) != one || is_event(node.step)) {
            return Err(format!(
                "graph `{child}` has branches, but a child graph must be one chain"
            ));
        }
        added.iter_mut().for_each(|node| node.stream = graph);
        match self.graphs.get_mut(graph).filter(|_| self.by_hand.contains(graph)) {
            Some(nodes) => {
                nodes.extend(added);
                Ok(())
            }
            None => Err(not_extensible(graph)),
        }
    }

    pub(crate) fn creations(&self) -> u32 {
        self.creations
    }

    /// Returns the nodes of an executable graph in the order in which they were captured. Event records and waits are
    /// included.
    ///
    /// # Errors
    /// Returns a message if the executable graph does not exist.
    pub(crate) fn nodes(&self, exec: &str) -> Result<Vec<Node<'a>>, String> {
        self.execs.get(exec).cloned().ok_or_else(|| {
            if let Some((verb, line)) = self.failed.get(exec) {
                format!("`{exec}` does not exist: given its `returns`, the `{verb}` in line {line} must fail")
            } else if self.destroyed.contains(&(ObjectKind::Exec, exec)) {
                format!(
                    "executable graph `{exec}` was destroyed before; move its `destroy_exec` after the last use"
                )
            } else if self.graphs.contains_key(exec) {
                format!(
                    "`{exec}` is a graph; create an executable graph from it with `instantiate`, and name that here"
                )
            } else {
                format!("`{exec}` was not instantiated before; `instantiate` makes it from a graph")
            }
        })
    }

    fn graph(&self, graph: &str) -> Result<Vec<Node<'a>>, String> {
        self.graphs.get(graph).cloned().ok_or_else(|| {
            if let Some((verb, line)) = self.failed.get(graph) {
                format!("graph `{graph}` does not exist: given its `returns`, the `{verb}` in line {line} must fail")
            } else if self.destroyed.contains(&(ObjectKind::Graph, graph)) {
                format!("graph `{graph}` was destroyed before; move its `destroy_graph` after the last use")
            } else {
                format!("graph `{graph}` was not made before; `end_capture` or `empty_graph` makes it")
            }
        })
    }
}

fn not_extensible(graph: &str) -> String {
    format!(
        "graph `{graph}` comes from a capture; nodes can be added only to a graph that `empty_graph` makes"
    )
}

/// Returns true for handles of hipRAND, hipBLASLt and rocBLAS.
pub(crate) fn is_handle(thing: ObjectKind) -> bool {
    matches!(thing, ObjectKind::Generator | ObjectKind::Blaslt | ObjectKind::Rocblas)
}

/// Returns true for event records and event waits. They order the nodes of a graph and are not nodes themselves.
fn is_event(step: &Step) -> bool {
    matches!(step.call.order_effect(), OrderEffect::Record { .. } | OrderEffect::WaitEvent { .. })
}

/// Ids of the steps in the body that belong to captures or graphs.
#[derive(Debug, Default, PartialEq)]
pub struct CapturedSteps {
    /// Steps between the beginning and the end of any capture, including those that use streams outside of the capture.
    pub during: BTreeSet<u32>,
    /// Steps that are captured, or that add nodes to a graph.
    pub inside: BTreeSet<u32>,
}

/// Returns the steps of the body that belong to captures or graphs.
pub fn captured_steps(plan: &Plan) -> CapturedSteps {
    fn walk<'a>(steps: &'a [Step], captures: &mut Captures<'a>, found: &mut CapturedSteps) {
        for step in steps {
            if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
                walk(body, captures, found);
                continue;
            }
            let before = captures.capturing();
            // An error is ignored here, because `reference` reports it as a mistake.
            let role = captures.visit(step);
            if before || captures.capturing() {
                found.during.insert(step.id);
            }
            if let Ok(CaptureRole::Captured(_) | CaptureRole::Added(_)) = role {
                found.inside.insert(step.id);
            }
        }
    }
    let mut found = CapturedSteps::default();
    let mut captures = Captures::new(plan);
    // Only the steps of the body are visited, because the set-up contains no capture.
    walk(&plan.body, &mut captures, &mut found);
    found
}

/// Returns true if the step accepts success as a status. If it does not, the call must fail, so it has no effect.
pub fn may_succeed(step: &Step) -> bool {
    step.returns.as_ref().is_none_or(|by| by.0.iter().any(|(_, names)| accepts_success(names)))
}

/// Returns true if a capture is open after the last step of a plan.
pub fn leaves_capture_open(plan: &Plan) -> bool {
    let mut captures = Captures::new(plan);
    for step in plan.steps() {
        // A step that is not allowed at its position changes no capture.
        let _ = captures.visit(step);
    }
    captures.capturing()
}

/// Returns true if the step accepts an error status with which hipStreamEndCapture fails but still ends the capture.
fn failure_ends_capture(step: &Step) -> bool {
    const CAPTURE_END_STATUSES: [&str; 2] =
        ["hipErrorStreamCaptureInvalidated", "hipErrorStreamCaptureUnjoined"];
    let ended =
        |names: &[String]| names.iter().any(|name| CAPTURE_END_STATUSES.contains(&name.as_str()));
    step.returns.as_ref().is_some_and(|by| by.0.iter().any(|(_, names)| ended(names)))
}

/// Returns true if the list of accepted statuses contains success.
pub fn accepts_success(names: &[String]) -> bool {
    names
        .iter()
        .any(|n| n == "hipSuccess" || n.to_ascii_lowercase().ends_with("_success") || n == "any")
}

/// Returns true if the call becomes a node when its stream is captured.
pub fn recorded(call: &Call) -> bool {
    call.in_capture() == CaptureHandling::Node
}
