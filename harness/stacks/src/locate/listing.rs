//! The stacks that can be named without knowing a directory.

use crate::{Extra, RELEASES, Release, Spec, Stack, StackCache, locate, system_stacks};

/// Result of [`list_stacks`].
#[derive(Debug)]
pub struct StackListing {
    /// ROCm installed on this machine, the one that `system` means first.
    pub system: Vec<Stack>,
    /// Releases that have been or could be fetched, oldest first.
    pub debian: Vec<FetchableRelease>,
}

/// One release of [`StackListing::debian`].
#[derive(Debug)]
pub struct FetchableRelease {
    /// The release.
    pub release: &'static Release,
    /// Libraries that can be added to it.
    pub extras: Vec<Extra>,
    /// The stack, if it has been fetched.
    pub stack: Option<Stack>,
}

/// Lists every stack that can be named without knowing a directory, without network access.
pub fn list_stacks(store: &StackCache) -> StackListing {
    let debian = RELEASES.iter().map(|release| FetchableRelease {
        release,
        extras: release.extras.iter().map(|packages| packages.extra).collect(),
        stack: locate(&Spec::Debian(release), store).ok(),
    });
    StackListing { system: system_stacks(), debian: debian.collect() }
}
