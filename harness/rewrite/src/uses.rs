//! Finds the buffers, streams and other objects that calls use.

use plan::{Call, NamedObject, ObjectKind, Plan, Step, kernel};

/// Returns the buffers that a call names and that satisfy a condition.
fn filter_buffers(call: &Call, are: fn(&NamedObject<'_>) -> bool) -> Vec<&str> {
    let named = call.work().named().into_iter();
    named.filter(|n| n.kind == ObjectKind::Buffer && are(n)).map(|n| n.name).collect()
}

/// Returns the buffers that a call reads. A kernel without a reference implementation may read all its buffers.
pub(crate) fn reads(call: &Call) -> Vec<&str> {
    filter_buffers(call, |n| n.is_read())
}

pub(crate) fn writes(call: &Call) -> Vec<&str> {
    filter_buffers(call, |n| n.is_written())
}

/// Returns all buffers that a call names, without duplicates.
pub(crate) fn buffers(call: &Call) -> Vec<&str> {
    let mut all = filter_buffers(call, |_| true);
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the objects that a call names, except buffers, kernels and streams.
pub(crate) fn objects(call: &Call) -> Vec<(ObjectKind, &str)> {
    let plain = [ObjectKind::Buffer, ObjectKind::Kernel, ObjectKind::Stream];
    let named = call.named().into_iter();
    named.filter(|n| !plain.contains(&n.kind)).map(|n| (n.kind, n.name)).collect()
}

/// Returns true if two calls name the same event, graph, executable graph, generator or handle.
pub fn related(a: &Call, b: &Call) -> bool {
    let named = objects(b);
    objects(a).iter().any(|object| named.contains(object))
}

/// Returns true if a plan launches kernels that the case defines. It is unknown which memory such kernels access.
pub fn launches_own(plan: &Plan) -> bool {
    let own = |step: &Step| matches!(step.call.work(), Call::Launch { kernel: name, .. } if kernel(name).is_none());
    plan.steps().into_iter().any(own)
}

/// Returns the steps inside a block; `None` if the call is not a block.
pub(crate) fn block(call: &Call) -> Option<&[Step]> {
    call.body()
}

pub(crate) fn block_mut(call: &mut Call) -> Option<&mut Vec<Step>> {
    call.body_mut()
}

/// Returns all calls of these steps, in the order of the case file. In place of a block, the calls inside it are
/// returned.
pub(crate) fn calls(steps: &[Step]) -> Vec<&Step> {
    steps
        .iter()
        .flat_map(|step| match block(&step.call) {
            Some(body) => calls(body),
            None => vec![step],
        })
        .collect()
}

/// Calls `change` for every step, including those inside blocks. A block is visited before the steps inside it.
pub(crate) fn each_mut(steps: &mut [Step], change: &mut dyn FnMut(&mut Step)) {
    for step in steps {
        change(step);
        if let Some(body) = block_mut(&mut step.call) {
            each_mut(body, change);
        }
    }
}
