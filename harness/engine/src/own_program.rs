//! The file of this program, which may be replaced during a run, for example by `cargo build`.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use sha2::{Digest as _, Sha256};

/// A program that is held open, so that all processes started from it are one build.
#[derive(Debug)]
pub struct OwnProgram {
    /// Open file behind [`held`](Self::held).
    _file: File,
    path: PathBuf,
    held: PathBuf,
    build: Build,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Build {
    /// The GNU build id, which the running process can read.
    Id(String),
    /// A digest of a file that has no build id.
    Digest(String),
}

impl OwnProgram {
    /// Opens the program at a path, or this process's own.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<OwnProgram> {
        let (path, file) = match path {
            Some(path) => (path.clone(), File::open(path)?),
            // This link leads to the running file.
            None => (std::env::current_exe()?, File::open("/proc/self/exe")?),
        };
        let held = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        let build = build_of(&held)?;
        Ok(OwnProgram { _file: file, path, held, build })
    }

    /// Returns a path by which other processes find the program while this process lives.
    pub(crate) fn held(&self) -> &Path {
        &self.held
    }

    /// Returns the original path, for a launcher on another machine or in a container.
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

    /// Returns true if the path leads to another build now.
    pub(crate) fn is_replaced(&self) -> bool {
        build_of(&self.path).ok().as_ref() != Some(&self.build)
    }
}

/// Returns a path by which other processes find this process's own program.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn held() -> io::Result<&'static Path> {
    static OWN: OnceLock<OwnProgram> = OnceLock::new();
    if OWN.get().is_none() {
        let _ = OWN.set(OwnProgram::open(None)?);
    }
    OWN.get().map(OwnProgram::held).ok_or_else(|| io::Error::other("no program"))
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
        assert_eq!(fs::read(program.held()).unwrap(), b"old");
        assert!(program.is_replaced());
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read(program.held()).unwrap(), b"old");
        assert!(program.is_replaced());
        let own = OwnProgram::open(None).unwrap();
        assert!(!own.is_replaced() && own.build().len() >= 16);
        assert!(held().unwrap().exists());
    }
}
