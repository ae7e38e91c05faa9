//! Paths and links of archives: which of them stay inside the folder that the archive is unpacked to.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use crate::PathError;

/// A link that could not be made.
#[derive(Debug)]
pub(super) enum LinkError {
    /// A folder above the link is a link itself, so that the new one could be anywhere.
    BelowLink,
    /// Something else has the name of the link.
    Taken,
    /// The file system refused it.
    File(PathError),
}

/// Returns the path of an archive member relative to the folder; nothing if it is absolute or leads out.
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

/// Returns true if the target of a link is inside the folder, as both are written.
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

/// Makes one symbolic link in a folder that is given without symbolic links. An equal link may exist.
///
/// # Errors
/// [`LinkError`].
pub(super) fn make_link(folder: &Path, path: &Path, target: &Path) -> Result<(), LinkError> {
    let file = |action, at: &Path| {
        let at = at.to_owned();
        move |error| LinkError::File(PathError::new(action, &at, error))
    };
    let at = folder.join(path);
    let parent = at.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(file("create", parent))?;
    if fs::canonicalize(parent).map_err(file("find", parent))? != parent {
        return Err(LinkError::BelowLink);
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

/// Makes room for a file: its folder exists afterwards, and a file of that name does not. Of two members with one name the
/// later wins, without writing through a hard link of the earlier.
///
/// # Errors
/// The file system refuses it.
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
}
