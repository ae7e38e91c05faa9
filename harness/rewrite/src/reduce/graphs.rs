//! Edits that remove or simplify graphs.

use std::{collections::HashMap, ops::RangeInclusive};

use plan::{Call, CaptureRole, Captures, CopyApi, DEFAULT_STREAM, ObjectKind, Plan, Step};

use crate::uses::{block, calls};

/// Returns the body with each graph launch replaced by the captured calls, on the stream of the launch.
pub(super) fn ungraph(plan: &Plan) -> Vec<Step> {
    let highest = calls(&plan.body).iter().map(|s| s.id).max().unwrap_or(0);
    let mut state = Ungrapher {
        next_id: highest + 1000,
        captures: Captures::new(plan),
        open: HashMap::new(),
        graphs: HashMap::new(),
        execs: HashMap::new(),
    };
    state.steps(&plan.body)
}

/// Replaces the capture that begins at a step by a graph of empty nodes, one per captured call.
pub(super) fn to_empty_nodes(steps: &mut Vec<Step>, begin: u32) {
    let Some((range, _, graph)) = find_capture(steps, begin) else { return };
    let nodes = count_nodes(&steps[range.clone()]).max(1);
    let made =
        Step { call: Call::EmptyGraph { graph, nodes }, ..bare_step(&steps[*range.start()]) };
    steps.splice(range, [made]);
}

/// Replaces the capture that begins at a step by a graph to which the captured calls are added one by one. Changes
/// nothing if the captured calls are not a single chain, or if one of them cannot be a node.
pub(super) fn to_added_nodes(steps: &mut Vec<Step>, begin: u32) {
    let Some((range, stream, graph)) = find_capture(steps, begin) else { return };
    let inside = &steps[range.start() + 1..*range.end()];
    let Some(added) = add_calls(inside, &stream, &graph) else { return };
    let made =
        Step { call: Call::EmptyGraph { graph, nodes: 0 }, ..bare_step(&steps[*range.start()]) };
    steps.splice(range, [made].into_iter().chain(added));
}

/// Finds the capture that begins at the step with the id `begin`. Returns its range of steps, its stream and its graph;
/// `None` if no capture begins there, or if the capture does not end in `steps`.
fn find_capture(steps: &[Step], begin: u32) -> Option<(RangeInclusive<usize>, String, String)> {
    let at = steps.iter().position(|s| s.id == begin)?;
    let Call::BeginCapture { stream, .. } = &steps[at].call else { return None };
    steps[at..].iter().zip(at..).find_map(|(step, end)| {
        let Call::EndCapture { stream: ended, graph } = &step.call else { return None };
        (ended == stream).then(|| (at..=end, stream.clone(), graph.clone()))
    })
}

/// Returns the step without expected statuses, expected values and injected faults.
fn bare_step(step: &Step) -> Step {
    Step { returns: None, gives: None, planted: Vec::new(), ..step.clone() }
}

/// Replaces captured calls by calls that add nodes. Returns `None` if the captured calls are not a single chain, or if
/// one of them cannot be a node.
fn add_calls(steps: &[Step], stream: &str, graph: &str) -> Option<Vec<Step>> {
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
            out.push(Step { call, ..bare_step(step) });
            continue;
        }
        // The step may belong to another stream that joined the capture, or use a generator on the captured stream.
        if taken || step.call.stream().is_some() || matches!(step.call, Call::Thread { .. }) {
            return None;
        }
        let mut step = step.clone();
        if let Some(body) = step.call.body_mut() {
            *body = add_calls(body, stream, graph)?;
        }
        out.push(step);
    }
    Some(out)
}

fn count_nodes(steps: &[Step]) -> u32 {
    let each = steps.iter().map(|step| {
        let times = if let Call::Repeat { count, .. } = step.call { count } else { 1 };
        let own = u32::from(plan::recorded(&step.call));
        step.call.body().map_or(own, |body| count_nodes(body).saturating_mul(times))
    });
    each.fold(0, u32::saturating_add)
}

/// A captured graph: the stream that began the capture, and the captured steps.
#[derive(Clone, Default)]
struct CapturedGraph {
    origin: String,
    steps: Vec<Step>,
}

struct Ungrapher<'a> {
    next_id: u32,
    captures: Captures<'a>,
    /// Steps of open captures so far, by the stream that began the capture.
    open: HashMap<&'a str, Vec<Step>>,
    graphs: HashMap<&'a str, CapturedGraph>,
    execs: HashMap<&'a str, CapturedGraph>,
}

impl<'a> Ungrapher<'a> {
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
                    made.steps.push(Step { call: step.call.work().clone(), ..bare_step(step) });
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
            self.graphs.insert(graph, CapturedGraph { origin: stream.clone(), steps });
        } else if let Call::EmptyGraph { graph, .. } = &step.call {
            let empty = CapturedGraph { origin: DEFAULT_STREAM.to_owned(), steps: Vec::new() };
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
        } else if !concerns_graphs(&step.call) {
            out.push(step.clone());
        }
    }
}

/// Returns true for calls that concern only captures and graphs. Such calls are dropped, because the edited plan
/// contains neither.
fn concerns_graphs(call: &Call) -> bool {
    let graph =
        |named: &plan::NamedObject<'_>| matches!(named.kind, ObjectKind::Graph | ObjectKind::Exec);
    matches!(call, Call::IsCapturing { .. }) || call.named().iter().any(graph)
}
