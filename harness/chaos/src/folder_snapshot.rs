//! Takes snapshots of a folder, which show what a run has changed in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xxhash_rust::xxh3::xxh3_64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    Folder,
    File { bytes: u64, digest: u64, changed: Option<SystemTime> },
    Link(u64),
    Other,
}

/// Maximum size in bytes of files whose content is compared. For larger files, only the size and the modification time
/// are compared.
const MAX_COMPARED_BYTES: u64 = 4 << 20;

/// Returns the state of every file and folder in a folder, including subfolders. Symbolic links are not followed.
pub(crate) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(current) = pending.pop() {
        for entry in fs::read_dir(&current).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            let kind = data.file_type();
            let what = if kind.is_dir() {
                pending.push(path.clone());
                Entry::Folder
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap_or_default();
                Entry::Link(xxh3_64(target.as_os_str().as_bytes()))
            } else if kind.is_file() {
                let content = if data.len() <= MAX_COMPARED_BYTES {
                    fs::read(&path).unwrap_or_default()
                } else {
                    Vec::new()
                };
                Entry::File {
                    bytes: data.len(),
                    digest: xxh3_64(&content),
                    changed: data.modified().ok(),
                }
            } else {
                Entry::Other
            };
            found.insert(path, what);
        }
    }
    found
}

/// Describes the changes that a run must not make: changed or removed files, and new files outside `allowed`.
pub(crate) fn differences(
    before: &BTreeMap<PathBuf, Entry>,
    after: &BTreeMap<PathBuf, Entry>,
    allowed: &[PathBuf],
) -> Vec<String> {
    let may = |path: &Path| allowed.iter().any(|allowed| path.starts_with(allowed));
    let mut wrong = Vec::new();
    for (path, was) in before {
        match after.get(path) {
            _ if may(path) => {}
            None => wrong.push(format!("a foreign file was removed: {}", path.display())),
            Some(is) if is != was => {
                wrong.push(format!("a foreign file was changed: {}", path.display()))
            }
            Some(_) => {}
        }
    }
    for (path, is) in after {
        // New empty folders are harmless, so they are allowed.
        if !before.contains_key(path) && !may(path) && *is != Entry::Folder {
            wrong.push(format!("an unexpected file remains: {}", path.display()));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_removed_and_new_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["same", "changed", "gone", "allowed"] {
            fs::write(path(name), name).unwrap();
        }
        let before = snapshot(folder.path());
        fs::write(path("changed"), "different").unwrap();
        fs::write(path("allowed"), "different").unwrap();
        fs::remove_file(path("gone")).unwrap();
        fs::write(path("new"), "").unwrap();
        fs::create_dir(path("empty")).unwrap();
        let found = differences(&before, &snapshot(folder.path()), &[path("allowed")]);
        let ends = ["changed", "gone", "new"];
        assert_eq!(found.len(), ends.len(), "{found:?}");
        assert!(ends.iter().all(|end| found.iter().any(|text| text.ends_with(end))), "{found:?}");
    }
}
