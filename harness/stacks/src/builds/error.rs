//! Errors in the configuration of build sources, while listing builds, and while looking up a build by name.

use std::path::PathBuf;

use crate::{Hint, PathError};

/// Error in the configuration of the sources of builds.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// The configuration file that lists the sources of builds contains mistakes.
    #[error("{path}: {}", problems.join("; "))]
    Config {
        /// Path of the configuration file.
        path: PathBuf,
        /// All mistakes in the file.
        problems: Vec<String>,
    },
    /// Some requested sources are not configured.
    #[error("not a source: {}", wanted.join(", "))]
    UnknownSource {
        /// All requested names that are not configured.
        wanted: Vec<String>,
        /// The configured channels and sources, separated by commas.
        known: String,
    },
    /// The configuration file could not be read.
    #[error(transparent)]
    File(#[from] PathError),
}

impl SourcesError {
    /// Returns true if the cause is the machine and not the request, so that the same request may succeed later.
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

/// Error while listing builds.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No source offers a build for this architecture in the requested time.
    #[error("no builds for {gfx}: {}", reasons.join("; "))]
    Empty {
        /// The architecture.
        gfx: String,
        /// Reasons why the sources offer no build, one string per source.
        reasons: Vec<String>,
    },
    /// The caller cancelled the listing.
    #[error("the listing was cancelled")]
    Cancelled,
}

impl ListError {
    /// Returns true if the listing was cancelled, so that the same request may succeed later. Returns false for
    /// [`ListError::Empty`], because its cause may be the request or the network.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl Hint for ListError {
    fn hint(&self) -> Option<String> {
        None
    }
}

/// Error returned if a string does not name a build in a history.
#[derive(Debug, thiserror::Error)]
#[error("no build {wanted:?}; {offered}")]
pub struct FindError {
    /// Name that the user gave.
    pub wanted: String,
    /// The builds nearest to the requested day, or the first and the last build of the history.
    pub offered: String,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn blames_the_machine_for_files_and_cancelled_listings() {
        let missing = std::io::ErrorKind::NotFound.into();
        let file = SourcesError::from(PathError::new("read", Path::new("/x"), missing));
        assert!(file.is_environment() && file.hint().is_none());
        let config =
            SourcesError::Config { path: "/x".into(), problems: vec!["a".into(), "b".into()] };
        assert!(!config.is_environment());
        assert_eq!(config.to_string(), "/x: a; b");
        let unknown = SourcesError::UnknownSource { wanted: vec!["x".into()], known: "y".into() };
        assert!(!unknown.is_environment());
        assert!(unknown.hint().is_some_and(|hint| hint.starts_with("use one of y, dir:FOLDER")));
        assert!(ListError::Cancelled.is_environment());
        let empty = ListError::Empty { gfx: "gfx1151".into(), reasons: vec!["a: b".into()] };
        assert!(!empty.is_environment());
        assert_eq!(empty.to_string(), "no builds for gfx1151: a: b");
    }
}
