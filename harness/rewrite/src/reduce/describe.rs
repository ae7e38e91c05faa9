//! Describes which part of a plan an edit removes, for the report of a minimised case.

use plan::{Call, CopyApi, Memory, Plan, Step};

use super::{Edit, sizes};
use crate::uses::{calls, each_mut};

/// Returns a description of the part that an edit removes or changes, for example `copy of src to dst`, and the ids of
/// its steps.
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
    let about = |id: u32| find(id).map_or_else(String::new, |step| describe_call(&step.call));
    match edit {
        Edit::Drop { steps, .. } => {
            let there: Vec<&Step> =
                calls(&plan.body).into_iter().filter(|s| steps.contains(&s.id)).collect();
            let each: Vec<String> = there.iter().map(|s| describe_call(&s.call)).collect();
            // If a check of device memory is removed with its copy, only the check is described.
            let text = match each.as_slice() {
                [.., last]
                    if matches!(there[there.len() - 1].call, Call::Check { .. })
                        && each.len() == 2
                        && is_read_back(&there[0].call) =>
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
        Edit::EmptyGraph(id) => ("captured calls instead of empty nodes".to_owned(), vec![*id]),
        Edit::ByHand(id) => ("capture instead of nodes added one by one".to_owned(), vec![*id]),
        Edit::Nodes(id, _) => (format!("length of the {}", about(*id)), vec![*id]),
        Edit::Merge { from, to } => (format!("separate stream {from} instead of {to}"), Vec::new()),
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

/// Returns true for the copy that lowering inserts before a check of device memory.
pub(super) fn is_read_back(call: &Call) -> bool {
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

/// Describes a call like [`Call::words`], but names the buffer of a check as the case does.
fn describe_call(call: &Call) -> String {
    if let Call::Check { buffer, .. } = call {
        format!("check of {}", buffer.strip_suffix(case::BACK).unwrap_or(buffer))
    } else {
        call.words()
    }
}
