//! Checks that a plan can be executed: all names are declared, the host directly accesses only host memory, and each
//! capture of a stream is ended.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Accessor, Call, CopyApi, DEFAULT_STREAM, NamedObject, ObjectKind, ObjectUse, Plan, Step,
    may_succeed,
};

/// Returns the steps that cannot be executed, each with the reason. HIP calls would not report these mistakes.
/// Therefore this function is called before the first call: when a case is checked, and again by the worker.
///
/// Graphs, generators and handles need no declaration, because calls create them.
pub fn impossible_steps(plan: &Plan) -> Vec<(&Step, String)> {
    let mut found = Vec::new();
    let mut open: BTreeMap<&str, &Step> = BTreeMap::new();
    let events: BTreeSet<&str> = plan.events.iter().map(String::as_str).collect();
    for step in plan.steps() {
        found.extend(check_call(plan, &events, &step.call).err().map(|why| (step, why)));
        // Capturing the null stream never succeeds, whichever statuses the case accepts.
        if let Call::BeginCapture { stream, .. } = &step.call
            && may_succeed(step)
            && stream != DEFAULT_STREAM
        {
            open.insert(stream, step);
        }
        if let Call::EndCapture { stream, .. } = &step.call {
            open.remove(stream.as_str());
        }
    }
    found.extend(open.into_iter().map(|(stream, begin)| {
        let why = format!(
            "the capture of stream `{stream}` that begins here is never ended; end it by `end_capture`, with `returns` where that \
             must fail"
        );
        (begin, why)
    }));
    found
}

fn check_call(plan: &Plan, events: &BTreeSet<&str>, call: &Call) -> Result<(), String> {
    for NamedObject { kind: thing, name, role, accessor: by } in call.named() {
        let there = match thing {
            ObjectKind::Buffer => plan.buffers.contains_key(name),
            ObjectKind::Stream if name == DEFAULT_STREAM => {
                if matches!(role, ObjectUse::Created | ObjectUse::Destroyed) {
                    return Err("the null stream cannot be created or destroyed".into());
                }
                true
            }
            ObjectKind::Stream => plan.streams.contains_key(name),
            ObjectKind::Event => events.contains(name),
            ObjectKind::Kernel => plan.kernels.contains_key(name),
            ObjectKind::Graph
            | ObjectKind::Exec
            | ObjectKind::Generator
            | ObjectKind::Blaslt
            | ObjectKind::Rocblas
            | ObjectKind::Value => true,
        };
        if !there {
            return Err(format!("{thing} `{name}` does not exist"));
        }
        if by == Accessor::Host && !plan.on_host(name) {
            return Err(format!(
                "the host cannot read or write buffer `{name}`, which is device memory; `fill: pattern` where the buffer is declared \
                 writes it before the steps, and a `copy` during them"
            ));
        }
    }
    if let Call::Copy { to, from, api: CopyApi::MemcpyDirected, .. } = call
        && plan.ends_on_host(from, to) == (true, true)
    {
        return Err("a `memcpy_directed` copy cannot go from host to host".into());
    }
    if let Call::AddNode { node, .. } = call {
        if node.by_hand().is_empty() {
            return Err("only copies, sets, launches and host functions can take `graph`".into());
        }
        return check_call(plan, events, node);
    }
    Ok(())
}
