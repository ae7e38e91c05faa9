//! Host functions: functions that are enqueued in a stream and run on the host.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use plan::{BufferAddress, HostFuncApi};

use crate::{broken::WorkerError, machine::Machine, memory::declared};

struct Bytes {
    first: *mut u8,
    count: usize,
}

pub(crate) extern "C" fn add_one(data: *mut c_void) {
    // SAFETY: `data` comes from `bytes_of` and is never freed.
    let bytes = unsafe { &*data.cast::<Bytes>() };
    for offset in 0..bytes.count {
        // SAFETY: the byte is in a host buffer of the plan, which is freed only after the work of its streams. The
        // device may access it at the same time, so no reference to it is created.
        unsafe {
            let byte = bytes.first.add(offset);
            byte.write(byte.read().wrapping_add(1));
        }
    }
}

extern "C" fn add_one_as_callback(_: *mut c_void, _: c_int, data: *mut c_void) {
    add_one(data);
}

/// Returns a pointer to a description of the bytes of a buffer, for [`add_one`]. A graph may run the function
/// repeatedly, so the description is never freed.
pub(crate) fn bytes_of(machine: &Machine<'_>, buffer: &str) -> Result<*mut c_void, WorkerError> {
    let count = declared(machine, buffer)?.bytes as usize;
    let first = machine.address(&BufferAddress { buffer: buffer.to_owned(), offset: 0 });
    if first.is_null() {
        return Err(WorkerError(format!(
            "the host accesses buffer `{buffer}`, which is not allocated"
        )));
    }
    Ok(ptr::from_mut(Box::leak(Box::new(Bytes { first: first.cast(), count }))).cast())
}

/// Enqueues [`add_one`] for the bytes of a buffer in a stream; `api` selects the HIP function. Returns its status.
pub(crate) fn host_func(
    machine: &Machine<'_>,
    buffer: &str,
    api: HostFuncApi,
    stream: &str,
) -> Result<c_int, WorkerError> {
    let hip = &machine.libraries.hip;
    let (data, stream) = (bytes_of(machine, buffer)?, machine.stream(stream));
    // SAFETY: the functions take the data that is passed here, and both remain valid until the process ends.
    let code = unsafe {
        match api {
            HostFuncApi::AddCallback => {
                hip.hipStreamAddCallback(stream, add_one_as_callback, data, 0)?
            }
            HostFuncApi::LaunchHostFunc => hip.hipLaunchHostFunc(stream, add_one, data)?,
        }
    };
    Ok(code)
}
