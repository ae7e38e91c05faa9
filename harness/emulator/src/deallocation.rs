//! Callbacks of the program that run when memory is freed.

use std::{ffi::c_void, sync::MutexGuard};

use crate::{
    abi::Status, address_map::Kind, ipc, locks::Mutex, memory, part::DeviceComponent as _,
    report::trace,
};

type Callback = extern "C" fn(*mut c_void, *mut c_void);

struct Notifier {
    /// Start address of the allocation.
    allocation: usize,
    /// Address at which the callback was registered. It may lie inside the allocation.
    pointer: *mut c_void,
    callback: Callback,
    data: *mut c_void,
}

// SAFETY: this library does not dereference the pointers. It only passes them to the callback, which HSA requires to be
// callable from the thread that frees the memory.
unsafe impl Send for Notifier {}

#[derive(Default)]
pub(crate) struct Notifiers(Mutex<Vec<Notifier>>);

fn notifiers() -> MutexGuard<'static, Vec<Notifier>> {
    Notifiers::current().0.lock()
}

/// Frees an allocation and calls the callbacks that are registered for it. Returns `false` if the address is not the
/// start of an allocation.
///
/// The allocation is removed from the map before the callbacks run, so that they may allocate and free memory. Its
/// pages are unmapped after the callbacks. ROCr has the same order (`Runtime::FreeMemory`).
pub(crate) fn free(start: usize) -> bool {
    let in_use = memory::InUse::new();
    if !memory::free(start) {
        return false;
    }
    // If an injected fault of allocations has taken effect, a second allocation may still use the address. Otherwise
    // the address cannot be reused while `in_use` exists.
    if allocation_of(start).is_none() {
        ipc::forget(start);
    }
    let told: Vec<Notifier> = notifiers().extract_if(.., |n| n.allocation == start).collect();
    for notifier in told {
        (notifier.callback)(notifier.pointer, notifier.data);
    }
    drop(in_use);
    true
}

fn allocation_of(pointer: usize) -> Option<usize> {
    let (start, region) = memory::map().find(pointer)?;
    matches!(region.kind, Kind::Pool | Kind::Internal).then_some(start)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_register_deallocation_callback(
    pointer: *mut c_void,
    callback: Option<Callback>,
    data: *mut c_void,
) -> Status {
    let (Some(callback), false) = (callback, pointer.is_null()) else {
        return Status::INVALID_ARGUMENT;
    };
    let Some(allocation) = allocation_of(pointer as usize) else {
        return Status::INVALID_ALLOCATION;
    };
    trace!("deallocation callback for {pointer:p}");
    notifiers().push(Notifier { allocation, pointer, callback, data });
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_deregister_deallocation_callback(
    pointer: *mut c_void,
    callback: Option<Callback>,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    let mut notifiers = notifiers();
    let before = notifiers.len();
    notifiers.retain(|n| n.pointer != pointer || !std::ptr::fn_addr_eq(n.callback, callback));
    if notifiers.len() < before { Status::SUCCESS } else { Status::INVALID_ARGUMENT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Agent;

    /// Callback that records the first byte at the address, which identifies the allocation.
    extern "C" fn note(pointer: *mut c_void, data: *mut c_void) {
        // SAFETY: the test registers an address in its own allocation, and a vector that outlives the call.
        unsafe { (*data.cast::<Vec<u8>>()).push(*pointer.cast::<u8>()) };
    }

    #[test]
    fn callbacks_run_once_in_order_before_unmapping() {
        let start = memory::allocate(64, Agent::GPU, 0, Kind::Pool).unwrap();
        let at = |offset: usize| (start + offset) as *mut c_void;
        let mut calls: Vec<u8> = Vec::new();
        let data = (&raw mut calls).cast::<c_void>();
        for offset in [8, 0, 16, 16] {
            // SAFETY: the address is inside the allocation.
            unsafe { *at(offset).cast::<u8>() = offset as u8 + 1 };
            let status = hsa_amd_register_deallocation_callback(at(offset), Some(note), data);
            assert_eq!(status, Status::SUCCESS);
        }
        let deregister = || hsa_amd_deregister_deallocation_callback(at(16), Some(note));
        assert_eq!([deregister(), deregister()], [Status::SUCCESS, Status::INVALID_ARGUMENT]);
        assert!(free(start) && !free(start));
        assert_eq!(calls, [9, 1]);
    }

    #[test]
    fn rejects_callbacks_for_other_addresses() {
        let mut own = 0u8;
        let data = std::ptr::null_mut();
        let register = hsa_amd_register_deallocation_callback;
        let own = (&raw mut own).cast::<c_void>();
        assert_eq!(register(own, Some(note), data), Status::INVALID_ALLOCATION);
        assert_eq!(register(own, None, data), Status::INVALID_ARGUMENT);
        assert_eq!(register(data, Some(note), data), Status::INVALID_ARGUMENT);
    }
}
