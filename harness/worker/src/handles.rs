use std::{collections::HashMap, ffi::c_void, ptr};

/// Kind of object to which a name in a plan refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The whole allocation of a buffer, including its guards.
    Buffer,
    Stream,
    Event,
    Graph,
    GraphExec,
    /// The node that was last added to a graph. Its name is the name of the graph.
    Node,
    Module,
    Function,
    Generator,
    Blaslt,
    Rocblas,
}

/// Handles that calls returned. The key is the kind of object and its name in the plan. A handle that no call has
/// created, or that a call has destroyed, is null, as in a C program that initialises its variables.
#[derive(Default)]
pub(crate) struct Handles {
    live: HashMap<(Kind, String), Handle>,
    /// Last values of the handles that were destroyed.
    gone: HashMap<(Kind, String), Handle>,
}

struct Handle(*mut c_void);

// SAFETY: this program never dereferences a handle, and the libraries allow their handles to be used from any thread.
unsafe impl Send for Handle {}

impl Handles {
    pub(crate) fn get(&self, kind: Kind, name: &str) -> *mut c_void {
        self.live.get(&(kind, name.to_owned())).map_or(ptr::null_mut(), |handle| handle.0)
    }

    /// Returns the value that a handle had before it was destroyed, or null if it was never destroyed.
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
