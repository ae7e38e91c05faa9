//! What calls use: buffers that they read and write, streams, and the objects that they name.

use plan::{Call, Named, Plan, Step, Thing, kernel};

/// Buffers of a call of which this is so.
fn buffers_that(call: &Call, are: fn(&Named<'_>) -> bool) -> Vec<&str> {
    let named = call.work().named().into_iter();
    named.filter(|n| n.thing == Thing::Buffer && are(n)).map(|n| n.name).collect()
}

/// Buffers that a call reads. A kernel without a reference may read all that it gets.
pub(crate) fn reads(call: &Call) -> Vec<&str> {
    buffers_that(call, |n| n.is_read())
}

/// Buffers that a call writes.
pub(crate) fn writes(call: &Call) -> Vec<&str> {
    buffers_that(call, |n| n.is_written())
}

/// All buffers that a call names, each once.
pub(crate) fn buffers(call: &Call) -> Vec<&str> {
    let mut all = buffers_that(call, |_| true);
    all.sort_unstable();
    all.dedup();
    all
}

/// The objects that a call names, besides buffers, kernels and streams.
pub(crate) fn objects(call: &Call) -> Vec<(Thing, &str)> {
    let plain = [Thing::Buffer, Thing::Kernel, Thing::Stream];
    let named = call.named().into_iter();
    named.filter(|n| !plain.contains(&n.thing)).map(|n| (n.thing, n.name)).collect()
}

/// Whether two calls name the same event, graph, executable graph, generator or handle.
pub fn related(a: &Call, b: &Call) -> bool {
    let named = objects(b);
    objects(a).iter().any(|object| named.contains(object))
}

/// Whether a plan launches kernels of its case's own, of which nothing says how far they reach.
pub fn launches_own(plan: &Plan) -> bool {
    let own = |step: &Step| matches!(step.call.work(), Call::Launch { kernel: name, .. } if kernel(name).is_none());
    plan.steps().into_iter().any(own)
}

/// The steps of a block; none for a call.
pub(crate) fn block(call: &Call) -> Option<&[Step]> {
    call.body()
}

/// The steps of a block, to be changed.
pub(crate) fn block_mut(call: &mut Call) -> Option<&mut Vec<Step>> {
    call.body_mut()
}

/// Every call of these steps in the order of the text, without the blocks around them.
pub(crate) fn calls(steps: &[Step]) -> Vec<&Step> {
    steps
        .iter()
        .flat_map(|step| match block(&step.call) {
            Some(body) => calls(body),
            None => vec![step],
        })
        .collect()
}

/// Lets `change` see every step, blocks before their bodies.
pub(crate) fn each_mut(steps: &mut [Step], change: &mut dyn FnMut(&mut Step)) {
    for step in steps {
        change(step);
        if let Some(body) = block_mut(&mut step.call) {
            each_mut(body, change);
        }
    }
}
