use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Hint, LockError, PathError};

/// Error while obtaining a build. A bisect counts the build as neither good nor bad.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObtainError {
    /// A listing contains the build, but its file or folder is missing.
    #[error("{url}: not found")]
    NotFound {
        /// Address of the missing file, or path of the missing folder.
        url: String,
    },
    /// The digest of the downloaded bytes differs from the published one.
    #[error("{url} has sha256 {got}, but {want} was published")]
    Checksum {
        /// Address of the downloaded file.
        url: String,
        /// Published SHA-256.
        want: String,
        /// SHA-256 of the downloaded bytes.
        got: String,
    },
    /// The content at an address differs from that of an earlier download. Results with the earlier content and results
    /// with the new content must not be mixed.
    #[error("{url}: content changed since first seen (sha256 {before} -> {now})")]
    Republished {
        /// Address of the file.
        url: String,
        /// SHA-256 of the first download.
        before: String,
        /// SHA-256 of this download.
        now: String,
        /// File in the store that contains the SHA-256 of the first download.
        record: PathBuf,
    },
    /// An archive cannot be read to its end.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// Name of the archive.
        name: String,
        /// Description of the damage.
        reason: String,
    },
    /// The decompression of an archive would need too much memory.
    #[error("unpacking {name} needs more than {} MiB of memory", limit >> 20)]
    Memory {
        /// Name of the archive.
        name: String,
        /// Maximum memory in bytes.
        limit: u64,
    },
    /// An archive contains a member that must not be unpacked: it would be written outside the folder of the build,
    /// lies in too many folders, or is neither a file nor a link.
    #[error("{name} was rejected: {reason}")]
    Hostile {
        /// Name of the archive.
        name: String,
        /// Path of the member, and the reason.
        reason: String,
    },
    /// The build contains no HIP runtime that the dynamic loader could load.
    #[error("it cannot be loaded: {reason}")]
    DoesNotLoad {
        /// Reason why the runtime cannot be loaded.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left in {path}")]
    NoSpace {
        /// The folder of the store.
        path: PathBuf,
    },
    /// The host refused every attempt to download the file. Other builds may be available on this host.
    #[error("{reason}")]
    Refused {
        /// Status line of the host's response.
        reason: String,
    },
    /// The host did not respond in any attempt, or limits the rate of requests.
    #[error("{url} could not be fetched: {reason}")]
    Network {
        /// Address of the file.
        url: String,
        /// Description of the failure.
        reason: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(PathError),
    /// The build could not be locked against other processes.
    #[error(transparent)]
    Lock(LockError),
    /// The caller cancelled the download.
    #[error("the fetch was cancelled")]
    Cancelled,
}

impl ObtainError {
    /// Returns true if the cause is the machine or its network and not the build. A bisect should then stop or wait.
    /// Skipping the build would not help, because obtaining the next build would fail too.
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

    /// Returns a function for `map_err` that turns an I/O error into an [`ObtainError`] with the attempted action and
    /// the path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| PathError::new(action, path, source).into()
    }
}

impl Hint for ObtainError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Republished { record, .. } => {
                Some(format!("delete {} to accept the new content", record.display()))
            }
            Self::NoSpace { .. } => Some(
                "free some space, or lower the disk budget so that more builds are removed".into(),
            ),
            Self::Memory { .. } => {
                Some("unpack it with `tar` and give the folder, or use another build".into())
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
                    format!("; try again in {} s", after.as_secs())
                });
                Self::Network { url, reason: format!("rate-limited ({status}){wait}") }
            }
            download::DownloadError::Page { url } => Self::Network {
                url,
                reason: "received an HTML page instead; a portal or proxy may require a login"
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
        check(DownloadError::Page { url: url() }, true, "may require a login");
        let limited = |after| DownloadError::Limited { url: url(), status: "429".into(), after };
        check(limited(None), true, "rate-limited (429)");
        check(limited(Some(Duration::from_secs(7))), true, "(429); try again in 7 s");
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
