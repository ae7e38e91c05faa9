//! A part of the device: each module keeps its state in a type of its own, of which every device has one.
//!
//! The functions of HSA name no device, as a process has one. So a thread belongs to a device, and what it calls
//! finds the state there; `whole.rs` says which device that is. A part knows nothing of the others.

use std::{io, thread::JoinHandle};

pub(crate) trait Part: Sync + 'static {
    /// That of the device of this thread.
    fn here() -> &'static Self;

    /// Starts a thread that belongs to the device of this one.
    ///
    /// # Errors
    /// The kernel gives none.
    fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>>;
}
