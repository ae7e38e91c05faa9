use crate::{Extra, RELEASES, Release, Spec, Stack, StackCache, locate, system_stacks};

/// The installed and the fetchable stacks, as [`list_stacks`] returns them.
#[derive(Debug)]
pub struct StackListing {
    /// Installations of ROCm on this machine. The name `system` means the first one.
    pub system: Vec<Stack>,
    /// All Debian releases, the oldest first, whether or not they have been fetched.
    pub debian: Vec<FetchableRelease>,
}

/// A Debian release, and the stack if the release has been fetched.
#[derive(Debug)]
pub struct FetchableRelease {
    /// Version and packages of the release.
    pub release: &'static Release,
    /// Extras that the release offers.
    pub extras: Vec<Extra>,
    /// The fetched stack; `None` if the release has not been fetched.
    pub stack: Option<Stack>,
}

/// Lists the installations of ROCm on this machine, and all Debian releases. The network is not used.
pub fn list_stacks(store: &StackCache) -> StackListing {
    let debian = RELEASES.iter().map(|release| FetchableRelease {
        release,
        extras: release.extras.iter().map(|packages| packages.extra).collect(),
        stack: locate(&Spec::Debian(release), store).ok(),
    });
    StackListing { system: system_stacks(), debian: debian.collect() }
}
