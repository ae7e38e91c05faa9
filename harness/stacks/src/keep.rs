//! What is kept on this machine: the cache of stacks, the store of builds, parts of downloads, and the locks of all of them.

mod blobs;
mod cache;
mod cross;
mod file_lock;
mod partial;
mod prefetch;
mod store;

pub(crate) use blobs::{Blobs, Trouble};
pub use cache::StackCache;
pub use cross::Component;
pub use file_lock::{FileLock, LONGEST_WAIT, LockError, LockMode};
pub use prefetch::Prefetch;
pub use store::{BuildEvent, BuildProgress, BuildStore, ObtainedBuild};
