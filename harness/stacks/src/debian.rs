//! Releases that Debian packages: which packages they consist of, where these are, and how they become a root.

mod apt;
#[cfg(test)]
mod archive;
mod extra;
mod fetch;
mod kernels;
mod lock;
mod manifest;
mod mirror;
mod packages;
mod planned;
mod progress;
mod release;
mod successor;
mod unpack;

pub use extra::Extra;
pub use fetch::{FetchOptions, fetch, lock_release};
pub use lock::{ExtraGroup, LockedPackage, ReleaseLock};
pub use manifest::{Manifest, Package};
pub use progress::{FetchEvent, FetchProgress};
pub use release::{RELEASES, Release};
