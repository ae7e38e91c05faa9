//! Finds, lists, downloads, verifies, stores and evicts stacks. A stack is one ROCm user space that trials can run
//! with.
//!
//! There are four kinds of stacks: an installed ROCm ([`Spec::System`]); a directory that contains ROCm
//! ([`Spec::Directory`]), for example a prefix of TheRock, an unpacked wheel or a Debian root; a Debian release
//! ([`Spec::Debian`]), which [`fetch()`] downloads and unpacks without privileges; and a published build, for example a
//! nightly build of TheRock. [`Sources`] configure the places that publish builds. [`list_builds`] merges their
//! listings into one [`History`], the oldest build first. A [`BuildStore`] downloads a [`Build`] and unpacks it into a
//! folder, its prefix, that [`locate`] accepts. [`BuildStore::cross`] combines a good build with one component of a bad
//! build.
//!
//! The crate prints nothing, makes no decisions about bugs, and knows no devices, cases or verdicts. It reports
//! progress to a callback, and its errors are values that contain a hint.
//!
//! AMD's build tools (`s3_buckets.py`, `index_generation_s3_tar.py`, `install_rocm_from_artifacts.py` of TheRock)
//! define where, when and how builds are published. These facts are configuration, because they have changed several
//! times a year. Each default entry in `builds/sources.toml` states the document or tool from which it was taken, with
//! the date.

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
pub use watch::CleanupLimit;

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
    BuildEvent, BuildProgress, BuildStore, Component, FileLock, LockError, LockMode, MAX_LOCK_WAIT,
    ObtainError, ObtainedBuild, Prefetch, StackCache,
};
pub use locate::{
    FetchableRelease, LocateError, NoCacheError, Spec, SpecError, Spelling, Stack, StackIdentity,
    StackLibrary, StackListing, build_id, list_stacks, locate, missing_functions,
    offered_functions, release_of, spellings, system_stacks,
};
pub use path_error::PathError;
pub use version::Version;
