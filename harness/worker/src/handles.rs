use std::{collections::HashMap, ffi::c_void, ptr};

/// Kind of object that a name in a plan refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The whole allocation, including guards.
    Buffer,
    Stream,
    Event,
    Graph,
    GraphExec,
    /// The last node of a graph, under the name of the graph.
    Node,
    Module,
    Function,
    Generator,
    Blaslt,
    Rocblas,
}

/// Handles that calls returned, by kind and name. A handle that was never created, or was destroyed, is null, as in a C
/// program that initialises its variables.
#[derive(Default)]
pub(crate) struct Handles {
    live: HashMap<(Kind, String), Handle>,
    /// Former values of destroyed handles.
    gone: HashMap<(Kind, String), Handle>,
}

struct Handle(*mut c_void);

// SAFETY: a handle is a number here and is never dereferenced by its holder; the libraries allow their handles to be
// used from any thread.
unsafe impl Send for Handle {}

impl Handles {
    pub(crate) fn get(&self, kind: Kind, name: &str) -> *mut c_void {
        self.live.get(&(kind, name.to_owned())).map_or(ptr::null_mut(), |handle| handle.0)
    }

    /// Returns the value of a handle before it was destroyed; null if it never existed.
    pub(crate) fn old(&self, kind: Kind, name: &str) -> *mut c_void {
        self.gone.get(&(kind, name.to_owned())).map_or(ptr::null_mut(), |handle| handle.0)
    }

    pub(crate) fn put(&mut self, kind: Kind, name: &str, handle: *mut c_void) {
        self.live.insert((kind, name.to_owned()), Handle(handle));
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        let key = (kind, name.to_owned());
        if let Some(handle) = self.live.remove(&key) {
            self.gone.insert(key, handle);
        }
    }
}
