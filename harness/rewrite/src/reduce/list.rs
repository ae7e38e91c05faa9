//! Lists the edits that could make a plan smaller, in the order in which they are worth trying.

use std::collections::{BTreeMap, BTreeSet};

use plan::{
    Accessor, Call, CapturedSteps, DEFAULT_STREAM, Dtype, Memory, ObjectKind, Plan, Step,
    StreamKind, WorkStream, captured_steps,
};
use search::reduce::EditTree;

use super::{Edit, describe::is_read_back, sizes};
use crate::uses::{block, buffers, calls, objects, reads, writes};

/// Returns the edits to try, in order. If the failing step is known, the first edits drop the steps on which it does
/// not depend, and the steps after it.
pub fn reductions(plan: &Plan, failing: Option<u32>) -> EditTree<Edit> {
    let all = calls(&plan.body);
    // Calls during captures are not changed, whatever their stream, because a capture may forbid the changed call.
    let CapturedSteps { mut during, inside } = captured_steps(plan);
    during.extend(inside);
    let edits = |edits: Vec<Edit>| edits.into_iter().map(|e| EditTree::Edit(vec![e])).collect();
    let mut slices = Vec::new();
    if let Some(failing) = failing {
        slices.push(Edit::Drop { steps: unrelated(&all, failing), preset: false });
        slices.push(Edit::Drop { steps: after_failure(&all, failing), preset: false });
    }
    slices.retain(|e| !matches!(e, Edit::Drop { steps, .. } if steps.is_empty()));
    let ungraph =
        all.iter().any(|s| matches!(s.call, Call::EndCapture { .. } | Call::AddNode { .. }));
    let structure = EditTree::Each(vec![
        EditTree::Turn(vec![
            EditTree::Edit(slices),
            EditTree::Halves(groups(&all)),
            EditTree::Halves(singles(&all)),
        ]),
        EditTree::Each(edits(ungraph.then_some(Edit::Ungraph).into_iter().collect())),
        EditTree::Each(edits(in_captures(plan, Edit::EmptyGraph))),
        EditTree::Each(edits(in_captures(plan, Edit::ByHand))),
        EditTree::Each(lengths(&all)),
        EditTree::Halves(blocks(&plan.body)),
        EditTree::Halves(streams(plan, &all)),
        EditTree::Halves(edits(unused(plan, &all))),
        EditTree::Halves(edits(simplifications(plan, &all, &during))),
        EditTree::Halves(edits(guards(plan))),
        EditTree::Edit(sizes::targets(plan).into_iter().map(Edit::Scale).collect()),
    ]);
    EditTree::Turn(vec![
        structure,
        EditTree::Halves(problems(&all)),
        EditTree::Halves(kernels(&all)),
    ])
}

/// Calls `edit` for each capture and returns the resulting edits, which replace the captured graphs by other graphs.
fn in_captures(plan: &Plan, edit: fn(u32) -> Edit) -> Vec<Edit> {
    let begins = plan.body.iter().filter(|s| matches!(s.call, Call::BeginCapture { .. }));
    begins.map(|s| edit(s.id)).collect()
}

/// Returns edits that shorten chains of empty nodes.
fn lengths(all: &[&Step]) -> Vec<EditTree<Edit>> {
    let chains = all.iter().filter_map(|step| {
        let Call::EmptyGraph { nodes, .. } = step.call else { return None };
        Some((step.id, nodes))
    });
    let levels = |(id, nodes): (u32, u32)| {
        let shorter = (0..31).map(|n| 1 << n).filter(|n| *n < nodes);
        EditTree::Edit(shorter.map(|n| Edit::Nodes(id, n)).collect())
    };
    chains.map(levels).collect()
}

fn after_failure(all: &[&Step], failing: u32) -> Vec<u32> {
    all.iter().skip_while(|s| s.id != failing).skip(1).map(|s| s.id).collect()
}

/// Returns the calls on which the failing check does not depend: calls that neither produce the checked bytes nor order
/// or launch calls that produce them. Returns an empty list if the failing step is not a check.
fn unrelated(all: &[&Step], failing: u32) -> Vec<u32> {
    let Some(check) = all.iter().find(|s| s.id == failing) else { return Vec::new() };
    if !is_check(&check.call) {
        return Vec::new();
    }
    let mut needed = BTreeSet::from([failing]);
    let mut data: BTreeSet<&str> = reads(&check.call).into_iter().collect();
    let mut named: BTreeSet<(ObjectKind, &str)> = BTreeSet::new();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = needed.len();
        for step in all {
            let call = &step.call;
            let makes = writes(call).iter().any(|b| data.contains(b));
            let lives = matches!(call, Call::Alloc { buffer, .. } | Call::Free { buffer, .. } if data.contains(buffer.as_str()));
            let serves = objects(call).iter().any(|object| named.contains(object));
            // Waits and captures on a stream are needed if work on that stream is needed.
            let orders = !is_check(call)
                && writes(call).is_empty()
                && call.stream().is_some_and(|s| used.contains(s));
            let graph = matches!(call, Call::GraphLaunch { .. });
            if !needed.contains(&step.id) && (makes || lives || serves || orders || graph) {
                needed.insert(step.id);
                data.extend(reads(call));
                named.extend(objects(call));
                used.extend(call.stream().filter(|s| *s != DEFAULT_STREAM));
            }
        }
        if needed.len() == before {
            break;
        }
    }
    all.iter().map(|s| s.id).filter(|id| !needed.contains(id)).collect()
}

fn is_check(call: &Call) -> bool {
    call.is_check()
}

/// Returns edits that drop groups of related calls. A group contains all calls that name one object or buffer, or all
/// calls of one capture.
fn groups(all: &[&Step]) -> Vec<EditTree<Edit>> {
    let mut of_objects: BTreeMap<(ObjectKind, &str), Vec<u32>> = BTreeMap::new();
    let mut of_buffers: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for step in all {
        for object in objects(&step.call) {
            of_objects.entry(object).or_default().push(step.id);
        }
        for buffer in buffers(&step.call) {
            of_buffers.entry(buffer).or_default().push(step.id);
        }
    }
    let captures = all.iter().enumerate().filter_map(|(begin, step)| {
        let Call::BeginCapture { stream, .. } = &step.call else { return None };
        let end = all[begin..].iter().position(
            |s| matches!(&s.call, Call::EndCapture { stream: ended, .. } if ended == stream),
        )?;
        let Call::EndCapture { graph, .. } = &all[begin + end].call else { return None };
        let execs: Vec<&str> = all
            .iter()
            .filter_map(|s| {
                let Call::GraphInstantiate { exec, graph: from } = &s.call else { return None };
                (from == graph).then_some(exec.as_str())
            })
            .collect();
        let with = |s: &Step| {
            objects(&s.call).iter().any(|(thing, name)| {
                *thing == ObjectKind::Graph && name == graph
                    || *thing == ObjectKind::Exec && execs.contains(name)
            })
        };
        let inside = all[begin..=begin + end].iter().map(|s| s.id);
        let around = all.iter().filter(|s| with(s)).map(|s| s.id);
        Some(inside.chain(around).collect::<BTreeSet<u32>>().into_iter().collect())
    });
    let groups = of_objects.into_values().chain(of_buffers.into_values());
    let groups = captures.chain(groups.filter(|ids| ids.len() > 1));
    groups.map(|steps| EditTree::Edit(vec![Edit::Drop { steps, preset: false }])).collect()
}

/// Returns edits that drop single calls. A check is dropped together with the copy of its buffer to the host.
fn singles(all: &[&Step]) -> Vec<EditTree<Edit>> {
    let mut found = Vec::new();
    let mut pending: Vec<u32> = Vec::new();
    for step in all {
        if is_read_back(&step.call) {
            pending.push(step.id);
            continue;
        }
        if matches!(step.call, Call::Sleep { .. }) {
            // Sleeps are kept, because the failure may need the sleep only sometimes, for example on a busy machine.
            continue;
        }
        let mut steps = std::mem::take(&mut pending);
        steps.push(step.id);
        let mut levels = vec![Edit::Drop { steps: steps.clone(), preset: false }];
        let host = matches!(
            step.call,
            Call::Fill { .. } | Call::FillNumbers { .. } | Call::FillFile { .. }
        );
        if !writes(&step.call).is_empty() && !host {
            levels.push(Edit::Drop { steps, preset: true });
        }
        found.push(EditTree::Edit(levels));
    }
    found
}

fn blocks(steps: &[Step]) -> Vec<EditTree<Edit>> {
    let mut found = Vec::new();
    for step in steps {
        let Some(body) = block(&step.call) else { continue };
        let mut levels = vec![Edit::Inline(step.id)];
        if let Call::Repeat { count, .. } = step.call {
            let counts = (1..20).map(|n| 1_u32 << n).chain([3]);
            let mut counts: Vec<u32> = counts.filter(|n| *n < count).collect();
            counts.sort_unstable();
            levels.extend(counts.into_iter().map(|n| Edit::Count(step.id, n)));
        }
        found.push(EditTree::Edit(levels));
        found.extend(blocks(body));
    }
    found
}

fn streams(plan: &Plan, all: &[&Step]) -> Vec<EditTree<Edit>> {
    let names: BTreeSet<&str> =
        all.iter().filter_map(|s| s.call.stream()).filter(|s| *s != DEFAULT_STREAM).collect();
    let mut found = Vec::new();
    for name in &names {
        let merge = |to: &str| Edit::Merge { from: (*name).to_owned(), to: to.to_owned() };
        let mut levels = vec![merge(DEFAULT_STREAM)];
        levels.extend(names.first().filter(|first| *first != name).map(|first| merge(first)));
        found.push(EditTree::Edit(levels));
    }
    for (name, kind) in &plan.streams {
        if *kind != StreamKind::Blocking {
            found.push(EditTree::Edit(vec![Edit::Blocking(name.clone())]));
        }
    }
    found
}

/// Returns edits that drop unused declarations.
fn unused(plan: &Plan, all: &[&Step]) -> Vec<Edit> {
    let buffer = |name: &str| all.iter().any(|s| buffers(&s.call).contains(&name));
    let on = |name: &str| all.iter().any(|s| s.call.stream() == Some(name));
    let staging = |name: &str| {
        plan.setup.iter().any(|s| matches!(&s.call, Call::Copy { from, .. } if from.buffer == name))
    };
    let buffers = plan.buffers.keys().filter(|name| !buffer(name) && !staging(name));
    let streams = plan.streams.keys().filter(|name| !on(name));
    buffers
        .cloned()
        .map(Edit::DropBuffer)
        .chain(streams.cloned().map(Edit::DropStream))
        .chain(plan.environment.keys().cloned().map(Edit::DropVariable))
        .collect()
}

/// Returns edits that remove the guards of declared buffers.
fn guards(plan: &Plan) -> Vec<Edit> {
    let declared = |name: &str| !name.contains('.');
    let guarded = plan.buffers.iter().filter(|(name, buffer)| buffer.guarded && declared(name));
    guarded.map(|(name, _)| Edit::Unguarded(name.clone())).collect()
}

fn simplifications(plan: &Plan, all: &[&Step], captured: &BTreeSet<u32>) -> Vec<Edit> {
    let mut found: Vec<Edit> = plan
        .buffers
        .iter()
        .filter_map(|(name, buffer)| {
            Some(Edit::Memory(name.clone(), simplest_memory(name, buffer.memory, all)?))
        })
        .collect();
    for (name, buffer) in &plan.buffers {
        let by_step = |s: &&&Step| matches!(&s.call, Call::Alloc { buffer, .. } | Call::Free { buffer, .. } if buffer == name);
        let steps: Vec<u32> = all.iter().filter(by_step).map(|s| s.id).collect();
        if !steps.is_empty() && buffer.memory != Memory::DeviceAsync {
            found.push(Edit::Drop { steps, preset: false });
        }
    }
    for step in all {
        let work = step.call.work();
        let asynchronous = work.clone().asynchronous_mut().is_some_and(|it| !it.is_plain())
            || matches!(work, Call::Copy { stream, .. } if stream != DEFAULT_STREAM);
        if asynchronous && !captured.contains(&step.id) {
            found.push(Edit::Synchronous(step.id));
        }
        if let Call::Launch { kernel, grid, block, .. } = work
            // The result of a kernel that the case defines may depend on the number of work-items.
            && plan::kernel(kernel).is_some()
            && *block != [256, 1, 1]
            && grid[1..] == [1, 1]
            && block[1..] == [1, 1]
        {
            found.push(Edit::Geometry(step.id));
        }
    }
    found
}

/// Returns a simpler kind of memory that supports all uses of a buffer; `None` if no simpler kind does.
fn simplest_memory(name: &str, memory: Memory, all: &[&Step]) -> Option<Memory> {
    let used = |on_device: bool| {
        all.iter().any(|s| {
            let work = s.call.work();
            let by_device = needs_device(work);
            let by_host = work.named().iter().any(|named| named.accessor == Accessor::Host);
            let by = if on_device { by_device } else { by_host };
            by && buffers(&s.call).contains(&name)
        })
    };
    match memory {
        Memory::DeviceAsync | Memory::DevicePitched => Some(Memory::Device),
        Memory::HostPinned | Memory::HostRegistered | Memory::Managed if !used(true) => {
            Some(Memory::HostPageable)
        }
        Memory::Managed if !used(false) => Some(Memory::Device),
        Memory::HostRegistered => Some(Memory::HostPinned),
        Memory::Device | Memory::Managed | Memory::HostPageable | Memory::HostPinned => None,
    }
}

/// Returns true if the work of the call needs the device: a kernel launch or a call of a library.
fn needs_device(call: &Call) -> bool {
    let library = matches!(call.work_stream(), WorkStream::Library(_) | WorkStream::Generator(_));
    library || call.kernels().next().is_some()
}

fn problems(all: &[&Step]) -> Vec<EditTree<Edit>> {
    let mut found = Vec::new();
    for step in all {
        let Call::BlasltHeuristic { problem, .. } = &step.call else { continue };
        let plain = problem.dtype == Dtype::F32
            && !problem.transpose_a
            && !problem.transpose_b
            && !problem.bias;
        if !plain {
            found.push(EditTree::Edit(vec![Edit::PlainProblem(step.id)]));
        }
        let largest = problem.m.max(problem.n).max(problem.k);
        let sizes = (4..31).map(|n| 1 << n).filter(|size| *size < largest);
        found.push(EditTree::Edit(sizes.map(|size| Edit::Problem(step.id, size)).collect()));
    }
    found
}

fn kernels(all: &[&Step]) -> Vec<EditTree<Edit>> {
    let mut found = Vec::new();
    for step in all {
        let Call::Launch { kernel, .. } = step.call.work() else { continue };
        // A kernel that the case defines may compute anything.
        if plan::kernel(kernel).is_none() {
            continue;
        }
        let simpler: &[&'static str] = match kernel.as_str() {
            "fill_u32" => &[],
            "copy_u32" => &["fill_u32"],
            _ => &["fill_u32", "copy_u32"],
        };
        let levels = simpler.iter().map(|name| Edit::Kernel(step.id, name)).collect();
        found.push(EditTree::Edit(levels));
    }
    found
}
