use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use plan::{BufferAddress, DEFAULT_STREAM, Order, Plan};

use crate::{
    given::ValueStore,
    handles::{Handles, Kind},
    libraries::Libraries,
    needs::FunctionLibrary,
    pipe::Events,
};

/// Result of one call of the plan.
pub(crate) struct CallResult {
    /// Status code, and the library that returned it. `None` for calls that return no status.
    pub(crate) status: Option<(FunctionLibrary, c_int)>,
    /// Value that the call returned in addition to the status.
    pub(crate) value: Option<String>,
}

impl CallResult {
    pub(crate) const NONE: CallResult = CallResult { status: None, value: None };

    pub(crate) fn with_status(home: FunctionLibrary, code: c_int) -> Self {
        CallResult { status: Some((home, code)), value: None }
    }

    pub(crate) fn hip(code: c_int) -> Self {
        CallResult::with_status(FunctionLibrary::Hip, code)
    }

    pub(crate) fn with(self, value: impl Into<Option<String>>) -> Self {
        CallResult { value: value.into(), ..self }
    }

    pub(crate) fn code(&self) -> c_int {
        self.status.map_or(0, |(_, code)| code)
    }
}

/// State that the calls of one plan share. Two host threads may use it, so one lock protects everything that changes.
/// The lock is never held during a call.
pub(crate) struct Machine<'a> {
    pub(crate) order: &'a Order,
    pub(crate) events: &'a Events,
    pub(crate) libraries: &'a Libraries,
    /// Architecture of device 0 with its features, for example `gfx90a:xnack-`.
    pub(crate) gfx: String,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) handles: Handles,
    /// Code objects of compiled GPU kernels. They are kept until the process ends, because a runtime may read an image
    /// after loading it.
    pub(crate) code: HashMap<String, Arc<[u8]>>,
    /// Number of files with buffer contents that were written.
    pub(crate) spooled: u32,
    pub(crate) given: ValueStore,
    /// Number of free bytes that the first hipMemGetInfo of the plan returned.
    pub(crate) free_at_first: Option<usize>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        order: &'a Order,
        events: &'a Events,
        libraries: &'a Libraries,
        gfx: String,
    ) -> Self {
        Machine { order, events, libraries, gfx, state: Mutex::default() }
    }

    pub(crate) fn plan(&self) -> &'a Plan {
        &self.order.plan
    }

    /// Locks the state for a short access. The lock must not be held during a HIP call.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the handle that a name refers to, or null if no call has created one.
    pub(crate) fn handle(&self, kind: Kind, name: &str) -> *mut c_void {
        self.state().handles.get(kind, name)
    }

    /// Returns the address that a buffer had before it was freed, or null if it was never freed.
    pub(crate) fn old_buffer(&self, name: &str) -> *mut c_void {
        self.state().handles.old(Kind::Buffer, name)
    }

    /// Returns the handle that a name refers to. For a destroyed handle, returns its last value, because a variable of
    /// a C program would still contain it.
    pub(crate) fn handle_or_old(&self, kind: Kind, name: &str) -> *mut c_void {
        let state = self.state();
        let live = state.handles.get(kind, name);
        if live.is_null() { state.handles.old(kind, name) } else { live }
    }

    /// Returns the handle of a stream. The handle of the default stream is null.
    pub(crate) fn stream(&self, name: &str) -> *mut c_void {
        match name {
            DEFAULT_STREAM => std::ptr::null_mut(),
            name => self.handle(Kind::Stream, name),
        }
    }

    pub(crate) fn store_handle(&self, kind: Kind, name: &str, handle: *mut c_void, code: c_int) {
        if code == 0 {
            self.state().handles.put(kind, name, handle);
        }
    }

    pub(crate) fn drop_handle(&self, kind: Kind, name: &str, code: c_int) {
        if code == 0 {
            self.state().handles.remove(kind, name);
        }
    }

    /// Returns the address of a place in a buffer, or null if the buffer is not allocated.
    pub(crate) fn address(&self, place: &BufferAddress) -> *mut c_void {
        let base = self.handle(Kind::Buffer, &place.buffer);
        match self.plan().buffers.get(&place.buffer) {
            Some(buffer) if !base.is_null() => {
                base.wrapping_byte_add((buffer.guard() + place.offset) as usize)
            }
            _ => std::ptr::null_mut(),
        }
    }
}
