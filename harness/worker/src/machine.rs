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

/// What a call answered.
pub(crate) struct Answer {
    /// The status code and the library it belongs to; none for calls without one.
    pub(crate) status: Option<(Home, c_int)>,
    /// What the call gives besides.
    pub(crate) value: Option<String>,
}

impl Answer {
    /// Of a call without a status.
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

/// What the calls of one plan work with. Two host threads may share it: what changes is behind one lock, which is never
/// held across a call.
pub(crate) struct Machine<'a> {
    pub(crate) order: &'a Order,
    pub(crate) events: &'a Events,
    pub(crate) libraries: &'a Libraries,
    /// Architecture of device 0 with its features.
    pub(crate) gfx: String,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) handles: Handles,
    /// Compiled kernels. They stay until the end, as a runtime may read an image after it was loaded.
    pub(crate) code: HashMap<String, Arc<[u8]>>,
    /// How many files the spool has.
    pub(crate) spooled: u32,
    /// What calls of any function have given.
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

    /// The state, for a look-up or a change, never for the time of a call.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The handle of a name; null where it was never made.
    pub(crate) fn handle(&self, kind: Kind, name: &str) -> *mut c_void {
        self.state().handles.get(kind, name)
    }

    /// Where a buffer was before it was freed; null where it never was.
    pub(crate) fn old_buffer(&self, name: &str) -> *mut c_void {
        self.state().handles.old(Kind::Buffer, name)
    }

    /// The handle of a name, or what it was before it was destroyed, as a C program has it.
    pub(crate) fn handle_or_old(&self, kind: Kind, name: &str) -> *mut c_void {
        let state = self.state();
        let live = state.handles.get(kind, name);
        if live.is_null() { state.handles.old(kind, name) } else { live }
    }

    /// The handle of a stream; the null stream's is null.
    pub(crate) fn stream(&self, name: &str) -> *mut c_void {
        match name {
            DEFAULT_STREAM => std::ptr::null_mut(),
            name => self.handle(Kind::Stream, name),
        }
    }

    /// Keeps a handle that a successful call made.
    pub(crate) fn made(&self, kind: Kind, name: &str, handle: *mut c_void, code: c_int) {
        if code == 0 {
            self.state().handles.put(kind, name, handle);
        }
    }

    /// Forgets a handle that a successful call destroyed.
    pub(crate) fn gone(&self, kind: Kind, name: &str, code: c_int) {
        if code == 0 {
            self.state().handles.remove(kind, name);
        }
    }

    /// The address of a place; null where its buffer was never allocated.
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
