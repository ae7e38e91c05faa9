//! The folder of files that are kept between runs.

use std::path::PathBuf;

use crate::{Stop, stop::explained};

/// Returns the cache folder.
pub(crate) fn folder() -> Result<PathBuf, Stop> {
    stacks::StackCache::from_environment()
        .map(|store| store.path().to_path_buf())
        .map_err(|e| Stop::usage(format!("error: {}", explained(&e))))
}
