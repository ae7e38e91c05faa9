//! Removes a folder of any depth. `std::fs::remove_dir_all` recurses, and an untrusted case can leave a tree so deep
//! that stack or descriptors run out.

use std::{io, path::Path};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmodat, fchmod, openat, renameat, unlinkat},
    io::Errno,
};

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder without following symbolic links.
///
/// Folders two levels down are moved up, so that each is moved once and at most three descriptors are open.
///
/// # Errors
/// Returns the kernel's error. The rest of the tree stays, flatter than before.
pub(super) fn remove_tree(folder: &Path) -> io::Result<()> {
    let top = open(CWD, folder)?;
    let mut moved = 0;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            let Some(below) = opened(top.as_fd(), &name)? else { continue };
            for child in self::names(&below)? {
                if is_removed(below.as_fd(), &child)? {
                    continue;
                }
                let mut is_locked = true;
                loop {
                    moved += 1;
                    let free = format!("rocrepro-moved-{moved}");
                    match renameat(&below, child.as_c_str(), &top, free.as_str()) {
                        // A folder that is moved gets another parent, which needs the right to write to it.
                        Err(Errno::ACCESS) if is_locked => {
                            is_locked = false;
                            chmodat(&below, child.as_c_str(), Mode::RWXU, AtFlags::empty())?;
                        }
                        Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                        done => break done?,
                    }
                }
            }
            unlinkat(&top, name.as_c_str(), AtFlags::REMOVEDIR)?;
        }
    }
    std::fs::remove_dir(folder)
}

type Name = std::ffi::CString;

fn names(folder: &OwnedFd) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Opens a folder; removes anything else.
fn opened(at: BorrowedFd<'_>, name: &Name) -> io::Result<Option<OwnedFd>> {
    if is_removed(at, name)? {
        return Ok(None);
    }
    Ok(Some(open(at, name.as_c_str())?))
}

/// Opens a folder, also one that its owner made without the right to read it or to change it.
fn open(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let opened = match openat(at, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            openat(at, name, FOLDER, Mode::empty())?
        }
        opened => opened?,
    };
    // If this fails, so does the removal of the content.
    let _ = fchmod(&opened, Mode::RWXU);
    Ok(opened)
}

/// Removes anything but a folder with content, for which it returns false.
fn is_removed(at: BorrowedFd<'_>, name: &Name) -> io::Result<bool> {
    match unlinkat(at, name.as_c_str(), AtFlags::empty()) {
        // For a folder Linux returns EISDIR, POSIX specifies EPERM.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(Errno::NOENT) => return Ok(true),
        done => return Ok(done.map(|()| true)?),
    }
    match unlinkat(at, name.as_c_str(), AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(Errno::NOENT) => Ok(true),
        done => Ok(done.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    /// Creates nested folders without long paths.
    fn chain(at: &Path, levels: usize) {
        let mut folder = openat(CWD, at, FOLDER, Mode::empty()).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = openat(&folder, "d", FOLDER, Mode::empty()).unwrap();
        }
        rustix::fs::mkdirat(&folder, "rocrepro-moved-1", Mode::RWXU).unwrap();
        openat(&folder, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }

    #[test]
    fn removes_trees_that_overflow_a_stack() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let folder = outside.path().join("trial");
        fs::create_dir(&folder).unwrap();
        chain(&folder, 30_000);
        symlink(outside.path(), folder.join("link")).unwrap();
        symlink(outside.path(), folder.join("d/link")).unwrap();
        fs::create_dir_all(folder.join("rocrepro-moved-2/full")).unwrap();
        fs::write(folder.join("rocrepro-moved-3"), "").unwrap();
        remove_tree(&folder).unwrap();
        assert!(!folder.exists());
        assert!(outside.path().join("kept").exists());
    }

    /// Root may do anything, so the test means something only for other users.
    #[test]
    fn removes_folders_that_their_owner_may_not_read() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("trial");
        for inner in ["a", "a/b", "a/b/c", "d"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
            fs::write(folder.join(inner).join("file"), "").unwrap();
        }
        for (inner, mode) in [("a/b/c", 0o000), ("a/b", 0o300), ("a", 0o100), ("d", 0o500)] {
            fs::set_permissions(folder.join(inner), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove_tree(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("real")).unwrap();
        symlink(outside.path().join("real"), outside.path().join("link")).unwrap();
        assert!(remove_tree(&outside.path().join("link")).is_err());
        assert!(outside.path().join("real").exists());
    }
}
