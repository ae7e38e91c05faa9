//! Where a program is that somebody names as in a shell.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
};

use crate::Stop;

/// The file of a program that is named as in a shell. Links are left as they are: what a virtual environment's python is, it
/// knows by the name that it was started by.
pub fn file(name: &Path) -> Result<PathBuf, Stop> {
    match program(name, &search(None))? {
        ProgramLocation::Here(file) => Ok(file),
        ProgramLocation::Nowhere(absent) => Err(absent),
    }
}

/// Where a program is.
pub enum ProgramLocation {
    /// The file on this machine.
    Here(PathBuf),
    /// Not on this machine; a stack may have it. And what to say where it has not.
    Nowhere(Stop),
}

/// Where programs are looked for: in an environment, then as a shell does.
pub fn search(venv: Option<&Path>) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(venv) = venv else { return path };
    let mut first = venv.join("bin").into_os_string();
    first.push(":");
    first.push(path);
    first
}

/// Where a program is that is looked for along this path.
///
/// # Errors
/// What is there and cannot be run.
pub fn program(name: &Path, path: &OsStr) -> Result<ProgramLocation, Stop> {
    let named = env::split_paths(path).map(|folder| folder.join(name));
    let found = if is_bare(name) { named.into_iter().find(|file| runs(file)) } else { None };
    let file = found.unwrap_or_else(|| name.to_owned());
    let cannot = |error| Stop::usage(format!("error: cannot run `{}`: {error}", name.display()));
    match file.metadata() {
        Ok(it) if it.is_file() => absolute(file).map(ProgramLocation::Here).map_err(cannot),
        Ok(_) => Err(Stop::usage(format!("error: `{}` is not a file", name.display()))),
        Err(error) if is_bare(name) => Ok(ProgramLocation::Nowhere(cannot(error))),
        Err(error) => Err(cannot(error)),
    }
}

/// Whether it is a name that is looked up, and no path.
fn is_bare(name: &Path) -> bool {
    name.components().count() == 1 && !name.starts_with(".") && !name.starts_with("..")
}

/// Whether it is a file that can be run.
pub fn runs(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
