use std::path::PathBuf;

use crate::{Hint, PathError};

/// Error for a text that is not the name of a stack.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The text has none of the forms of a stack's name.
    #[error("{spec:?} is not a stack")]
    Unknown {
        /// The text.
        spec: String,
        /// The forms of a stack's name.
        known: String,
    },
    /// The table of Debian releases has no such release.
    #[error("{wanted} is not a known stack")]
    UnknownRelease {
        /// The text.
        wanted: String,
        /// The Debian releases.
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

/// Error: no environment variable defines the folder of the cache.
#[derive(Debug, thiserror::Error)]
#[error("no cache directory: neither XDG_CACHE_HOME nor HOME is an absolute path")]
pub struct NoCacheError;

impl Hint for NoCacheError {
    fn hint(&self) -> Option<String> {
        Some("set XDG_CACHE_HOME or HOME to an absolute path".into())
    }
}

/// Error for a stack that is not on this machine or cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The Debian release has not been fetched yet.
    #[error("{spec} has not been fetched")]
    NotFetched {
        /// The stack.
        spec: String,
    },
    /// The directory contains no HIP runtime.
    #[error("no ROCm in {path}: looked for libamdhip64.so in {looked}")]
    NoRocm {
        /// The directory.
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
    /// The path contains a character that separates the folders of a library path, `:` or `;`.
    #[error("{path} holds a `:` or `;`, which the dynamic loader takes as a separator")]
    Separator {
        /// The directory.
        path: PathBuf,
    },
    /// A file could not be read.
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
            Self::NoRocm { .. } => "name the prefix (it holds lib/), the unpacked wheel, or the root of a Debian tree (it \
                holds usr/)"
                .into(),
            Self::NoSystem { .. } => {
                "install one, set ROCM_PATH, or use another stack such as debian:latest".into()
            }
            Self::Separator { .. } => "move it to a path without these characters".into(),
            Self::File(_) => return None,
        })
    }
}
