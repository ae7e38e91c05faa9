//! Creates, finds and removes environments of Python packages. Python's own venv and pip make each of them in a folder,
//! and a marker file identifies the folder as made by rocrepro.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    FailedOperation, FailureClass, Stop, cache,
    events::{EngineEvent, Reporting},
    which,
};

mod own;
mod torch_builds;

pub use torch_builds::{TorchBuilds, UnknownTorchBuilds};

/// Name of the file that marks a folder as an environment made by rocrepro, which rocrepro may therefore remove.
const MARK: &str = "rocrepro-environment.json";

/// Name of the file that lists the installed packages, in pip's requirements format.
const LOCK: &str = "requirements.txt";

/// An error that prevents rocrepro from finding, creating or removing a Python environment.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The name has characters that are not allowed.
    #[error("`{0}` is not a valid name for an environment")]
    InvalidName(String),
    /// The folder that the user named has no Python interpreter.
    #[error("`{}` is not a virtual environment: it has no program bin/python", .0.display())]
    NotVirtual(PathBuf),
    /// The Python interpreter in a user's folder failed to list its installed packages: the folder and the error.
    #[error("the Python in `{}` cannot list its packages: {}", .0.display(), .1)]
    Packages(PathBuf, String),
    /// A killed process left the environment incomplete.
    #[error("the environment `{0}` is incomplete")]
    Unfinished(String),
    /// No environment has this name. The list contains the names of all existing environments.
    #[error("unknown environment `{}`{}", .0, listed(.1))]
    Unknown(String, Vec<String>),
    /// The folder does not contain rocrepro's marker file.
    #[error("`{}` is not an environment of rocrepro", .0.display())]
    Foreign(PathBuf),
    /// The folder for a new environment already exists: its path, and the name of the environment.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf, String),
    /// Another process is creating the environment.
    #[error("another process is making the environment `{0}`")]
    Busy(String),
    /// A file operation failed: the operation, the path and the error.
    #[error("cannot {} `{}`: {}", .0, .1.display(), .2)]
    Failed(&'static str, PathBuf, String),
    /// The report of pip cannot be parsed.
    #[error("pip's report: {0}")]
    Report(String),
    /// Python or pip failed. The fields are the program and the way in which it ended.
    #[error("`{0}` ended: {1}")]
    ToolFailed(String, ExitStatus),
    /// Python or pip did not start. The fields are the program and the cause.
    #[error("cannot start `{0}`: {1}")]
    ToolNotStarted(String, io::Error),
}

impl EnvironmentError {
    fn failed(what: &'static str, folder: &Path, error: &dyn std::error::Error) -> Self {
        Self::Failed(what, folder.to_owned(), error.to_string())
    }
}

impl FailedOperation for EnvironmentError {
    fn class(&self) -> FailureClass {
        match self {
            Self::InvalidName(_)
            | Self::NotVirtual(_)
            | Self::Unfinished(_)
            | Self::Unknown(..)
            | Self::Foreign(_)
            | Self::Exists(..) => FailureClass::Usage,
            _ => FailureClass::NoVerdict,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidName(_) => Some(
                "use letters, digits, `.`, `_` and `-`, and begin with a letter or digit"
                    .to_owned(),
            ),
            Self::NotVirtual(_) => Some(
                "name the folder of an environment that venv, uv or conda made, such as ./.venv; a word without `/` \
                 names an environment of `rocrepro stack env`"
                    .to_owned(),
            ),
            Self::Unfinished(name) => {
                Some(format!("`rocrepro stack env remove {name}` removes it"))
            }
            Self::Exists(_, name) => Some(format!(
                "`rocrepro stack env remove {name}` removes it if it is an environment"
            )),
            Self::Busy(_) => Some("wait until it has ended".to_owned()),
            _ => None,
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "; none exists".to_owned() } else { format!(": {}", names.join(", ")) }
}

/// The sources from which pip takes packages, by default PyPI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageSources {
    /// Address of an index that replaces PyPI; `None` to use PyPI.
    pub index_url: Option<String>,
    /// Addresses of further indexes.
    pub extra_index_urls: Vec<String>,
    /// Folders with wheels, and addresses of pages with links to wheels.
    pub find_links: Vec<String>,
    /// Files with version constraints, in the format of pip's option `--constraint`.
    pub constraints: Vec<String>,
    /// True if development versions are installed, too.
    pub pre: bool,
}

impl PackageSources {
    /// Returns the options for pip. Each value is in one word with its option, so that pip cannot take a value for
    /// another option.
    fn options(&self) -> Vec<String> {
        let option = |name: &str, values: &[String]| -> Vec<String> {
            values.iter().map(|value| format!("--{name}={value}")).collect()
        };
        [
            option("index-url", self.index_url.as_slice()),
            option("extra-index-url", &self.extra_index_urls),
            option("find-links", &self.find_links),
            option("constraint", &self.constraints),
            if self.pre { vec!["--pre".to_owned()] } else { Vec::new() },
        ]
        .concat()
    }
}

/// All environments of this user.
pub struct Environments {
    folder: PathBuf,
}

/// A Python environment that rocrepro made.
pub struct PythonEnvironment {
    /// Name of the environment, as the user chose it.
    pub name: String,
    folder: PathBuf,
    /// The content of the environment's marker file.
    pub mark: EnvironmentMark,
}

/// A Python environment in which programs run.
pub enum NamedEnvironment {
    /// An environment that rocrepro made.
    Kept(PythonEnvironment),
    /// A folder of the user. rocrepro never writes into it.
    Own(own::OwnEnvironment),
}

/// The content of the file that marks a folder as a Python environment of rocrepro.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentMark {
    made_by: String,
    python: PathBuf,
    /// The packages that the user requested, in pip's syntax.
    pub packages: Vec<String>,
    /// True if all requested packages were installed.
    whole: bool,
}

impl Environments {
    /// Returns the environments of this user.
    ///
    /// # Errors
    /// Returns a usage error if this user has no cache folder.
    pub fn open() -> Result<Self, Stop> {
        Ok(Self { folder: cache::folder()?.join("environments") })
    }

    fn folder(&self, name: &str) -> Result<PathBuf, EnvironmentError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.starts_with(['.', '-']) || !name.bytes().all(plain) {
            return Err(EnvironmentError::InvalidName(name.to_owned()));
        }
        Ok(self.folder.join(name))
    }

    /// Returns the environment that the user's text names for running programs. A text that contains `/` or begins with
    /// a dot is the folder of a virtual environment; any other text is the name of a complete environment.
    ///
    /// # Errors
    /// Returns a usage error if the folder has no `bin/python`, or if no complete environment has the name.
    pub fn named(given: &str) -> Result<NamedEnvironment, Stop> {
        if own::is_path(given) {
            return Ok(NamedEnvironment::Own(own::OwnEnvironment::find(given)?));
        }
        Ok(NamedEnvironment::Kept(Self::open()?.find_complete(given)?))
    }

    /// Returns the environment with this name. Returns an error if its installation is incomplete.
    pub fn find_complete(&self, name: &str) -> Result<PythonEnvironment, Stop> {
        let found = self.find(name)?;
        if found.mark.whole {
            return Ok(found);
        }
        Err(EnvironmentError::Unfinished(name.to_owned()).into())
    }

    fn find(&self, name: &str) -> Result<PythonEnvironment, EnvironmentError> {
        let folder = self.folder(name)?;
        if fs::symlink_metadata(&folder).is_err() {
            let names: Vec<_> = self.all().into_iter().map(|e| format!("`{}`", e.name)).collect();
            return Err(EnvironmentError::Unknown(name.to_owned(), names));
        }
        read(&folder).ok_or(EnvironmentError::Foreign(folder))
    }

    /// Returns all environments in the order of their names.
    pub fn all(&self) -> Vec<PythonEnvironment> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries.filter_map(|entry| read(&entry.path())).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Creates an environment. Removes an incomplete one of the same name first, and removes the new one if its
    /// installation fails.
    pub fn create(
        &self,
        name: &str,
        python: &Path,
        packages: &[String],
        sources: &PackageSources,
        reporting: &Reporting,
    ) -> Result<PythonEnvironment, Stop> {
        let folder = self.folder(name)?;
        let python = which::file(python)?;
        let cannot = |what: &'static str, error: &dyn std::error::Error| {
            EnvironmentError::failed(what, &folder, error)
        };
        fs::create_dir_all(&self.folder).map_err(|e| cannot("create", &e))?;
        self.remove_unfinished(name, &folder, reporting)?;
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(EnvironmentError::Exists(folder, name.to_owned()).into());
            }
            done => done.map_err(|e| cannot("create", &e))?,
        }
        let _lock = locked_folder(&folder).map_err(|e| cannot("lock", &e))?;
        let made = fill(&folder, &python, packages, sources);
        if made.is_err() {
            // The error of the installation matters more than one of the removal.
            let _ = self.remove(name);
        }
        made?;
        self.find_complete(name)
    }

    /// Removes the incomplete virtual environment that a killed process left behind.
    fn remove_unfinished(
        &self,
        name: &str,
        folder: &Path,
        reporting: &Reporting,
    ) -> Result<(), EnvironmentError> {
        let Some(PythonEnvironment { mark: EnvironmentMark { whole: false, .. }, .. }) =
            read(folder)
        else {
            return Ok(());
        };
        match locked_folder(folder) {
            Ok(_lock) => {
                reporting.event(EngineEvent::EnvironmentRemade { folder });
                self.remove(name)
            }
            Err(Errno::WOULDBLOCK) => Err(EnvironmentError::Busy(name.to_owned())),
            Err(error) => Err(EnvironmentError::failed("lock", folder, &error)),
        }
    }

    /// Removes an environment.
    pub fn remove(&self, name: &str) -> Result<(), EnvironmentError> {
        let environment = self.find(name)?;
        // A folder whose name begins with a dot is not an environment, so renaming the folder hides the environment at
        // once.
        let gone = self.folder.join(format!(".{name}.{}", std::process::id()));
        fs::rename(&environment.folder, &gone)
            .and_then(|()| fs::remove_dir_all(&gone))
            .map_err(|error| EnvironmentError::failed("remove", &environment.folder, &error))
    }
}

impl EnvironmentMark {
    /// Returns true if all requested packages were installed.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}

impl PythonEnvironment {
    /// Returns the installed packages, each with its version and the hash of its file.
    pub fn lock(&self) -> String {
        fs::read_to_string(self.folder.join(LOCK)).unwrap_or_default()
    }

    /// Returns the folder of the Python virtual environment.
    pub fn venv(&self) -> PathBuf {
        self.folder.join("venv")
    }

    /// Returns a note to print after the name of an incomplete environment; an empty text for a complete one.
    pub fn incomplete_note(&self) -> &'static str {
        if self.mark.whole { "" } else { "  (not finished)" }
    }
}

impl NamedEnvironment {
    /// Returns the name of an environment that rocrepro made, or the absolute path of a user's folder.
    pub fn name(&self) -> String {
        match self {
            Self::Kept(kept) => kept.name.clone(),
            Self::Own(own) => own.folder().display().to_string(),
        }
    }

    /// Returns the folder with `bin/python`.
    pub fn venv(&self) -> PathBuf {
        match self {
            Self::Kept(kept) => kept.venv(),
            Self::Own(own) => own.folder().to_owned(),
        }
    }

    /// Returns the variables that a program in this environment gets in addition to PATH.
    pub fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        match self {
            Self::Kept(kept) => vec![("VIRTUAL_ENV", kept.venv())],
            Self::Own(own) => own.variables(),
        }
    }

    /// Returns the installed packages, one line for each, in the format of pip's requirements.
    ///
    /// # Errors
    /// Returns an error if the Python of a user's folder does not run.
    pub fn lock(&self) -> Result<String, EnvironmentError> {
        match self {
            Self::Kept(kept) => Ok(kept.lock()),
            Self::Own(own) => own.packages(),
        }
    }
}

/// Returns the normalised form of a package name (PEP 503).
pub fn normalize_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

fn read(folder: &Path) -> Option<PythonEnvironment> {
    let plain = |path: &Path| fs::symlink_metadata(path).ok();
    let mark = folder.join(MARK);
    if !plain(folder)?.is_dir() || !plain(&mark)?.is_file() {
        return None;
    }
    let mark = serde_json::from_slice(&fs::read(mark).ok()?).ok()?;
    let name = folder.file_name()?.to_str()?.to_owned();
    (!name.starts_with('.')).then(|| PythonEnvironment { name, folder: folder.to_owned(), mark })
}

fn write_mark(folder: &Path, mark: &EnvironmentMark) -> io::Result<()> {
    atomic::write(&folder.join(MARK), serde_json::to_string_pretty(mark)? + "\n")
}

fn locked_folder(folder: &Path) -> Result<File, Errno> {
    let open = File::open(folder);
    let file = open.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // The file system does not support locks.
        Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL) | Ok(()) => Ok(file),
        Err(error) => Err(error),
    }
}

fn fill(
    folder: &Path,
    python: &Path,
    packages: &[String],
    sources: &PackageSources,
) -> Result<(), EnvironmentError> {
    let cannot = |what: &'static str, error: &dyn std::error::Error| {
        EnvironmentError::failed(what, folder, error)
    };
    let mut mark = EnvironmentMark {
        made_by: format!("rocrepro {}", env!("CARGO_PKG_VERSION")),
        python: python.to_owned(),
        packages: packages.to_vec(),
        whole: false,
    };
    write_mark(folder, &mark).map_err(|e| cannot("mark", &e))?;
    let venv = folder.join("venv");
    run(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    let report = folder.join("report.json");
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    pip.args(sources.options());
    run(pip.arg("--report").arg(&report).arg("--").args(packages))?;
    let lock = fs::read(&report)
        .map_err(|e| cannot("lock", &e))
        .and_then(|text| lock_file(&text).map_err(EnvironmentError::Report))?;
    atomic::write(&folder.join(LOCK), lock).map_err(|e| cannot("lock", &e))?;
    mark.whole = true;
    write_mark(folder, &mark).map_err(|e| cannot("mark", &e))
}

/// Largest file that pip may write, in bytes. The largest wheel of PyTorch for ROCm has 5 GB.
const LARGEST_FILE: u64 = 16 << 30;

fn run(command: &mut Command) -> Result<(), EnvironmentError> {
    let shown = command.get_program().display().to_string();
    let most =
        |limit: Option<u64>| Some(limit.map_or(LARGEST_FILE, |limit| limit.min(LARGEST_FILE)));
    let before = getrlimit(Resource::Fsize);
    let bound = Rlimit { current: most(before.current), maximum: most(before.maximum) };
    // SAFETY: the closure makes one system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Fsize, bound)?)) };
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(EnvironmentError::ToolFailed(shown, status)),
        Err(error) => Err(EnvironmentError::ToolNotStarted(shown, error)),
    }
}

/// Converts pip's "Installation Report" to a lock file that lists each package with the hash of its file.
fn lock_file(report: &[u8]) -> Result<String, String> {
    let report: serde_json::Value = serde_json::from_slice(report).map_err(|e| e.to_string())?;
    let packages = report["install"].as_array().ok_or("it has no list of packages")?;
    let mut lines = Vec::new();
    for package in packages {
        let text = |pointer: &str| package.pointer(pointer).and_then(|value| value.as_str());
        let name = text("/metadata/name").ok_or("a package has no name")?;
        let from = match (package["is_direct"].as_bool(), text("/metadata/version")) {
            (Some(true), _) => {
                format!(" @ {}", text("/download_info/url").ok_or("a package has no URL")?)
            }
            (_, Some(version)) => format!("=={version}"),
            (_, None) => return Err(format!("{name} has no version")),
        };
        let hash = text("/download_info/archive_info/hashes/sha256");
        let hash = hash.ok_or_else(|| format!("{name} has no hash"))?;
        lines.push(format!("{name}{from} --hash=sha256:{hash}\n"));
    }
    lines.sort();
    Ok(lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_the_files_that_pip_writes() {
        let with_bound = |test: &str| run(Command::new("sh").args(["-c", test])).is_ok();
        assert!(with_bound("[ \"$(ulimit -f)\" != unlimited ]"));
        assert!(with_bound("[ \"$(ulimit -H -f)\" != unlimited ]"));
    }

    #[test]
    fn converts_pip_reports_to_locks() {
        let report = br#"{"version":"1","install":[
            {"download_info":{"url":"https://x/b.whl","archive_info":{"hashes":{"sha256":"bb"}}},"is_direct":false,"metadata":{"name":"b","version":"2.0"}},
            {"download_info":{"url":"file:///a.whl","archive_info":{"hashes":{"sha256":"aa"}}},"is_direct":true,"metadata":{"name":"a","version":"1"}}]}"#;
        let lock = "a @ file:///a.whl --hash=sha256:aa\nb==2.0 --hash=sha256:bb\n";
        assert_eq!(lock_file(report), Ok(lock.to_owned()));
        for (report, why) in [
            ("{}", "no list"),
            ("[", "EOF"),
            (
                r#"{"install":[{"metadata":{"name":"a","version":"1"},"is_direct":false}]}"#,
                "a has no hash",
            ),
        ] {
            let error = lock_file(report.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn removes_only_marked_environments() {
        let folder = tempfile::tempdir().unwrap();
        let all = Environments { folder: folder.path().to_owned() };
        let make = |name: &str, mark: bool| {
            let at = folder.path().join(name);
            fs::create_dir(&at).unwrap();
            fs::write(at.join("file"), "").unwrap();
            let made = EnvironmentMark {
                made_by: String::new(),
                python: "p".into(),
                packages: Vec::new(),
                whole: false,
            };
            if mark {
                write_mark(&at, &made).unwrap();
            }
            at
        };
        let (ours, other) = (make("ours", true), make("other", false));
        std::os::unix::fs::symlink(&ours, folder.path().join("link")).unwrap();
        for name in ["other", "link", "none", "../ours", ".ours", ""] {
            assert!(all.remove(name).is_err(), "{name}");
        }
        assert!(ours.join("file").exists() && other.join("file").exists());
        assert!(all.find_complete("ours").is_err(), "it is not whole");
        assert_eq!(all.all().len(), 1);
        all.remove("ours").unwrap();
        assert!(!ours.exists() && other.join("file").exists());
    }
}
