//! Fetches the ROCm releases that Debian packages: selects the packages, downloads them from mirrors, and unpacks them
//! into a root folder, without privileges.

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
