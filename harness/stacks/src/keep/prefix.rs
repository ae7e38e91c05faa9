//! Folders into which builds are unpacked.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Build, ObtainError};

/// Returns the name of a build's folder. It contains the family, because builds of one version exist for several
/// families.
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

/// Creates an empty folder, and returns its path with symbolic links resolved.
pub(super) fn empty(at: &Path) -> Result<PathBuf, ObtainError> {
    if let Err(error) = fs::remove_dir_all(at)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(ObtainError::io("remove", at)(error));
    }
    fs::create_dir_all(at).map_err(ObtainError::io("create", at))?;
    fs::canonicalize(at).map_err(ObtainError::io("find", at))
}
