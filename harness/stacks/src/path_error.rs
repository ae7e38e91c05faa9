use std::{
    io,
    path::{Path, PathBuf},
};

/// A failed operation on a file or folder of this machine.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}")]
pub struct PathError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl PathError {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_owned(), source }
    }

    /// Returns a function for `map_err` that turns an I/O error into a [`PathError`] with the attempted action and the
    /// path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::new(action, path, source)
    }

    /// Returns the attempted action as a verb, for example `create`.
    pub fn action(&self) -> &'static str {
        self.action
    }

    /// Returns the file or folder on which the operation failed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the operation failed because the disk or the user's quota is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn recognises_a_full_disk() {
        let path = Path::new("/dev/full");
        let mut full = std::fs::File::options().write(true).open(path).unwrap();
        let error = PathError::new("write", path, full.write_all(b"x").unwrap_err());
        assert!(error.is_disk_full());
        assert_eq!(error.to_string(), "cannot write /dev/full");
        let missing = std::fs::read("/nonexistent").unwrap_err();
        assert!(!PathError::new("read", Path::new("/nonexistent"), missing).is_disk_full());
    }
}
