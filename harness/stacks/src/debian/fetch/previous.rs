//! Takes files over from the root that a fetch replaces, so that it downloads and unpacks only what is missing.
//!
//! Nothing writes into the files of a root once it is a stack, so the new root shares them by hard links.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Wanted;
use crate::debian::planned::Planned;
use crate::keep::share::share;
use crate::unpack::deb::Architectures;
use crate::{FetchError, Manifest, Package};

/// The root of a stack that is to hold more.
pub(super) struct Previous {
    root: PathBuf,
    manifest: Manifest,
}

/// The content that a new root needs, and the root from which it can take some of it.
pub(super) struct Goal<'a> {
    pub(super) wanted: &'a Wanted,
    pub(super) previous: Option<&'a Previous>,
}

/// A package of the new root, and which of its files have to be unpacked.
pub(super) struct Step<'a> {
    pub(super) planned: &'a Planned,
    /// The package in the previous root, where it is there.
    pub(super) before: Option<Package>,
    /// Files to unpack; none where all are there.
    pub(super) files: Option<Architectures>,
}

impl Previous {
    pub(super) fn of(root: Option<PathBuf>) -> Option<Self> {
        let root = root?;
        let manifest = Manifest::read(&root)?;
        Some(Self { root, manifest })
    }

    /// Returns whether a plan holds everything that this root has, of the same versions.
    fn serves(&self, plan: &[Planned]) -> bool {
        let in_plan = |had: &Package| {
            plan.iter().any(|planned| planned.name == had.name && planned.sha256 == had.sha256)
        };
        // Without a list it is unknown where its files are from.
        !self.manifest.packages.is_empty() && self.manifest.packages.iter().all(in_plan)
    }

    /// Kernel files of a package that this root lacks.
    fn lacks(&self, had: &Package, wanted: &Wanted) -> BTreeSet<String> {
        let in_list = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        let wanted: Vec<String> = wanted.architectures.iter().cloned().collect();
        let names = had.architectures.iter().filter(|name| in_list(&wanted, name));
        names.filter(|name| !in_list(&self.manifest.architectures, name)).cloned().collect()
    }

    /// Shares the files of this root with a new one. Returns its symbolic links, which are made when everything is unpacked.
    ///
    /// # Errors
    /// A folder that cannot be read or written.
    pub(super) fn share(&self, root: &Path) -> Result<Vec<(PathBuf, PathBuf)>, FetchError> {
        Ok(share(&self.root, root, &|path| path != Path::new(Manifest::FILE))?.links)
    }
}

impl Goal<'_> {
    /// The previous root, if a plan holds everything that it has, of the same versions.
    pub(super) fn taken_over(&self, plan: &[Planned]) -> Option<&Previous> {
        self.previous.filter(|previous| previous.serves(plan))
    }

    /// Returns what has to be done for each package of a plan.
    pub(super) fn steps<'p>(&self, plan: &'p [Planned]) -> Vec<Step<'p>> {
        let previous = self.taken_over(plan);
        let all: Vec<String> = self.wanted.architectures.iter().cloned().collect();
        let step = |planned: &'p Planned| {
            let before = previous.and_then(|previous| previous.manifest.package(&planned.name));
            let files = match previous.zip(before) {
                None => Some(Architectures::new(&all)),
                Some((previous, had)) => {
                    let lacking = previous.lacks(had, self.wanted);
                    (!lacking.is_empty()).then(|| Architectures::only(lacking))
                }
            };
            Step { planned, before: before.cloned(), files }
        };
        plan.iter().map(step).collect()
    }
}
