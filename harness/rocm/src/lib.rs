//! Stacks: one ROCm user space each. Finding, fetching, verifying and identifying them, and starting a
//! program in one.
//!
//! A stack is an installed ROCm ([`Spec::System`]), a directory that holds one ([`Spec::Directory`]: a
//! TheRock prefix, an unpacked wheel, a Debian root) or a Debian release that [`fetch()`] downloads and
//! unpacks without privileges ([`Spec::Debian`]). This crate knows nothing of devices, cases or verdicts,
//! and prints nothing: progress goes to a callback, errors are values that say what to do.

#![forbid(unsafe_code)]

mod apt;
#[cfg(test)]
mod archive;
mod budget;
mod bundle;
mod error;
mod extra;
mod fetch;
mod held;
mod identity;
mod kernels;
mod listing;
mod lock;
mod manifest;
mod mirror;
mod packages;
mod planned;
mod progress;
mod release;
mod spec;
mod stack;
mod store;
mod successor;
mod unpack;
mod watch;

pub use budget::{Budget, Packed, Plain};
pub use bundle::{missing_functions, offered_functions, release_of};
pub use error::Error;
pub use extra::Extra;
pub use fetch::{FetchOptions, fetch, lock};
pub use held::{FileLock, Hold, LONGEST_WAIT, NotHeld};
pub use identity::{Identity, Library, build_id};
pub use listing::{Fetchable, Listing, list};
pub use lock::{Group, Lock, Locked};
pub use manifest::{Manifest, Package};
pub use progress::{Event, Progress};
pub use release::{RELEASES, Release};
pub use spec::Spec;
pub use stack::{Stack, locate, system_stacks};
pub use store::Store;
pub use version::Version;
