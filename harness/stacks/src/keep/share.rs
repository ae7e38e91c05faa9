use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::PathError;

/// Result of linking the files of one folder into another folder.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Symbolic links that the caller must create: path and target of each.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Number of files and symbolic links that were wanted.
    pub(crate) taken: usize,
    /// Number of files and symbolic links that were left out.
    pub(crate) left: usize,
}

/// Links the wanted files of the folder `from` into the folder `to`, by hard links. Symbolic links are not created, but
/// returned. `wanted` receives paths relative to `from`.
///
/// # Errors
/// A folder cannot be read or written.
pub(crate) fn share(
    from: &Path,
    to: &Path,
    wanted: &dyn Fn(&Path) -> bool,
) -> Result<Shared, PathError> {
    let (mut shared, mut folders) = (Shared::default(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let (source, target) = (from.join(&folder), to.join(&folder));
        fs::create_dir_all(&target).map_err(PathError::io("create", &target))?;
        for entry in fs::read_dir(&source).map_err(PathError::io("read", &source))? {
            let entry = entry.map_err(PathError::io("read", &source))?;
            let path = folder.join(entry.file_name());
            let (source, target) = (entry.path(), to.join(&path));
            let kind = entry.file_type().map_err(PathError::io("read", &source))?;
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            if !wanted(&path) {
                shared.left += 1;
                continue;
            }
            shared.taken += 1;
            if kind.is_symlink() {
                let leads_to = fs::read_link(&source).map_err(PathError::io("read", &source))?;
                shared.links.push((path, leads_to));
            } else {
                // A file is copied if the file system does not support hard links, or if the folders are on different
                // file systems.
                fs::hard_link(&source, &target)
                    .or_else(|_| fs::copy(&source, &target).map(drop))
                    .map_err(PathError::io("create", &target))?;
            }
        }
    }
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn shares_the_wanted_files_and_returns_the_links() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("sub/empty")).unwrap();
        fs::write(from.join("sub/file"), "x").unwrap();
        fs::write(from.join("other"), "y").unwrap();
        symlink("file", from.join("sub/link")).unwrap();
        let shared = share(&from, &to, &|path| path.starts_with("sub")).unwrap();
        assert_eq!((shared.taken, shared.left), (2, 1));
        assert_eq!(shared.links, [(PathBuf::from("sub/link"), PathBuf::from("file"))]);
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&from.join("sub/file")), inode(&to.join("sub/file")));
        assert!(to.join("sub/empty").is_dir() && !to.join("other").exists());
        assert!(!to.join("sub/link").exists());
    }
}
