//! Removes a folder of any depth. `std::fs::remove_dir_all` recurses, and an untrusted case can leave a tree so deep
//! that the call stack overflows or that file descriptors run out.

use std::{io, ops::Deref, path::Path, sync::atomic::AtomicBool};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmodat, fchmod, openat, renameat, unlinkat},
    io::Errno,
};
use stacks::CleanupLimit;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder without following symbolic links.
///
/// Folders on the second level are moved to the first, so that each folder is moved once and at most three file
/// descriptors are open.
///
/// # Errors
/// Returns the error of a system call, or another one if the removal takes too long after a request to stop. The rest
/// of the tree remains, flatter than before.
pub(super) fn remove_tree<S: Deref<Target = AtomicBool>>(
    folder: &Path,
    patience: &CleanupLimit<S>,
) -> io::Result<()> {
    let go_on = || match patience.is_over() {
        true => Err(io::Error::other("the removal was cancelled")),
        false => Ok(()),
    };
    let top = open(CWD, folder)?;
    let mut moved = 0;
    while let Some(names) = some_names(&top)? {
        for name in names {
            go_on()?;
            let Some(below) = opened(top.as_fd(), &name)? else { continue };
            while let Some(children) = some_names(&below)? {
                for child in children {
                    go_on()?;
                    if !is_removed(below.as_fd(), &child)? {
                        move_up(&below, &child, &top, &mut moved)?;
                    }
                }
            }
            unlinkat(&top, name.as_c_str(), AtFlags::REMOVEDIR)?;
        }
    }
    std::fs::remove_dir(folder)
}

/// Moves the folder `child` from the folder `below` to the folder `top`, under a name that is free there.
fn move_up(below: &OwnedFd, child: &Name, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    let mut is_locked = true;
    loop {
        *moved += 1;
        let free = format!("rocrepro-moved-{moved}");
        match renameat(below, child.as_c_str(), top, free.as_str()) {
            // A folder that is moved gets another parent folder, which requires the right to write to the folder
            // itself.
            Err(Errno::ACCESS) if is_locked => {
                is_locked = false;
                chmodat(below, child.as_c_str(), Mode::RWXU, AtFlags::empty())?;
            }
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            done => return Ok(done?),
        }
    }
}

type Name = std::ffi::CString;

/// Largest number of names that are read at a time. A folder may contain millions.
const MAX_NAMES: usize = 4096;

/// Returns at most [`MAX_NAMES`] names in a folder; `None` if the folder is empty.
fn some_names(folder: &OwnedFd) -> io::Result<Option<Vec<Name>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if names.len() == MAX_NAMES {
            break;
        }
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok((!names.is_empty()).then_some(names))
}

/// Opens the entry if it is a folder with content, and otherwise removes it and returns `None`.
fn opened(at: BorrowedFd<'_>, name: &Name) -> io::Result<Option<OwnedFd>> {
    if is_removed(at, name)? {
        return Ok(None);
    }
    Ok(Some(open(at, name.as_c_str())?))
}

/// Opens a folder, even if its owner has no right to read or change it.
fn open(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let opened = match openat(at, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            openat(at, name, FOLDER, Mode::empty())?
        }
        opened => opened?,
    };
    // If this fails, the removal of the folder's content fails too.
    let _ = fchmod(&opened, Mode::RWXU);
    Ok(opened)
}

/// Removes a file or an empty folder. Returns false for a folder with content, which is not removed.
fn is_removed(at: BorrowedFd<'_>, name: &Name) -> io::Result<bool> {
    match unlinkat(at, name.as_c_str(), AtFlags::empty()) {
        // The entry is a folder: Linux returns EISDIR, and POSIX specifies EPERM.
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
        sync::Arc,
    };

    use super::*;

    fn patient() -> CleanupLimit<Arc<AtomicBool>> {
        CleanupLimit::new(Arc::default())
    }

    #[test]
    fn removes_folders_of_many_files_and_gives_up_when_it_is_told_to() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("x");
        fs::create_dir_all(folder.join("a/b")).unwrap();
        for n in 0..2 * MAX_NAMES + 1 {
            fs::write(folder.join(format!("a/b/{n}")), "").unwrap();
        }
        let stop = Arc::new(AtomicBool::new(true));
        let impatient = CleanupLimit::new(Arc::clone(&stop));
        while !impatient.is_over() {
            std::thread::yield_now();
        }
        assert!(remove_tree(&folder, &impatient).is_err());
        assert!(folder.join("a/b/0").exists());
        remove_tree(&folder, &patient()).unwrap();
        assert!(!folder.exists());
    }

    /// Creates nested folders without using long paths.
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
        remove_tree(&folder, &patient()).unwrap();
        assert!(!folder.exists());
        assert!(outside.path().join("kept").exists());
    }

    /// Root ignores access rights, so the test has a meaning only for other users.
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
        remove_tree(&folder, &patient()).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(outside.path().join("real")).unwrap();
        symlink(outside.path().join("real"), outside.path().join("link")).unwrap();
        assert!(remove_tree(&outside.path().join("link"), &patient()).is_err());
        assert!(outside.path().join("real").exists());
    }
}
