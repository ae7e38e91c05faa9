use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use plan::{DEFAULT_STREAM, Order, Place, Plan};

use crate::{
    given::Given,
    handles::{Handles, Kind},
    libraries::Libraries,
    needs::Home,
    pipe::Events,
};

/// Result of a call.
pub(crate) struct Answer {
    /// Status code and the library that it belongs to; `None` for calls without a status.
    pub(crate) status: Option<(Home, c_int)>,
    /// Value that the call returned in addition.
    pub(crate) value: Option<String>,
}

impl Answer {
    /// Answer of a call without a status.
    pub(crate) const NONE: Answer = Answer { status: None, value: None };

    pub(crate) fn of(home: Home, code: c_int) -> Self {
        Answer { status: Some((home, code)), value: None }
    }

    pub(crate) fn hip(code: c_int) -> Self {
        Answer::of(Home::Hip, code)
    }

    pub(crate) fn with(self, value: impl Into<Option<String>>) -> Self {
        Answer { value: value.into(), ..self }
    }

    pub(crate) fn code(&self) -> c_int {
        self.status.map_or(0, |(_, code)| code)
    }
}

/// State that the calls of one plan share. Two host threads may use it: changing data is behind one lock, which is
/// never held during a call.
pub(crate) struct Machine<'a> {
    pub(crate) order: &'a Order,
    pub(crate) events: &'a Events,
    pub(crate) libraries: &'a Libraries,
    /// Architecture of device 0, with features, for example `gfx90a:xnack-`.
    pub(crate) gfx: String,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) handles: Handles,
    /// Code objects of compiled kernels. They stay until the end, because a runtime may read an image after loading it.
    pub(crate) code: HashMap<String, Arc<[u8]>>,
    /// Number of files in the spool.
    pub(crate) spooled: u32,
    /// Values that calls of any function have returned.
    pub(crate) given: Given,
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

    /// Locks the state, for a look-up or a change, never during a call.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the handle of a name; null if it does not exist.
    pub(crate) fn handle(&self, kind: Kind, name: &str) -> *mut c_void {
        self.state().handles.get(kind, name)
    }

    /// Returns the address of a buffer before it was freed; null if it was never allocated.
    pub(crate) fn old_buffer(&self, name: &str) -> *mut c_void {
        self.state().handles.old(Kind::Buffer, name)
    }

    /// Returns the handle of a name, or its value before it was destroyed, which a C program would still have.
    pub(crate) fn handle_or_old(&self, kind: Kind, name: &str) -> *mut c_void {
        let state = self.state();
        let live = state.handles.get(kind, name);
        if live.is_null() { state.handles.old(kind, name) } else { live }
    }

    /// Returns the handle of a stream; null for the default stream.
    pub(crate) fn stream(&self, name: &str) -> *mut c_void {
        match name {
            DEFAULT_STREAM => std::ptr::null_mut(),
            name => self.handle(Kind::Stream, name),
        }
    }

    /// Stores a handle if the call that created it succeeded.
    pub(crate) fn made(&self, kind: Kind, name: &str, handle: *mut c_void, code: c_int) {
        if code == 0 {
            self.state().handles.put(kind, name, handle);
        }
    }

    /// Removes a handle if the call that destroyed it succeeded.
    pub(crate) fn gone(&self, kind: Kind, name: &str, code: c_int) {
        if code == 0 {
            self.state().handles.remove(kind, name);
        }
    }

    /// Returns the address of a place in a buffer; null if the buffer is not allocated.
    pub(crate) fn address(&self, place: &Place) -> *mut c_void {
        let base = self.handle(Kind::Buffer, &place.buffer);
        match self.plan().buffers.get(&place.buffer) {
            Some(buffer) if !base.is_null() => {
                base.wrapping_byte_add((buffer.guard() + place.offset) as usize)
            }
            _ => std::ptr::null_mut(),
        }
    }
}
