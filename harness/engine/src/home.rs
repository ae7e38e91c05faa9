//! The view of the file system in which a user's program and its children find ROCm.
//!
//! rocrepro can start a program through the dynamic loader of a Debian stack, but the children of the program would use
//! the machine's loader. In a [`View`] the stack's libraries hide those of the machine, `/opt/rocm` is the stack, and
//! `/sys/class/kfd` shows the emulated GPUs.

mod preload;
mod quirks;
mod stub_library;
mod symbol_versions;

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use device::Config;
use stacks::Stack;
use supervise::{Overlay, Start, View, ViewEntry};

pub(crate) use self::preload::allow_preloading;
use self::quirks::{QUIRKS, Quirk};
use crate::helper;

/// The folder of libraries in Debian and its derivatives.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Path of the dynamic loader that x86-64 programs name.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Folder in which frameworks look for ROCm.
const PREFIX: &str = "/opt/rocm";

const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Name of the empty folder over which a view mounts its files.
const MOUNT_FOLDER: &str = "home";

pub(crate) struct Home<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) device: Option<&'a Path>,
    pub(crate) config: Option<&'a Config>,
    pub(crate) cache: &'a Path,
}

impl Home<'_> {
    /// Returns the view of the file system for programs on this stack.
    ///
    /// # Errors
    /// Returns the reason why programs on this stack cannot have a view here.
    pub(crate) fn view(&self) -> Result<View, String> {
        let place = self.cache.join(MOUNT_FOLDER);
        fs::create_dir_all(&place)
            .map_err(|error| format!("cannot create `{}`: {error}", place.display()))?;
        let mut view = View { place: place.clone(), ..View::default() };
        let mut link = |name: &str, target: PathBuf| {
            view.made.insert(name.into(), ViewEntry::Link(target));
        };
        let root = &self.stack.root;
        // Several releases may be installed in `/opt`, and the loader's cache may name any of them.
        for name in installed(Path::new("/opt"), root) {
            link(&format!("opt/{name}"), place.join("rocm"));
        }
        if self.stack.loader.is_some() {
            check_layout(root)?;
            let usr = root.join("usr");
            link("rocm/lib", LIBRARIES.into());
            for name in ["bin", "libexec", "share"] {
                link(&format!("rocm/{name}"), usr.join(name));
            }
            // The headers of the C and C++ libraries come from the machine, not from the stack.
            for (name, folder) in headers(&usr.join("include")) {
                link(&format!("rocm/include/{name}"), path_in_view(folder, root));
            }
            if let Some(folder) = bitcode(&usr) {
                link("rocm/amdgcn", path_in_view(folder, root));
            }
            if let Some(folder) = llvm(&usr) {
                // AMD's packages have this folder below `lib`. Debian's hipcc looks for it there too, but under
                // Debian's name.
                let own = folder.file_name().unwrap_or_default().display().to_string();
                for name in ["rocm/llvm", "libraries/llvm", &format!("libraries/{own}")] {
                    link(name, path_in_view(folder.clone(), root));
                }
            }
            for (name, file) in self.other_names()? {
                // The dynamic loader treats two paths of one file as two libraries.
                let own = file.file_name().filter(|_| file.starts_with(root)).map(PathBuf::from);
                link(&format!("libraries/{name}"), own.unwrap_or(file));
            }
            let (first, inner) =
                self.stack.libraries.split_first().ok_or("the stack has no libraries")?;
            // A folder cannot be mounted inside another mounted one, so its files are linked.
            for folder in inner {
                let within = folder.strip_prefix(first).map_err(|error| error.to_string())?;
                for file in fs::read_dir(folder).into_iter().flatten().flatten() {
                    let name = file.file_name();
                    link(&format!("libraries/{}", name.display()), within.join(name));
                }
            }
            let own = place.join("libraries");
            let over = [own.as_path()].into_iter().chain(self.device).chain([first.as_path()]);
            view.laid = vec![
                // The stack's `/usr` is mounted below the machine's, so files of the machine take precedence.
                Overlay { folder: "/usr".into(), over: Vec::new(), under: vec![usr] },
                Overlay {
                    folder: LIBRARIES.into(),
                    over: over.map(Path::to_owned).collect(),
                    under: Vec::new(),
                },
            ];
        } else {
            link("rocm", root.clone());
        }
        if let Some(version) = &self.stack.rocm
            && self.stack.loader.is_some()
        {
            view.made.insert("rocm/.info/version".into(), ViewEntry::Text(format!("{version}\n")));
        }
        self.preload(&mut view)?;
        self.show(&mut view, "opt", Path::new("/opt"));
        if let Some(config) = self.config {
            for (name, text) in hsa_runtime64::kfd::topology(config) {
                view.made.insert(Path::new("kfd/kfd/topology").join(name), ViewEntry::Text(text));
            }
            view.made.insert("class/kfd".into(), ViewEntry::Link(place.join("kfd")));
            self.show(&mut view, "class", Path::new("/sys/class"));
        }
        let names = ["ROCM_PATH", "ROCM_HOME", "HIP_PATH"];
        view.environment = names.map(|name| (name.to_owned(), PREFIX.to_owned())).into();
        Ok(view)
    }

    fn show(&self, view: &mut View, made: &str, folder: &Path) {
        let over = vec![view.place.join(made)];
        view.laid.push(Overlay { folder: folder.into(), over, under: Vec::new() });
    }

    /// Returns the library names that programs look for and that the stack lacks, each with a file that takes its
    /// place: the same library under the stack's name, a copy of it without symbol versions, or a stub.
    fn other_names(&self) -> Result<Vec<(&'static str, PathBuf)>, String> {
        let mut names = Vec::new();
        for quirk in QUIRKS {
            if let Some(file) = quirk.other_name(self.stack) {
                names.push((quirk.name(), file));
            } else if let Quirk::Missing(stub) = quirk
                && self.stack.library(stub.soname).is_none()
            {
                names.push((quirk.name(), self.cached_stub(stub)?));
            } else if let Quirk::Vendored { name, of } = quirk
                && self.stack.library(name).is_none()
                && let Some(file) = self.stack.library(of)
            {
                names.push((name, self.without_symbol_versions(name, file)?));
            }
        }
        Ok(names)
    }

    /// Prepares a program that runs without a view. The dynamic loader finds the additional library names in a cache
    /// folder, and an environment variable preloads the emulated device's library.
    pub(crate) fn without_view(&self, start: &mut Start) -> Result<(), String> {
        start.preload = self.preloaded_by_variable()?;
        let Some(path) = start.through.iter().position(|word| word == "--library-path") else {
            return Ok(());
        };
        let names = self.other_names()?;
        let folder = self.cache.join("stubs").join(plan::digest(format!("{names:?}").as_bytes()));
        let write = || -> io::Result<()> {
            fs::create_dir_all(&folder)?;
            for (name, file) in &names {
                match symlink(file, folder.join(name)) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
            Ok(())
        };
        write().map_err(|error| format!("cannot write `{}`: {error}", folder.display()))?;
        let folders = &mut start.through[path + 1];
        folders.push(":");
        folders.push(folder);
        Ok(())
    }

    /// Makes a copy of a library without symbol versions. Returns the path of the copy, or of the library itself if the
    /// library defines no versions.
    fn without_symbol_versions(&self, name: &str, file: PathBuf) -> Result<PathBuf, String> {
        let bad = |error: String| format!("cannot read `{}`: {error}", file.display());
        let library = fs::read(&file).map_err(|error| bad(error.to_string()))?;
        match symbol_versions::without_symbol_versions(&library).map_err(bad)? {
            Some(copy) => cached_file(self.cache, "stubs", name, &copy),
            None => Ok(file),
        }
    }

    fn cached_stub(&self, stub: &stub_library::StubLibrary) -> Result<PathBuf, String> {
        let library = stub.library().map_err(|error| error.to_string())?;
        cached_file(self.cache, "stubs", stub.soname, &library)
    }
}

/// Writes an embedded file into a cache folder named after the file's digest.
pub(crate) fn cached_file(
    cache: &Path,
    folder: &str,
    name: &str,
    text: &[u8],
) -> Result<PathBuf, String> {
    let folder = cache.join(folder).join(plan::digest(text));
    let file = folder.join(name);
    if !file.exists() {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&folder)?;
            atomic::write(&file, text)
        };
        write().map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    }
    Ok(file)
}

/// Makes `import rocrepro` work in a program and its children, by appending the folder of the module to PYTHONPATH.
pub fn with_helper(start: &mut Start, cache: &Path) -> Result<(), String> {
    let (name, text) = helper::PYTHON;
    let file = cached_file(cache, "helper", name, text.as_bytes())?;
    let mut path = start.environment.remove(OsStr::new("PYTHONPATH")).unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(file.parent().unwrap_or(cache));
    start.environment.insert("PYTHONPATH".into(), path);
    Ok(())
}

/// Appends the folder of the stack's tools to a view's PATH. Removes the variables in `given` from the view, because
/// the user sets them on the command line.
pub fn with_path<'n>(
    view: &mut View,
    start: &Start,
    given: impl Iterator<Item = (&'n String, &'n String)>,
) {
    let path = start.environment.get(OsStr::new("PATH")).and_then(|path| path.to_str());
    let path = format!("{}:{PREFIX}/bin", path.unwrap_or(USUAL_PATH));
    view.environment.insert("PATH".to_owned(), path);
    for (name, _) in given {
        view.environment.remove(name);
    }
}

/// Returns the names in `/opt` that lead to the stack in the view: `rocm`, and the names of all ROCm releases installed
/// there except the stack itself.
fn installed(opt: &Path, root: &Path) -> Vec<String> {
    let entries = fs::read_dir(opt).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let others = names.filter(|name| name.starts_with("rocm-"));
    ["rocm".to_owned()]
        .into_iter()
        .chain(others)
        .filter(|name| {
            !root.starts_with(fs::canonicalize(opt.join(name)).unwrap_or_else(|_| opt.join(name)))
        })
        .collect()
}

/// Checks that programs of this machine can run with the stack's C library, and that machine and stack have the same
/// library folders.
fn check_layout(root: &Path) -> Result<(), String> {
    let loader = fs::canonicalize(LOADER).map_err(|error| format!("no `{LOADER}`: {error}"))?;
    if loader.parent() != Some(Path::new(LIBRARIES)) {
        return Err(format!(
            "this machine's loader is `{}` and not in `{LIBRARIES}`",
            loader.display()
        ));
    }
    let [of_stack, of_host] =
        [root.join(&LIBRARIES[1..]), LIBRARIES.into()].map(|folder| c_library(&folder));
    let (of_stack, of_host) = (of_stack?, of_host?);
    if of_stack < of_host {
        let text = |(major, minor)| format!("{major}.{minor}");
        return Err(format!(
            "the C library of the stack is {}, older than {}, which programs of this machine need",
            text(of_stack),
            text(of_host)
        ));
    }
    Ok(())
}

/// Returns the major and the minor version of the C library, read from a text like `GNU C Library (Debian GLIBC 2.43-7)
/// stable release version 2.43.`
fn c_library(folder: &Path) -> Result<(u32, u32), String> {
    let file = folder.join("libc.so.6");
    let bytes =
        fs::read(&file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let words = b" release version ";
    let version = memchr::memmem::find(&bytes, words).and_then(|at| {
        let text = &bytes[at + words.len()..];
        let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let (major, minor) = str::from_utf8(&text[..end]).ok()?.split_once('.')?;
        Some((major.parse().ok()?, minor.trim_end_matches('.').split('.').next()?.parse().ok()?))
    });
    version.ok_or_else(|| format!("no version found in `{}`", file.display()))
}

/// Returns the path at which programs in the view see a folder of the stack. Returns `folder` itself if the machine has
/// a folder with that path, because a compiler treats two paths as two folders.
fn path_in_view(folder: PathBuf, root: &Path) -> PathBuf {
    let seen = folder.strip_prefix(root).map(|within| Path::new("/").join(within));
    seen.ok().filter(|seen| !seen.exists()).unwrap_or(folder)
}

fn headers(include: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    const OWN: [&str; 8] = ["amd_comgr", "hip", "hsa", "miopen", "rccl", "roc", "thrust", "cub"];
    let entries = fs::read_dir(include).into_iter().flatten().flatten();
    let own = |name: &String| OWN.iter().any(|start| name.starts_with(start));
    let named =
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    named.filter(move |(name, _)| own(name))
}

fn llvm(usr: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(usr.join("lib")).ok()?.flatten();
    let number = |entry: fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.strip_prefix("llvm-")?.parse().ok()?;
        Some((number, entry.path()))
    };
    entries.filter_map(number).max().map(|(_, folder)| folder)
}

fn bitcode(usr: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(llvm(usr)?.join("lib/clang")).ok()?.flatten();
    let beside_clang = versions.map(|entry| entry.path().join("amdgcn"));
    let others = [usr.join("lib/x86_64-linux-gnu/amdgcn"), usr.join("amdgcn")];
    beside_clang.chain(others).find(|folder| folder.join("bitcode").is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_of_a_c_library() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libc.so.6");
        for (text, version) in [
            ("\0GNU C Library (X 2.36-9) stable release version 2.36.\nCopyright", Some((2, 36))),
            ("\0GNU C Library development release version 2.43.9000.\n", Some((2, 43))),
            ("\0musl\0", None),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(c_library(folder.path()).ok(), version, "{text}");
        }
    }

    #[test]
    fn system_libraries_have_the_names_of_newer_packages() {
        let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let folder = root.path().join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&folder).unwrap();
        symlink("usr/lib", root.path().join("lib")).unwrap();
        let library = |version| stub_library::StubLibrary {
            soname: "libx.so.1",
            version,
            needs: None,
            functions: &["start"],
            texts: &[],
        };
        let [versions, plain] =
            [Some("V_1"), None].map(|version| library(version).library().unwrap());
        for name in ["libamdhip64.so.7.2.53211", "libc.so.6", "ld-linux-x86-64.so.2"] {
            fs::write(folder.join(name), "").unwrap();
        }
        symlink("libamdhip64.so.7.2.53211", folder.join("libamdhip64.so.7")).unwrap();
        fs::write(folder.join("libz.so.1"), &versions).unwrap();
        fs::write(folder.join("libzstd.so.1"), &plain).unwrap();
        let spec = stacks::Spec::Directory(root.path().into());
        let stack = stacks::locate(&spec, &stacks::StackCache::at(cache.path().into())).unwrap();
        let home = Home { stack: &stack, device: None, config: None, cache: cache.path() };
        let names = home.other_names().unwrap();
        let file = |name| names.iter().find(|(it, _)| *it == name).map(|(_, file)| file.clone());
        let copy = symbol_versions::without_symbol_versions(&versions).unwrap();
        assert_eq!(file("librocm_sysdeps_z.so.1").map(|file| fs::read(file).unwrap()), copy);
        let zstd = file("librocm_sysdeps_zstd.so.1").unwrap();
        assert_eq!(zstd, fs::canonicalize(&folder).unwrap().join("libzstd.so.1"));
        assert_eq!(file("librocm_sysdeps_numa.so.1"), None);
    }

    #[test]
    fn other_installed_releases_lead_to_the_stack() {
        let opt = tempfile::tempdir().unwrap();
        let opt = fs::canonicalize(opt.path()).unwrap();
        for name in ["rocm-6.4.1", "rocm-7.0.2", "other"] {
            fs::create_dir(opt.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("rocm-7.0.2", opt.join("rocm")).unwrap();
        let names = |root: &Path| {
            let mut names = installed(&opt, root);
            names.sort();
            names
        };
        assert_eq!(names(Path::new("/a/stack")), ["rocm", "rocm-6.4.1", "rocm-7.0.2"]);
        assert_eq!(names(&opt.join("rocm-6.4.1")), ["rocm", "rocm-7.0.2"]);
        // The view does not replace the stack itself, under any of its names.
        assert_eq!(names(&opt.join("rocm-7.0.2")), ["rocm-6.4.1"]);
    }
}
