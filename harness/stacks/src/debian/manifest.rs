//! Content of a fetched stack.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Extra, FetchError, Version};

/// The content of a fetched stack's `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The stack, as `debian:7.2.4`.
    pub spec: String,
    /// The release of the HIP runtime.
    pub rocm: Version,
    /// When it was fetched, in seconds since 1970-01-01 UTC.
    pub fetched: u64,
    /// The mirror that it came from.
    pub mirror: String,
    /// The suites that were read.
    pub suites: Vec<String>,
    /// The libraries that were added.
    pub with: Vec<Extra>,
    /// The GPU architectures whose kernel files were unpacked; empty means all.
    pub architectures: Vec<String>,
    /// The packages, in the order of their names.
    pub packages: Vec<Package>,
}

/// One unpacked package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Debian's name.
    pub name: String,
    /// Debian's version, with epoch.
    pub version: String,
    /// Of the .deb file, in hexadecimal, as the signed index has it.
    pub sha256: String,
    /// Size of the .deb file in bytes.
    pub size: u64,
    /// GPU architectures that the package brings kernel files for, unpacked or not. Kernels inside a shared
    /// library are not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// GPU architectures that its shared libraries hold kernels for, such as `gfx1151` or `gfx11-generic`; empty if they are
    /// unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<String>,
}

impl Manifest {
    /// File name, in the root of a stack. It is written last: a root without it is not a stack.
    pub(crate) const FILE: &str = "manifest.json";

    /// Reads the manifest of a stack; nothing if it is missing or damaged.
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

    /// Returns the package of this name.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}
