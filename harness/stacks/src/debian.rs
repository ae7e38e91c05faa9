//! ROCm releases that Debian packages: their packages, the mirrors of the packages, and the installation into a root.

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
