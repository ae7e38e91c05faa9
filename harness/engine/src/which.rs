//! Finds programs by their names, as a shell does.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
};

use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// The reason why a program cannot be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The file of the program cannot be found or read.
    #[error("cannot run `{}`: {}", .0.display(), .1)]
    Failed(PathBuf, io::Error),
    /// The path is not a regular file.
    #[error("`{}` is not a file", .0.display())]
    NotFile(PathBuf),
}

impl FailedOperation for ProgramError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }
}

/// Returns the path of a program without resolving symbolic links, because the python of a virtual environment
/// recognises the environment by its unresolved path.
pub fn file(name: &Path) -> Result<PathBuf, ProgramError> {
    match program(name, &search(None))? {
        ProgramLocation::Here(file) => Ok(file),
        ProgramLocation::Nowhere(absent) => Err(absent),
    }
}

/// The location of a program.
pub enum ProgramLocation {
    /// Path of the file on this machine.
    Here(PathBuf),
    /// The program is not on this machine, but a stack may contain it. If the stack does not, this error is reported.
    Nowhere(ProgramError),
}

/// Returns the folders in which programs are searched: that of the virtual environment, then those of PATH.
pub fn search(venv: Option<&Path>) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(venv) = venv else { return path };
    let mut first = venv.join("bin").into_os_string();
    first.push(":");
    first.push(path);
    first
}

/// Finds a program in the folders of a search path.
///
/// # Errors
/// Returns an error if the file is not executable or cannot be read.
pub fn program(name: &Path, path: &OsStr) -> Result<ProgramLocation, ProgramError> {
    let named = env::split_paths(path).map(|folder| folder.join(name));
    let found = if is_bare(name) { named.into_iter().find(|file| runs(file)) } else { None };
    let file = found.unwrap_or_else(|| name.to_owned());
    let cannot = |error| ProgramError::Failed(name.to_owned(), error);
    match file.metadata() {
        Ok(it) if it.is_file() => absolute(file).map(ProgramLocation::Here).map_err(cannot),
        Ok(_) => Err(ProgramError::NotFile(name.to_owned())),
        Err(error) if is_bare(name) => Ok(ProgramLocation::Nowhere(cannot(error))),
        Err(error) => Err(cannot(error)),
    }
}

/// Returns true for a bare name, which is searched on PATH, and false for a path.
fn is_bare(name: &Path) -> bool {
    name.components().count() == 1 && !name.starts_with(".") && !name.starts_with("..")
}

/// Returns true if the file is executable.
pub fn runs(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
