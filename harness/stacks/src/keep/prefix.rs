//! Names and creates the folders into which builds are unpacked.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use super::folder::remove_folder;
use crate::{Build, ObtainError, watch::CleanupLimit};

/// Returns the name of a build's folder. The name contains the family of architectures, because builds of the same
/// version exist for several families.
pub(super) fn key(build: &Build) -> String {
    let dash = if build.family.is_empty() { "" } else { "-" };
    cleaned(&format!("{}{dash}{}", build.id, build.family))
}

/// Replaces characters that are not allowed in file names or library paths by underscores.
pub(super) fn cleaned(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let clean: String = id.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    // Names that begin with a dot are reserved for files of the store itself.
    if clean.starts_with('.') { format!("_{clean}") } else { clean }
}

/// Creates an empty folder, and returns its path with symbolic links resolved. Removes the old content, if any.
///
/// # Errors
/// [`ObtainError::Cancelled`] if `stop` became true while the old content was being removed, and I/O errors.
pub(super) fn empty(at: &Path, stop: &AtomicBool) -> Result<PathBuf, ObtainError> {
    let patience = CleanupLimit::new(stop);
    if let Err(error) = remove_folder(at, &patience)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(match patience.is_over() {
            true => ObtainError::Cancelled,
            false => ObtainError::io("remove", at)(error),
        });
    }
    fs::create_dir_all(at).map_err(ObtainError::io("create", at))?;
    fs::canonicalize(at).map_err(ObtainError::io("find", at))
}
