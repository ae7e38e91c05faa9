//! Virtual environments that the user made with venv, uv or conda, named by their folder. rocrepro only reads them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf, absolute},
    process::Command,
    time::Duration,
};

use parking_lot::Mutex;
use supervise::{Cancel, ChildEnd, Limits};

use super::EnvironmentError;
use crate::which;

/// Time limit for the Python of an environment to list its packages.
const LISTING: Duration = Duration::from_secs(60);

/// Python program that prints each installed package in pip's requirements format. The supervisor reads events from
/// standard output, so the lines are written to standard error.
const LIST: &str = "import sys, importlib.metadata as m; \
    sys.stderr.write(''.join(sorted({'%s==%s\\n' % (d.metadata['Name'], d.version) for d in m.distributions() \
    if d.metadata and d.metadata['Name']})))";

/// Package lists that were read earlier, by folder. Each trial needs the list of its environment, and reading one takes
/// 0.1 s.
static LISTED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// A virtual environment of the user.
pub struct OwnEnvironment {
    folder: PathBuf,
}

/// Returns true if the text names a folder. No environment that rocrepro keeps has such a name.
pub(super) fn is_path(given: &str) -> bool {
    given.contains('/') || given.starts_with('.')
}

impl OwnEnvironment {
    /// Returns the environment in a folder. Symbolic links are not resolved, because Python recognises a virtual
    /// environment by its unresolved path.
    pub(super) fn find(given: &str) -> Result<Self, EnvironmentError> {
        let given = Path::new(given);
        let folder = absolute(given)
            .map_err(|error| EnvironmentError::failed("find", given, &error))?
            .components()
            .collect::<PathBuf>();
        if !which::is_executable(&folder.join("bin/python")) {
            return Err(EnvironmentError::NotVirtual(given.to_owned()));
        }
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the variables that activate the environment, and the variable that keeps Python from writing into its
    /// folder.
    pub(super) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let is_conda = self.folder.join("conda-meta").is_dir();
        let name = if is_conda { "CONDA_PREFIX" } else { "VIRTUAL_ENV" };
        vec![(name, self.folder.clone()), ("PYTHONDONTWRITEBYTECODE", "1".into())]
    }

    /// Returns the packages that the environment's Python can import, each with its version.
    pub(super) fn packages(&self) -> Result<String, EnvironmentError> {
        if let Some(known) = LISTED.lock().get(&self.folder) {
            return Ok(known.clone());
        }
        let python = self.folder.join("bin/python");
        let cannot = |why: String| EnvironmentError::Packages(python.clone(), why);
        let mut command = Command::new(&python);
        // -I ignores the user's own packages and variables, -B writes no __pycache__ folders.
        command.args(["-I", "-B", "-c", LIST]);
        let limits = Limits { total: LISTING, quiet: LISTING, ..Limits::default() };
        let cancel = Cancel::new().map_err(|error| cannot(error.to_string()))?;
        let seen = supervise::run(command, b"", &limits, &cancel, &mut |_| {});
        let text = seen.stderr.to_text();
        match seen.ended {
            ChildEnd::Exited(0) => {
                LISTED.lock().insert(self.folder.clone(), text.clone());
                Ok(text)
            }
            ChildEnd::SpawnFailed(error) => Err(cannot(error.to_string())),
            ChildEnd::Exited(status) => {
                let last = text.lines().last().unwrap_or_default();
                Err(cannot(format!("it ended with exit status {status}: {last}")))
            }
            ChildEnd::Stopped { .. } => {
                Err(cannot(format!("it did not end within {} s", LISTING.as_secs())))
            }
            _ => Err(cannot("it was killed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn texts_with_slashes_or_dots_are_folders() {
        for path in [".", "..", ".venv", "./venv", "a/b", "/opt/venv", "venv/"] {
            assert!(is_path(path), "{path}");
        }
        for name in ["venv", "torch-2.6", "a.b"] {
            assert!(!is_path(name), "{name}");
        }
    }

    fn with_python(folder: &Path, script: &str) {
        fs::create_dir_all(folder.join("bin")).unwrap();
        let python = folder.join("bin/python");
        fs::write(&python, script).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn finds_only_folders_with_a_python() {
        let folder = tempfile::tempdir().unwrap();
        let find = |name: &str| OwnEnvironment::find(folder.path().join(name).to_str().unwrap());
        fs::create_dir_all(folder.path().join("dangling/bin")).unwrap();
        symlink("/nonexistent/python", folder.path().join("dangling/bin/python")).unwrap();
        for absent in ["none", "", "dangling"] {
            let refused = find(absent).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains("it has no program bin/python"), "{absent}: {refused}");
        }
        with_python(&folder.path().join("venv"), "#!/bin/sh\necho 'torch==2.6.0' >&2\n");
        let own = find("venv/.").unwrap();
        assert_eq!(own.folder(), folder.path().join("venv"));
        let (name, value) = own.variables()[0].clone();
        assert_eq!((name, &*value), ("VIRTUAL_ENV", own.folder()));
        assert_eq!(own.packages().unwrap(), "torch==2.6.0\n");
        fs::create_dir(folder.path().join("venv/conda-meta")).unwrap();
        assert_eq!(own.variables()[0].0, "CONDA_PREFIX");
    }

    #[test]
    fn reports_a_python_that_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        with_python(folder.path(), "#!/bin/sh\necho 'no libpython' >&2\nexit 3\n");
        let own = OwnEnvironment::find(folder.path().to_str().unwrap()).unwrap();
        let refused = own.packages().unwrap_err().to_string();
        assert!(refused.ends_with("it ended with exit status 3: no libpython"), "{refused}");
    }
}
