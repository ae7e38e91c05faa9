//! Releases that Debian packages: which packages they consist of, where these are, and how they become a root.

mod apt;
mod error;
mod extra;
mod fetch;
mod lock;
mod manifest;
mod mirror;
mod packages;
mod planned;
mod progress;
mod release;
mod successor;

pub use error::{FetchError, LockReleaseError};
pub use extra::Extra;
pub use fetch::{FetchOptions, fetch, lock_release};
pub use lock::{ExtraGroup, LockedPackage, ReleaseLock};
pub use manifest::{Manifest, Package};
pub use progress::{FetchEvent, FetchProgress};
pub use release::{RELEASES, Release};
