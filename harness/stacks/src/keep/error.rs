use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Hint, LockError, PathError};

/// Error while obtaining a build. Such a build counts as neither good nor bad.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObtainError {
    /// The build is in a listing, but its file is missing.
    #[error("{url}: not found")]
    NotFound {
        /// Address or folder.
        url: String,
    },
    /// The digest of the downloaded bytes differs from the published one.
    #[error("{url} has sha256 {got}, but {want} was published")]
    Checksum {
        /// Address.
        url: String,
        /// Published digest.
        want: String,
        /// Digest of the downloaded bytes.
        got: String,
    },
    /// An earlier download of the same address had other content. Results of both must not be mixed.
    #[error("{url} was published again: sha256 {now}, first seen as {before}")]
    Republished {
        /// Address.
        url: String,
        /// Digest of the first download.
        before: String,
        /// Digest of this download.
        now: String,
        /// File that contains the digest of the first download.
        record: PathBuf,
    },
    /// An archive cannot be read to its end.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The archive.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The decompression of an archive would need too much memory.
    #[error("{name} needs more than {} MiB of memory to be unpacked", limit >> 20)]
    Memory {
        /// The archive.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// An archive would write outside its prefix, or make a device.
    #[error("{name} was refused: {reason}")]
    Hostile {
        /// The archive.
        name: String,
        /// The entry, and the reason.
        reason: String,
    },
    /// The build contains no HIP runtime that the dynamic loader could load.
    #[error("it cannot be loaded: {reason}")]
    DoesNotLoad {
        /// The reason.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left in {path}")]
    NoSpace {
        /// The folder of the store.
        path: PathBuf,
    },
    /// The host refused to send the file in every attempt. The host may still have other builds.
    #[error("{reason}")]
    Refused {
        /// Status of the response.
        reason: String,
    },
    /// The host does not respond after all attempts, or limits the rate of requests.
    #[error("{url} could not be fetched: {reason}")]
    Network {
        /// Address.
        url: String,
        /// Description of the failure.
        reason: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(PathError),
    /// The build could not be locked.
    #[error(transparent)]
    Lock(LockError),
    /// The caller cancelled the fetch.
    #[error("the fetch was cancelled")]
    Cancelled,
}

impl ObtainError {
    /// Returns true if the cause is the machine or its network and not the build. A search should then stop or wait.
    /// Skipping the build would not help, because the next build would fail too.
    pub fn is_environment(&self) -> bool {
        // The match has no wildcard arm, so that each new variant must be classified.
        match self {
            Self::NoSpace { .. }
            | Self::Network { .. }
            | Self::File(_)
            | Self::Lock(_)
            | Self::Cancelled => true,
            Self::NotFound { .. }
            | Self::Checksum { .. }
            | Self::Republished { .. }
            | Self::Damaged { .. }
            | Self::Memory { .. }
            | Self::Hostile { .. }
            | Self::DoesNotLoad { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// Returns a function for `map_err` that adds the attempted action and the path to an error.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| PathError::new(action, path, source).into()
    }
}

impl Hint for ObtainError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Republished { record, .. } => {
                Some(format!("remove {} to accept it", record.display()))
            }
            Self::NoSpace { .. } => {
                Some("free some, or lower the disk budget so that more is evicted".into())
            }
            Self::Memory { .. } => {
                Some("unpack it with `tar` and name the folder, or use another build".into())
            }
            Self::Lock(error) => error.hint(),
            _ => None,
        }
    }
}

impl From<PathError> for ObtainError {
    fn from(error: PathError) -> Self {
        match error.is_disk_full() {
            true => Self::NoSpace { path: error.path().to_owned() },
            false => Self::File(error),
        }
    }
}

impl From<LockError> for ObtainError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::File(error) => error.into(),
            LockError::Cancelled => Self::Cancelled,
            late @ LockError::Late { .. } => Self::Lock(late),
        }
    }
}

impl From<download::DownloadError> for ObtainError {
    fn from(failure: download::DownloadError) -> Self {
        match failure {
            download::DownloadError::Missing { url } => Self::NotFound { url },
            download::DownloadError::Network { url, reason } => Self::Network { url, reason },
            download::DownloadError::Cancelled => Self::Cancelled,
            download::DownloadError::Changed { name } => Self::Damaged {
                name,
                reason: "it changed on the host while it was downloaded".into(),
            },
            refused @ (download::DownloadError::Refused { .. }
            | download::DownloadError::TooLong { .. }) => {
                Self::Refused { reason: refused.to_string() }
            }
            download::DownloadError::Limited { url, status, after } => {
                let wait = after.map_or_else(String::new, |after| {
                    format!("; the host asks to wait {} s", after.as_secs())
                });
                Self::Network { url, reason: format!("rate-limited ({status}){wait}") }
            }
            download::DownloadError::Page { url } => Self::Network {
                url,
                reason: "a page in HTML came in its place; does a portal or a proxy want a login?"
                    .into(),
            },
            other => Self::Network { url: String::new(), reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use download::DownloadError;

    use super::*;

    #[test]
    fn blames_the_build_or_the_machine() {
        let check = |failure: DownloadError, environment: bool, text: &str| {
            let error = ObtainError::from(failure);
            assert_eq!(error.is_environment(), environment, "{error}");
            assert!(error.to_string().contains(text), "{error}, not {text}");
        };
        let url = || "http://host/x".to_owned();
        check(DownloadError::Missing { url: url() }, false, "http://host/x: not found");
        check(DownloadError::Changed { name: "x".into() }, false, "x is damaged: it changed");
        check(DownloadError::Cancelled, true, "the fetch was cancelled");
        check(
            DownloadError::Network { url: url(), reason: "reset".into() },
            true,
            "fetched: reset",
        );
        check(DownloadError::Page { url: url() }, true, "want a login?");
        let limited = |after| DownloadError::Limited { url: url(), status: "429".into(), after };
        check(limited(None), true, "rate-limited (429)");
        check(limited(Some(Duration::from_secs(7))), true, "(429); the host asks to wait 7 s");
        let lock = LockError::Late { path: "/x".into(), holder: "y".into() };
        assert!(ObtainError::from(lock).is_environment());
        assert!(matches!(ObtainError::from(LockError::Cancelled), ObtainError::Cancelled));
    }

    #[test]
    fn reports_a_full_disk_as_such() {
        let error = |kind: io::ErrorKind| ObtainError::io("write", Path::new("/x"))(kind.into());
        let full = error(io::ErrorKind::StorageFull);
        assert!(matches!(full, ObtainError::NoSpace { .. }) && full.is_environment());
        assert!(full.hint().is_some_and(|hint| hint.starts_with("free some")));
        let other = error(io::ErrorKind::NotFound);
        assert!(matches!(other, ObtainError::File(_)) && other.is_environment());
    }
}
