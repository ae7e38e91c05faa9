//! Edits in words: the element that an edit would take away.

use plan::{Call, CopyApi, Memory, Plan, Step};

use super::{Edit, sizes};
use crate::uses::{calls, each_mut};

/// The element that an edit takes away, such as `copy of src to dst`, and the ids of its calls, where it is calls.
pub fn describe(plan: &Plan, edit: &Edit) -> (String, Vec<u32>) {
    let find = |id: u32| {
        let mut found: Option<Step> = None;
        each_mut(&mut plan.clone().body, &mut |step| {
            if step.id == id {
                found = Some(step.clone());
            }
        });
        found
    };
    let about = |id: u32| find(id).map_or_else(String::new, |step| words(&step.call));
    match edit {
        Edit::Drop { steps, .. } => {
            let there: Vec<&Step> =
                calls(&plan.body).into_iter().filter(|s| steps.contains(&s.id)).collect();
            let each: Vec<String> = there.iter().map(|s| words(&s.call)).collect();
            // A check of device memory is one element with its copy.
            let text = match each.as_slice() {
                [.., last]
                    if matches!(there[there.len() - 1].call, Call::Check { .. })
                        && each.len() == 2
                        && brings_back(&there[0].call) =>
                {
                    last.clone()
                }
                few if few.len() <= 3 => few.join(", "),
                [first, .., last] => format!("{} calls from {first} to {last}", each.len()),
                _ => String::new(),
            };
            (text, there.iter().map(|s| s.id).collect())
        }
        Edit::DropBuffer(name) => (format!("unused buffer {name}"), Vec::new()),
        Edit::DropStream(name) => (format!("unused stream {name}"), Vec::new()),
        Edit::DropVariable(name) => {
            let value = plan.environment.get(name).map_or("", String::as_str);
            (format!("{name}={value}"), Vec::new())
        }
        Edit::Ungraph => ("graph instead of plain calls".to_owned(), Vec::new()),
        Edit::Inline(id) | Edit::Count(id, _) => {
            let text = match find(*id).map(|s| s.call) {
                Some(Call::Repeat { count, .. }) => format!("{count} iterations"),
                _ => "second host thread".to_owned(),
            };
            (text, vec![*id])
        }
        Edit::EmptyGraph(id) => ("nodes that do work".to_owned(), vec![*id]),
        Edit::ByHand(id) => ("capture instead of nodes that are added".to_owned(), vec![*id]),
        Edit::Nodes(id, _) => (format!("length of the {}", about(*id)), vec![*id]),
        Edit::Merge { from, to } => (format!("stream {from} apart from {to}"), Vec::new()),
        Edit::Blocking(name) => (format!("non-blocking stream {name}"), Vec::new()),
        Edit::Memory(name, _) => {
            let kind = plan.buffers.get(name).map(|b| b.memory);
            (format!("{} memory of {name}", kind.map_or("", memory)), Vec::new())
        }
        Edit::Unguarded(name) => (format!("guards of {name}"), Vec::new()),
        Edit::Synchronous(id) => (format!("asynchronous {}", about(*id)), vec![*id]),
        Edit::Geometry(id) => (format!("block size of {}", about(*id)), vec![*id]),
        Edit::Kernel(id, _) => (format!("kernel of {}", about(*id)), vec![*id]),
        Edit::PlainProblem(id) => (format!("type and layout of {}", about(*id)), vec![*id]),
        Edit::Problem(id, _) => (format!("size of {}", about(*id)), vec![*id]),
        Edit::Scale(_) => {
            (format!("size: {} bytes in the largest buffer", sizes::largest(plan)), Vec::new())
        }
    }
}

/// Whether a call is the copy that lowering puts before a check of device memory.
pub(super) fn brings_back(call: &Call) -> bool {
    matches!(call, Call::Copy { to, from, api: CopyApi::Memcpy, .. }
        if to.buffer.strip_suffix(case::BACK) == Some(from.buffer.as_str()))
}

fn memory(memory: Memory) -> &'static str {
    match memory {
        Memory::Device => "device",
        Memory::DevicePitched => "pitched",
        Memory::DeviceAsync => "stream-ordered",
        Memory::Managed => "managed",
        Memory::HostPageable => "pageable",
        Memory::HostPinned => "pinned",
        Memory::HostRegistered => "registered",
    }
}

fn words(call: &Call) -> String {
    match call {
        Call::Alloc { buffer, .. } => format!("allocation of {buffer}"),
        Call::Free { buffer, .. } => format!("free of {buffer}"),
        Call::FreeAddress { address } => format!("free of address {address:#x}"),
        Call::FindSymbol { symbol, .. } => format!("look for {symbol}"),
        Call::HostFunc { buffer, .. } => format!("host function on {buffer}"),
        Call::Fill { buffer, .. } | Call::FillNumbers { buffer, .. } => format!("fill of {buffer}"),
        Call::Copy { to, from, .. } | Call::Copy2d { to, from, .. } => {
            format!("copy of {} to {}", from.buffer, to.buffer)
        }
        Call::Set { to, .. } => format!("memset of {}", to.buffer),
        Call::Launch { kernel, .. } => format!("launch of {kernel}"),
        Call::StreamCreate { stream } => format!("creation of stream {stream}"),
        Call::StreamDestroy { stream } => format!("destruction of stream {stream}"),
        Call::StreamSynchronize { stream } => format!("sync of stream {stream}"),
        Call::StreamQuery { stream } => format!("query of stream {stream}"),
        Call::StreamWaitEvent { stream, event } => format!("wait of stream {stream} for {event}"),
        Call::DeviceSynchronize => "sync of the device".to_owned(),
        Call::EventRecord { event, stream } => format!("record of {event} in stream {stream}"),
        Call::EventSynchronize { event } => format!("sync of event {event}"),
        Call::EventQuery { event } => format!("query of event {event}"),
        Call::EventElapsed { start, end } => format!("time from {start} to {end}"),
        Call::BeginCapture { stream, .. } => format!("begin of the capture of {stream}"),
        Call::EndCapture { stream, .. } => format!("end of the capture of {stream}"),
        Call::IsCapturing { stream } => format!("capture status of {stream}"),
        Call::EmptyGraph { nodes, .. } => format!("graph of {nodes} empty nodes"),
        Call::AddNode { graph, node } => format!("{} as a node of {graph}", words(node)),
        Call::GraphNodeCount { graph } => format!("node count of {graph}"),
        Call::GraphInstantiate { exec, .. } => format!("instantiation of {exec}"),
        Call::GraphLaunch { exec, .. } => format!("launch of graph {exec}"),
        Call::GraphExecUpdate { exec, .. } => format!("update of {exec}"),
        Call::GraphExecDestroy { exec } => format!("destruction of {exec}"),
        Call::GraphDestroy { graph } => format!("destruction of {graph}"),
        Call::GetLastError => "look at the last error".to_owned(),
        Call::DeviceAttribute { .. } => "look at an attribute of the device".to_owned(),
        Call::MemGetInfo => "look at the free memory".to_owned(),
        Call::TrimPool => "trim of the pool".to_owned(),
        Call::RandCreate { generator, .. } => format!("creation of generator {generator}"),
        Call::RandSeed { generator, .. } => format!("seed of {generator}"),
        Call::RandOffset { generator, .. } => format!("offset of {generator}"),
        Call::RandStream { generator, .. } => format!("stream of {generator}"),
        Call::RandGenerate { generator, to, .. } => {
            format!("numbers of {generator} to {}", to.buffer)
        }
        Call::RandDestroy { generator } => format!("destruction of {generator}"),
        Call::BlasltCreate { handle } | Call::RocblasCreate { handle } => {
            format!("creation of handle {handle}")
        }
        Call::BlasltDestroy { handle } | Call::RocblasDestroy { handle } => {
            format!("destruction of handle {handle}")
        }
        Call::BlasltHeuristic { .. } => "heuristic of hipBLASLt".to_owned(),
        Call::BlasltMatmul { operands, .. } => format!("product by hipBLASLt to {}", operands.d),
        Call::RocblasGemm { operands, .. } => format!("product by rocBLAS to {}", operands.d),
        Call::Check { buffer } => {
            format!("check of {}", buffer.strip_suffix(case::BACK).unwrap_or(buffer))
        }
        Call::Equal { a, b } => format!("comparison of {a} and {b}"),
        Call::Differ { a, b } => format!("difference of {a} and {b}"),
        Call::Sleep { ms } => format!("sleep of {ms} ms"),
        Call::Repeat { count, .. } => format!("{count} iterations"),
        Call::Thread { .. } => "second host thread".to_owned(),
        // Only around the body, which nobody edits.
        Call::Poison { .. }
        | Call::Compile { .. }
        | Call::Load { .. }
        | Call::Unload { .. }
        | Call::EventCreate { .. }
        | Call::EventDestroy { .. }
        | Call::Guards { .. } => String::new(),
    }
}
