//! Edits that make a plan smaller or simpler.
//!
//! Edits refer to steps by their ids. The ids do not change, so an edit means the same whether it is applied before or
//! after other edits. An edited plan is written as a case and lowered again, which adds set-up and teardown and rejects
//! invalid plans. Therefore an edit need not produce a valid plan.

mod describe;
mod graphs;
mod list;
mod sizes;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use plan::{
    Arg, Buffer, BufferAddress, Call, DEFAULT_STREAM, Dtype, Library, Memory, ObjectKind, Plan,
    Step, StreamKind,
};

pub use self::{describe::describe, list::reductions};
use crate::uses::{block, block_mut, buffers, calls, each_mut, writes};

/// An edit that makes a plan smaller or simpler. Steps are identified by their ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Drops calls, and everything that only these calls use.
    Drop {
        /// Ids of the steps to drop.
        steps: Vec<u32>,
        /// True to fill a buffer with a pattern at the start if only the dropped calls wrote the buffer.
        preset: bool,
    },
    /// Drops a declared buffer that no step uses.
    DropBuffer(String),
    /// Drops a declared stream that no step uses.
    DropStream(String),
    /// Drops an environment variable of the case.
    DropVariable(String),
    /// Replaces each graph launch by the calls that were captured in the graph.
    Ungraph,
    /// Replaces the capture that begins at this step by a chain of empty nodes, one for each captured call.
    EmptyGraph(u32),
    /// Replaces the capture that begins at this step by a graph to which the captured calls are added one by one.
    ByHand(u32),
    /// Limits the number of empty nodes that a step adds to a graph: the step's id and the maximum.
    Nodes(u32, u32),
    /// Replaces a block by the steps inside it, which are then executed once.
    Inline(u32),
    /// Limits the number of iterations of a block: the block's id and the maximum.
    Count(u32, u32),
    /// Moves all work from one stream to another.
    Merge {
        /// The stream to remove.
        from: String,
        /// The stream to use instead.
        to: String,
    },
    /// Changes a stream to a blocking stream.
    Blocking(String),
    /// Changes the memory kind of a buffer. If the memory was stream-ordered, the buffer is allocated in the set-up
    /// instead of by a step.
    Memory(String, Memory),
    /// Removes the guards of a buffer and of the host buffers that lowering adds for it.
    Unguarded(String),
    /// Replaces the function of a copy or memset by the simplest synchronous one.
    Synchronous(u32),
    /// Changes a launch to workgroups of 256 work-items, as many as needed.
    Geometry(u32),
    /// Replaces the kernel of a launch by a simpler kernel with the same output buffer.
    Kernel(u32, &'static str),
    /// Changes a matrix product to `f32` without transposes and bias.
    PlainProblem(u32),
    /// Limits the dimensions of a matrix product: the step's id and the maximum.
    Problem(u32, u64),
    /// Scales all sizes so that the largest buffer has this size, in bytes.
    Scale(u64),
}

/// Applies edits one after the other. An edit that does not apply changes nothing.
pub fn apply(plan: &Plan, edits: &[Edit]) -> Plan {
    let mut plan = plan.clone();
    for edit in edits {
        apply_edit(&mut plan, edit);
    }
    plan
}

fn apply_edit(plan: &mut Plan, edit: &Edit) {
    match edit {
        Edit::Drop { steps, preset } => {
            drop_steps(plan, &steps.iter().copied().collect(), *preset);
        }
        Edit::DropBuffer(name) => drop(plan.buffers.remove(name)),
        Edit::DropStream(name) => drop(plan.streams.remove(name)),
        Edit::DropVariable(name) => drop(plan.environment.remove(name)),
        Edit::Ungraph => change_and_tidy(plan, |plan| plan.body = graphs::ungraph(plan)),
        Edit::EmptyGraph(id) => {
            change_and_tidy(plan, |plan| graphs::to_empty_nodes(&mut plan.body, *id))
        }
        Edit::ByHand(id) => {
            change_and_tidy(plan, |plan| graphs::to_added_nodes(&mut plan.body, *id))
        }
        Edit::Nodes(id, most) => change(plan, *id, |call| {
            if let Call::EmptyGraph { nodes, .. } = call {
                *nodes = (*nodes).min(*most);
            }
        }),
        Edit::Inline(id) => inline(&mut plan.body, *id),
        Edit::Count(id, count) => change(plan, *id, |call| {
            if let Call::Repeat { count: old, .. } = call {
                *old = (*old).min(*count);
            }
        }),
        Edit::Merge { from, to } => merge(plan, from, to),
        Edit::Blocking(name) => {
            if let Some(kind) = plan.streams.get_mut(name) {
                *kind = StreamKind::Blocking;
            }
        }
        Edit::Memory(name, memory) => set_memory(plan, name, *memory),
        Edit::Unguarded(name) => remove_guards(plan, name),
        Edit::Synchronous(id) => change(plan, *id, make_synchronous),
        Edit::Geometry(id) => change(plan, *id, simplify_geometry),
        Edit::Kernel(id, name) => simplify_kernel(plan, *id, name),
        Edit::PlainProblem(id) => change(plan, *id, |call| {
            if let Call::BlasltHeuristic { problem, .. } = call {
                problem.dtype = Dtype::F32;
                (problem.transpose_a, problem.transpose_b, problem.bias) = (false, false, false);
            }
        }),
        Edit::Problem(id, most) => change(plan, *id, |call| {
            if let Call::BlasltHeuristic { problem, .. } = call {
                for size in [&mut problem.m, &mut problem.n, &mut problem.k] {
                    *size = (*size).min(*most);
                }
            }
        }),
        Edit::Scale(target) => sizes::scale(plan, *target),
    }
}

fn change(plan: &mut Plan, id: u32, change: impl Fn(&mut Call)) {
    each_mut(&mut plan.body, &mut |step| {
        if step.id == id {
            change(step.call.work_mut());
        }
    });
}

fn drop_steps(plan: &mut Plan, ids: &BTreeSet<u32>, preset: bool) {
    let written: Vec<String> = calls(&plan.body)
        .into_iter()
        .filter(|step| ids.contains(&step.id))
        .flat_map(|step| writes(&step.call))
        .map(str::to_owned)
        .collect();
    change_and_tidy(plan, |plan| {
        remove(&mut plan.body, ids);
        if !preset {
            return;
        }
        for name in written {
            let still = calls(&plan.body).iter().any(|s| writes(&s.call).contains(&name.as_str()));
            if !still {
                preset_buffer(plan, name);
            }
        }
    });
}

/// Adds a fill of the buffer to the set-up. When the plan is written as a case, the fill becomes the initial content of
/// the buffer.
fn preset_buffer(plan: &mut Plan, buffer: String) {
    let call = Call::Fill { buffer, stamp: 0 };
    plan.setup.push(Step { id: 0, call, returns: None, gives: None, line: 0, planted: Vec::new() });
}

fn remove(steps: &mut Vec<Step>, ids: &BTreeSet<u32>) {
    steps.retain_mut(|step| {
        if ids.contains(&step.id) {
            return false;
        }
        match block_mut(&mut step.call) {
            Some(body) => {
                remove(body, ids);
                !body.is_empty()
            }
            None => true,
        }
    });
}

/// Names of the objects that the steps of a plan use.
#[derive(Default)]
struct UsedObjects {
    buffers: BTreeSet<String>,
    streams: BTreeSet<String>,
    kernels: BTreeSet<String>,
    libraries: Vec<Library>,
}

impl UsedObjects {
    fn find(plan: &Plan) -> UsedObjects {
        let mut used = UsedObjects::default();
        for step in calls(&plan.body) {
            used.buffers.extend(buffers(&step.call).into_iter().map(str::to_owned));
            used.streams.extend(step.call.stream().map(str::to_owned));
            used.libraries.extend(library(&step.call));
            used.kernels.extend(step.call.kernels().map(str::to_owned));
        }
        used
    }
}

/// Calls `change`, and then drops everything that the plan no longer uses.
fn change_and_tidy(plan: &mut Plan, change: impl FnOnce(&mut Plan)) {
    let before = UsedObjects::find(plan);
    change(plan);
    let after = UsedObjects::find(plan);
    let gone = |was: &BTreeSet<String>, is: &BTreeSet<String>, name: &String| {
        was.contains(name) && !is.contains(name)
    };
    plan.buffers.retain(|name, _| !gone(&before.buffers, &after.buffers, name));
    plan.streams.retain(|name, _| !gone(&before.streams, &after.streams, name));
    plan.kernels.retain(|name, _| after.kernels.contains(name));
    plan.libraries
        .retain(|name| !before.libraries.contains(name) || after.libraries.contains(name));
}

fn library(call: &Call) -> Option<Library> {
    call.named().into_iter().find_map(|named| match named.kind {
        ObjectKind::Generator => Some(Library::Hiprand),
        ObjectKind::Blaslt => Some(Library::Hipblaslt),
        ObjectKind::Rocblas => Some(Library::Rocblas),
        ObjectKind::Buffer
        | ObjectKind::Stream
        | ObjectKind::Kernel
        | ObjectKind::Event
        | ObjectKind::Graph
        | ObjectKind::Exec
        | ObjectKind::Value => None,
    })
}

fn inline(steps: &mut Vec<Step>, id: u32) {
    if let Some(at) = steps.iter().position(|s| s.id == id && block(&s.call).is_some()) {
        if let Some(body) = block_mut(&mut steps[at].call).map(std::mem::take) {
            steps.splice(at..=at, body);
        }
        return;
    }
    for step in steps {
        if let Some(body) = block_mut(&mut step.call) {
            inline(body, id);
        }
    }
}

fn merge(plan: &mut Plan, from: &str, to: &str) {
    let all = calls(&plan.body);
    // The null stream cannot be captured (hipStreamBeginCapture).
    let captured =
        all.iter().any(|s| matches!(&s.call, Call::BeginCapture { stream, .. } if stream == from));
    if to == DEFAULT_STREAM && captured || !all.iter().any(|s| s.call.stream() == Some(from)) {
        return;
    }
    let own: BTreeSet<u32> = all
        .iter()
        .filter(|s| {
            matches!(&s.call, Call::StreamCreate { stream } | Call::StreamDestroy { stream } if stream == from)
        })
        .map(|s| s.id)
        .collect();
    change_and_tidy(plan, |plan| {
        remove(&mut plan.body, &own);
        each_mut(&mut plan.body, &mut |step| {
            if let Some(stream) = step.call.stream_mut()
                && stream == from
            {
                to.clone_into(stream);
            }
        });
    });
    plan.streams.remove(from);
}

fn remove_guards(plan: &mut Plan, name: &str) {
    let belongs = |other: &str| {
        other.strip_prefix(name).is_some_and(|end| matches!(end, "" | ".back" | ".initial"))
    };
    for (_, buffer) in plan.buffers.iter_mut().filter(|(other, _)| belongs(other)) {
        buffer.guarded = false;
    }
}

fn set_memory(plan: &mut Plan, name: &str, memory: Memory) {
    let Some(buffer) = plan.buffers.get_mut(name) else { return };
    if buffer.memory == Memory::DeviceAsync {
        let ids = calls(&plan.body)
            .into_iter()
            .filter(|s| {
                matches!(&s.call, Call::Alloc { buffer, .. } | Call::Free { buffer, .. } if buffer == name)
            })
            .map(|s| s.id)
            .collect();
        remove(&mut plan.body, &ids);
    }
    if let Some(buffer) = plan.buffers.get_mut(name) {
        *buffer = Buffer { memory, guarded: true, ..*buffer };
    }
}

fn make_synchronous(call: &mut Call) {
    if let Some(asynchronous) = call.asynchronous_mut() {
        asynchronous.make_plain();
        if let Some(stream) = call.stream_mut() {
            DEFAULT_STREAM.clone_into(stream);
        }
    }
}

const BLOCK: u32 = 256;

fn simplify_geometry(call: &mut Call) {
    if let Call::Launch { grid, block, .. } = call {
        let items = grid.iter().chain(block.iter()).try_fold(1_u32, |all, n| all.checked_mul(*n));
        if let Some(items) = items {
            *block = [BLOCK, 1, 1];
            *grid = [items.div_ceil(BLOCK).max(1), 1, 1];
        }
    }
}

/// Replaces a launch by a launch of `fill_u32` or `copy_u32` over the whole output. When the plan is lowered again, the
/// source of that kernel is added.
fn simplify_kernel(plan: &mut Plan, id: u32, name: &str) {
    let sizes = plan.buffers.clone();
    change_and_tidy(plan, |plan| {
        change(plan, id, |call| {
            if let Call::Launch { kernel, grid, block, args, .. } = call {
                let places: Vec<BufferAddress> =
                    args.iter().filter_map(Arg::place).cloned().collect();
                let room = |place: &BufferAddress| {
                    sizes.get(&place.buffer).map_or(0, |b| b.bytes.saturating_sub(place.offset)) / 4
                };
                let (new, words) = match (name, places.as_slice()) {
                    ("fill_u32", [out, ..]) => {
                        let words = room(out) as u32;
                        (vec![Arg::Address(out.clone()), Arg::u32(words), Arg::u32(1)], words)
                    }
                    ("copy_u32", [out, from, ..]) => {
                        let words = room(out).min(room(from)) as u32;
                        let places = [out, from].map(|place| Arg::Address(place.clone()));
                        (places.into_iter().chain([Arg::u32(words)]).collect(), words)
                    }
                    _ => return,
                };
                if words == 0 {
                    return;
                }
                name.clone_into(kernel);
                *args = new;
                *block = [BLOCK, 1, 1];
                *grid = [words.div_ceil(BLOCK), 1, 1];
            }
        });
    });
}
