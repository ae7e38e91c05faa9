//! Stacks: one ROCm user space each. Finds, lists, fetches, verifies, keeps and evicts those that a trial can run with.
//!
//! A stack is an installed ROCm ([`Spec::System`]), a directory that holds one ([`Spec::Directory`]: a TheRock prefix, an
//! unpacked wheel, a Debian root), a Debian release that [`fetch()`] downloads and unpacks without privileges
//! ([`Spec::Debian`]), or a build of a history. [`Sources`] say where builds are published, [`list_builds`] merges what they
//! offer into one [`History`], oldest first, and a [`BuildStore`] turns a [`Build`] into a prefix on disk that [`locate`]
//! accepts. [`BuildStore::cross`] puts one component of a bad build into a good one.
//!
//! The crate prints nothing, decides nothing about a bug, and knows no devices, cases or verdicts. Progress goes to a
//! callback, and errors are values that say what to do.
//!
//! AMD's build tools (`s3_buckets.py`, `index_generation_s3_tar.py`, `install_rocm_from_artifacts.py` of TheRock) define
//! where, when and how builds are published. These facts are configuration with dated defaults, `builds/sources.toml`,
//! because they have changed several times a year.

#![forbid(unsafe_code)]

mod builds;
mod debian;
mod hint;
mod keep;
mod locate;
mod path_error;
mod transfer;
mod unpack;
mod watch;
pub use watch::Patience;

pub use builds::{
    Archive, Build, BuildLocation, BuildQuery, BuildSource, ComponentChange, ComponentPin,
    Components, Date, Families, FindError, History, ListError, ListingGap, SourceKind, Sources,
    SourcesError, list_builds, read_components,
};
pub use debian::{
    Extra, ExtraGroup, FetchError, FetchEvent, FetchOptions, FetchProgress, LockReleaseError,
    LockedPackage, Manifest, Package, RELEASES, Release, ReleaseLock, fetch, lock_release,
};
pub use hint::Hint;
pub use keep::{
    BuildEvent, BuildProgress, BuildStore, Component, FileLock, LONGEST_WAIT, LockError, LockMode,
    ObtainError, ObtainedBuild, Prefetch, StackCache,
};
pub use locate::{
    FetchableRelease, LocateError, NoCacheError, Spec, SpecError, Spelling, Stack, StackIdentity,
    StackLibrary, StackListing, build_id, list_stacks, locate, missing_functions,
    offered_functions, release_of, spellings, system_stacks,
};
pub use path_error::PathError;
pub use version::Version;
