//! Keeps stacks on this machine: the cache of Debian stacks, the store of builds, partial downloads, and the locks that
//! protect them from other processes.

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
pub use file_lock::{FileLock, LockError, LockMode, MAX_LOCK_WAIT};
pub use prefetch::Prefetch;
pub use store::{BuildEvent, BuildProgress, BuildStore, ObtainedBuild};
