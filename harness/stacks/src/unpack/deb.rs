//! Unpacks a .deb into a root, without dpkg. No file is ever written outside the root.
//!
//! Several packages are unpacked at the same time. Their symbolic links are collected, and created after all files.
//! While files are being written, the root therefore contains no link that could lead out of it.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::budget::{Budget, CompressedReader, DecompressedReader, Ended, RejectedMember};
use super::decode::{MEMORY, xz};
use super::kernels::Targets;
use super::paths::{LinkError, leads_inside, make_link, make_room, relative, stays_inside};
use crate::transfer::{CopyError, copy};
use crate::{FetchError, PathError};

/// Top-level directories that have been links into /usr since Debian 12 (merged /usr).
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib64"];

/// Selects which files of a package are unpacked. Kernel files are unpacked only for certain GPU architectures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Architectures {
    /// GPU architectures whose kernel files are unpacked; empty means all.
    names: BTreeSet<String>,
    /// True to leave out all files that are not kernel files.
    only: bool,
}

impl Architectures {
    /// Selects all files of a package, but of the kernel files only those for the architectures `names`. An empty list
    /// means all architectures.
    pub(crate) fn new(names: &[String]) -> Self {
        Self { names: names.iter().cloned().collect(), only: false }
    }

    /// Selects the kernel files of these architectures, and no other file of the package.
    pub(crate) fn only(names: BTreeSet<String>) -> Self {
        Self { names, only: true }
    }

    fn wants(&self, architecture: &str) -> bool {
        self.names.is_empty() || self.names.contains(architecture)
    }
}

/// Symbolic links and architectures of a package whose files have been unpacked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Symbolic links that must still be created: path in the root, and target.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// GPU architectures for which the package contains kernel files, whether or not these were unpacked.
    pub(crate) architectures: BTreeSet<String>,
    /// GPU architectures of the kernels inside the package's shared libraries.
    pub(crate) inside: BTreeSet<String>,
}

/// Creates the directories to which the links of a merged /usr will lead, in an empty root.
pub(crate) fn prepare(root: &Path) -> Result<(), FetchError> {
    for name in MERGED {
        let path = root.join("usr").join(name);
        fs::create_dir_all(&path).map_err(FetchError::io("create", &path))?;
    }
    Ok(())
}

/// Unpacks the selected files of one package. After each read from the .deb, calls `read` with the number of bytes that
/// were read.
///
/// # Errors
/// [`FetchError::Archive`], [`FetchError::Cancelled`] soon after `stop` is true, and I/O errors.
pub(crate) fn unpack(
    deb: &Path,
    root: &Path,
    architectures: &Architectures,
    stop: &AtomicBool,
    read: &dyn Fn(u64),
) -> Result<Unpacked, FetchError> {
    let budget = Budget::new(stop);
    members_of(deb, root, architectures, &budget, read).map_err(|error| match budget.ended() {
        Some(Ended::Cancelled) => FetchError::Cancelled,
        Some(Ended::Starved) => {
            archive(deb, format!("unpacking it needs more than {} MiB of memory", MEMORY >> 20))
        }
        None => error,
    })
}

fn members_of(
    deb: &Path,
    root: &Path,
    architectures: &Architectures,
    budget: &Budget<'_>,
    read: &dyn Fn(u64),
) -> Result<Unpacked, FetchError> {
    let file = File::open(deb).map_err(FetchError::io("open", deb))?;
    let counted = CompressedReader { inner: Counted { inner: file, read }, budget };
    let mut members = ar::Archive::new(BufReader::with_capacity(1 << 17, counted));
    let damaged = |error: io::Error| archive(deb, error.to_string());
    while let Some(member) = members.next_entry() {
        let member = member.map_err(damaged)?;
        match member.header().identifier() {
            b"data.tar.xz" => {
                let inner = BufReader::with_capacity(1 << 17, xz(member));
                let unpacker =
                    Unpacker { deb, root, architectures, budget, out: Unpacked::default() };
                return unpacker.tar(DecompressedReader { inner, budget });
            }
            b"data.tar" => {
                let unpacker =
                    Unpacker { deb, root, architectures, budget, out: Unpacked::default() };
                return unpacker.tar(DecompressedReader { inner: member, budget });
            }
            other if other.starts_with(b"data.tar") => {
                let name = String::from_utf8_lossy(other).into_owned();
                return Err(archive(deb, format!("its {name} uses an unknown compression")));
            }
            _ => {}
        }
    }
    Err(archive(deb, "it has no data.tar".into()))
}

/// Creates the symbolic links in a root that contains all files: those of the merged /usr, and those of each package.
/// `packages` contains for each package the path of the .deb, and the path and target of each link.
///
/// # Errors
/// [`FetchError::Archive`] with the package that contains a link which leads out of the root,
/// [`FetchError::Cancelled`], and I/O errors.
pub(crate) fn link(
    root: &Path,
    packages: &[(PathBuf, Vec<(PathBuf, PathBuf)>)],
    stop: &AtomicBool,
) -> Result<(), FetchError> {
    let merged: Vec<_> =
        MERGED.iter().map(|name| (PathBuf::from(name), Path::new("usr").join(name))).collect();
    let merged = merged.iter().map(|link| (root, link));
    let of_packages = packages
        .iter()
        .flat_map(|(deb, links)| links.iter().map(move |link| (deb.as_path(), link)));
    let links: Vec<_> = merged.chain(of_packages).collect();
    let go_on = || Budget::new(stop).go_on().map_err(|_| FetchError::Cancelled);
    for &(deb, (path, target)) in &links {
        go_on()?;
        let refused = |reason: &str| archive(deb, format!("{} {reason}", path.display()));
        let target = inside(path, target).ok_or_else(|| refused("leads out of the root"))?;
        match make_link(root, path, &target) {
            // A directory that another package has filled takes precedence over the link, as in dpkg.
            Err(LinkError::Taken) if root.join(path).is_dir() => {}
            Err(LinkError::Taken) => return Err(refused("exists more than once")),
            Err(LinkError::BelowLink) => return Err(refused("is below a symbolic link")),
            Err(LinkError::File(error)) => return Err(error.into()),
            Ok(()) => {}
        }
    }
    for &(deb, (path, _)) in &links {
        go_on()?;
        if !leads_inside(root, path)? {
            return Err(archive(deb, format!("{} leads out of the root", path.display())));
        }
    }
    Ok(())
}

/// Returns the target of a link as a relative path, because an absolute target would lead out of the root. Returns
/// `None` if the target is outside the root.
fn inside(link: &Path, target: &Path) -> Option<PathBuf> {
    if let Ok(absolute) = target.strip_prefix("/") {
        let depth = link.components().count().checked_sub(1)?;
        let mut relative: PathBuf = (0..depth).map(|_| "..").collect();
        relative.push(merged(absolute)?);
        return Some(relative);
    }
    stays_inside(link, target).then(|| target.to_owned())
}

/// Converts a path in a package to a path in a root with a merged /usr. `None` if the path is absolute or leads out of
/// the root.
fn merged(path: &Path) -> Option<PathBuf> {
    relative(path).map(in_usr)
}

fn in_usr(path: PathBuf) -> PathBuf {
    let is_merged = MERGED.iter().any(|name| path.starts_with(name));
    if is_merged { Path::new("usr").join(path) } else { path }
}

/// Returns the GPU architecture of a math library's kernel file, as stated in the file's name; `None` if the file is
/// for several architectures or contains no kernels. For example,
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

fn archive(deb: &Path, reason: String) -> FetchError {
    FetchError::Archive { path: deb.to_owned(), reason }
}

struct Unpacker<'a> {
    deb: &'a Path,
    root: &'a Path,
    architectures: &'a Architectures,
    budget: &'a Budget<'a>,
    out: Unpacked,
}

impl Unpacker<'_> {
    fn tar(mut self, data: impl Read) -> Result<Unpacked, FetchError> {
        let (deb, budget) = (self.deb, self.budget);
        let refused = |named: &Path, error| {
            let reason = match error {
                RejectedMember::Archive(error) => return archive(deb, error.to_string()),
                RejectedMember::Outside => "leads out of the root",
                RejectedMember::Deep => "is in too many folders",
            };
            archive(deb, format!("{} {reason}", named.display()))
        };
        let mut archive = tar::Archive::new(data);
        budget.each_of_tar(&mut archive, &refused, &mut |path, entry| self.entry(path, entry))?;
        Ok(self.out)
    }

    fn entry<R: Read>(
        &mut self,
        path: PathBuf,
        entry: &mut tar::Entry<'_, R>,
    ) -> Result<(), FetchError> {
        let deb = self.deb;
        let damaged = |error: io::Error| archive(deb, error.to_string());
        let path = in_usr(path);
        let hostile = || archive(deb, format!("{} leads out of the root", path.display()));
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
            return fs::create_dir_all(&at).map_err(FetchError::io("create", &at));
        }
        if kind.is_symlink() {
            let target = entry.link_name().map_err(damaged)?.ok_or_else(hostile)?;
            self.out.links.push((path.clone(), target.into_owned()));
            return Ok(());
        }
        make_room(self.root, &at)?;
        if kind.is_file() {
            let mut file = File::create(&at).map_err(FetchError::io("create", &at))?;
            let mut targets = Targets::default();
            copy(entry, &mut file, |chunk| targets.search_chunk(chunk)).map_err(
                |error| match error {
                    CopyError::Read(error) => damaged(error),
                    CopyError::Write(error) => PathError::new("write", &at, error).into(),
                },
            )?;
            if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so")) {
                self.out.inside.extend(targets.end());
            }
            // Set-user-id bits are dropped, because they are useless in an unprivileged root. The owner must be able to
            // remove the file.
            let mode = entry.header().mode().map_err(damaged)? & 0o755 | 0o600;
            file.set_permissions(Permissions::from_mode(mode)).map_err(FetchError::io("write", &at))
        } else if kind.is_hard_link() {
            let target = entry.link_name().map_err(damaged)?.ok_or_else(hostile)?;
            let source = self.root.join(merged(&target).ok_or_else(hostile)?);
            fs::hard_link(&source, &at).map_err(FetchError::io("create", &at))
        } else {
            Err(archive(deb, format!("{} is neither a file nor a link", path.display())))
        }
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
    use crate::unpack::testing::{Item, deb, members};

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// Unpacks packages one after the other into an empty root, and creates their links.
    fn unpack_all(
        debs: &[Vec<u8>],
        wanted: &[&str],
    ) -> (tempfile::TempDir, Result<Unpacked, FetchError>) {
        let directory = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(directory.path()).unwrap();
        let root = top.join("root");
        prepare(&root).unwrap();
        let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
        let mut all = Unpacked::default();
        let path = top.join("package.deb");
        let result = debs.iter().try_for_each(|bytes| {
            fs::write(&path, bytes).unwrap();
            let one = unpack(&path, &root, &Architectures::new(&wanted), &NEVER, &|_| ())?;
            all.links.extend(one.links);
            all.architectures.extend(one.architectures);
            all.inside.extend(one.inside);
            Ok(())
        });
        let result = result
            .and_then(|()| link(&root, &[(path.clone(), std::mem::take(&mut all.links))], &NEVER));
        let result = result.map(|()| all);
        (directory, result)
    }

    fn read(directory: &tempfile::TempDir, path: &str) -> Option<String> {
        fs::read_to_string(directory.path().join("root").join(path)).ok()
    }

    #[test]
    fn merges_usr_and_keeps_links_inside() {
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
    fn writes_only_inside_the_root() {
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
        // The target of each link is missing. Only the link `s` shows that the path through it leads out of the root.
        let root = Item::Link("./usr/p/q/s", "../../..");
        check(&[Item::Link("./usr/p/q/leak", "s/../../../missing"), root], "leads out");
        let deep = "d/".repeat(80);
        check(&[Item::File(&deep, "x")], "too many folders");
        let long = "x".repeat(5 << 20);
        check(&[Item::File(&long, "x")], "one of its headers has more than");
        check(&[Item::Pipe("./usr/pipe")], "neither a file nor a link");
        // The link is created last, so the file is written to a directory with the link's name.
        check(&[Item::Link("./a", "/tmp"), Item::File("./a", "x")], "exists more than once");
    }

    #[test]
    fn recognises_damaged_packages() {
        let check = |bytes: Vec<u8>, reason: &str| {
            let (_root, result) = unpack_all(&[bytes], &[]);
            let error = result.unwrap_err();
            assert!(matches!(error, FetchError::Archive { .. }), "{error:?}");
            assert!(error.to_string().contains(reason), "{error}");
        };
        let whole = deb(&[Item::File("./usr/a", &"x".repeat(5000))]);
        check(whole[..whole.len() - 40].to_vec(), "");
        check(b"not an archive".to_vec(), "");
        check(members(&[("debian-binary", b"2.0\n")]), "no data.tar");
        check(members(&[("data.tar.zst", b"x")]), "unknown compression");
    }

    #[test]
    fn reports_the_kernels_inside_a_library() {
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
    fn unpacks_only_kernels_of_requested_architectures() {
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
