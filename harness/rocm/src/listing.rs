//! The stacks that can be named without knowing a directory.

use crate::{Extra, RELEASES, Release, Spec, Stack, Store, locate, system_stacks};

/// What [`list`] found.
#[derive(Debug)]
pub struct Listing {
    /// ROCm installed on this machine, the one that `system` means first.
    pub system: Vec<Stack>,
    /// What has been or could be fetched, oldest release first.
    pub debian: Vec<Fetchable>,
}

/// One release of [`Listing::debian`].
#[derive(Debug)]
pub struct Fetchable {
    /// The release.
    pub release: &'static Release,
    /// Libraries that can be added to it.
    pub extras: Vec<Extra>,
    /// The stack, if it has been fetched.
    pub stack: Option<Stack>,
}

/// Lists every stack that can be named without knowing a directory. Asks no network.
pub fn list(store: &Store) -> Listing {
    let debian = RELEASES.iter().map(|release| Fetchable {
        release,
        extras: release.extras.iter().map(|packages| packages.extra).collect(),
        stack: locate(&Spec::Debian(release), store).ok(),
    });
    Listing { system: system_stacks(), debian: debian.collect() }
}
