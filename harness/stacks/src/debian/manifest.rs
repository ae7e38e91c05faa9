//! Reads and writes the manifest of a fetched stack, which lists the stack's packages, extras and architectures.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Extra, FetchError, Version};

/// Content of `manifest.json` in a fetched stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the stack, for example `debian:7.2.4`.
    pub spec: String,
    /// ROCm version of the HIP runtime.
    pub rocm: Version,
    /// Time of the fetch, in seconds since 1970-01-01 UTC.
    pub fetched: u64,
    /// Mirror from which the packages were downloaded.
    pub mirror: String,
    /// Debian suites from which the packages were selected.
    pub suites: Vec<String>,
    /// Extras that the stack contains.
    pub with: Vec<Extra>,
    /// GPU architectures whose kernel files were unpacked; an empty list means all.
    pub architectures: Vec<String>,
    /// Packages, sorted by name.
    pub packages: Vec<Package>,
}

/// One unpacked package of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Debian's name of the package.
    pub name: String,
    /// Debian's version, which may contain an epoch.
    pub version: String,
    /// SHA-256 of the .deb file in hexadecimal, from the lock file or the signed index.
    pub sha256: String,
    /// Size of the .deb file in bytes.
    pub size: u64,
    /// GPU architectures for which the package contains kernel files, whether or not they were unpacked. Kernels inside
    /// shared libraries are not included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// GPU architectures of the kernels inside the package's shared libraries, for example `gfx1151` or
    /// `gfx11-generic`; empty if they are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<String>,
}

impl Manifest {
    /// Name of the manifest file in the root of a stack. The file is written last, so a root without it is incomplete.
    pub(crate) const FILE: &str = "manifest.json";

    /// Reads the manifest of a stack. Returns `None` if it is missing or damaged.
    pub(crate) fn read(root: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(root.join(Self::FILE)).ok()?).ok()
    }

    pub(crate) fn write(&self, root: &Path) -> Result<(), FetchError> {
        let path = root.join(Self::FILE);
        let mut text = serde_json::to_string_pretty(self)
            .map_err(std::io::Error::from)
            .map_err(FetchError::io("serialise", &path))?;
        text.push('\n');
        atomic::write(&path, text).map_err(FetchError::io("write", &path))
    }

    /// Returns the package with this name; `None` if the stack does not contain it.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}
