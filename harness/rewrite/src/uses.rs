//! What calls use: buffers that they read and write, streams, and the objects that they name.

use plan::{Arg, Call, Parameter, Plan, Step, kernel};

/// An object of a plan besides its buffers and streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Event,
    Graph,
    Exec,
    Generator,
    Handle,
}

/// Buffers that a call reads. A kernel without a reference may read all that it gets.
pub(crate) fn reads(call: &Call) -> Vec<&str> {
    match call.work() {
        Call::Copy { from, .. } | Call::Copy2d { from, .. } => vec![&from.buffer],
        Call::Check { buffer } | Call::Guards { buffer } | Call::HostFunc { buffer, .. } => {
            vec![buffer]
        }
        Call::Equal { a, b } | Call::Differ { a, b } => vec![a, b],
        Call::Launch { kernel: name, args, .. } => {
            let parameters = kernel(name).map(|k| k.parameters);
            let read = |i: usize| {
                // These outputs are added to, not just written.
                let updates = matches!(name.as_str(), "saxpy_f32" | "histogram_u32");
                updates || parameters.is_none_or(|p| p.get(i) != Some(&Parameter::Out))
            };
            addresses(args).filter(|(i, _)| read(*i)).map(|(_, buffer)| buffer).collect()
        }
        Call::BlasltMatmul { operands, .. } | Call::RocblasGemm { operands, .. } => {
            let bias = operands.bias.iter().map(String::as_str);
            [operands.a.as_str(), &operands.b].into_iter().chain(bias).collect()
        }
        _ => Vec::new(),
    }
}

/// Buffers that a call writes.
pub(crate) fn writes(call: &Call) -> Vec<&str> {
    match call.work() {
        Call::Fill { buffer, .. }
        | Call::FillNumbers { buffer, .. }
        | Call::HostFunc { buffer, .. } => vec![buffer],
        Call::Copy { to, .. }
        | Call::Copy2d { to, .. }
        | Call::Set { to, .. }
        | Call::RandGenerate { to, .. } => vec![&to.buffer],
        Call::Launch { kernel: name, args, .. } => {
            let parameters = kernel(name).map(|k| k.parameters);
            let written = |i: usize| parameters.is_none_or(|p| p.get(i) == Some(&Parameter::Out));
            addresses(args).filter(|(i, _)| written(*i)).map(|(_, buffer)| buffer).collect()
        }
        Call::BlasltMatmul { operands, .. } | Call::RocblasGemm { operands, .. } => {
            vec![&operands.d]
        }
        _ => Vec::new(),
    }
}

/// All buffers that a call names.
pub(crate) fn buffers(call: &Call) -> Vec<&str> {
    match call {
        Call::Alloc { buffer, .. } | Call::Free { buffer, .. } | Call::Poison { buffer } => {
            vec![buffer]
        }
        _ => {
            let mut all = reads(call);
            all.extend(writes(call));
            all.sort_unstable();
            all.dedup();
            all
        }
    }
}

fn addresses(args: &[Arg]) -> impl Iterator<Item = (usize, &str)> {
    args.iter().enumerate().filter_map(|(i, arg)| match arg {
        Arg::Address(place) => Some((i, place.buffer.as_str())),
        _ => None,
    })
}

/// The objects that a call names.
pub(crate) fn objects(call: &Call) -> Vec<(Kind, &str)> {
    match call {
        Call::StreamWaitEvent { event, .. }
        | Call::EventCreate { event, .. }
        | Call::EventDestroy { event }
        | Call::EventRecord { event, .. }
        | Call::EventSynchronize { event }
        | Call::EventQuery { event } => vec![(Kind::Event, event)],
        Call::EventElapsed { start, end } => vec![(Kind::Event, start), (Kind::Event, end)],
        Call::EndCapture { graph, .. }
        | Call::EmptyGraph { graph, .. }
        | Call::AddNode { graph, .. }
        | Call::GraphNodeCount { graph }
        | Call::GraphDestroy { graph } => vec![(Kind::Graph, graph)],
        Call::GraphInstantiate { exec, graph } | Call::GraphExecUpdate { exec, graph } => {
            vec![(Kind::Exec, exec), (Kind::Graph, graph)]
        }
        Call::GraphLaunch { exec, .. } | Call::GraphExecDestroy { exec } => {
            vec![(Kind::Exec, exec)]
        }
        Call::RandCreate { generator, .. }
        | Call::RandSeed { generator, .. }
        | Call::RandOffset { generator, .. }
        | Call::RandStream { generator, .. }
        | Call::RandGenerate { generator, .. }
        | Call::RandDestroy { generator } => vec![(Kind::Generator, generator)],
        Call::BlasltCreate { handle }
        | Call::BlasltHeuristic { handle, .. }
        | Call::BlasltMatmul { handle, .. }
        | Call::BlasltDestroy { handle }
        | Call::RocblasCreate { handle }
        | Call::RocblasGemm { handle, .. }
        | Call::RocblasDestroy { handle } => vec![(Kind::Handle, handle)],
        _ => Vec::new(),
    }
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
pub(crate) fn block(call: &Call) -> Option<&Vec<Step>> {
    match call {
        Call::Repeat { body, .. } | Call::Thread { body } => Some(body),
        _ => None,
    }
}

/// The steps of a block, to be changed.
pub(crate) fn block_mut(call: &mut Call) -> Option<&mut Vec<Step>> {
    match call {
        Call::Repeat { body, .. } | Call::Thread { body } => Some(body),
        _ => None,
    }
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
