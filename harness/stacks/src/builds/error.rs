//! Errors of sources and histories of builds.

use std::path::PathBuf;

use crate::{Hint, PathError};

/// A configuration of sources that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A file of sources with mistakes, all of them.
    #[error("{path}: {}", problems.join("; "))]
    Config {
        /// The file.
        path: PathBuf,
        /// The mistakes.
        problems: Vec<String>,
    },
    /// Names that are not sources, all of them.
    #[error("not a source: {}", wanted.join(", "))]
    UnknownSource {
        /// The names.
        wanted: Vec<String>,
        /// The configured channels and sources.
        known: String,
    },
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] PathError),
}

impl SourcesError {
    /// Returns true if the machine is at fault, and not the request, so that the same may work later.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl Hint for SourcesError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownSource { known, .. } => Some(format!(
                "use one of {known}, dir:FOLDER, or KIND=ADDRESS such as index-html=http://HOST/tarball/"
            )),
            Self::Config { .. } | Self::File(_) => None,
        }
    }
}

/// A history that could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No source offers a build for this architecture and time.
    #[error("no builds for {gfx}: {}", reasons.join("; "))]
    Empty {
        /// The architecture.
        gfx: String,
        /// The answer of each source.
        reasons: Vec<String>,
    },
    /// The caller cancelled the listing.
    #[error("the listing was cancelled")]
    Cancelled,
}

impl ListError {
    /// Returns true if the machine or its network is at fault, and not the request, so that the same may work later. An empty
    /// history may be the fault of either; its message has the answer of each source.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl Hint for ListError {
    fn hint(&self) -> Option<String> {
        None
    }
}

/// A text that names no build of a history.
#[derive(Debug, thiserror::Error)]
#[error("no build {wanted:?}; {offered}")]
pub struct FindError {
    /// The text.
    pub wanted: String,
    /// The nearest builds, or the ends of the history.
    pub offered: String,
}
