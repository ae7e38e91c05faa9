//! Keeps rocrepro's own executable file open, because the file may be replaced during a run, for example by `cargo
//! build`.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use sha2::{Digest as _, Sha256};

/// An executable file that is kept open, so that all processes started from it are the same build.
#[derive(Debug)]
pub struct OwnProgram {
    /// The open file that the path [`stable_path`](Self::stable_path) leads to.
    _file: File,
    path: PathBuf,
    stable_path: PathBuf,
    build: Build,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Build {
    /// The GNU build id, which a process can also read from its own memory.
    Id(String),
    /// A digest of the file, if it has no build id.
    Digest(String),
}

impl OwnProgram {
    /// Opens the program at a path, or without a path the executable of this process.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<OwnProgram> {
        let (path, file) = match path {
            Some(path) => (path.clone(), File::open(path)?),
            // This link leads to the executable that is running, even if another file has its name now.
            None => (std::env::current_exe()?, File::open("/proc/self/exe")?),
        };
        let held = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        let build = build_of(&held)?;
        Ok(OwnProgram { _file: file, path, stable_path: held, build })
    }

    /// Returns a path by which other processes find the program as long as this process lives.
    pub(crate) fn stable_path(&self) -> &Path {
        &self.stable_path
    }

    /// Returns the original path of the program, for a launcher that starts it on another machine or in a container.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn build(&self) -> &str {
        let (Build::Id(id) | Build::Digest(id)) = &self.build;
        id
    }

    pub(crate) fn build_id(&self) -> Option<&str> {
        match &self.build {
            Build::Id(id) => Some(id),
            Build::Digest(_) => None,
        }
    }

    /// Returns true if the original path now leads to another build.
    pub(crate) fn is_replaced(&self) -> bool {
        build_of(&self.path).ok().as_ref() != Some(&self.build)
    }
}

/// Returns a path by which other processes find the executable of this process.
///
/// # Errors
/// Returns an error if the executable cannot be read.
pub fn stable_path() -> io::Result<&'static Path> {
    static OWN: OnceLock<OwnProgram> = OnceLock::new();
    if OWN.get().is_none() {
        let _ = OWN.set(OwnProgram::open(None)?);
    }
    OWN.get()
        .map(OwnProgram::stable_path)
        .ok_or_else(|| io::Error::other("rocrepro cannot find its own program"))
}

fn build_of(path: &Path) -> io::Result<Build> {
    if let Some(id) = stacks::build_id(path) {
        return Ok(Build::Id(id));
    }
    let digest: String =
        Sha256::digest(fs::read(path)?).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Build::Digest(format!("sha256:{digest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_replaced_program_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "old").unwrap();
        let program = OwnProgram::open(Some(path.clone())).unwrap();
        assert!(program.build().starts_with("sha256:") && program.build_id().is_none());
        assert!(!program.is_replaced());
        fs::write(folder.path().join("new"), "new").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(fs::read(program.stable_path()).unwrap(), b"old");
        assert!(program.is_replaced());
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read(program.stable_path()).unwrap(), b"old");
        assert!(program.is_replaced());
        let own = OwnProgram::open(None).unwrap();
        assert!(!own.is_replaced() && own.build().len() >= 16);
        assert!(stable_path().unwrap().exists());
    }
}
