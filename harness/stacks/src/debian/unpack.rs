//! Unpacks a .deb into a root, without dpkg and without ever writing outside the root.
//!
//! Packages are unpacked side by side. Their symbolic links are collected and made when all files are there:
//! while files are written the root has no link that one could lead out through.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::StackError;
use crate::budget::{Budget, Packed, Plain};
use crate::debian::kernels::Targets;

/// Top-level directories that are links into /usr since Debian 12 (merged-/usr).
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib64"];

/// Which kernel files of the math libraries to unpack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Architectures {
    /// None means all.
    names: BTreeSet<String>,
    /// True if all other files of the package are left out.
    only: bool,
}

impl Architectures {
    /// These architectures; none means all.
    pub(crate) fn new(names: &[String]) -> Self {
        Self { names: names.iter().cloned().collect(), only: false }
    }

    /// The kernel files of these architectures, and nothing else of the package.
    pub(crate) fn only(names: BTreeSet<String>) -> Self {
        Self { names, only: true }
    }

    fn wants(&self, architecture: &str) -> bool {
        self.names.is_empty() || self.names.contains(architecture)
    }
}

/// What a package brought besides its files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Links still to be made: path in the root and target.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Architectures of its kernel files, unpacked or not.
    pub(crate) architectures: BTreeSet<String>,
    /// Architectures of the kernels inside its shared libraries.
    pub(crate) inside: BTreeSet<String>,
}

/// Makes the merged-/usr directories of an empty root.
pub(crate) fn prepare(root: &Path) -> Result<(), StackError> {
    for name in MERGED {
        let path = root.join("usr").join(name);
        fs::create_dir_all(&path).map_err(StackError::io("create", &path))?;
    }
    Ok(())
}

/// Unpacks the files of one package; `read` is told how many bytes of the package were read.
pub(crate) fn unpack(
    deb: &Path,
    root: &Path,
    architectures: &Architectures,
    read: &dyn Fn(u64),
) -> Result<Unpacked, StackError> {
    let file = File::open(deb).map_err(StackError::io("open", deb))?;
    let budget = Budget::default();
    let counted = Packed { inner: Counted { inner: file, read }, budget: &budget };
    let mut members = ar::Archive::new(BufReader::with_capacity(1 << 17, counted));
    let damaged = |error: io::Error| archive(deb, error.to_string());
    while let Some(member) = members.next_entry() {
        let member = member.map_err(damaged)?;
        match member.header().identifier() {
            b"data.tar.xz" => {
                let inner =
                    BufReader::with_capacity(1 << 17, lzma_rust2::XzReader::new(member, true));
                let plain = Plain { inner, budget: &budget };
                return Unpacker { deb, root, architectures, out: Unpacked::default() }.tar(plain);
            }
            b"data.tar" => {
                return Unpacker { deb, root, architectures, out: Unpacked::default() }.tar(member);
            }
            other if other.starts_with(b"data.tar") => {
                let name = String::from_utf8_lossy(other).into_owned();
                return Err(archive(deb, format!("its {name} is compressed in an unknown way")));
            }
            _ => {}
        }
    }
    Err(archive(deb, "it has no data.tar".into()))
}

/// Makes the links that the packages brought, and those of the merged /usr.
pub(crate) fn link(
    deb: &Path,
    root: &Path,
    links: &[(PathBuf, PathBuf)],
) -> Result<(), StackError> {
    for (path, target) in links {
        let at = root.join(path);
        let parent = at.parent().unwrap_or(root);
        fs::create_dir_all(parent).map_err(StackError::io("create", parent))?;
        // A link below a link could be anywhere.
        if fs::canonicalize(parent).map_err(StackError::io("find", parent))? != parent {
            return Err(archive(deb, format!("{} is below a symbolic link", path.display())));
        }
        let target = inside(path, target)
            .ok_or_else(|| archive(deb, format!("{} leads out of the root", path.display())))?;
        match symlink(&target, &at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The same link of two packages is fine, and so is a link to a directory that another package
                // filled: dpkg keeps what was there first.
                if fs::read_link(&at).ok().as_ref() != Some(&target) && !at.is_dir() {
                    return Err(archive(deb, format!("{} is in another package", path.display())));
                }
            }
            other => other.map_err(StackError::io("create", &at))?,
        }
    }
    Ok(())
}

/// The links of the merged /usr.
pub(crate) fn merged_links() -> Vec<(PathBuf, PathBuf)> {
    MERGED.iter().map(|name| (PathBuf::from(name), Path::new("usr").join(name))).collect()
}

/// A link's target, relative and proven to stay in the root: an absolute one would lead into the host. `None`
/// where it climbs out.
fn inside(link: &Path, target: &Path) -> Option<PathBuf> {
    let depth = link.components().count().checked_sub(1)?;
    if let Ok(absolute) = target.strip_prefix("/") {
        let mut relative: PathBuf = (0..depth).map(|_| "..").collect();
        relative.push(relative_path(absolute)?);
        return Some(relative);
    }
    let mut level = depth;
    for component in target.components() {
        match component {
            Component::ParentDir => level = level.checked_sub(1)?,
            Component::Normal(_) => level += 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(target.to_owned())
}

/// A path of an archive as one in the root, with /usr merged; `None` where it is absolute or climbs.
fn relative_path(path: &Path) -> Option<PathBuf> {
    let mut relative = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                if relative.as_os_str().is_empty() && MERGED.iter().any(|merged| name == *merged) {
                    relative.push("usr");
                }
                relative.push(name);
            }
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(relative)
}

/// The architecture that a file of a math library holds kernels for, if only one:
/// `rocblas/5/library/Kernels.so-000-gfx90a-xnack+.hsaco` is for gfx90a.
fn kernel_architecture(path: &Path) -> Option<&str> {
    let directory = path.parent()?;
    if !directory.components().any(|component| component.as_os_str() == "library") {
        return None;
    }
    let name = path.file_name()?.to_str()?;
    let start = name.match_indices("gfx").find_map(|(at, _)| {
        name[at + 3..].starts_with(|c: char| c.is_ascii_digit()).then_some(at)
    })?;
    let tail = &name[start..];
    let end = 3 + tail[3..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(tail.len() - 3);
    Some(&tail[..end])
}

fn archive(deb: &Path, reason: String) -> StackError {
    StackError::Archive { path: deb.to_owned(), reason }
}

struct Unpacker<'a> {
    deb: &'a Path,
    root: &'a Path,
    architectures: &'a Architectures,
    out: Unpacked,
}

impl Unpacker<'_> {
    fn tar(mut self, data: impl Read) -> Result<Unpacked, StackError> {
        let mut archive = tar::Archive::new(data);
        let damaged = |error: io::Error| self::archive(self.deb, error.to_string());
        for entry in archive.entries().map_err(damaged)? {
            self.entry(entry.map_err(damaged)?)?;
        }
        Ok(self.out)
    }

    fn entry<R: Read>(&mut self, mut entry: tar::Entry<'_, R>) -> Result<(), StackError> {
        let deb = self.deb;
        let damaged = |error: io::Error| archive(deb, error.to_string());
        let named = entry.path().map_err(damaged)?.into_owned();
        let hostile = || archive(deb, format!("{} leads out of the root", named.display()));
        let path = relative_path(&named).ok_or_else(hostile)?;
        if let Some(architecture) = kernel_architecture(&path) {
            self.out.architectures.insert(architecture.to_owned());
            if !self.architectures.wants(architecture) {
                return Ok(());
            }
        } else if self.architectures.only {
            return Ok(());
        }
        let at = self.root.join(&path);
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            return fs::create_dir_all(&at).map_err(StackError::io("create", &at));
        }
        if kind.is_symlink() {
            let target = entry.link_name().map_err(damaged)?.ok_or_else(hostile)?;
            self.out.links.push((path, target.into_owned()));
            return Ok(());
        }
        let parent = at.parent().unwrap_or(self.root);
        fs::create_dir_all(parent).map_err(StackError::io("create", parent))?;
        // Of two packages with one file the later wins, without writing through a hard link of the earlier.
        match fs::remove_file(&at) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StackError::io("replace", &at)(error));
            }
            _ => {}
        }
        if kind.is_file() {
            let mut file = File::create(&at).map_err(StackError::io("create", &at))?;
            let mut targets = Targets::default();
            copy(&mut entry, &mut file, deb, &at, &mut targets)?;
            if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so")) {
                self.out.inside.extend(targets.end());
            }
            // Set-user-id bits have no place in an unprivileged root; the owner must be able to remove it.
            let mode = entry.header().mode().map_err(damaged)? & 0o755 | 0o600;
            file.set_permissions(Permissions::from_mode(mode)).map_err(StackError::io("write", &at))
        } else if kind.is_hard_link() {
            let target = entry.link_name().map_err(damaged)?.ok_or_else(hostile)?;
            let source = self.root.join(relative_path(&target).ok_or_else(hostile)?);
            fs::hard_link(&source, &at).map_err(StackError::io("create", &at))
        } else {
            Err(archive(deb, format!("{} is neither a file nor a link", named.display())))
        }
    }
}

/// Copies, telling a damaged archive from a full disk.
fn copy(
    from: &mut impl Read,
    to: &mut File,
    deb: &Path,
    at: &Path,
    targets: &mut Targets,
) -> Result<(), StackError> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = from.read(&mut buffer).map_err(|error| archive(deb, error.to_string()))?;
        if n == 0 {
            return Ok(());
        }
        targets.see(&buffer[..n]);
        io::Write::write_all(to, &buffer[..n]).map_err(StackError::io("write", at))?;
    }
}

struct Counted<'a, R> {
    inner: R,
    read: &'a dyn Fn(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        (self.read)(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::archive::{Item, deb, members};

    /// Unpacks packages one after the other into an empty root and makes their links.
    fn unpack_all(
        debs: &[Vec<u8>],
        wanted: &[&str],
    ) -> (tempfile::TempDir, Result<Unpacked, StackError>) {
        let directory = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(directory.path()).unwrap();
        let root = top.join("root");
        prepare(&root).unwrap();
        let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
        let mut all = Unpacked { links: merged_links(), ..Unpacked::default() };
        let path = top.join("package.deb");
        let result = debs.iter().try_for_each(|bytes| {
            fs::write(&path, bytes).unwrap();
            let one = unpack(&path, &root, &Architectures::new(&wanted), &|_| ())?;
            all.links.extend(one.links);
            all.architectures.extend(one.architectures);
            all.inside.extend(one.inside);
            Ok(())
        });
        let result = result.and_then(|()| link(&path, &root, &all.links)).map(|()| all);
        (directory, result)
    }

    fn read(directory: &tempfile::TempDir, path: &str) -> Option<String> {
        fs::read_to_string(directory.path().join("root").join(path)).ok()
    }

    #[test]
    fn usr_is_merged_and_links_stay_inside() {
        let package = deb(&[
            Item::File("./lib/x86_64-linux-gnu/libfoo.so.1", "foo"),
            Item::Hard("./usr/bin/foo", "./lib/x86_64-linux-gnu/libfoo.so.1"),
            Item::Link("./usr/lib/absolute", "/lib/x86_64-linux-gnu/libfoo.so.1"),
            Item::Link("./usr/lib/up/relative", "../../bin/foo"),
        ]);
        let (root, result) = unpack_all(&[package.clone(), package], &[]);
        result.unwrap();
        for path in [
            "usr/lib/x86_64-linux-gnu/libfoo.so.1",
            "lib/absolute",
            "bin/foo",
            "usr/lib/up/relative",
        ] {
            assert_eq!(read(&root, path).as_deref(), Some("foo"), "{path}");
        }
        let mode = fs::metadata(root.path().join("root/usr/bin/foo")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "a set-user-id bit must not survive");
    }

    #[test]
    fn nothing_is_written_outside_the_root() {
        let check = |items: &[Item<'_>], reason: &str| {
            let (directory, result) = unpack_all(&[deb(items)], &[]);
            let error = result.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            let names = fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(names, 2, "only the root and the package may be there");
        };
        check(&[Item::File("../evil", "x")], "leads out");
        check(&[Item::File("./usr/../../evil", "x")], "leads out");
        check(&[Item::File("/evil", "x")], "leads out");
        check(&[Item::Link("./usr/evil", "../../evil")], "leads out");
        check(&[Item::Hard("./usr/evil", "../../../etc/passwd")], "leads out");
        check(&[Item::Link("./a", "usr"), Item::Link("./a/b", "x")], "below a symbolic link");
        check(&[Item::Pipe("./usr/pipe")], "neither a file nor a link");
        // The link is made last, so the file is written to a directory of that name.
        check(&[Item::Link("./a", "/tmp"), Item::File("./a", "x")], "in another package");
    }

    #[test]
    fn damage_is_told_apart() {
        let check = |bytes: Vec<u8>, reason: &str| {
            let (_root, result) = unpack_all(&[bytes], &[]);
            let error = result.unwrap_err();
            assert!(matches!(error, StackError::Archive { .. }), "{error:?}");
            assert!(error.to_string().contains(reason), "{error}");
        };
        let whole = deb(&[Item::File("./usr/a", &"x".repeat(5000))]);
        check(whole[..whole.len() - 40].to_vec(), "");
        check(b"not an archive".to_vec(), "");
        check(members(&[("debian-binary", b"2.0\n")]), "no data.tar");
        check(members(&[("data.tar.zst", b"x")]), "unknown way");
    }

    #[test]
    fn the_kernels_inside_a_library_are_told_and_unpacked() {
        let library = "\0hipv4-amdgcn-amd-amdhsa--gfx1030\0";
        let package = deb(&[
            Item::File("./usr/lib/librocrand.so.1.1", library),
            Item::File("./usr/share/doc/text", "\0hipv4-amdgcn-amd-amdhsa--gfx900\0"),
        ]);
        let (root, result) = unpack_all(&[package], &["gfx1151"]);
        assert_eq!(result.unwrap().inside.into_iter().collect::<Vec<_>>(), ["gfx1030"]);
        assert_eq!(read(&root, "usr/lib/librocrand.so.1.1").as_deref(), Some(library));
    }

    #[test]
    fn only_kernels_of_wanted_architectures_are_unpacked() {
        let names = [
            "Kernels.so-000-gfx90a-xnack+.hsaco",
            "Kernels.so-000-gfx1151.hsaco",
            "TensileLibrary_gfx1100.co",
            "TensileLibrary_fallback.dat",
            "gfxinfo.dat",
        ];
        let paths = names.map(|name| format!("./usr/lib/rocblas/library/{name}"));
        let package = deb(&[
            Item::File(&paths[0], "k"),
            Item::File(&paths[1], "k"),
            Item::File(&paths[2], "k"),
            Item::File(&paths[3], "k"),
            Item::File(&paths[4], "k"),
            Item::File("./usr/share/doc/gfx1100.txt", "k"),
        ]);
        let check = |wanted: &[&str], expected: &[usize]| {
            let (root, result) = unpack_all(std::slice::from_ref(&package), wanted);
            let offered: Vec<_> = result.unwrap().architectures.into_iter().collect();
            assert_eq!(offered, ["gfx1100", "gfx1151", "gfx90a"]);
            let there: Vec<_> = (0..5).filter(|i| read(&root, &paths[*i]).is_some()).collect();
            assert_eq!(there, expected, "{wanted:?}");
            assert!(read(&root, "usr/share/doc/gfx1100.txt").is_some());
        };
        check(&[], &[0, 1, 2, 3, 4]);
        check(&["gfx90a"], &[0, 3, 4]);
        check(&["gfx1151", "gfx1100"], &[1, 2, 3, 4]);
        check(&["gfx115"], &[3, 4]);
    }
}
