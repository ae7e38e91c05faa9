//! Packages that a stack needs, before they are downloaded.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::FetchError;
use crate::transfer::sha256_of;

/// Package of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Path below the address of a mirror.
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl Planned {
    /// Returns the name of its file in the folder of downloads.
    pub(crate) fn file(&self) -> String {
        // As apt names it, so that both can use what the other has downloaded.
        format!("{}_{}_{}", self.name, self.version.replace(':', "%3a"), self.architecture())
    }

    /// Returns `amd64.deb` or `all.deb`.
    fn architecture(&self) -> &str {
        self.path.rsplit('_').next().unwrap_or_default()
    }
}

/// Reason why a package is not available.
#[derive(Debug)]
pub(crate) enum Absent {
    /// No mirror that answers has it.
    Gone {
        /// Name and version.
        package: String,
    },
    /// Another failure.
    Error(FetchError),
}

impl From<FetchError> for Absent {
    fn from(error: FetchError) -> Self {
        Self::Error(error)
    }
}

/// Compares the size and the digest of a file with those of its package.
///
/// # Errors
/// [`FetchError::Damaged`], [`FetchError::Cancelled`] once `stop` is true, or the file cannot be read.
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
