//! Adds set-up, checks of guards, and teardown to the body of a plan.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use plan::{
    BufferAddress, Call, CopyApi, DEFAULT_STREAM, Memory, NamedObject, ObjectKind, ObjectUse, Plan,
    Step,
};

use super::stamp;
use crate::{
    added_buffers::{INITIAL, host_buffer_for},
    buffers::Initial,
    scope::Scope,
};

pub(super) fn surround(
    mut plan: Plan,
    mut scope: Scope,
    initial: &BTreeMap<String, Initial>,
) -> Plan {
    let calls: Vec<Call> = plan.steps().into_iter().map(|s| s.call.clone()).collect();
    let by_steps: HashSet<_> =
        calls.iter().flat_map(Call::named).map(|n| (n.role, n.kind, n.name)).collect();
    let stream = || DEFAULT_STREAM.to_owned();
    let (mut setup, mut verify, mut teardown) = (Vec::new(), Vec::new(), Vec::new());
    let lines = kernel_lines(&plan);
    let mut push = |steps: &mut Vec<Step>, call| steps.push(scope.step(call, 0));
    let mut undone = HashSet::new();
    // Objects are destroyed in the reverse order of their creation.
    for step in plan.steps().into_iter().rev() {
        // If two steps create an object with the same name, only the object that the later step created is destroyed.
        let made = step.call.named().into_iter().find(|n| n.role == ObjectUse::Created);
        // If the creating call may fail, there may be nothing to destroy.
        if let Some(NamedObject { kind: thing, name, .. }) = made.filter(|_| step.checked())
            && let Some(end) = ended(thing, name)
            && !by_steps.contains(&(ObjectUse::Destroyed, thing, name))
            && undone.insert((thing, name.to_owned()))
        {
            push(&mut teardown, end);
        }
    }

    let mut launched: Vec<&str> = Vec::new();
    for kernel in calls.iter().flat_map(Call::kernels) {
        if !launched.contains(&kernel) {
            launched.push(kernel);
        }
    }
    for name in launched {
        push(&mut setup, Call::Compile { kernel: name.to_owned() });
        push(&mut setup, Call::Load { kernel: name.to_owned() });
        push(&mut teardown, Call::Unload { kernel: name.to_owned() });
    }
    for name in plan.streams.keys() {
        if !by_steps.contains(&(ObjectUse::Created, ObjectKind::Stream, name)) {
            push(&mut setup, Call::StreamCreate { stream: name.clone() });
        }
        if !by_steps.contains(&(ObjectUse::Destroyed, ObjectKind::Stream, name)) {
            push(&mut teardown, Call::StreamDestroy { stream: name.clone() });
        }
    }
    let mut timed: BTreeSet<&str> = BTreeSet::new();
    for call in &calls {
        if let Call::EventElapsed { start, end } = call {
            timed.extend([start.as_str(), end]);
        }
    }
    for event in &plan.events {
        let timing = timed.contains(event.as_str());
        push(&mut setup, Call::EventCreate { event: event.clone(), timing });
        push(&mut teardown, Call::EventDestroy { event: event.clone() });
    }
    let mut staging = BTreeMap::new();
    for (name, buffer) in &plan.buffers {
        if by_steps.contains(&(ObjectUse::Created, ObjectKind::Buffer, name))
            || buffer.memory == Memory::DeviceAsync
        {
            continue;
        }
        let place = |b: &str| BufferAddress { buffer: b.to_owned(), offset: 0 };
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
                staging.insert(from.clone(), host_buffer_for(buffer));
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
        if !by_steps.contains(&(ObjectUse::Destroyed, ObjectKind::Buffer, name)) {
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
    // The last call of the set-up waits for the device, so that the body starts on an idle device.
    push(&mut setup, Call::DeviceSynchronize);
    if !verify.is_empty() {
        verify.insert(0, scope.step(Call::DeviceSynchronize, 0));
    }
    for name in calls.iter().flat_map(Call::kernels) {
        plan.kernels.insert(name.to_owned(), scope.source(name));
        if let Some(own) = scope.own_kernel(name) {
            plan.own_kernels.insert(name.to_owned(), own);
        }
    }
    plan.files = scope.files(&plan);
    stamp(&mut setup);
    Plan { setup, verify, teardown, ..plan }
}

/// Returns the first line at which each kernel is used. If a kernel cannot be compiled or loaded, the failure is
/// reported at that line.
fn kernel_lines(plan: &Plan) -> BTreeMap<String, u32> {
    let mut lines = BTreeMap::new();
    for step in plan.steps() {
        for kernel in step.call.kernels() {
            lines.entry(kernel.to_owned()).or_insert(step.line);
        }
    }
    lines
}

/// Returns the call that destroys an object of this kind. Returns `None` for kinds of objects that steps do not create,
/// because lowering creates and destroys them.
fn ended(thing: ObjectKind, name: &str) -> Option<Call> {
    let name = name.to_owned();
    match thing {
        ObjectKind::Graph => Some(Call::GraphDestroy { graph: name }),
        ObjectKind::Exec => Some(Call::GraphExecDestroy { exec: name }),
        ObjectKind::Generator => Some(Call::RandDestroy { generator: name }),
        ObjectKind::Blaslt => Some(Call::BlasltDestroy { handle: name }),
        ObjectKind::Rocblas => Some(Call::RocblasDestroy { handle: name }),
        ObjectKind::Buffer
        | ObjectKind::Stream
        | ObjectKind::Kernel
        | ObjectKind::Event
        | ObjectKind::Value => None,
    }
}
