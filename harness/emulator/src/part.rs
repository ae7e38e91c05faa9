//! A part of a device. Each module keeps its state in its own type, of which every device has one value.
//!
//! HSA functions do not name a device, because a process has one. Instead a thread belongs to a device, and the
//! functions that it calls find the state through this trait; `whole.rs` selects the device. Parts do not know each
//! other.

use std::{io, thread::JoinHandle};

pub(crate) trait Part: Sync + 'static {
    /// Returns the part of this thread's device.
    fn here() -> &'static Self;

    /// Starts a thread that belongs to the same device as this one.
    ///
    /// # Errors
    /// Returns an error if the kernel creates no thread.
    fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>>;
}
