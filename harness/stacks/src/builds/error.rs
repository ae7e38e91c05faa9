//! What can go wrong with sources and builds.

use std::io;
use std::path::{Path, PathBuf};

/// Why no history could be made, or a text names no build. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A file of sources with mistakes, all of them.
    #[error("{path}: {}", problems.join("; "))]
    Config {
        /// The file.
        path: PathBuf,
        /// The mistakes.
        problems: Vec<String>,
    },
    /// Names that are no source, all of them.
    #[error(
        "not a source: {}; use one of {known}, dir:FOLDER, or KIND=ADDRESS such as index-html=http://HOST/tarball/",
        wanted.join(", ")
    )]
    UnknownSource {
        /// What was given.
        wanted: Vec<String>,
        /// The configured channels and sources.
        known: String,
    },
    /// No source offers a build for this architecture and time.
    #[error("no builds for {gfx}: {}", reasons.join("; "))]
    Empty {
        /// The architecture that was asked for.
        gfx: String,
        /// What each source said.
        reasons: Vec<String>,
    },
    /// A text that names no build of the history.
    #[error("no build {wanted:?}; {offered}")]
    NoBuild {
        /// What was given.
        wanted: String,
        /// The nearest builds, or the ends of the history.
        offered: String,
    },
    /// Somebody ended the waiting.
    #[error("the listing was called off")]
    Cancelled,
    /// A file or folder of this machine.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl HistoryError {
    /// Returns true if the machine or the network is at fault, and not the request: it may work later.
    pub fn is_environment(&self) -> bool {
        match self {
            // No builds at all may be the fault of either; the message has what each source said.
            Self::Config { .. }
            | Self::UnknownSource { .. }
            | Self::NoBuild { .. }
            | Self::Empty { .. } => false,
            Self::Cancelled | Self::Io { .. } => true,
        }
    }

    /// For `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// Why a build cannot be tested. Neither good nor bad.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObtainError {
    /// It is listed but not there.
    #[error("{url} is not there")]
    NotFound {
        /// Where it should be.
        url: String,
    },
    /// Its bytes are not those that were published with it.
    #[error("{url} has sha256 {got}, but {want} was published")]
    Checksum {
        /// Where it is.
        url: String,
        /// What was announced.
        want: String,
        /// What came.
        got: String,
    },
    /// It was seen before with other bytes: results of the two must not be mixed.
    #[error(
        "{url} was published again: sha256 {now}, first seen as {before}; remove {record} to accept it"
    )]
    Republished {
        /// Where it is.
        url: String,
        /// What was seen first.
        before: String,
        /// What came now.
        now: String,
        /// The file that remembers the first.
        record: PathBuf,
    },
    /// An archive that cannot be read to its end.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The archive.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// An archive that would write outside its prefix, or make a device.
    #[error("{name} was refused: {reason}")]
    Hostile {
        /// The archive.
        name: String,
        /// The entry and why.
        reason: String,
    },
    /// It unpacks, but holds no HIP runtime that the loader could take.
    #[error("it cannot be loaded: {reason}")]
    DoesNotLoad {
        /// Why.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left in {path}; free some, or lower the disk budget so that more is evicted")]
    NoSpace {
        /// The store.
        path: PathBuf,
    },
    /// The host is there and has it not to give, after all attempts: other builds may be had.
    #[error("{reason}")]
    Refused {
        /// What it answered.
        reason: String,
    },
    /// The host does not answer, after all attempts, or answers nobody now.
    #[error("{url} could not be fetched: {reason}")]
    Network {
        /// Where it is.
        url: String,
        /// What happened.
        reason: String,
    },
    /// A file or folder of this machine.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody has had the build in work for longer than it is waited for.
    #[error(
        "{path} is held by {holder}, and waiting for it took too long; end that process, and try again"
    )]
    Locked {
        /// The lock's file.
        path: PathBuf,
        /// A process, as the kernel names it.
        holder: String,
    },
    /// The fetch was called off.
    #[error("the fetch was called off")]
    Cancelled,
}

impl ObtainError {
    /// Whether the machine or its network is at fault, not the build: a search should stop or wait rather than
    /// skip, because the next build would fail as well.
    pub fn is_environment(&self) -> bool {
        matches!(
            self,
            Self::NoSpace { .. }
                | Self::Network { .. }
                | Self::Io { .. }
                | Self::Locked { .. }
                | Self::Cancelled
        )
    }

    /// For `map_err`: a full disk is told apart.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }
}

impl From<crate::LockError> for ObtainError {
    fn from(not_held: crate::LockError) -> Self {
        match not_held {
            crate::LockError::Io { action, path, source } => Self::io(action, &path)(source),
            crate::LockError::Late { path, holder } => Self::Locked { path, holder },
            crate::LockError::CalledOff => Self::Cancelled,
        }
    }
}

impl From<download::Failure> for ObtainError {
    fn from(failure: download::Failure) -> Self {
        match failure {
            download::Failure::Missing { url } => Self::NotFound { url },
            download::Failure::Network { url, reason } => Self::Network { url, reason },
            download::Failure::Cancelled => Self::Cancelled,
            download::Failure::Changed { name } => Self::Damaged {
                name,
                reason: "it changed on the host while it was downloaded".into(),
            },
            refused @ (download::Failure::Refused { .. } | download::Failure::TooLong { .. }) => {
                Self::Refused { reason: refused.to_string() }
            }
            download::Failure::Limited { url, status, after } => {
                let wait = after.map_or_else(String::new, |after| {
                    format!(" and asks to wait {} s", after.as_secs())
                });
                Self::Network {
                    url,
                    reason: format!("the host limits its answers ({status}){wait}"),
                }
            }
            download::Failure::Page { url } => Self::Network {
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
    use std::io::Write;

    use super::*;

    #[test]
    fn a_full_disk_is_the_machines_trouble() {
        let path = Path::new("/dev/full");
        let mut full = std::fs::File::options().write(true).open(path).unwrap();
        let unusable = ObtainError::io("write", path)(full.write_all(b"x").unwrap_err());
        assert!(matches!(unusable, ObtainError::NoSpace { .. }), "{unusable}");
        assert!(unusable.is_environment());
        assert!(!ObtainError::NotFound { url: "x".into() }.is_environment());
    }
}
