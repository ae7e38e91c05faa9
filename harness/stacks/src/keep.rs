//! Storage on this machine: the cache of stacks, the store of builds, parts of downloads, and their locks.

mod blobs;
mod cache;
mod cross;
mod error;
mod file_lock;
pub(crate) mod folder;
mod partial;
mod prefetch;
mod prefix;
pub(crate) mod share;
mod store;

pub(crate) use blobs::{AddError, Blobs};
pub use cache::StackCache;
pub use cross::Component;
pub use error::ObtainError;
pub use file_lock::{FileLock, LONGEST_WAIT, LockError, LockMode};
pub use prefetch::Prefetch;
pub use store::{BuildEvent, BuildProgress, BuildStore, ObtainedBuild};
