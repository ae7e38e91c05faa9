//! Creates and removes the temporary folders of runs and trials, and checks that there is enough space.
//!
//! The folder of a run is below the system's temporary folder and contains a [marker file](mark::Mark). A folder
//! without the marker file is never removed.

mod mark;
mod remove_tree;
mod temporary;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use stacks::CleanupLimit;
use thiserror::Error;

pub(crate) use self::temporary::Temporary;
use self::{mark::Mark, remove_tree::remove_tree};

use crate::{FailedOperation, FailureClass};

#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum ScratchError {
    /// The folder cannot be created.
    #[error(
        "cannot create a temporary folder in `{}`: {error}",
        base.display()
    )]
    NotCreated {
        /// Path of the system's temporary folder.
        base: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file system has too little space.
    #[error("{0}")]
    Full(String),
}

impl FailedOperation for ScratchError {
    fn class(&self) -> FailureClass {
        FailureClass::NoVerdict
    }

    fn hint(&self) -> Option<String> {
        match self {
            ScratchError::NotCreated { .. } => Some("set TMPDIR to another folder".to_owned()),
            ScratchError::Full(_) => None,
        }
    }
}

/// Minimum of free space, in bytes, below which no folder is created. HIP's compiler writes some hundred KiB for each
/// GPU kernel.
const MIN_FREE_BYTES: u64 = 4 << 20;

const PREFIX: &str = "run-";

/// The temporary folder of one run, which is removed when this value is dropped.
pub struct Scratch {
    folder: PathBuf,
    /// Limits the time for removing folders after a request to stop. A later run removes what is left.
    patience: Arc<CleanupLimit<Arc<AtomicBool>>>,
    /// While this lock is held, other runs know that this run is alive. The Linux kernel releases it when the process
    /// ends.
    _lock: File,
}

impl Scratch {
    /// Creates a temporary folder for one trial.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn trial(&self) -> io::Result<TrialFolder> {
        let folder = tempfile::Builder::new().prefix("trial-").tempdir_in(&self.folder)?;
        Ok(TrialFolder { path: folder.keep(), patience: Arc::clone(&self.patience) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn full(&self) -> Option<String> {
        full(&self.folder)
    }
}

/// The temporary folder of one trial, which is removed when this value is dropped.
#[derive(Debug)]
pub struct TrialFolder {
    path: PathBuf,
    patience: Arc<CleanupLimit<Arc<AtomicBool>>>,
}

impl TrialFolder {
    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TrialFolder {
    fn drop(&mut self) {
        // If this fails, a later run tries again.
        let _ = remove_tree(&self.path, &self.patience);
    }
}

impl Drop for Scratch {
    /// Removes the folder if possible. A folder that remains only takes up space.
    fn drop(&mut self) {
        let _ = remove(&self.folder, &self.patience);
        if let Some(home) = self.folder.parent() {
            // This fails if other runs have folders in the parent folder.
            let _ = fs::remove_dir(home);
        }
    }
}

/// Creates the folder of a run, and removes the folders of runs that ended without removing theirs.
pub(crate) fn create(stop: &Arc<AtomicBool>) -> Result<Scratch, ScratchError> {
    let base = std::env::temp_dir();
    let scratch = create_in(&base, stop)
        .map_err(|error| ScratchError::NotCreated { base: base.clone(), error })?;
    match scratch.full() {
        Some(full) => Err(ScratchError::Full(full)),
        None => Ok(scratch),
    }
}

fn create_in(base: &Path, stop: &Arc<AtomicBool>) -> io::Result<Scratch> {
    let patience = Arc::new(CleanupLimit::new(Arc::clone(stop)));
    let home = std::path::absolute(base)?.join(home_name());
    // Another run may remove the parent folder whenever it is empty.
    for _ in 0..20 {
        own_folder(&home)?;
        remove_abandoned(&home, &patience);
        match create_fresh(&home, &patience) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
    }
    Err(io::Error::other(format!(
        "`{}` was deleted repeatedly while it was created",
        home.display()
    )))
}

fn create_fresh(home: &Path, patience: &Arc<CleanupLimit<Arc<AtomicBool>>>) -> io::Result<Scratch> {
    // Until it has a marker file, no later run would remove the folder, so it removes itself when dropped.
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(home)?;
    let lock = open_folder(folder.path())?;
    flock(&lock, FlockOperation::NonBlockingLockShared)?;
    Mark::current(&lock)?.write(folder.path())?;
    Ok(Scratch { folder: folder.keep(), patience: Arc::clone(patience), _lock: lock })
}

fn home_name() -> String {
    format!("rocrepro-scratch-{}", rustix::process::getuid().as_raw())
}

/// Creates a folder to which only this user can write. If the folder already exists, checks that only this user can
/// write to it.
fn own_folder(at: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(at) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let found = match fs::symlink_metadata(at) {
        // Another run has just removed the folder.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let ours = found.is_dir()
        && found.uid() == rustix::process::getuid().as_raw()
        && found.mode() & 0o022 == 0;
    if ours {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "`{}` is not a folder that only this user can access",
        at.display()
    )))
}

/// Opens a folder without following a symbolic link.
fn open_folder(at: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(at, flags, Mode::empty())?))
}

fn full(folder: &Path) -> Option<String> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    (free < MIN_FREE_BYTES).then(|| {
        format!(
            "no space left for temporary files in `{}` ({} KiB free); free some space or set TMPDIR",
            folder.parent().unwrap_or(folder).display(),
            free >> 10
        )
    })
}

fn remove_abandoned(home: &Path, patience: &CleanupLimit<Arc<AtomicBool>>) {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    for entry in entries.take_while(|_| !patience.is_over()) {
        let folder = entry.path();
        // The lock is kept until the folder is removed, so that only one run removes it.
        if let Some(_lock) = abandoned(&folder) {
            let _ = remove(&folder, patience);
        }
    }
}

fn abandoned(folder: &Path) -> Option<File> {
    let opened = open_folder(folder).ok()?;
    let mark = Mark::read(&opened)?;
    if !mark.owner_is_gone() {
        return None;
    }
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(opened)
}

/// Removes a folder with a marker file. The marker file is removed last. Stops early if the time limit `patience` is
/// over.
fn remove(folder: &Path, patience: &CleanupLimit<Arc<AtomicBool>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == mark::FILE {
            continue;
        }
        // Neither call follows symbolic links.
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path(), patience)?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_file(folder.join(mark::FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir(folder)
}
