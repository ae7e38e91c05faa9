//! Lists and empties folders of the cache without following symbolic links, because the target of a link may not belong
//! to rocrepro. A test checks that no other file of this module lists or removes folders.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    ops::Deref,
    os::unix::{ffi::OsStringExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::{Duration, SystemTime},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat},
    io::Errno,
};

use crate::{PathError, watch::CleanupLimit};

/// An open folder, which is not reached through a symbolic link.
#[derive(Debug)]
pub(crate) struct Folder {
    opened: OwnedFd,
    path: PathBuf,
}

/// An entry of a folder. If the entry is a symbolic link, the fields describe the link itself, not its target.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Name of the entry in its folder.
    pub(crate) name: OsString,
    /// Path of the entry, for messages and locks.
    pub(crate) path: PathBuf,
    /// File type: file, folder, symbolic link or another.
    pub(crate) kind: FileType,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// Number of hard links.
    pub(crate) links: u64,
    /// Time at which the content was last changed.
    pub(crate) modified: SystemTime,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The path does not exist, is a symbolic link, or is not a folder.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::open_at(CWD, path, path.to_owned())
    }

    fn open_at(at: impl AsFd, name: &Path, path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(at, name, flags, Mode::empty()) {
            Ok(opened) => Ok(Self { opened, path }),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(io::Error::other(format!("{} is a link or a file", path.display())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a subfolder of this folder.
    ///
    /// # Errors
    /// The errors of [`Folder::open`].
    pub(crate) fn folder(&self, entry: &Entry) -> io::Result<Self> {
        Self::open_at(&self.opened, Path::new(&entry.name), entry.path.clone())
    }

    /// Returns the entries of the folder. Entries that another process removes meanwhile are left out.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let found = match statat(&self.opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => found?,
            };
            let name = OsString::from_vec(name.to_bytes().to_vec());
            let seconds = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
            let part = Duration::from_nanos(found.st_mtime_nsec);
            entries.push(Entry {
                path: self.path.join(&name),
                name,
                kind: FileType::from_raw_mode(found.st_mode),
                bytes: u64::try_from(found.st_size).unwrap_or(0),
                #[allow(clippy::useless_conversion, reason = "its width depends on the processor")]
                links: u64::from(found.st_nlink),
                modified: SystemTime::UNIX_EPOCH + seconds + part,
            });
        }
        Ok(entries)
    }

    /// Removes a file or a symbolic link from this folder.
    pub(crate) fn remove_file(&self, entry: &Entry) -> io::Result<()> {
        Ok(unlinkat(&self.opened, &entry.name, AtFlags::empty())?)
    }

    /// Removes everything in the folder, but not the folder itself.
    fn empty<S: Deref<Target = AtomicBool>>(&self, patience: &CleanupLimit<S>) -> io::Result<()> {
        for entry in self.entries()? {
            if patience.is_over() {
                return Err(io::Error::other("the removal was cancelled"));
            }
            if entry.kind == FileType::Directory {
                self.folder(&entry)?.empty(patience)?;
                unlinkat(&self.opened, &entry.name, AtFlags::REMOVEDIR)?;
            } else {
                self.remove_file(&entry)?;
            }
        }
        Ok(())
    }
}

/// Returns the entries of a folder; an empty list if the folder cannot be read.
pub(crate) fn entries(path: &Path) -> Vec<Entry> {
    Folder::open(path).and_then(|folder| folder.entries()).unwrap_or_default()
}

/// Removes a folder and its content. The nesting depth may be at most a few hundred.
///
/// # Errors
/// The folder is a symbolic link; the time limit `patience` has expired, so that a part of the content remains; or the
/// file system reports an error.
pub(crate) fn remove_folder<S: Deref<Target = AtomicBool>>(
    folder: &Path,
    patience: &CleanupLimit<S>,
) -> io::Result<()> {
    Folder::open(folder)?.empty(patience)?;
    fs::remove_dir(folder)
}

/// Creates a file, or empties the file with that name. A symbolic link with that name is an error.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    no_link(File::options().write(true).create(true).truncate(true)).open(path)
}

/// Makes opening a file fail if the path is a symbolic link.
pub(crate) fn no_link(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
}

/// Checks that neither `folder` nor a folder between it and the cache is a symbolic link. `folder` may be missing. The
/// cache itself may be a symbolic link.
///
/// # Errors
/// One of these folders is a symbolic link or cannot be read.
pub(crate) fn check_no_links(cache: &Path, folder: &Path) -> Result<(), PathError> {
    let mut at = cache.to_owned();
    for name in folder.strip_prefix(cache).unwrap_or(folder) {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_symlink() => {
                let reason = "it is a symbolic link; link the whole cache folder instead";
                return Err(PathError::new("change", &at, io::Error::other(reason)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(PathError::new("read", &at, error)),
            Ok(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, sync::Arc};

    use super::*;

    /// The list `FOLLOWING` contains functions and methods of `std` that follow symbolic links.
    #[test]
    fn other_files_of_the_module_list_and_remove_no_folders() {
        const FOLLOWING: [&str; 7] = [
            "read_dir(",
            "remove_dir",
            ".is_dir()",
            ".is_file()",
            ".exists()",
            "File::create(",
            "fs::metadata(",
        ];
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/keep");
        let (mut seen, mut folders) = (0, vec![module]);
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        for path in files {
            // `share` lists prefixes, which may be folders of the user, and removes nothing.
            if path.ends_with("folder.rs") || path.ends_with("share.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                // A folder that the user gives as a build is only read, so its links may be followed.
                let of_user = line.contains("BuildLocation::Directory(path)");
                let bad = FOLLOWING.iter().find(|call| line.contains(**call) && !of_user);
                assert_eq!(bad, None, "{}:{}: use `Folder`", path.display(), number + 1);
            }
            seen += 1;
        }
        assert!(seen > 8, "{seen}");
    }

    #[test]
    fn lists_and_removes_without_following_links() {
        let top = tempfile::tempdir().unwrap();
        let (mine, theirs) = (top.path().join("mine"), top.path().join("theirs"));
        fs::create_dir_all(mine.join("sub/sub")).unwrap();
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("file"), "x").unwrap();
        for link in ["link", "sub/link"] {
            symlink(&theirs, mine.join(link)).unwrap();
        }
        symlink(theirs.join("file"), mine.join("file")).unwrap();
        let patience: CleanupLimit<Arc<AtomicBool>> = CleanupLimit::new(Arc::default());
        assert!(Folder::open(&mine.join("link")).is_err());
        assert!(remove_folder(&mine.join("link"), &patience).is_err());
        assert!(create(&mine.join("file")).is_err());
        assert!(entries(&mine.join("link")).is_empty());
        let folders =
            |entry: &Entry| (entry.kind == FileType::Directory).then(|| entry.name.clone());
        assert_eq!(entries(&mine).iter().filter_map(folders).collect::<Vec<_>>(), ["sub"]);
        assert!(check_no_links(top.path(), &mine.join("sub/missing/x")).is_ok());
        assert!(check_no_links(&mine.join("link"), &mine.join("link/x")).is_ok());
        let error = check_no_links(top.path(), &mine.join("link/x")).unwrap_err();
        assert_eq!(error.path(), mine.join("link"));
        remove_folder(&mine, &patience).unwrap();
        assert_eq!(fs::read_to_string(theirs.join("file")).unwrap(), "x");
    }
}
