//! Finds stacks on this machine, and builds the commands that start programs with a stack's libraries.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{LocateError, Manifest, PathError, Spec, StackCache, Version};

/// Shared library that every stack must contain.
const RUNTIME: &str = "libamdhip64.so";

/// Folder of libraries in a Debian root.
const MULTIARCH: &str = "usr/lib/x86_64-linux-gnu";

/// Folders of BLAS and LAPACK libraries, with which AMD's test programs compare results. Several Debian packages offer
/// alternatives for these libraries. When such a package is installed, Debian's update-alternatives creates links to
/// its libraries in [`MULTIARCH`]. In an unpacked root, these links are missing.
///
/// The reference BLAS and LAPACK come first, because OpenBLAS, to which `rocsolver-test` is linked, contains libraries
/// with the same names.
const ALTERNATIVES: &[&str] = &[
    "usr/lib/x86_64-linux-gnu/blas",
    "usr/lib/x86_64-linux-gnu/lapack",
    "usr/lib/x86_64-linux-gnu/openblas-pthread",
];

/// Folders that may contain ROCm's libraries, relative to a directory that contains ROCm: a Debian root, a prefix
/// (TheRock, /opt/rocm, /usr), an unpacked wheel, or the site-packages directory that contains the wheel.
const LIBRARY_DIRECTORIES: &[&str] = &[
    MULTIARCH,
    "lib",
    "lib64",
    "lib/x86_64-linux-gnu",
    "_rocm_sdk_core/lib",
    "platlib/_rocm_sdk_core/lib",
];

/// One ROCm user space on this machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stack {
    /// Name of the stack, as given on the command line.
    pub spec: String,
    /// Absolute path of the directory that contains the stack, with symbolic links resolved.
    pub root: PathBuf,
    /// ROCm release, as read from the stack's files; `None` if it is unknown. The version has only two numbers, for
    /// example `7.2`, if it was read from a library's file name.
    pub rocm: Option<Version>,
    /// Reason why the release is unknown, or why `.info/version` could not be read; `None` if the release was read
    /// without problems.
    pub doubt: Option<String>,
    /// Folders that contain the stack's libraries, in the order in which they are searched.
    pub libraries: Vec<PathBuf>,
    /// Dynamic loader of a stack with its own libc; `None` if programs use the loader of this machine.
    pub loader: Option<PathBuf>,
    /// Manifest of a fetched stack; `None` for other stacks.
    pub manifest: Option<Manifest>,
}

/// Finds a stack on this machine. The network is not used, and nothing is changed.
///
/// # Errors
/// [`LocateError`].
pub fn locate(spec: &Spec, store: &StackCache) -> Result<Stack, LocateError> {
    match spec {
        Spec::System => locate_system(std::env::var_os("ROCM_PATH"), Path::new("/")),
        Spec::Directory(path) => open(path, spec.to_string()),
        Spec::Debian(release) => {
            let root = store.root(release);
            open(
                &root.ok_or_else(|| LocateError::NotFetched { spec: spec.to_string() })?,
                spec.to_string(),
            )
        }
    }
}

/// Returns every installation of ROCm on this machine. The name `system` means the first one.
pub fn system_stacks() -> Vec<Stack> {
    different_stacks(system_candidates(std::env::var_os("ROCM_PATH"), Path::new("/")))
}

/// Returns the stacks in these folders, without duplicates.
fn different_stacks(folders: Vec<PathBuf>) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = Vec::new();
    for path in folders {
        if let Ok(stack) = open(&path, path.display().to_string())
            && !stacks.iter().any(|other| other.root == stack.root)
        {
            stacks.push(stack);
        }
    }
    stacks
}

fn locate_system(rocm_path: Option<OsString>, host: &Path) -> Result<Stack, LocateError> {
    if let Some(path) = rocm_path.filter(|path| !path.is_empty()) {
        // A wrong ROCM_PATH is reported as an error. Silently using another ROCm would be misleading.
        return open(Path::new(&path), "system".into());
    }
    let candidates = system_candidates(None, host);
    match candidates.iter().find_map(|path| open(path, "system".into()).ok()) {
        Some(stack) => Ok(stack),
        None => {
            let looked: Vec<_> = candidates.iter().map(|p| p.display().to_string()).collect();
            Err(LocateError::NoSystem { looked: looked.join(", ") })
        }
    }
}

/// Returns folders that may contain an installed ROCm: ROCM_PATH, /opt/rocm, /opt/rocm-* (the newest first), and /usr,
/// into which a distribution installs its packages. `host` is the root folder of the machine.
fn system_candidates(rocm_path: Option<OsString>, host: &Path) -> Vec<PathBuf> {
    let opt = host.join("opt");
    let mut versioned: Vec<(Option<Version>, PathBuf)> = fs::read_dir(&opt)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.strip_prefix("rocm-")?;
            Some((Version::from_prefix(version), path))
        })
        .collect();
    versioned.sort_by_key(|(version, _)| Reverse(version.clone()));
    let named = rocm_path.filter(|path| !path.is_empty()).map(PathBuf::from);
    named
        .into_iter()
        .chain([opt.join("rocm")])
        .chain(versioned.into_iter().map(|(_, path)| path))
        .chain([host.join("usr")])
        .collect()
}

fn open(path: &Path, spec: String) -> Result<Stack, LocateError> {
    let root = fs::canonicalize(path).map_err(PathError::io("open", path))?;
    // Both characters separate the directories of a library path, and cannot be escaped (ld.so(8)).
    if root.to_string_lossy().contains([':', ';']) {
        return Err(LocateError::Separator { path: root });
    }
    let mut libraries = Vec::new();
    for directory in LIBRARY_DIRECTORIES.iter().map(|relative| root.join(relative)) {
        // In a root with a merged /usr, `lib` and `usr/lib` are the same directory.
        let known =
            |other: &PathBuf| fs::canonicalize(other).ok() == fs::canonicalize(&directory).ok();
        if find(&directory, RUNTIME).is_some() && !libraries.iter().any(known) {
            libraries.push(directory);
        }
    }
    let Some(first) = libraries.first() else {
        return Err(LocateError::NoRocm { path: root, looked: LIBRARY_DIRECTORIES.join(", ") });
    };
    // The root folder of this machine needs no separate loader.
    let loader = Some(root.join(MULTIARCH).join("ld-linux-x86-64.so.2")).filter(|loader| {
        let libc = root.join(MULTIARCH).join("libc.so.6");
        root != Path::new("/") && loader.is_file() && libc.is_file()
    });
    let manifest = Manifest::read(&root);
    let (rocm, doubt) = match &manifest {
        Some(manifest) => (Some(manifest.rocm.clone()), None),
        None => version(&root, first),
    };
    // The math libraries of TheRock's wheels are in separate packages next to the core package.
    if let Some(site) =
        first.parent().and_then(Path::parent).filter(|_| !first.starts_with(root.join("usr")))
    {
        let mut wheels: Vec<_> = fs::read_dir(site)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with("_rocm_sdk_libraries"))
            })
            .map(|path| path.join("lib"))
            .filter(|path| path.is_dir())
            .collect();
        wheels.sort();
        libraries.extend(wheels);
    }
    let alternatives = ALTERNATIVES.iter().map(|path| root.join(path));
    libraries.extend(alternatives.filter(|directory| directory.is_dir()));
    Ok(Stack { spec, root, rocm, doubt, libraries, loader, manifest })
}

/// Returns the release in `.info/version` (AMD's packages and TheRock), or else the release in the file name of the HIP
/// runtime. `libraries` is the folder that contains the runtime. The second value is the reason why the release is
/// unknown, or why `.info/version` could not be read.
pub(crate) fn version(root: &Path, libraries: &Path) -> (Option<Version>, Option<String>) {
    let prefix = libraries.parent().unwrap_or(root);
    let stated = [root, prefix].into_iter().find_map(|directory| {
        let file = directory.join(".info/version");
        let text = fs::read_to_string(&file).ok()?;
        Some(text.trim().parse().map_err(|error| format!("`{}`: {error}", file.display())))
    });
    let by_name = find(libraries, RUNTIME).and_then(|file| {
        let file = fs::canonicalize(file).ok()?;
        let tail = file.file_name()?.to_str()?.strip_prefix(RUNTIME)?.strip_prefix('.')?;
        Version::from_runtime_file_name(tail)
    });
    match (stated, by_name) {
        (Some(Ok(version)), _) => (Some(version), None),
        (Some(Err(doubt)), by_name) => (by_name, Some(doubt)),
        (None, Some(version)) => (Some(version), None),
        (None, None) => (None, Some(format!("`{}` has no .info/version", root.display()))),
    }
}

/// Returns the path of a library in a directory: the file with exactly this name, or else the file with the shortest
/// version suffix, whose name is the one that the loader uses.
fn find(directory: &Path, soname: &str) -> Option<PathBuf> {
    let exact = directory.join(soname);
    if exact.is_file() {
        return Some(exact);
    }
    let versioned = |name: &str| {
        let tail = name.strip_prefix(soname).and_then(|tail| tail.strip_prefix('.'));
        tail.is_some_and(|tail| tail.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    let mut names: Vec<String> = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| versioned(name) && directory.join(name).is_file())
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.into_iter().next().map(|name| directory.join(name))
}

impl Stack {
    /// Returns a command that runs `program` with the libraries of this stack.
    ///
    /// `device` is a directory in which libraries are searched before those of the stack. For an emulated device, this
    /// directory contains libhsa-runtime64.so.1. If the stack has its own libc, the program is started through the
    /// stack's loader, so that the program uses no library of this machine. In the program, `current_exe` then returns
    /// the path of the loader. For other stacks, LD_LIBRARY_PATH is set. `program` must be a path, because PATH is not
    /// searched.
    pub fn command(&self, program: &Path, device: Option<&Path>) -> Command {
        let through = self.through(device);
        match through.split_first() {
            Some((loader, options)) => {
                let mut command = Command::new(loader);
                command.args(options).arg(program);
                for name in ["LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH"] {
                    command.env_remove(name);
                }
                command
            }
            None => {
                let inherited = std::env::var_os("LD_LIBRARY_PATH");
                let search = with_inherited(self.search(device), inherited);
                let mut command = Command::new(program);
                command.env("LD_LIBRARY_PATH", search).env("ROCM_PATH", &self.root);
                command.env_remove("HIP_PATH");
                command
            }
        }
    }

    /// Returns the beginning of a command line that starts a program through the stack's own loader: the path of the
    /// loader and the options of the loader. The path of the program must follow. Returns an empty list if the stack
    /// has no loader of its own. [`command`](Self::command) uses the same options.
    pub fn through(&self, device: Option<&Path>) -> Vec<OsString> {
        // Without this option, the loader would read this machine's cache, /etc/ld.so.cache. Libraries that are missing
        // in the root would then silently be loaded from this machine.
        let options = || ["--inhibit-cache".into(), "--library-path".into(), self.search(device)];
        let words = |loader: &PathBuf| [loader.into()].into_iter().chain(options()).collect();
        self.loader.as_ref().map(words).unwrap_or_default()
    }

    /// Returns the library path: the folder `device`, then the folders of the stack.
    fn search(&self, device: Option<&Path>) -> OsString {
        let mut search = OsString::new();
        for directory in device.into_iter().chain(self.libraries.iter().map(PathBuf::as_path)) {
            if !search.is_empty() {
                search.push(":");
            }
            search.push(directory);
        }
        search
    }

    /// Returns the path of a library such as `libhiprtc.so`. The file's name may end with a version. `None` if the
    /// stack does not contain the library.
    pub fn library(&self, soname: &str) -> Option<PathBuf> {
        self.libraries.iter().find_map(|directory| find(directory, soname))
    }
}

/// Appends the library path that this process inherited. An empty path is not appended, because it would mean the
/// working directory.
fn with_inherited(mut search: OsString, inherited: Option<OsString>) -> OsString {
    if let Some(inherited) = inherited.filter(|path| !path.is_empty()) {
        search.push(":");
        search.push(inherited);
    }
    search
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::hint::in_full;

    /// Creates a folder with these files. Each file contains its own name. `a -> b` creates a symbolic link.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let (name, target) = file.split_once(" -> ").unwrap_or((file, ""));
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if target.is_empty() {
                fs::write(path, name).unwrap();
            } else {
                symlink(target, path).unwrap();
            }
        }
        directory
    }

    fn open_tree(tree: &tempfile::TempDir) -> Stack {
        open(tree.path(), "here".into()).unwrap()
    }

    fn arguments(command: &Command) -> Vec<&OsStr> {
        command.get_args().collect()
    }

    const DEBIAN: &[&str] = &[
        "usr/lib/x86_64-linux-gnu/libamdhip64.so.7.2.53211",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so.7 -> libamdhip64.so.7.2.53211",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "lib -> usr/lib",
    ];

    #[test]
    fn starts_programs_in_a_debian_root_with_its_own_loader() {
        let tree = tree(DEBIAN);
        let stack = open_tree(&tree);
        let libraries = stack.root.join("usr/lib/x86_64-linux-gnu");
        assert_eq!(stack.libraries, std::slice::from_ref(&libraries));
        assert_eq!(stack.rocm.as_ref().unwrap().to_string(), "7.2");
        assert_eq!(stack.library("libamdhip64.so"), Some(libraries.join("libamdhip64.so.7")));
        assert_eq!(stack.library("libamdhip"), None);

        let command = stack.command(Path::new("/bin/worker"), Some(Path::new("/device")));
        assert_eq!(command.get_program(), libraries.join("ld-linux-x86-64.so.2"));
        let search = format!("/device:{}", libraries.display());
        assert_eq!(
            arguments(&command),
            ["--inhibit-cache", "--library-path", &search, "/bin/worker"]
        );
        assert!(
            command.get_envs().any(|(name, value)| name == "LD_LIBRARY_PATH" && value.is_none())
        );
    }

    #[test]
    fn finds_alternatives_in_a_debian_root() {
        let unlinked = [
            "usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3",
            "usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
            "usr/lib/x86_64-linux-gnu/lapack/liblapack.so.3",
            "usr/lib/x86_64-linux-gnu/blas/libblas.so.3",
        ];
        let tree = tree(&[DEBIAN, &unlinked].concat());
        let stack = open_tree(&tree);
        let libraries = stack.root.join("usr/lib/x86_64-linux-gnu");
        let folders = ["", "blas", "lapack", "openblas-pthread"];
        assert!(stack.libraries.iter().eq(folders.map(|name| libraries.join(name)).iter()));
        for (name, file) in [
            ("libblas.so", "blas/libblas.so.3"),
            ("liblapack.so", "lapack/liblapack.so.3"),
            ("libopenblas.so", "openblas-pthread/libopenblas.so.0"),
        ] {
            assert_eq!(stack.library(name), Some(libraries.join(file)));
        }
    }

    #[test]
    fn starts_programs_in_a_prefix_with_the_hosts_loader() {
        let tree = tree(&["lib/libamdhip64.so", "lib/libamdhip64.so.6", ".info/version"]);
        fs::write(tree.path().join(".info/version"), "6.4.3-128\n").unwrap();
        let stack = open_tree(&tree);
        assert_eq!(stack.loader, None);
        assert_eq!(stack.rocm.as_ref().unwrap().to_string(), "6.4.3-128");
        let command = stack.command(Path::new("/bin/worker"), None);
        assert_eq!(command.get_program(), "/bin/worker");
        let search =
            command.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH").unwrap().1.unwrap();
        let first = std::env::split_paths(search).next().unwrap();
        assert_eq!(first, stack.root.join("lib"));
    }

    #[test]
    fn appends_an_inherited_search_path_unless_it_is_empty() {
        let check = |inherited: Option<&str>, expected: &str| {
            let search = with_inherited("/a:/b".into(), inherited.map(OsString::from));
            assert_eq!(search, expected, "{inherited:?}");
        };
        check(None, "/a:/b");
        check(Some(""), "/a:/b");
        check(Some("/c:/d"), "/a:/b:/c:/d");
    }

    #[test]
    fn wheels_bring_their_math_libraries() {
        let tree = tree(&[
            "_rocm_sdk_core/lib/libamdhip64.so.7",
            "_rocm_sdk_libraries_gfx1151/lib/librocblas.so.5",
        ]);
        let stack = open_tree(&tree);
        assert!(stack.library("librocblas.so").is_some());
        assert_eq!(stack.rocm, None, "the number of the interface is not a release");
        let core = open(&tree.path().join("_rocm_sdk_core"), "core".into()).unwrap();
        assert!(core.library("librocblas.so").is_some());
    }

    #[test]
    fn reads_the_release_from_files_or_reports_a_doubt() {
        let of = |library: &str, info: Option<&str>| {
            let tree = tree(&[library]);
            if let Some(text) = info {
                fs::create_dir(tree.path().join(".info")).unwrap();
                fs::write(tree.path().join(".info/version"), text).unwrap();
            }
            let stack = open_tree(&tree);
            let doubt = stack.doubt.unwrap_or_default();
            let short = doubt.replace(&stack.root.display().to_string(), "ROOT");
            (stack.rocm.map_or_else(String::new, |v| v.to_string()), short)
        };
        let plain = "lib/libamdhip64.so.7";
        let told = |version: &str| (version.to_owned(), String::new());
        assert_eq!(of(plain, Some("7.10.0rc1\n")), told("7.10.0rc1"));
        assert_eq!(of("lib/libamdhip64.so.7.2.53211", None), told("7.2"));
        assert_eq!(of(plain, None), (String::new(), "`ROOT` has no .info/version".to_owned()));
        let (version, doubt) = of("lib/libamdhip64.so.7.2.53211", Some("7.2.0-local\n"));
        assert_eq!(version, "7.2");
        assert!(
            doubt.starts_with("`ROOT/.info/version`: `7.2.0-local` is not a version"),
            "{doubt}"
        );
    }

    #[test]
    fn lists_the_searched_folders_of_a_wrong_directory() {
        let empty = tree(&["lib/libfoo.so"]);
        let error = open(empty.path(), "here".into()).unwrap_err().to_string();
        assert!(
            error.contains("libamdhip64.so") && error.contains("_rocm_sdk_core/lib"),
            "{error}"
        );
        let missing = open(&empty.path().join("missing"), "here".into()).unwrap_err();
        assert!(matches!(missing, LocateError::File(_)), "{missing}");
        let colon = tree(&["a:b/lib/libamdhip64.so"]);
        let error = open(&colon.path().join("a:b"), "here".into()).unwrap_err();
        assert!(matches!(error, LocateError::Separator { .. }), "{error}");
    }

    #[test]
    fn system_prefers_the_plain_directory_then_the_newest() {
        let host = tree(&[
            "opt/rocm-6.4.3/lib/libamdhip64.so.6",
            "opt/rocm-7.2.0/lib/libamdhip64.so.7",
            "opt/rocm-10.0.0/lib/unrelated.so",
        ]);
        let root = |path: Option<PathBuf>| {
            let stack = locate_system(path.map(Into::into), host.path())?;
            Ok::<_, LocateError>(stack.root.file_name().unwrap().to_string_lossy().into_owned())
        };
        assert_eq!(root(None).unwrap(), "rocm-7.2.0");
        assert_eq!(root(Some(host.path().join("opt/rocm-6.4.3"))).unwrap(), "rocm-6.4.3");
        let wrong = root(Some(host.path().join("opt"))).unwrap_err();
        assert!(
            matches!(wrong, LocateError::NoRocm { .. }),
            "a wrong ROCM_PATH must not fall back: {wrong}"
        );

        let found = different_stacks(system_candidates(None, host.path()));
        let names: Vec<_> = found.iter().map(|stack| stack.root.file_name().unwrap()).collect();
        assert_eq!(names, ["rocm-7.2.0", "rocm-6.4.3"]);
        symlink("rocm-6.4.3", host.path().join("opt/rocm")).unwrap();
        let found = different_stacks(system_candidates(None, host.path()));
        let names: Vec<_> = found.iter().map(|stack| stack.root.file_name().unwrap()).collect();
        assert_eq!(names, ["rocm-6.4.3", "rocm-7.2.0"]);

        let bare = tree(&["etc/passwd"]);
        let error = in_full(&locate_system(None, bare.path()).unwrap_err());
        assert!(error.contains("ROCM_PATH") && error.contains("debian:latest"), "{error}");
    }

    #[test]
    fn hints_how_to_fetch_a_missing_stack() {
        let store = StackCache::at("/nonexistent".into());
        let error = in_full(&locate(&"debian:7.2.4".parse().unwrap(), &store).unwrap_err());
        assert!(error.contains("rocrepro stack fetch debian:7.2.4"), "{error}");
    }
}
