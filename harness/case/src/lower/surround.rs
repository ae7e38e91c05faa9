//! What stands around the body of a plan.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use plan::{Call, CopyApi, DEFAULT_STREAM, Memory, Place, Plan, Step};

use super::{INITIAL, Scope, beside, stamp};
use crate::buffers::Initial;

/// Adds what stands around the body: set-up, guards, teardown.
pub(super) fn surround(
    mut plan: Plan,
    mut scope: Scope,
    initial: &BTreeMap<String, Initial>,
) -> Plan {
    let calls: Vec<Call> = plan.steps().into_iter().map(|s| s.call.clone()).collect();
    let by_steps: HashSet<_> = calls.iter().filter_map(managed).collect();
    let stream = || DEFAULT_STREAM.to_owned();
    let (mut setup, mut verify, mut teardown) = (Vec::new(), Vec::new(), Vec::new());
    let lines = kernel_lines(&plan);
    let mut push = |steps: &mut Vec<Step>, call| steps.push(scope.step(call, 0));
    let mut undone = HashSet::new();
    // Newest first, as a careful program would.
    for step in plan.steps().into_iter().rev() {
        // What a later step makes under the same name takes the place of what was there.
        if let Some(destroy) = destroyed_by(step)
            && let Some((kind, name)) = managed(&destroy)
            && !by_steps.contains(&(kind, name))
            && undone.insert((kind, name.to_owned()))
        {
            push(&mut teardown, destroy);
        }
    }

    let mut launched: Vec<&str> = Vec::new();
    for call in &calls {
        if let Call::Launch { kernel, .. } | Call::FindSymbol { kernel, .. } = call.work()
            && !launched.contains(&kernel.as_str())
        {
            launched.push(kernel);
        }
    }
    for name in launched {
        push(&mut setup, Call::Compile { kernel: name.to_owned() });
        push(&mut setup, Call::Load { kernel: name.to_owned() });
        push(&mut teardown, Call::Unload { kernel: name.to_owned() });
    }
    for name in plan.streams.keys() {
        let created =
            calls.iter().any(|c| matches!(c, Call::StreamCreate { stream } if stream == name));
        let destroyed =
            calls.iter().any(|c| matches!(c, Call::StreamDestroy { stream } if stream == name));
        if !created {
            push(&mut setup, Call::StreamCreate { stream: name.clone() });
        }
        if !destroyed {
            push(&mut teardown, Call::StreamDestroy { stream: name.clone() });
        }
    }
    let timed: BTreeSet<&str> = calls
        .iter()
        .flat_map(|call| match call {
            Call::EventElapsed { start, end } => [Some(start.as_str()), Some(end)],
            _ => [None, None],
        })
        .flatten()
        .collect();
    for event in &plan.events {
        let timing = timed.contains(event.as_str());
        push(&mut setup, Call::EventCreate { event: event.clone(), timing });
        push(&mut teardown, Call::EventDestroy { event: event.clone() });
    }
    let mut staging = BTreeMap::new();
    for (name, buffer) in &plan.buffers {
        if by_steps.contains(&(ALLOC, name)) || buffer.memory == Memory::DeviceAsync {
            continue;
        }
        let place = |b: &str| Place { buffer: b.to_owned(), offset: 0 };
        push(&mut setup, Call::Alloc { buffer: name.clone(), stream: stream() });
        push(&mut setup, Call::Poison { buffer: name.clone() });
        match initial.get(name).copied().unwrap_or(Initial::Poison) {
            Initial::Poison => {}
            Initial::Zero => {
                let (to, bytes) = (place(name), buffer.bytes);
                push(
                    &mut setup,
                    Call::Set {
                        to,
                        value: 0,
                        words: false,
                        bytes,
                        asynchronous: false,
                        stream: stream(),
                    },
                );
            }
            Initial::Pattern if buffer.memory.on_host() => {
                push(&mut setup, Call::Fill { buffer: name.clone(), stamp: 0 });
            }
            Initial::Pattern => {
                let from = format!("{name}{INITIAL}");
                staging.insert(from.clone(), beside(buffer));
                push(&mut setup, Call::Alloc { buffer: from.clone(), stream: stream() });
                push(&mut setup, Call::Poison { buffer: from.clone() });
                push(&mut setup, Call::Fill { buffer: from.clone(), stamp: 0 });
                let copy = Call::Copy {
                    to: place(name),
                    from: place(&from),
                    bytes: buffer.bytes,
                    api: CopyApi::Memcpy,
                    stream: stream(),
                };
                push(&mut setup, copy);
            }
        }
        if !by_steps.contains(&(FREE, name)) {
            if buffer.guarded {
                push(&mut verify, Call::Guards { buffer: name.clone() });
            }
            push(&mut teardown, Call::Free { buffer: name.clone(), stream: stream() });
        }
    }
    for name in staging.keys() {
        push(&mut teardown, Call::Free { buffer: name.clone(), stream: stream() });
    }
    for step in &mut setup {
        if let Call::Compile { kernel } | Call::Load { kernel } = &step.call {
            step.line = lines.get(kernel).copied().unwrap_or(0);
        }
    }
    plan.buffers.extend(staging);
    // Set-up ends with an idle device, so that the body starts from a known state.
    push(&mut setup, Call::DeviceSynchronize);
    if !verify.is_empty() {
        verify.insert(0, scope.step(Call::DeviceSynchronize, 0));
    }
    for name in calls.iter().filter_map(|c| match c.work() {
        Call::Launch { kernel, .. } | Call::FindSymbol { kernel, .. } => Some(kernel),
        _ => None,
    }) {
        plan.kernels.insert(name.clone(), scope.source(name));
        if let Some(place) = scope.place_of_own(name) {
            plan.own_kernels.insert(name.clone(), place);
        }
    }
    stamp(&mut setup);
    Plan { setup, verify, teardown, ..plan }
}

/// The first line at which each kernel is used: what compiling and loading it are for.
fn kernel_lines(plan: &Plan) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for step in plan.steps() {
        if let Call::Launch { kernel, .. } | Call::FindSymbol { kernel, .. } = step.call.work() {
            lines.entry(kernel.clone()).or_insert(step.line);
        }
    }
    lines
}

/// The call that undoes a step's creation. A creation that may fail leaves nothing behind that could be destroyed.
fn destroyed_by(step: &Step) -> Option<Call> {
    if !step.checked() {
        return None;
    }
    Some(match &step.call {
        Call::EndCapture { graph, .. } | Call::EmptyGraph { graph, .. } => {
            Call::GraphDestroy { graph: graph.clone() }
        }
        Call::GraphInstantiate { exec, .. } => Call::GraphExecDestroy { exec: exec.clone() },
        Call::RandCreate { generator, .. } => Call::RandDestroy { generator: generator.clone() },
        Call::BlasltCreate { handle } => Call::BlasltDestroy { handle: handle.clone() },
        Call::RocblasCreate { handle } => Call::RocblasDestroy { handle: handle.clone() },
        _ => return None,
    })
}

const ALLOC: &str = "alloc";
const FREE: &str = "free";

/// What a call makes or undoes that lowering would else see to, and its name.
fn managed(call: &Call) -> Option<(&'static str, &str)> {
    match call {
        Call::Alloc { buffer, .. } => Some((ALLOC, buffer)),
        Call::Free { buffer, .. } => Some((FREE, buffer)),
        Call::GraphDestroy { graph } => Some(("graph", graph)),
        Call::GraphExecDestroy { exec } => Some(("exec", exec)),
        Call::RandDestroy { generator } => Some(("generator", generator)),
        Call::BlasltDestroy { handle } => Some(("blaslt", handle)),
        Call::RocblasDestroy { handle } => Some(("rocblas", handle)),
        _ => None,
    }
}
