//! The folder for everything that is kept between runs.

use std::path::PathBuf;

use crate::{Stop, stop::explained};

/// Where it is.
///
/// # Errors
/// An environment that names no place for it (usage).
pub(crate) fn folder() -> Result<PathBuf, Stop> {
    stacks::StackCache::from_environment()
        .map(|store| store.path().to_path_buf())
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))
}
