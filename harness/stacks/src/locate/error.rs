use std::path::PathBuf;

use crate::{Hint, PathError};

/// Error returned if a string is not the name of a stack.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The string has none of the forms that a stack's name can have.
    #[error("{spec:?} is not a stack")]
    Unknown {
        /// Name that the user gave.
        spec: String,
        /// The possible forms of a stack's name.
        known: String,
    },
    /// The string names a Debian release that is not in the table of releases.
    #[error("{wanted} is not a known stack")]
    UnknownRelease {
        /// Name that the user gave.
        wanted: String,
        /// The Debian releases in the table.
        known: String,
    },
}

impl Hint for SpecError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { known, .. } => format!("write {known}"),
            Self::UnknownRelease { known, .. } => format!("choose from {known}"),
        })
    }
}

/// Error: neither XDG_CACHE_HOME nor HOME defines the folder of the cache.
#[derive(Debug, thiserror::Error)]
#[error("no cache directory: neither XDG_CACHE_HOME nor HOME is an absolute path")]
pub struct NoCacheError;

impl Hint for NoCacheError {
    fn hint(&self) -> Option<String> {
        Some("set XDG_CACHE_HOME or HOME to an absolute path".into())
    }
}

/// Error for a stack that is not available on this machine or cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The Debian release has not been fetched yet.
    #[error("{spec} has not been fetched")]
    NotFetched {
        /// Name of the stack, for example `debian:7.2.4`.
        spec: String,
    },
    /// The directory contains no HIP runtime.
    #[error("no ROCm in {path}: looked for libamdhip64.so in {looked}")]
    NoRocm {
        /// Directory that was searched.
        path: PathBuf,
        /// Folders that were searched, relative to the directory.
        looked: String,
    },
    /// No ROCm is installed on this machine.
    #[error("no ROCm is installed: looked in {looked}")]
    NoSystem {
        /// Folders that were searched.
        looked: String,
    },
    /// The path contains `:` or `;`, which separate the folders of a library path.
    #[error("{path} contains a `:` or `;`, which the dynamic loader treats as a separator")]
    Separator {
        /// The directory that contains the stack.
        path: PathBuf,
    },
    /// A file or folder could not be read.
    #[error(transparent)]
    File(#[from] PathError),
}

impl LocateError {
    /// Returns true if the cause is the machine and not the request, so that the same request may succeed later.
    pub fn is_environment(&self) -> bool {
        match self {
            Self::NotFetched { .. }
            | Self::NoRocm { .. }
            | Self::NoSystem { .. }
            | Self::Separator { .. } => false,
            Self::File(_) => true,
        }
    }
}

impl Hint for LocateError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFetched { spec } => format!("run `rocrepro stack fetch {spec}`"),
            Self::NoRocm { .. } => {
                "give the prefix (it contains lib/), the unpacked wheel, or the root of a Debian \
                tree (it contains usr/)"
                    .into()
            }
            Self::NoSystem { .. } => {
                "install one, set ROCM_PATH, or use another stack such as debian:latest".into()
            }
            Self::Separator { .. } => "move it to a path without these characters".into(),
            Self::File(_) => return None,
        })
    }
}
