//! Shares files between the root that a fetch replaces and the new root, so that only missing files are downloaded and
//! unpacked.
//!
//! The new root shares files by hard links. This is safe, because no process writes into the files of a published root.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::RequestedContent;
use crate::debian::planned::Planned;
use crate::keep::share::share;
use crate::unpack::deb::Architectures;
use crate::{FetchError, Manifest, Package};

/// Root of a fetched stack that is to be replaced by a root with more content.
pub(super) struct Previous {
    root: PathBuf,
    manifest: Manifest,
}

/// Requested content of a new root, and the previous root whose files it may share.
pub(super) struct Goal<'a> {
    pub(super) wanted: &'a RequestedContent,
    pub(super) previous: Option<&'a Previous>,
}

/// A package of the new root, and which of its files are to be unpacked.
pub(super) struct Step<'a> {
    pub(super) planned: &'a Planned,
    /// Entry of the package in the manifest of the previous root; `None` if that root does not contain the package.
    pub(super) before: Option<Package>,
    /// Selects the files to unpack; `None` if the previous root already contains all wanted files of the package.
    pub(super) files: Option<Architectures>,
}

impl Previous {
    pub(super) fn open(root: Option<PathBuf>) -> Option<Self> {
        let root = root?;
        let manifest = Manifest::read(&root)?;
        Some(Self { root, manifest })
    }

    /// Returns true if the files of this root can be used for the plan: the plan contains every package of this root,
    /// in the same version.
    fn is_usable_for(&self, plan: &[Planned]) -> bool {
        let in_plan = |had: &Package| {
            plan.iter().any(|planned| planned.name == had.name && planned.sha256 == had.sha256)
        };
        // If the manifest has no list of packages, the origin of the root's files is unknown.
        !self.manifest.packages.is_empty() && self.manifest.packages.iter().all(in_plan)
    }

    /// Returns those wanted architectures for which the package has kernel files that are missing in this root.
    fn missing_architectures(&self, had: &Package, wanted: &RequestedContent) -> BTreeSet<String> {
        let in_list = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        let wanted: Vec<String> = wanted.architectures.iter().cloned().collect();
        let names = had.architectures.iter().filter(|name| in_list(&wanted, name));
        names.filter(|name| !in_list(&self.manifest.architectures, name)).cloned().collect()
    }

    /// Links the files of this root into a new root. Returns the symbolic links of this root, which the caller creates
    /// after all packages have been unpacked.
    ///
    /// # Errors
    /// A folder cannot be read or written.
    pub(super) fn share(&self, root: &Path) -> Result<Vec<(PathBuf, PathBuf)>, FetchError> {
        Ok(share(&self.root, root, &|path| path != Path::new(Manifest::FILE))?.links)
    }
}

impl Goal<'_> {
    /// Returns the previous root if its files can be shared: the plan contains all its packages in the same versions.
    pub(super) fn taken_over(&self, plan: &[Planned]) -> Option<&Previous> {
        self.previous.filter(|previous| previous.is_usable_for(plan))
    }

    /// Returns one step for each package of the plan, with the selection of its files to unpack.
    pub(super) fn steps<'p>(&self, plan: &'p [Planned]) -> Vec<Step<'p>> {
        let previous = self.taken_over(plan);
        let all: Vec<String> = self.wanted.architectures.iter().cloned().collect();
        let step = |planned: &'p Planned| {
            let before = previous.and_then(|previous| previous.manifest.package(&planned.name));
            let files = match previous.zip(before) {
                None => Some(Architectures::new(&all)),
                Some((previous, had)) => {
                    let lacking = previous.missing_architectures(had, self.wanted);
                    (!lacking.is_empty()).then(|| Architectures::only(lacking))
                }
            };
            Step { planned, before: before.cloned(), files }
        };
        plan.iter().map(step).collect()
    }
}
