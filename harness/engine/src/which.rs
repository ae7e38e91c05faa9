//! Finds programs by name, as a shell does.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
};

use crate::Stop;

/// Returns the file of a program. Links are not resolved, because a virtual environment's python identifies itself by
/// the name that it was started with.
pub fn file(name: &Path) -> Result<PathBuf, Stop> {
    match program(name, &search(None))? {
        ProgramLocation::Here(file) => Ok(file),
        ProgramLocation::Nowhere(absent) => Err(absent),
    }
}

/// The location of a program.
pub enum ProgramLocation {
    /// The file on this machine.
    Here(PathBuf),
    /// The program is not on this machine, but a stack may have it. The error is for the case that it does not.
    Nowhere(Stop),
}

/// Returns the search path: the virtual environment, then PATH.
pub fn search(venv: Option<&Path>) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(venv) = venv else { return path };
    let mut first = venv.join("bin").into_os_string();
    first.push(":");
    first.push(path);
    first
}

/// Finds a program along a search path.
///
/// # Errors
/// Returns an error for a file that cannot be run.
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

/// Returns true for a name that is searched, and false for a path.
fn is_bare(name: &Path) -> bool {
    name.components().count() == 1 && !name.starts_with(".") && !name.starts_with("..")
}

/// Returns true for an executable file.
pub fn runs(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
