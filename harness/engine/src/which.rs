//! Finds programs by their names, as a shell does.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
};

use case::Language;
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
    /// The file is neither executable nor a compiled program.
    #[error("`{}` is not a program that can be started", .0.display())]
    NotExecutable(PathBuf),
}

impl FailedOperation for ProgramError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        let ProgramError::NotExecutable(file) = self else { return None };
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        let name = file.display();
        Some(match Language::of_extension(ending) {
            Some(Language::Python) => format!("start it with `python3 {name}`"),
            Some(_) => {
                format!(
                    "it is source code: compile it, or make a case of it with `rocrepro case new {name}`"
                )
            }
            None => format!("make it executable with `chmod +x {name}`"),
        })
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
    let found =
        if is_bare(name) { named.into_iter().find(|file| is_executable(file)) } else { None };
    let file = found.unwrap_or_else(|| name.to_owned());
    let cannot = |error| ProgramError::Failed(name.to_owned(), error);
    match file.metadata() {
        Ok(it) if it.is_file() && !is_executable(&file) && !is_compiled(&file) => {
            Err(ProgramError::NotExecutable(name.to_owned()))
        }
        Ok(it) if it.is_file() => absolute(file).map(ProgramLocation::Here).map_err(cannot),
        Ok(_) => Err(ProgramError::NotFile(name.to_owned())),
        Err(error) if is_bare(name) => Ok(ProgramLocation::Nowhere(cannot(error))),
        Err(error) => Err(cannot(error)),
    }
}

/// Checks that a program is not a text that cannot be started, such as the source of a program. A file that is not on
/// this machine passes, because a stack or an environment may contain it.
///
/// # Errors
/// [`ProgramError::NotExecutable`].
pub fn refuse_text(name: &Path) -> Result<(), ProgramError> {
    match program(name, &search(None)) {
        Err(error @ ProgramError::NotExecutable(_)) => Err(error),
        _ => Ok(()),
    }
}

/// Returns true for a bare name, which is searched on PATH, and false for a path.
fn is_bare(name: &Path) -> bool {
    name.components().count() == 1 && !name.starts_with(".") && !name.starts_with("..")
}

/// Returns true for an ELF file, which the loader of a stack can also start if it is not executable.
fn is_compiled(file: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"\x7fELF"
}

/// Returns true if the file is a program rather than a text: it is executable or compiled.
pub(crate) fn is_program(file: &Path) -> bool {
    file.is_file() && (is_executable(file) || is_compiled(file))
}

/// Returns true if the file is executable.
pub fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_cannot_be_started_has_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, content: &str, mode: u32, hint: Option<&str>| {
            let file = folder.path().join(name);
            std::fs::write(&file, content).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = program(&file, OsStr::new("")).err().and_then(|error| error.hint());
            let hint = hint.map(|hint| hint.replace("HERE", folder.path().to_str().unwrap()));
            assert_eq!(found, hint, "{name}");
        };
        let source =
            "it is source code: compile it, or make a case of it with `rocrepro case new HERE/";
        for name in ["a.hip", "a.cpp", "a.cu"] {
            check(name, "int main() {}", 0o644, Some(&format!("{source}{name}`")));
        }
        check("a.py", "print(1)", 0o644, Some("start it with `python3 HERE/a.py`"));
        check("a.sh", "true", 0o644, Some("make it executable with `chmod +x HERE/a.sh`"));
        check("b.py", "#!/usr/bin/python3", 0o755, None);
        check("compiled", "\x7fELF", 0o644, None);
    }
}
