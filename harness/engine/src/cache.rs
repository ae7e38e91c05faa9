//! Finds the user's cache folder, in which rocrepro keeps files between runs.

use std::path::PathBuf;

use crate::stack_source::StackError;

/// Returns the user's cache folder for rocrepro.
pub(crate) fn folder() -> Result<PathBuf, StackError> {
    stacks::StackCache::from_environment()
        .map(|store| store.path().to_path_buf())
        .map_err(StackError::NoCache)
}
