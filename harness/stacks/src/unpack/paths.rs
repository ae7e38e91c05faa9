//! Checks that the paths and links in an archive stay inside the folder into which the archive is unpacked.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use crate::PathError;

/// Reason why a symbolic link could not be created.
#[derive(Debug)]
pub(super) enum LinkError {
    /// A folder above the link is itself a symbolic link, so the new link could be created anywhere.
    BelowLink,
    /// Something else with the link's name exists.
    Taken,
    /// The file system reported an error.
    File(PathError),
}

/// Converts the path of an archive member to a path relative to the folder into which the archive is unpacked. `None`
/// if the path is absolute or leads out of the folder.
pub(super) fn relative(path: &Path) -> Option<PathBuf> {
    let mut relative = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => relative.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(relative)
}

/// Returns true if the target of a link is inside the folder into which the archive is unpacked. `link` is the path of
/// the link relative to this folder. Only the two paths are examined: existing links are not read.
pub(super) fn stays_inside(link: &Path, target: &Path) -> bool {
    let Some(mut level) = link.components().count().checked_sub(1) else { return false };
    for component in target.components() {
        match component {
            Component::Normal(_) => level += 1,
            Component::CurDir => {}
            Component::ParentDir if level > 0 => level -= 1,
            _ => return false,
        }
    }
    !target.as_os_str().is_empty()
}

/// Creates one symbolic link in `folder`, whose own path must not contain symbolic links. The same link may already
/// exist.
///
/// # Errors
/// [`LinkError`].
pub(super) fn make_link(folder: &Path, path: &Path, target: &Path) -> Result<(), LinkError> {
    let file = |action, at: &Path| {
        let at = at.to_owned();
        move |error| LinkError::File(PathError::new(action, &at, error))
    };
    let at = folder.join(path);
    let mut parent = folder.to_owned();
    for name in path.parent().into_iter().flatten() {
        parent.push(name);
        match fs::create_dir(&parent) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&parent).map_err(file("find", &parent))?;
                if found.is_symlink() {
                    return Err(LinkError::BelowLink);
                }
            }
            made => made.map_err(file("create", &parent))?,
        }
    }
    match symlink(target, &at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::read_link(&at).is_ok_and(|other| other == target) {
                true => Ok(()),
                false => Err(LinkError::Taken),
            }
        }
        other => other.map_err(file("create", &at)),
    }
}

/// Maximum number of symbolic links that Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Returns true if a path, resolved step by step through the existing links, stays in the folder. The path may be
/// missing, because a file that is created there later is in the folder too. A path with more links than Linux follows
/// counts as inside.
///
/// # Errors
/// The file system refuses to read a link.
pub(super) fn leads_inside(folder: &Path, path: &Path) -> Result<bool, PathError> {
    let steps = |path: &Path| -> Vec<PathBuf> {
        path.components().rev().map(|step| PathBuf::from(step.as_os_str())).collect()
    };
    // The vector is in reverse order: the next step is its last element.
    let mut left = steps(path);
    let mut at = folder.to_owned();
    let mut links = 0;
    while let Some(step) = left.pop() {
        match step.components().next() {
            Some(Component::Normal(name)) => at.push(name),
            Some(Component::CurDir) => continue,
            Some(Component::ParentDir) if at != folder => {
                at.pop();
                continue;
            }
            _ => return Ok(false),
        }
        match fs::read_link(&at) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(true);
                }
                left.extend(steps(&target));
                at.pop();
            }
            Err(error) => match error.kind() {
                // The step is not a link: it is a file or a folder, is missing, or has too long a name.
                io::ErrorKind::InvalidInput
                | io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::InvalidFilename => {}
                _ => return Err(PathError::new("read", &at, error)),
            },
        }
    }
    Ok(true)
}

/// Prepares for writing a file: creates its folder, and removes an existing file with that name. If an archive has two
/// members with one name, the later one therefore replaces the earlier one and does not write through its hard links.
///
/// # Errors
/// The file system reports an error.
pub(super) fn make_room(folder: &Path, at: &Path) -> Result<(), PathError> {
    let parent = at.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(|error| PathError::new("create", parent, error))?;
    match fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PathError::new("replace", at, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_paths_that_stay_in_the_folder() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(relative(Path::new(path)).as_deref(), expected.map(Path::new), "{path}");
        };
        check("a/b", Some("a/b"));
        check("./a/./b/", Some("a/b"));
        check("", Some(""));
        check("a/../b", None);
        check("../a", None);
        check("/a", None);
    }

    #[test]
    fn counts_the_levels_of_a_link() {
        let check = |link: &str, target: &str, expected: bool| {
            let inside = stays_inside(Path::new(link), Path::new(target));
            assert_eq!(inside, expected, "{link} -> {target}");
        };
        check("a", "b", true);
        check("a", "./b/../c", true);
        check("a", "..", false);
        check("a/b", "..", true);
        check("a/b", "../..", false);
        check("a/b", "../c/d/../../../e", false);
        check("a/b/c", "../../x", true);
        check("a", "/b", false);
        check("a", "", false);
        check("", "b", false);
    }

    #[test]
    fn makes_links_only_in_real_folders() {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let link = |path: &str, target: &str| make_link(&top, Path::new(path), Path::new(target));
        link("sub/link", "../file").unwrap();
        link("sub/link", "../file").unwrap();
        assert_eq!(fs::read_link(top.join("sub/link")).unwrap(), Path::new("../file"));
        assert!(matches!(link("sub/link", "other"), Err(LinkError::Taken)));
        link("alias", "sub").unwrap();
        assert!(matches!(link("alias/link", "x"), Err(LinkError::BelowLink)));
        fs::write(top.join("file"), "x").unwrap();
        assert!(matches!(link("file/link", "x"), Err(LinkError::File(_))));
        assert!(matches!(link(&"x".repeat(300), "x"), Err(LinkError::File(_))));
    }

    #[test]
    fn replaces_a_file_and_refuses_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a/b");
        make_room(folder.path(), &at).unwrap();
        fs::write(&at, "x").unwrap();
        make_room(folder.path(), &at).unwrap();
        assert!(!at.exists());
        fs::create_dir(&at).unwrap();
        assert_eq!(make_room(folder.path(), &at).unwrap_err().action(), "replace");
    }

    /// Returns a generator of pseudo-random numbers, which are the same in each run.
    fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
        let mut count = 0_u64;
        move |below| {
            count += 1;
            let bytes = [seed.to_le_bytes(), count.to_le_bytes()].concat();
            (xxhash_rust::xxh3::xxh3_64(&bytes) % below as u64) as usize
        }
    }

    /// Asks Linux whether a path exists and stays in the folder (`openat2` with `RESOLVE_BENEATH`).
    fn kernel(folder: &Path, path: &Path) -> Result<(), rustix::io::Errno> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
        let top = open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        loop {
            match openat2(&top, path, flags, Mode::empty(), ResolveFlags::BENEATH) {
                // Linux could not exclude that a folder was moved meanwhile.
                Err(rustix::io::Errno::AGAIN) => {}
                other => return other.map(drop),
            }
        }
    }

    #[test]
    fn resolves_links_as_the_kernel_does() {
        use rustix::io::Errno;
        let (mut inside, mut outside, mut missing, mut loops) = (0, 0, 0, 0);
        for seed in 0..300 {
            let mut number = numbers(seed);
            let top = tempfile::tempdir().unwrap();
            let folder = top.path().join("a/b/top");
            let mut paths = vec![PathBuf::new()];
            for name in ["a", "b", "c", "d", "e", "f"] {
                let path = paths[number(paths.len())].join(name);
                fs::create_dir_all(folder.join(&path)).unwrap();
                paths.push(path);
            }
            let mut links = Vec::new();
            for _ in 0..12 {
                let path = paths[number(paths.len())].join(["x", "y", "z"][number(3)]);
                let names = ["..", "..", "..", "a", "b", "c", "d", "e", "x", "y", "z", ".", "gone"];
                let target: PathBuf =
                    (0..1 + number(5)).map(|_| names[number(names.len())]).collect();
                if symlink(&target, folder.join(&path)).is_ok() {
                    links.push(path);
                }
            }
            for path in &links {
                let found = leads_inside(&folder, path).unwrap();
                let about = || format!("{seed}: {path:?} of {links:?}");
                match kernel(&folder, path) {
                    Ok(()) => {
                        inside += 1;
                        assert!(found, "{}", about());
                    }
                    Err(Errno::XDEV) => {
                        outside += 1;
                        assert!(!found, "{}", about());
                    }
                    Err(Errno::LOOP) => loops += 1,
                    // Linux gives up at the first missing folder, whereas `leads_inside` continues to the end of the
                    // path.
                    Err(Errno::NOENT | Errno::NOTDIR) => missing += 1,
                    Err(error) => panic!("{error}: {}", about()),
                }
            }
        }
        assert!(
            inside.min(outside).min(missing).min(loops) > 20,
            "{inside} {outside} {missing} {loops}"
        );
    }

    #[test]
    fn finds_links_that_lead_out_to_missing_files() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir(&top).unwrap();
        let link = |path: &str, target: &str| {
            assert!(stays_inside(Path::new(path), Path::new(target)));
            make_link(&top, Path::new(path), Path::new(target)).unwrap();
        };
        link("share/p/q/r/s", "../../../..");
        link("share/p/q/r/leak", "s/../../../../later.txt");
        link("share/p/q/r/well", "s/later.txt");
        link("loop", "loop");
        let leads = |path: &str| leads_inside(&top, Path::new(path)).unwrap();
        assert!(!leads("share/p/q/r/leak"));
        assert!(leads("share/p/q/r/well") && leads("share/p/q/r/s") && leads("loop"));
        assert!(!leads("..") && !leads("/etc") && leads("share/missing/../x"));
    }

    #[test]
    fn makes_no_folder_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (top, outside) = (folder.path().join("top"), folder.path().join("outside"));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&outside).unwrap();
        make_link(&top, Path::new("a/leak"), Path::new("../../outside")).unwrap();
        let below = make_link(&top, Path::new("a/leak/new/link"), Path::new("x"));
        assert!(matches!(below, Err(LinkError::BelowLink)));
        assert!(!outside.join("new").exists());
    }
}
