//! System events: errors that do not belong to a queue and are therefore reported to handlers of the process.

use std::ffi::c_void;

use crate::{
    abi::{Agent, MemoryEvent, Status, SystemEventCallback},
    locks::Mutex,
    part::DeviceComponent as _,
};

struct Handler {
    function: SystemEventCallback,
    data: *mut c_void,
}

// SAFETY: this library does not dereference the data and only passes it to the handler, which HSA requires to be
// callable from another thread.
unsafe impl Send for Handler {}

#[derive(Default)]
pub(crate) struct Handlers(Mutex<Vec<Handler>>);

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_register_system_event_handler(
    function: Option<SystemEventCallback>,
    data: *mut c_void,
) -> Status {
    let Some(function) = function else { return Status::INVALID_ARGUMENT };
    let handler = Handler { function, data };
    Handlers::current().0.lock().push(handler);
    Status::SUCCESS
}

/// Reports to the handlers that the GPU accessed unmapped memory.
pub(crate) fn memory_fault(address: u64) {
    // HSA_AMD_GPU_MEMORY_FAULT_EVENT, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT
    notify_handlers(&MemoryEvent { kind: 0, agent: Agent::GPU, address, reasons: 1 });
}

/// Reports to the handlers that the host tried to free memory of the agent `owner` that the device is using.
pub(crate) fn memory_in_use(address: u64, owner: Agent) {
    // HSA_AMD_GPU_MEMORY_ERROR_EVENT, HSA_AMD_MEMORY_ERROR_MEMORY_IN_USE
    notify_handlers(&MemoryEvent { kind: 2, agent: owner, address, reasons: 1 });
}

/// Calls all handlers. Ends the process if a handler does not return success, or if no handler is registered. ROCr does
/// the same (`Runtime::VMFaultHandler`, `Runtime::FreeMemory`).
fn notify_handlers(event: &MemoryEvent) {
    let handlers: Vec<_> = {
        let handlers = Handlers::current().0.lock();
        handlers.iter().map(|handler| (handler.function, handler.data)).collect()
    };
    let mut dealt_with = !handlers.is_empty();
    for (function, data) in handlers {
        dealt_with &= function(event, data) == Status::SUCCESS;
    }
    if !dealt_with {
        std::process::abort();
    }
}

pub(crate) fn shut_down() {
    Handlers::current().0.lock().clear();
}
