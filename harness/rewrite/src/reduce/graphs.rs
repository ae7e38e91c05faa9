//! A plan without its graphs.

use std::{collections::HashMap, ops::RangeInclusive};

use plan::{Call, CaptureRole, Captures, CopyApi, DEFAULT_STREAM, Plan, Step, Thing};

use crate::uses::{block, calls};

/// The steps with each graph launch replaced by the captured calls, on the stream of the launch.
pub(super) fn ungraph(plan: &Plan) -> Vec<Step> {
    let highest = calls(&plan.body).iter().map(|s| s.id).max().unwrap_or(0);
    let mut state = State {
        next_id: highest + 1000,
        captures: Captures::new(plan),
        open: HashMap::new(),
        graphs: HashMap::new(),
        execs: HashMap::new(),
    };
    state.steps(&plan.body)
}

/// Replaces the capture that a step begins by a graph of empty nodes, as many as calls are recorded.
pub(super) fn empty(steps: &mut Vec<Step>, begin: u32) {
    let Some((range, _, graph)) = capture(steps, begin) else { return };
    let nodes = nodes(&steps[range.clone()]).max(1);
    let made = Step { call: Call::EmptyGraph { graph, nodes }, ..plain(&steps[*range.start()]) };
    steps.splice(range, [made]);
}

/// Replaces the capture that a step begins by a graph to which what is captured is added, where that is one chain of calls that
/// can be nodes.
pub(super) fn by_hand(steps: &mut Vec<Step>, begin: u32) {
    let Some((range, stream, graph)) = capture(steps, begin) else { return };
    let inside = &steps[range.start() + 1..*range.end()];
    let Some(added) = added(inside, &stream, &graph) else { return };
    let made = Step { call: Call::EmptyGraph { graph, nodes: 0 }, ..plain(&steps[*range.start()]) };
    steps.splice(range, [made].into_iter().chain(added));
}

/// Where the capture that a step begins stands, with its stream and graph.
fn capture(steps: &[Step], begin: u32) -> Option<(RangeInclusive<usize>, String, String)> {
    let at = steps.iter().position(|s| s.id == begin)?;
    let Call::BeginCapture { stream, .. } = &steps[at].call else { return None };
    steps[at..].iter().zip(at..).find_map(|(step, end)| {
        let Call::EndCapture { stream: ended, graph } = &step.call else { return None };
        (ended == stream).then(|| (at..=end, stream.clone(), graph.clone()))
    })
}

/// The step without what is said of its call.
fn plain(step: &Step) -> Step {
    Step { returns: None, gives: None, planted: Vec::new(), ..step.clone() }
}

/// The steps of a capture with nodes in the place of what is captured; none where something of them cannot be one node of a chain.
fn added(steps: &[Step], stream: &str, graph: &str) -> Option<Vec<Step>> {
    let mut out = Vec::new();
    for step in steps {
        if matches!(&step.call, Call::IsCapturing { stream: asked } if asked == stream) {
            continue;
        }
        let taken = plan::recorded(&step.call);
        if taken && !step.call.by_hand().is_empty() && step.call.stream() == Some(stream) {
            let mut node = step.call.clone();
            if let Some(stream) = node.stream_mut() {
                DEFAULT_STREAM.clone_into(stream);
            }
            if let Call::Copy { api, .. } = &mut node {
                *api = CopyApi::MemcpyAsync;
            }
            let call = Call::AddNode { graph: graph.to_owned(), node: Box::new(node) };
            out.push(Step { call, ..plain(step) });
            continue;
        }
        // Other streams may have joined the capture, and generators may be of its stream.
        if taken || step.call.stream().is_some() || matches!(step.call, Call::Thread { .. }) {
            return None;
        }
        let mut step = step.clone();
        if let Some(body) = step.call.body_mut() {
            *body = added(body, stream, graph)?;
        }
        out.push(step);
    }
    Some(out)
}

fn nodes(steps: &[Step]) -> u32 {
    let each = steps.iter().map(|step| {
        let times = if let Call::Repeat { count, .. } = step.call { count } else { 1 };
        let own = u32::from(plan::recorded(&step.call));
        step.call.body().map_or(own, |body| nodes(body).saturating_mul(times))
    });
    each.fold(0, u32::saturating_add)
}

/// What is captured: a stream and its steps.
#[derive(Clone, Default)]
struct Captured {
    origin: String,
    steps: Vec<Step>,
}

struct State<'a> {
    next_id: u32,
    captures: Captures<'a>,
    /// What was captured so far, by the stream at which the capture began.
    open: HashMap<&'a str, Vec<Step>>,
    graphs: HashMap<&'a str, Captured>,
    execs: HashMap<&'a str, Captured>,
}

impl<'a> State<'a> {
    fn steps(&mut self, steps: &'a [Step]) -> Vec<Step> {
        let mut out = Vec::new();
        for step in steps {
            self.step(step, &mut out);
        }
        out
    }

    fn step(&mut self, step: &'a Step, out: &mut Vec<Step>) {
        if let Some(body) = block(&step.call) {
            let body = self.steps(body);
            if !body.is_empty() {
                let mut step = step.clone();
                if let Some(old) = step.call.body_mut() {
                    *old = body;
                }
                out.push(step);
            }
            return;
        }
        match self.captures.visit(step) {
            Ok(CaptureRole::Captured(origin)) => {
                self.open.entry(origin).or_default().push(step.clone())
            }
            Ok(CaptureRole::Added(graph)) => {
                if let Some(made) = self.graphs.get_mut(graph) {
                    made.steps.push(Step { call: step.call.work().clone(), ..plain(step) });
                }
            }
            Ok(CaptureRole::Nothing | CaptureRole::Now) | Err(_) => self.call(step, out),
        }
    }

    fn call(&mut self, step: &'a Step, out: &mut Vec<Step>) {
        if let Call::BeginCapture { stream, .. } = &step.call {
            self.open.insert(stream, Vec::new());
        } else if let Call::EndCapture { stream, graph } = &step.call {
            let steps = self.open.remove(stream.as_str()).unwrap_or_default();
            self.graphs.insert(graph, Captured { origin: stream.clone(), steps });
        } else if let Call::EmptyGraph { graph, .. } = &step.call {
            let empty = Captured { origin: DEFAULT_STREAM.to_owned(), steps: Vec::new() };
            self.graphs.insert(graph, empty);
        } else if let Call::GraphInstantiate { exec, graph }
        | Call::GraphExecUpdate { exec, graph } = &step.call
        {
            if let Some(captured) = self.graphs.get(graph.as_str()) {
                self.execs.insert(exec, captured.clone());
            }
        } else if let Call::GraphLaunch { exec, stream } = &step.call {
            let captured = self.execs.get(exec.as_str()).cloned().unwrap_or_default();
            for mut inner in captured.steps {
                self.next_id += 1;
                inner.id = self.next_id;
                if let Some(name) = inner.call.stream_mut()
                    && *name == captured.origin
                {
                    name.clone_from(stream);
                }
                out.push(inner);
            }
        } else if !of_graphs(&step.call) {
            out.push(step.clone());
        }
    }
}

/// Whether a call asks about a capture, or is about a graph: there are none any more.
fn of_graphs(call: &Call) -> bool {
    let graph = |named: &plan::Named<'_>| matches!(named.thing, Thing::Graph | Thing::Exec);
    matches!(call, Call::IsCapturing { .. }) || call.named().iter().any(graph)
}
