use crate::{Extra, RELEASES, Release, Spec, Stack, StackCache, locate, system_stacks};

/// Result of [`list_stacks`].
#[derive(Debug)]
pub struct StackListing {
    /// Installations of ROCm on this machine. The first one is the stack `system`.
    pub system: Vec<Stack>,
    /// Debian releases, the oldest first, whether they have been fetched or not.
    pub debian: Vec<FetchableRelease>,
}

/// A release in [`StackListing::debian`].
#[derive(Debug)]
pub struct FetchableRelease {
    /// The release.
    pub release: &'static Release,
    /// Extras that can be added to the release.
    pub extras: Vec<Extra>,
    /// The fetched stack; `None` if the release has not been fetched.
    pub stack: Option<Stack>,
}

/// Lists every stack that has a name, which excludes directories. The network is not used.
pub fn list_stacks(store: &StackCache) -> StackListing {
    let debian = RELEASES.iter().map(|release| FetchableRelease {
        release,
        extras: release.extras.iter().map(|packages| packages.extra).collect(),
        stack: locate(&Spec::Debian(release), store).ok(),
    });
    StackListing { system: system_stacks(), debian: debian.collect() }
}
