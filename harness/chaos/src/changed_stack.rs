//! Creates a copy of a stack in which some libraries are replaced, damaged or removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::expectation::matches_pattern;

/// Folder that contains the libraries, in the root of a Debian stack.
pub(crate) const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Change that is applied to all libraries whose names match a pattern.
pub(crate) enum Change {
    Remove,
    /// Replaces the library with a copy of this file.
    Copy(PathBuf),
    /// Replaces the library with a symbolic link to this path.
    Link(PathBuf),
    /// Replaces the library with a file that has this content.
    Content(Vec<u8>),
    /// Keeps only the first half of the library's bytes.
    Half,
    /// Replaces the library with a folder.
    Folder,
}

/// Creates the folder `root`, in which each library is a symbolic link to the library in `stack`, except for the
/// changed libraries. Each change applies to the libraries whose names match its pattern.
pub(crate) fn make(stack: &Path, root: &Path, changes: &[(&str, Change)]) {
    let (from, to) = (stack.join(LIBRARIES), root.join(LIBRARIES));
    fs::create_dir_all(&to).expect("the folder is writable");
    for entry in fs::read_dir(&from).expect("a stack has libraries").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let changed = changes.iter().any(|(pattern, _)| matches_pattern(pattern, &name));
        if !changed && !entry.path().is_dir() {
            symlink(entry.path(), to.join(&name)).expect("the folder is writable");
        }
    }
    let manifest = stack.join("manifest.json");
    if manifest.is_file() {
        fs::copy(&manifest, root.join("manifest.json")).expect("the folder is writable");
    }
    for (name, change) in changes.iter().filter(|(name, _)| !name.ends_with('*')) {
        let path = to.join(name);
        let done = match change {
            Change::Remove => Ok(()),
            Change::Copy(file) => fs::copy(file, &path).map(drop),
            Change::Link(file) => symlink(file, &path),
            Change::Content(bytes) => fs::write(&path, bytes),
            Change::Half => {
                fs::read(from.join(name)).and_then(|all| fs::write(&path, &all[..all.len() / 2]))
            }
            Change::Folder => fs::create_dir(&path),
        };
        done.unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
    }
}
