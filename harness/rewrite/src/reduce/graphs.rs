//! A plan without its graphs.

use std::{collections::HashMap, ops::RangeInclusive};

use plan::{Call, Captures, CopyApi, DEFAULT_STREAM, Plan, Role, Step};

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
    steps[at..].iter().zip(at..).find_map(|(step, end)| match &step.call {
        Call::EndCapture { stream: ended, graph } if ended == stream => {
            Some((at..=end, stream.clone(), graph.clone()))
        }
        _ => None,
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
        let call = match &step.call {
            Call::Repeat { count, body } => {
                Call::Repeat { count: *count, body: added(body, stream, graph)? }
            }
            Call::IsCapturing { stream: asked } if asked == stream => continue,
            Call::Launch { .. } | Call::Copy { .. } | Call::Set { .. } | Call::HostFunc { .. }
                if plan::recorded(&step.call) && step.call.stream() == Some(stream) =>
            {
                let mut node = step.call.clone();
                if let Some(stream) = node.stream_mut() {
                    DEFAULT_STREAM.clone_into(stream);
                }
                if let Call::Copy { api, .. } = &mut node {
                    *api = CopyApi::MemcpyAsync;
                }
                out.push(Step {
                    call: Call::AddNode { graph: graph.to_owned(), node: Box::new(node) },
                    ..plain(step)
                });
                continue;
            }
            // Other streams may have joined the capture, and generators may be of its stream.
            call if plan::recorded(call) || call.stream().is_some() => return None,
            Call::Thread { .. } => return None,
            call => call.clone(),
        };
        out.push(Step { call, ..step.clone() });
    }
    Some(out)
}

fn nodes(steps: &[Step]) -> u32 {
    let each = steps.iter().map(|step| match &step.call {
        Call::Repeat { count, body } => nodes(body).saturating_mul(*count),
        Call::Thread { body } => nodes(body),
        call => u32::from(plan::recorded(call)),
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
            let call = match &step.call {
                Call::Repeat { count, .. } => Call::Repeat { count: *count, body },
                _ => Call::Thread { body },
            };
            if block(&call).is_some_and(|body| !body.is_empty()) {
                out.push(Step { call, ..step.clone() });
            }
            return;
        }
        match self.captures.visit(step) {
            Ok(Role::Captured(origin)) => self.open.entry(origin).or_default().push(step.clone()),
            Ok(Role::Added(graph)) => {
                if let Some(made) = self.graphs.get_mut(graph) {
                    made.steps.push(Step { call: step.call.work().clone(), ..plain(step) });
                }
            }
            Ok(Role::Nothing | Role::Now) | Err(_) => self.call(step, out),
        }
    }

    fn call(&mut self, step: &'a Step, out: &mut Vec<Step>) {
        match &step.call {
            Call::BeginCapture { stream, .. } => drop(self.open.insert(stream, Vec::new())),
            Call::EndCapture { stream, graph } => {
                let steps = self.open.remove(stream.as_str()).unwrap_or_default();
                self.graphs.insert(graph, Captured { origin: stream.clone(), steps });
            }
            Call::EmptyGraph { graph, .. } => {
                let empty = Captured { origin: DEFAULT_STREAM.to_owned(), steps: Vec::new() };
                self.graphs.insert(graph, empty);
            }
            Call::GraphInstantiate { exec, graph } | Call::GraphExecUpdate { exec, graph } => {
                if let Some(captured) = self.graphs.get(graph.as_str()) {
                    self.execs.insert(exec, captured.clone());
                }
            }
            Call::GraphLaunch { exec, stream } => {
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
            }
            Call::IsCapturing { .. }
            | Call::GraphNodeCount { .. }
            | Call::GraphExecDestroy { .. }
            | Call::GraphDestroy { .. } => {}
            _ => out.push(step.clone()),
        }
    }
}
