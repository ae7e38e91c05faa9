//! What no run of a plan could do: work with what it does not declare, reach device memory from the host, leave a capture open.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Arg, Buffer, Call, CopyApi, DEFAULT_STREAM, Memory, Plan, Step, may_succeed};

/// What no run could carry out. No call could report it, so it is looked for before one is made: by whoever checks a case, and once
/// more by whoever executes the plan.
///
/// Graphs, generators and handles need no declaration: they are what a call makes.
pub fn impossible(plan: &Plan) -> Vec<(&Step, String)> {
    let mut found = Vec::new();
    let mut open: BTreeMap<&str, &Step> = BTreeMap::new();
    let events: BTreeSet<&str> = plan.events.iter().map(String::as_str).collect();
    for step in plan.steps() {
        found.extend(check_call(plan, &events, &step.call).err().map(|why| (step, why)));
        match &step.call {
            Call::BeginCapture { stream, .. } if may_succeed(step) => {
                open.insert(stream, step);
            }
            Call::EndCapture { stream, .. } => drop(open.remove(stream.as_str())),
            _ => {}
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

/// Whether a directed copy has a function of its own; managed memory counts as the device's.
fn has_direction(to: Memory, from: Memory) -> bool {
    [to, from].into_iter().any(|memory| memory == Memory::Managed || !memory.on_host())
}

fn check_call(plan: &Plan, events: &BTreeSet<&str>, call: &Call) -> Result<(), String> {
    let buffer = |name: &str| -> Result<&Buffer, String> {
        plan.buffers.get(name).ok_or_else(|| format!("there is no buffer `{name}`"))
    };
    let on_host = |name: &str| match buffer(name)?.memory.on_host() {
        true => Ok(()),
        false => {
            Err(format!("the host cannot read or write buffer `{name}`, which is device memory"))
        }
    };
    let stream = |name: &str| match name == DEFAULT_STREAM || plan.streams.contains_key(name) {
        true => Ok(()),
        false => Err(format!("there is no stream `{name}`")),
    };
    let event = |name: &String| match events.contains(name.as_str()) {
        true => Ok(()),
        false => Err(format!("there is no event `{name}`")),
    };
    let kernel = |name: &str| match plan.kernels.contains_key(name) {
        true => Ok(()),
        false => Err(format!("there is no kernel `{name}`")),
    };
    match call {
        Call::Alloc { buffer: name, stream: s } | Call::Free { buffer: name, stream: s } => {
            buffer(name)?;
            stream(s)
        }
        Call::AddNode { node, .. } => match **node {
            Call::Copy { .. } | Call::Set { .. } | Call::Launch { .. } | Call::HostFunc { .. } => {
                check_call(plan, events, node)
            }
            _ => Err("only copies, sets, launches and host functions are nodes by hand".into()),
        },
        Call::Poison { buffer: name } | Call::Guards { buffer: name } => buffer(name).map(|_| ()),
        Call::Fill { buffer, .. } | Call::FillNumbers { buffer, .. } | Call::Check { buffer } => {
            on_host(buffer)
        }
        Call::Equal { a, b } | Call::Differ { a, b } => {
            on_host(a)?;
            on_host(b)
        }
        Call::Copy { to, from, api, stream: s, .. } => {
            let (to, from) = (buffer(&to.buffer)?.memory, buffer(&from.buffer)?.memory);
            if *api == CopyApi::MemcpyDirected && !has_direction(to, from) {
                return Err("no directed copy goes from host to host".into());
            }
            stream(s)
        }
        Call::Copy2d { to, from, stream: s, .. } => {
            buffer(&to.buffer)?;
            buffer(&from.buffer)?;
            stream(s)
        }
        Call::Set { to, stream: s, .. } => {
            buffer(&to.buffer)?;
            stream(s)
        }
        Call::BlasltMatmul { operands, stream: s, .. }
        | Call::RocblasGemm { operands, stream: s, .. } => {
            let names =
                [Some(&operands.a), Some(&operands.b), Some(&operands.d), operands.bias.as_ref()];
            for name in names.into_iter().flatten() {
                buffer(name)?;
            }
            stream(s)
        }
        Call::RandGenerate { to, .. } => buffer(&to.buffer).map(|_| ()),
        Call::Compile { kernel: name }
        | Call::Load { kernel: name }
        | Call::Unload { kernel: name }
        | Call::FindSymbol { kernel: name, .. } => kernel(name),
        Call::HostFunc { buffer, stream: s, .. } => {
            on_host(buffer)?;
            stream(s)
        }
        Call::Launch { kernel: name, args, stream: s, .. } => {
            kernel(name)?;
            for arg in args {
                if let Arg::Address(place) = arg {
                    buffer(&place.buffer)?;
                }
            }
            stream(s)
        }
        Call::StreamCreate { stream: s } | Call::StreamDestroy { stream: s } => match s.as_str() {
            DEFAULT_STREAM => Err("the null stream is neither created nor destroyed".into()),
            s => stream(s),
        },
        Call::StreamSynchronize { stream: s }
        | Call::StreamQuery { stream: s }
        | Call::BeginCapture { stream: s, .. }
        | Call::EndCapture { stream: s, .. }
        | Call::IsCapturing { stream: s }
        | Call::GraphLaunch { stream: s, .. }
        | Call::RandStream { stream: s, .. } => stream(s),
        Call::StreamWaitEvent { stream: s, event: e }
        | Call::EventRecord { event: e, stream: s } => {
            event(e)?;
            stream(s)
        }
        Call::EventElapsed { start, end } => {
            event(start)?;
            event(end)
        }
        Call::EventCreate { event: e, .. }
        | Call::EventDestroy { event: e }
        | Call::EventSynchronize { event: e }
        | Call::EventQuery { event: e } => event(e),
        Call::DeviceSynchronize
        | Call::EmptyGraph { .. }
        | Call::GraphNodeCount { .. }
        | Call::GraphInstantiate { .. }
        | Call::GraphExecUpdate { .. }
        | Call::GraphExecDestroy { .. }
        | Call::GraphDestroy { .. }
        | Call::GetLastError
        | Call::DeviceAttribute { .. }
        | Call::MemGetInfo
        | Call::TrimPool
        | Call::FreeAddress { .. }
        | Call::RandCreate { .. }
        | Call::RandSeed { .. }
        | Call::RandOffset { .. }
        | Call::RandDestroy { .. }
        | Call::BlasltCreate { .. }
        | Call::BlasltHeuristic { .. }
        | Call::BlasltDestroy { .. }
        | Call::RocblasCreate { .. }
        | Call::RocblasDestroy { .. }
        | Call::Sleep { .. }
        | Call::Repeat { .. }
        | Call::Thread { .. } => Ok(()),
    }
}
