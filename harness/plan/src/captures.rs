//! What captures take, and what graphs are made of, as far as program order tells: the one place that knows the rules. Whoever walks
//! over a plan and has to know what is captured asks [`Captures::visit`] at each step.
//!
//! | rule | source |
//! | --- | --- |
//! | a call that a captured stream takes becomes a node, and does nothing before the graph is launched | \[1\] |
//! | an event recorded in a captured stream stands for what is captured so far; a stream that waits for it joins the capture | \[1\] |
//! | such an event cannot be waited for or asked about otherwise, also after the capture | \[2\] hipErrorCapturedEvent |
//! | two captures cannot be merged | \[2\] hipErrorStreamCaptureMerge |
//! | nothing captured waits for an event from outside | \[2\] hipErrorStreamCaptureIsolation |
//! | what forks must have joined where the capture ends, which is on the stream that began it | \[2\] hipErrorStreamCaptureUnjoined |
//! | a captured stream cannot be waited for, asked, or given what is no node | \[2\] hipErrorStreamCaptureUnsupported |
//! | the null stream cannot be captured | \[1\] |
//! | the end of an invalidated or unjoined capture fails and ends it | \[1\], \[3\] |
//!
//! 1. HIP documentation, "HIP graph API", stream capture; CUDA driver API, cuStreamBeginCapture and cuStreamEndCapture, which HIP
//!    follows.
//! 2. hip_runtime_api.h of 7.2.4, the statuses 900 to 908.
//! 3. hip_runtime_api.h, hipStreamEndCapture; capture/stream-after-invalidated-capture tells which releases do otherwise.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{
    Call, DEFAULT_STREAM, InCapture, Named, NamedAs, OnCaptures, OnOrder, Plan, Step, Thing,
};

/// What a step is to the captures around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRole<'a> {
    /// It must fail, and does nothing.
    Nothing,
    /// It takes effect when it is made.
    Now,
    /// It becomes part of the capture that began on this stream: a node, or what orders nodes.
    Captured(&'a str),
    /// It becomes a node of this graph, which is made node by node.
    Added(&'a str),
}

/// The captures, graphs and executable graphs of a plan, followed in program order.
pub struct Captures<'a> {
    plan: &'a Plan,
    /// Captured streams.
    streams: BTreeMap<&'a str, Member<'a>>,
    events: HashMap<&'a str, Recorded<'a>>,
    /// By the stream that began them.
    open: BTreeMap<&'a str, Capture<'a>>,
    /// Captures that began so far.
    begun: u32,
    graphs: HashMap<&'a str, Vec<Node<'a>>>,
    execs: HashMap<&'a str, Vec<Node<'a>>>,
    /// Graphs that no capture made: their nodes come one by one.
    by_hand: HashSet<&'a str>,
    /// Streams of random generators, where they are not the null stream.
    generators: HashMap<&'a str, &'a str>,
    /// Memory and handles of libraries made so far: what is captured works with those of that time.
    made: u32,
}

/// How many nodes of each captured stream come before.
type Before<'a> = BTreeMap<&'a str, u32>;

struct Member<'a> {
    /// The stream that began the capture.
    origin: &'a str,
    before: Before<'a>,
}

struct Capture<'a> {
    /// Which of all captures it is.
    number: u32,
    nodes: Vec<Node<'a>>,
}

/// What an event was recorded in last.
enum Recorded<'a> {
    Stream,
    Capture { number: u32, origin: &'a str, before: Before<'a> },
}

/// A captured call, or an event between captured calls, with the stream that it was given to.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub(crate) step: &'a Step,
    pub(crate) stream: &'a str,
    /// Memory and handles made before it was captured.
    pub(crate) made: u32,
}

impl<'a> Captures<'a> {
    /// Before the first step of this plan.
    pub fn new(plan: &'a Plan) -> Self {
        Captures {
            plan,
            streams: BTreeMap::new(),
            events: HashMap::new(),
            open: BTreeMap::new(),
            begun: 0,
            graphs: HashMap::new(),
            execs: HashMap::new(),
            by_hand: HashSet::new(),
            generators: HashMap::new(),
            made: 0,
        }
    }

    /// Follows a step, and tells what it is to the captures around it. A block is followed by its steps.
    ///
    /// # Errors
    /// The call must fail, and the step does not say so, in words. It does nothing then.
    pub fn visit(&mut self, step: &'a Step) -> Result<CaptureRole<'a>, String> {
        if !may_succeed(step) {
            if let OnCaptures::End { stream, .. } = step.call.on_captures()
                && ends_all_the_same(step)
            {
                self.end(stream);
            }
            return Ok(CaptureRole::Nothing);
        }
        // Where the case says itself what may come of it, it is followed as far as it goes.
        if step.returns.is_none() {
            self.refused(&step.call)?;
        }
        if let Call::AddNode { graph, .. } = &step.call {
            return self.add(step, graph).map(|()| CaptureRole::Added(graph));
        }
        match self.take(step) {
            Some(origin) => Ok(CaptureRole::Captured(origin)),
            None => {
                self.follow(step.call.on_captures())?;
                let makes = |n: &Named<'_>| n.role == NamedAs::Made && is_handle(n.thing);
                self.made += u32::from(step.call.named().iter().any(makes));
                Ok(CaptureRole::Now)
            }
        }
    }

    /// Whether anything is captured here.
    pub fn capturing(&self) -> bool {
        !self.open.is_empty()
    }

    /// The stream whose work a call is; none for calls that belong to no stream.
    pub(crate) fn stream(&self, call: &'a Call) -> Option<&'a str> {
        let of_generator =
            |generator: &str| self.generators.get(generator).copied().unwrap_or(DEFAULT_STREAM);
        call.work_stream().stream(self.plan, of_generator)
    }

    /// Why a call must fail, where captures are the reason.
    fn refused(&self, call: &Call) -> Result<(), String> {
        let refused = |why: String| Err(format!("{why}; if that is meant, say what it `returns`"));
        let origin = |stream: &str| self.streams.get(stream).map(|captured| captured.origin);
        let in_capture =
            |event: &str| matches!(self.events.get(event), Some(Recorded::Capture { .. }));
        if let Some(stream) = call.stream()
            && call.in_capture() == InCapture::Refused
            && origin(stream).is_some()
        {
            return refused(format!(
                "this call is not allowed on stream `{stream}`, which is being captured"
            ));
        }
        if let OnCaptures::Begin(stream) = call.on_captures() {
            if stream == DEFAULT_STREAM {
                return refused("the null stream cannot be captured".to_owned());
            }
            if origin(stream).is_some() {
                return refused(format!("stream `{stream}` is already captured here"));
            }
        }
        if let OnCaptures::End { stream, .. } = call.on_captures()
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
        let order = call.on_order();
        if let OnOrder::WaitEvent { stream, event } = order {
            return match self.events.get(event) {
                Some(Recorded::Capture { .. }) if self.captured(event).is_none() => {
                    refused(format!("event `{event}` was recorded in a capture that is over"))
                }
                Some(Recorded::Capture { .. }) if stream == DEFAULT_STREAM => {
                    refused("the null stream cannot be captured".to_owned())
                }
                Some(Recorded::Capture { origin: of, .. })
                    if origin(stream).is_some_and(|at| at != *of) =>
                {
                    refused(format!("stream `{stream}` is in another capture than event `{event}`"))
                }
                Some(Recorded::Stream) if origin(stream).is_some() => refused(format!(
                    "stream `{stream}` is being captured, but event `{event}` was recorded outside of that capture"
                )),
                Some(Recorded::Capture { .. } | Recorded::Stream) | None => Ok(()),
            };
        }
        // Whatever else works with an event waits for it or asks about it.
        let asks = |named: &Named<'_>| {
            let records = matches!(order, OnOrder::Record { .. });
            named.thing == Thing::Event && named.role == NamedAs::Used && !records
        };
        match call.named().into_iter().find(|named| asks(named) && in_capture(named.name)) {
            Some(event) => refused(format!("event `{}` was recorded in a capture", event.name)),
            None => Ok(()),
        }
    }

    /// Takes a step into the capture that its stream is in, or that it brings its stream into, and gives the stream where that
    /// began. None: the call takes effect now.
    fn take(&mut self, step: &'a Step) -> Option<&'a str> {
        let stream = self.stream(&step.call)?;
        let order = step.call.on_order();
        if let OnOrder::Record { event, .. } = order {
            let recorded = match self.streams.get(stream) {
                None => Recorded::Stream,
                Some(Member { origin, before }) => {
                    let number = self.open.get(origin)?.number;
                    Recorded::Capture { number, origin, before: before.clone() }
                }
            };
            self.events.insert(event, recorded);
        } else if let OnOrder::WaitEvent { event, .. } = order {
            let (origin, before) = self.captured(event)?;
            let captured =
                self.streams.entry(stream).or_insert(Member { origin, before: Before::new() });
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
        let node = Node { step, stream, made: self.made };
        self.open.get_mut(origin)?.nodes.push(node);
        Some(origin)
    }

    /// Adds a node behind the others of its graph.
    fn add(&mut self, step: &'a Step, graph: &'a str) -> Result<(), String> {
        self.graph(graph)?;
        match self.graphs.get_mut(graph).filter(|_| self.by_hand.contains(graph)) {
            Some(nodes) => {
                nodes.push(Node { step, stream: graph, made: self.made });
                Ok(())
            }
            None => Err(not_by_hand(graph)),
        }
    }

    /// Where an event was recorded, if that is in a capture that is still open.
    fn captured(&self, event: &str) -> Option<(&'a str, Before<'a>)> {
        match self.events.get(event)? {
            Recorded::Capture { number, origin, before } => {
                let open = self.open.get(origin).is_some_and(|open| open.number == *number);
                open.then(|| (*origin, before.clone()))
            }
            Recorded::Stream => None,
        }
    }

    fn end(&mut self, stream: &str) -> Option<Vec<Node<'a>>> {
        self.streams.retain(|_, captured| captured.origin != stream);
        self.open.remove(stream).map(|capture| capture.nodes)
    }

    /// What a call does to captures and graphs.
    fn follow(&mut self, effect: OnCaptures<'a>) -> Result<(), String> {
        match effect {
            OnCaptures::Nothing => {}
            OnCaptures::Begin(stream) => self.begin(stream),
            OnCaptures::End { stream, graph } => {
                let nodes = self.end(stream);
                let nodes =
                    nodes.ok_or_else(|| format!("stream `{stream}` is not capturing here"))?;
                self.graphs.insert(graph, nodes);
                self.by_hand.remove(graph);
            }
            // Its nodes do nothing.
            OnCaptures::EmptyGraph(graph) => {
                self.graphs.insert(graph, Vec::new());
                self.by_hand.insert(graph);
            }
            OnCaptures::AddChild { graph, child } => self.add_child(graph, child)?,
            OnCaptures::Clone { clone, graph } => {
                let nodes = self.graph(graph)?;
                // Nobody keeps which of its nodes is the last one.
                self.by_hand.remove(clone);
                self.graphs.insert(clone, nodes);
            }
            OnCaptures::LookAt(graph) => drop(self.graph(graph)?),
            OnCaptures::Instantiate { exec, graph } => {
                let nodes = self.graph(graph)?;
                self.execs.insert(exec, nodes);
            }
            OnCaptures::Update { exec, graph } => {
                self.nodes(exec)?;
                let nodes = self.graph(graph)?;
                self.execs.insert(exec, nodes);
            }
            OnCaptures::EndExec(exec) => {
                self.nodes(exec)?;
                self.execs.remove(exec);
            }
            OnCaptures::EndGraph(graph) => {
                self.graph(graph)?;
                self.graphs.remove(graph);
            }
            OnCaptures::RandStream { generator, stream } => {
                self.generators.insert(generator, stream);
            }
            OnCaptures::NewGenerator(generator) => drop(self.generators.remove(generator)),
            OnCaptures::NewEvent(event) => drop(self.events.remove(event)),
            OnCaptures::Allocated => self.made += 1,
        }
        Ok(())
    }

    fn begin(&mut self, stream: &'a str) {
        self.begun += 1;
        self.end(stream);
        self.streams.insert(stream, Member { origin: stream, before: Before::new() });
        self.open.insert(stream, Capture { number: self.begun, nodes: Vec::new() });
    }

    /// What the child does, between what comes before and behind: its nodes are copied.
    fn add_child(&mut self, graph: &'a str, child: &str) -> Result<(), String> {
        let mut added = self.graph(child)?;
        self.graph(graph)?;
        let one = added.first().map(|node| node.stream);
        if added.iter().any(|node| Some(node.stream) != one || recorded_event(node.step)) {
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
            None => Err(not_by_hand(graph)),
        }
    }

    /// Memory and handles made so far.
    pub(crate) fn made(&self) -> u32 {
        self.made
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

fn not_by_hand(graph: &str) -> String {
    format!(
        "graph `{graph}` comes from a capture; nodes can be added only to a graph that `empty_graph` makes"
    )
}

/// Whether it is a handle of a library above HIP, be it called a generator.
pub(crate) fn is_handle(thing: Thing) -> bool {
    matches!(thing, Thing::Generator | Thing::Blaslt | Thing::Rocblas)
}

/// Whether it orders streams of a capture, and is no node itself.
fn recorded_event(step: &Step) -> bool {
    matches!(step.call.on_order(), OnOrder::Record { .. } | OnOrder::WaitEvent { .. })
}

/// Where the steps of the body stand to its captures, by their ids.
#[derive(Debug, Default, PartialEq)]
pub struct CapturedSteps {
    /// Made while anything is captured, on whatever stream, from the beginning of a capture to its end.
    pub during: BTreeSet<u32>,
    /// They become part of a capture, or a node of a graph that is made node by node.
    pub inside: BTreeSet<u32>,
}

/// What the captures of a body take.
pub fn captured_steps(plan: &Plan) -> CapturedSteps {
    fn walk<'a>(steps: &'a [Step], captures: &mut Captures<'a>, found: &mut CapturedSteps) {
        for step in steps {
            if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
                walk(body, captures, found);
                continue;
            }
            let before = captures.capturing();
            // What is wrong is told elsewhere.
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
    // Allocations and streams of the set-up are none of a capture.
    walk(&plan.body, &mut captures, &mut found);
    found
}

/// Whether a step with declared statuses may succeed; a call that must fail has no effect.
pub fn may_succeed(step: &Step) -> bool {
    step.returns.as_ref().is_none_or(|by| by.0.iter().any(|(_, names)| accepts_success(names)))
}

/// Whether the end of a capture that fails as the step says is an end of it.
fn ends_all_the_same(step: &Step) -> bool {
    const ENDED: [&str; 2] = ["hipErrorStreamCaptureInvalidated", "hipErrorStreamCaptureUnjoined"];
    let ended = |names: &[String]| names.iter().any(|name| ENDED.contains(&name.as_str()));
    step.returns.as_ref().is_some_and(|by| by.0.iter().any(|(_, names)| ended(names)))
}

/// Whether success is among the statuses that are right.
pub fn accepts_success(names: &[String]) -> bool {
    names
        .iter()
        .any(|n| n == "hipSuccess" || n.to_ascii_lowercase().ends_with("_success") || n == "any")
}

/// Whether the call becomes a node when its stream is captured.
pub fn recorded(call: &Call) -> bool {
    call.in_capture() == InCapture::Node
}
