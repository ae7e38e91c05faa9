//! A package that a stack needs: what is known of it before it is there, whether a file is it, and why it cannot be had.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::StackError;

/// One package of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Below a mirror's address.
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) sha256: String,
}

impl Planned {
    /// Name of its file in the archive directory.
    pub(crate) fn file(&self) -> String {
        // As apt names it, so that what either has downloaded serves both.
        format!("{}_{}_{}", self.name, self.version.replace(':', "%3a"), self.architecture())
    }

    /// `amd64.deb` or `all.deb`.
    fn architecture(&self) -> &str {
        self.path.rsplit('_').next().unwrap_or_default()
    }
}

/// Why a package is not there.
#[derive(Debug)]
pub(crate) enum Absent {
    /// Every mirror that answers says that it does not have it.
    Gone {
        /// Its name and version.
        package: String,
    },
    /// Anything else.
    Error(StackError),
}

impl From<StackError> for Absent {
    fn from(error: StackError) -> Self {
        Self::Error(error)
    }
}

/// Compares a package with what it must be.
pub(crate) fn verify(package: &Planned, path: &Path) -> Result<(), StackError> {
    let damaged = |detail| StackError::Damaged { path: path.to_owned(), detail };
    let mut file = File::open(path).map_err(StackError::io("open", path))?;
    let size = file.metadata().map_err(StackError::io("read", path))?.len();
    if size != package.size {
        return Err(damaged(format!("{size} bytes instead of {}", package.size)));
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hash.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StackError::io("read", path)(error)),
        }
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == package.sha256 {
        Ok(())
    } else {
        Err(damaged(format!("sha256 {found} instead of {}", package.sha256)))
    }
}
