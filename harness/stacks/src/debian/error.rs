//! Errors while fetching a Debian release, and while creating the lock file that lists its packages.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Hint, LocateError, LockError, PathError};

/// Error while fetching a Debian release.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The stack could not be located.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The address of a mirror is invalid.
    #[error("{mirror:?} is not the address of a mirror")]
    BadMirror {
        /// Address that the user gave.
        mirror: String,
    },
    /// The release does not contain a requested library.
    #[error("{spec} does not contain {extra}")]
    NoExtra {
        /// Name of the stack, for example `debian:7.2.4`.
        spec: String,
        /// Name of the requested library.
        extra: String,
        /// Releases that contain the library.
        have: String,
    },
    /// The name of a GPU architecture is invalid.
    #[error("{name:?} is not a GPU architecture")]
    Architecture {
        /// The invalid name.
        name: String,
    },
    /// apt is not installed on this machine.
    #[error("reading the indexes of Debian for {spec} needs apt-get, which is not on PATH")]
    NoApt {
        /// Name of the stack.
        spec: String,
    },
    /// Debian's signing keys are not installed on this machine.
    #[error("Debian's archive keys are not on this machine: looked for {looked}")]
    NoKeyring {
        /// Paths at which keys were expected.
        looked: String,
    },
    /// The mirror does not respond, or does not contain a Debian archive.
    #[error("the mirror {mirror} could not be read: {detail}")]
    Mirror {
        /// Address of the mirror.
        mirror: String,
        /// Response of the host, or error message of apt.
        detail: String,
    },
    /// Debian has not signed the mirror's index.
    #[error("the mirror {mirror} is not trusted: {detail}")]
    Untrusted {
        /// Address of the mirror.
        mirror: String,
        /// Error message of apt.
        detail: String,
    },
    /// The mirrors no longer have a package of the release.
    #[error("{gone} of {spec} is not on {mirrors}; {offered}")]
    Gone {
        /// Name of the stack.
        spec: String,
        /// The missing package, with its version.
        gone: String,
        /// Addresses of the mirrors that were tried.
        mirrors: String,
        /// Versions of ROCm that the mirrors' indexes contain, in a sentence.
        offered: String,
        /// The nearest release for which the mirrors have every package, if there is one.
        nearest: Option<String>,
    },
    /// apt failed for a reason that no other variant describes.
    #[error("apt-get could not {action}: {detail}")]
    Apt {
        /// The attempted action.
        action: &'static str,
        /// Error message of apt.
        detail: String,
    },
    /// The size or digest of a downloaded package differs from the one in the lock file or in the signed index.
    #[error("{path} is damaged ({detail})")]
    Damaged {
        /// Downloaded file.
        path: PathBuf,
        /// Expected and actual size or digest.
        detail: String,
    },
    /// A package is damaged, or cannot be unpacked safely.
    #[error("{path} cannot be unpacked: {reason}")]
    Archive {
        /// Downloaded file of the package.
        path: PathBuf,
        /// Member of the package that is not valid, and the reason.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left for {path}")]
    DiskFull {
        /// File that was being written.
        path: PathBuf,
    },
    /// The folder of the stack could not be locked against other processes.
    #[error(transparent)]
    Lock(LockError),
    /// The caller cancelled the fetch.
    #[error("the fetch was cancelled")]
    Cancelled,
    /// A file could not be read or written.
    #[error(transparent)]
    File(PathError),
}

impl FetchError {
    /// Returns true if the cause is the machine or its network and not the request, so that the same request may
    /// succeed later.
    pub fn is_environment(&self) -> bool {
        // The match has no wildcard arm, so that each new variant must be classified.
        match self {
            Self::Locate(error) => error.is_environment(),
            Self::BadMirror { .. } | Self::NoExtra { .. } | Self::Architecture { .. } => false,
            Self::NoApt { .. }
            | Self::NoKeyring { .. }
            | Self::Mirror { .. }
            | Self::Untrusted { .. }
            | Self::Gone { .. }
            | Self::Apt { .. }
            | Self::Damaged { .. }
            | Self::Archive { .. }
            | Self::DiskFull { .. }
            | Self::Lock(_)
            | Self::Cancelled
            | Self::File(_) => true,
        }
    }

    /// Returns a function for `map_err` that turns an I/O error into a [`FetchError`] with the attempted action and the
    /// path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| PathError::new(action, path, source).into()
    }
}

impl Hint for FetchError {
    fn hint(&self) -> Option<String> {
        const MIRROR: &str = "use a mirror that keeps old versions (--mirror), or use an installed ROCm or the folder \
            of an unpacked TheRock tarball";
        Some(match self {
            Self::Locate(error) => return error.hint(),
            Self::Lock(error) => return error.hint(),
            Self::File(_) => return None,
            Self::BadMirror { .. } => {
                "use an address such as http://HOST/debian or file:/FOLDER".to_owned()
            }
            Self::NoExtra { have, .. } => format!("use one of {have}"),
            Self::Architecture { .. } => "use a name such as gfx1151".into(),
            Self::NoApt { .. } => format!("install apt, or {MIRROR}"),
            Self::NoKeyring { .. } => "install the package debian-archive-keyring".into(),
            Self::Mirror { .. } => {
                "check the network, or choose another mirror with --mirror".into()
            }
            Self::Untrusted { .. } => {
                "update the package debian-archive-keyring, or choose another mirror with --mirror"
                    .into()
            }
            Self::Gone { nearest: None, .. } => MIRROR.into(),
            Self::Gone { nearest: Some(near), .. } => {
                format!(
                    "run `rocrepro stack fetch {near}`, the nearest available release, or {MIRROR}"
                )
            }
            Self::Apt { .. } => "check whether `apt-get update` works on this machine".into(),
            Self::Damaged { .. } => "fetch again: the damaged file was removed".into(),
            Self::Archive { .. } => {
                "remove the file and fetch again; if the error persists, report it".into()
            }
            Self::DiskFull { .. } => {
                "free some space (a stack needs about 400 MB), or set XDG_CACHE_HOME".into()
            }
            Self::Cancelled => {
                "repeat the command to continue; downloaded packages are kept".into()
            }
        })
    }
}

impl From<PathError> for FetchError {
    fn from(error: PathError) -> Self {
        match error.is_disk_full() {
            true => Self::DiskFull { path: error.path().to_owned() },
            false => Self::File(error),
        }
    }
}

impl From<LockError> for FetchError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::File(error) => error.into(),
            LockError::Cancelled => Self::Cancelled,
            late @ LockError::Late { .. } => Self::Lock(late),
        }
    }
}

/// Error while creating the lock file that lists the packages of a Debian release.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockReleaseError {
    /// The apt sources of this machine have no Debian mirror.
    #[error("no Debian mirror in this machine's apt sources ({looked})")]
    NoMirror {
        /// Files in which a mirror was searched.
        looked: String,
    },
    /// Two groups of extras need different versions of a package, or the mirror does not have a package of the release.
    #[error("cannot determine the packages of the release: {detail}")]
    Conflict {
        /// Name of the package, and its versions.
        detail: String,
    },
    /// The indexes of the release could not be read.
    #[error(transparent)]
    Indexes(#[from] FetchError),
}

impl Hint for LockReleaseError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoMirror { .. } => {
                Some("choose one with --mirror, for example the mirror of your network".into())
            }
            Self::Conflict { .. } => None,
            Self::Indexes(error) => error.hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blames_the_request_or_the_machine() {
        let (spec, path) = (|| "debian:7.2.4".to_owned(), || PathBuf::from("/x"));
        let requests = [
            FetchError::BadMirror { mirror: "x".into() },
            FetchError::NoExtra { spec: spec(), extra: "rccl".into(), have: spec() },
            FetchError::Architecture { name: "x".into() },
            LocateError::NotFetched { spec: spec() }.into(),
        ];
        for error in requests {
            assert!(!error.is_environment() && error.hint().is_some(), "{error}");
        }
        let machine = [
            FetchError::NoApt { spec: spec() },
            FetchError::NoKeyring { looked: "/x".into() },
            FetchError::Damaged { path: path(), detail: "x".into() },
            FetchError::DiskFull { path: path() },
            LockError::Late { path: path(), holder: "x".into() }.into(),
            FetchError::Cancelled,
        ];
        for error in machine {
            assert!(error.is_environment() && error.hint().is_some(), "{error}");
        }
        let missing = || PathError::new("read", Path::new("/x"), io::ErrorKind::NotFound.into());
        assert!(FetchError::from(missing()).is_environment());
        assert!(FetchError::from(LocateError::from(missing())).is_environment());
    }

    #[test]
    fn reports_a_full_disk_as_such() {
        let error = |kind: io::ErrorKind| FetchError::io("write", Path::new("/x"))(kind.into());
        assert!(matches!(error(io::ErrorKind::StorageFull), FetchError::DiskFull { .. }));
        assert!(matches!(error(io::ErrorKind::QuotaExceeded), FetchError::DiskFull { .. }));
        assert!(matches!(error(io::ErrorKind::NotFound), FetchError::File(_)));
        let cancelled = FetchError::from(LockError::Cancelled);
        assert!(matches!(cancelled, FetchError::Cancelled));
    }
}
