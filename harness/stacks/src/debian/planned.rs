//! Description of a package that a stack needs, and the verification of its downloaded file.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::FetchError;
use crate::transfer::sha256_of;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Path of the .deb file below the address of a mirror.
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl Planned {
    /// Returns the name of the downloaded file in the folder of downloads.
    pub(crate) fn file(&self) -> String {
        // apt uses the same file name, so that apt and this module can use each other's downloads.
        format!("{}_{}_{}", self.name, self.version.replace(':', "%3a"), self.architecture())
    }

    fn architecture(&self) -> &str {
        self.path.rsplit('_').next().unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) enum Absent {
    /// No mirror that responded has the package.
    Gone {
        /// Name and version of the package.
        package: String,
    },
    /// An error other than a missing package.
    Error(FetchError),
}

impl From<FetchError> for Absent {
    fn from(error: FetchError) -> Self {
        Self::Error(error)
    }
}

/// Checks that size and digest of a file are those of the expected package.
///
/// # Errors
/// [`FetchError::Damaged`] if they differ, [`FetchError::Cancelled`] once `stop` is true, or the file cannot be read.
pub(crate) fn verify(package: &Planned, path: &Path, stop: &AtomicBool) -> Result<(), FetchError> {
    let damaged = |detail| FetchError::Damaged { path: path.to_owned(), detail };
    let size = fs::metadata(path).map_err(FetchError::io("open", path))?.len();
    if size != package.size {
        return Err(damaged(format!("{size} bytes instead of {}", package.size)));
    }
    let found = sha256_of(path, stop).map_err(FetchError::io("read", path))?;
    let found = found.ok_or(FetchError::Cancelled)?;
    if found == package.sha256 {
        Ok(())
    } else {
        Err(damaged(format!("sha256 {found} instead of {}", package.sha256)))
    }
}
