//! Names of the folders that builds are unpacked into.

use crate::Build;

/// Returns the name of a build's folder. Builds of one version for two families have two.
pub(super) fn key(build: &Build) -> String {
    let dash = if build.family.is_empty() { "" } else { "-" };
    cleaned(&format!("{}{dash}{}", build.id, build.family))
}

/// Replaces characters that a file name or a library path cannot hold by underscores.
pub(super) fn cleaned(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let clean: String = id.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    // Names with a leading dot are files of the store itself.
    if clean.starts_with('.') { format!("_{clean}") } else { clean }
}
