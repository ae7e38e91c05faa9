//! Reads and writes lock files. A lock file lists the exact packages of one release: name, version and digest. It does
//! not change when Debian replaces a package.
//!
//! `cargo run -p ci -- locks` writes the files in `locks/` from Debian's signed indexes. Because each downloaded
//! package is compared with its digest in the lock file, a fetch needs neither apt nor Debian's keys.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::debian::planned::Planned;
use crate::{Extra, Release};

/// Content of a file in `locks/`: the exact packages of one release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLock {
    /// Version of the release, for example `7.2.4`.
    pub release: String,
    /// Time in UTC at which Debian's indexes were read, in the format of Debian's snapshot archive: `20261121T214500Z`.
    pub read: String,
    /// Packages, sorted by name.
    pub packages: Vec<LockedPackage>,
}

/// A package in a [`ReleaseLock`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Debian's name of the package.
    pub name: String,
    /// Debian's version, which may contain an epoch.
    pub version: String,
    /// Path of the .deb file below the address of a mirror.
    pub path: String,
    /// Size of the .deb file in bytes.
    pub size: u64,
    /// SHA-256 of the .deb file in hexadecimal.
    pub sha256: String,
    /// Groups of extras that need the package. The package is part of a stack if the stack contains every extra of at
    /// least one group.
    pub of: BTreeSet<ExtraGroup>,
}

/// A set of extras that need a package only together: the package is part of a stack that contains all extras of the
/// set. The empty set means that the HIP runtime itself needs the package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExtraGroup(BTreeSet<Extra>);

impl ReleaseLock {
    pub(crate) fn for_release(release: &Release) -> Self {
        serde_json::from_str(release.lock).expect("a test reads the lock of every release")
    }

    /// Returns the packages of a stack that contains these extras.
    pub(crate) fn plan(&self, with: &BTreeSet<Extra>) -> Vec<Planned> {
        let wanted =
            |package: &&LockedPackage| package.of.iter().any(|group| group.0.is_subset(with));
        self.packages.iter().filter(wanted).map(LockedPackage::planned).collect()
    }

    /// Creates the content of a lock file from the packages that apt has planned for each group of extras, smaller
    /// groups first.
    ///
    /// # Errors
    /// Two groups need different versions of a package.
    pub(crate) fn join(
        release: &Release,
        read: String,
        groups: impl IntoIterator<Item = (ExtraGroup, Vec<Planned>)>,
    ) -> Result<Self, String> {
        let mut packages = BTreeMap::<String, LockedPackage>::new();
        for (group, plan) in groups {
            for planned in plan {
                let locked = LockedPackage {
                    of: BTreeSet::new(),
                    name: planned.name.clone(),
                    version: planned.version,
                    path: planned.path,
                    size: planned.size,
                    sha256: planned.sha256,
                };
                let known = packages.entry(planned.name).or_insert_with(|| locked.clone());
                if known.sha256 != locked.sha256 {
                    let (name, one, other) = (&known.name, &known.version, &locked.version);
                    return Err(format!(
                        "{release} needs two versions of {name}: {one} and {other}"
                    ));
                }
                if !known.of.iter().any(|smaller| smaller.0.is_subset(&group.0)) {
                    known.of.insert(group.clone());
                }
            }
        }
        Ok(Self {
            release: release.version.to_owned(),
            read,
            packages: packages.into_values().collect(),
        })
    }

    /// Returns the text of the lock file. Each package has a line of its own, so that a diff is readable.
    pub fn to_text(&self) -> String {
        let line = |package: &LockedPackage| serde_json::to_string(package).unwrap_or_default();
        let packages: Vec<_> = self.packages.iter().map(line).collect();
        format!(
            "{{\"release\":\"{}\",\"read\":\"{}\",\"packages\":[\n{}\n]}}\n",
            self.release,
            self.read,
            packages.join(",\n")
        )
    }
}

impl Release {
    /// Returns the number of bytes to download for a new stack of this release.
    pub fn size(&self) -> u64 {
        self.size_with(self.standard)
    }

    /// Returns the number of bytes that an extra adds to the download of a new stack.
    pub fn size_of(&self, extra: Extra) -> u64 {
        let without: Vec<_> = self.standard.iter().copied().filter(|e| *e != extra).collect();
        self.size_with(&[without.as_slice(), &[extra]].concat()) - self.size_with(&without)
    }

    fn size_with(&self, extras: &[Extra]) -> u64 {
        let plan = ReleaseLock::for_release(self).plan(&extras.iter().copied().collect());
        plan.iter().map(|package| package.size).sum()
    }
}

impl LockedPackage {
    fn planned(&self) -> Planned {
        Planned {
            name: self.name.clone(),
            version: self.version.clone(),
            path: self.path.clone(),
            size: self.size,
            sha256: self.sha256.clone(),
        }
    }
}

impl ExtraGroup {
    /// Returns all groups of extras that the lock file of the release must consider: the empty group, each extra alone,
    /// and each extra together with [`Extra::Dev`] or [`Extra::Tests`].
    pub(crate) fn all(release: &Release) -> Vec<Self> {
        let group = |extras: &[Extra]| Self(extras.iter().copied().collect());
        let mut groups = vec![group(&[])];
        groups.extend(release.extras.iter().map(|packages| group(&[packages.extra])));
        for packages in release.extras {
            if !packages.headers.is_empty() {
                groups.push(group(&[packages.extra, Extra::Dev]));
            }
            if !packages.tests.is_empty() {
                groups.push(group(&[packages.extra, Extra::Tests]));
            }
        }
        groups
    }

    pub(crate) fn extras(&self) -> &BTreeSet<Extra> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RELEASES;

    fn planned(name: &str, version: &str) -> Planned {
        Planned {
            name: name.into(),
            version: version.into(),
            path: format!("pool/{name}_{version}_amd64.deb"),
            size: 1,
            sha256: format!("{name}-{version}"),
        }
    }

    fn group(extras: &[Extra]) -> ExtraGroup {
        ExtraGroup(extras.iter().copied().collect())
    }

    #[test]
    fn every_release_has_a_lock_with_its_runtime() {
        for release in RELEASES {
            let lock = ReleaseLock::for_release(release);
            assert_eq!(lock.release, release.version);
            assert_eq!(lock.to_text(), release.lock, "{release}: not as it would be written");
            let names = |with: &[Extra]| -> BTreeSet<String> {
                lock.plan(&with.iter().copied().collect()).into_iter().map(|p| p.name).collect()
            };
            let bare = names(&[]);
            assert!(bare.contains(release.runtime()), "{release}");
            for extra in release.extras {
                let with = names(&[extra.extra]);
                for pattern in extra.packages {
                    let name = pattern.split('=').next().unwrap();
                    assert!(with.contains(name), "{release} {}: {name}", extra.extra);
                }
                assert!(with.is_superset(&bare), "{release} {}", extra.extra);
                let all = names(&[extra.extra, Extra::Dev, Extra::Tests]);
                for pattern in extra.headers.iter().chain(extra.tests) {
                    assert!(
                        all.contains(pattern.split('=').next().unwrap()),
                        "{release} {pattern}"
                    );
                }
            }
            for package in &lock.packages {
                let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
                assert!(package.sha256.len() == 64 && package.sha256.chars().all(hex));
                assert!(package.path.ends_with(".deb") && !package.path.contains(".."));
            }
        }
    }

    #[test]
    fn knows_the_size_of_a_library_before_the_fetch() {
        let latest = Release::latest();
        assert!(latest.size() > 100_000_000, "with hipRAND");
        assert!(latest.size_of(Extra::Hiprand) > 10_000_000);
        assert!(latest.size_of(Extra::Tests) > 100_000, "tests of hipRAND");
        assert!(latest.size_of(Extra::Hipblaslt) > 100_000_000);
        let missing = Release::find(&"5.2.3".parse().unwrap()).unwrap();
        assert_eq!(missing.size_of(Extra::Hipblaslt), 0);
    }

    #[test]
    fn assigns_a_package_to_the_smallest_groups_that_need_it() {
        let groups = [
            (group(&[]), vec![planned("hip", "1")]),
            (group(&[Extra::Dev]), vec![planned("hip", "1"), planned("clang", "2")]),
            (
                group(&[Extra::Dev, Extra::Hiprand]),
                vec![planned("hip", "1"), planned("clang", "2"), planned("headers", "3")],
            ),
        ];
        let lock = ReleaseLock::join(Release::latest(), "now".into(), groups).unwrap();
        let check = |with: &[Extra], expected: &str| {
            let plan = lock.plan(&with.iter().copied().collect());
            let names: Vec<_> = plan.into_iter().map(|p| p.name).collect();
            assert_eq!(names.join(" "), expected, "{with:?}");
        };
        check(&[], "hip");
        check(&[Extra::Hiprand], "hip");
        check(&[Extra::Dev], "clang hip");
        check(&[Extra::Dev, Extra::Hiprand, Extra::Rocblas], "clang headers hip");
        assert_eq!(serde_json::from_str::<ReleaseLock>(&lock.to_text()).unwrap(), lock);
    }

    #[test]
    fn two_versions_of_a_package_cannot_be_locked() {
        let groups = [
            (group(&[]), vec![planned("hip", "1")]),
            (group(&[Extra::Dev]), vec![planned("hip", "2")]),
        ];
        let error = ReleaseLock::join(Release::latest(), "now".into(), groups).unwrap_err();
        assert!(error.contains("two versions of hip: 1 and 2"), "{error}");
    }
}
