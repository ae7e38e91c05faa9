//! Access to the parts of a device. Each module keeps its state in a type of its own, and every device contains one
//! value of each of these types.
//!
//! HSA functions do not name a device, because a process has only one. In this library each thread belongs to a device,
//! and the functions that the thread calls find their state through this trait. `whole.rs` selects the device. Parts do
//! not depend on each other.

use std::{io, thread::JoinHandle};

pub(crate) trait DeviceComponent: Sync + 'static {
    /// Returns the value of this type that belongs to the device of the calling thread.
    fn current() -> &'static Self;

    /// Starts a thread that belongs to the same device as the calling thread.
    ///
    /// # Errors
    /// Fails if the system cannot create a thread.
    fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>>;
}
