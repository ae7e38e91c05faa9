//! The folder of files that are kept between runs.

use std::path::PathBuf;

use crate::stack_source::StackError;

/// Returns the cache folder.
pub(crate) fn folder() -> Result<PathBuf, StackError> {
    stacks::StackCache::from_environment()
        .map(|store| store.path().to_path_buf())
        .map_err(StackError::NoCache)
}
