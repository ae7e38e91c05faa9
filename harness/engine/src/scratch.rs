//! The folder for what trials leave behind, and whether there is space for it.
//!
//! Runs have their folders in one that holds nothing else, below the system's place for temporary files. A folder of a run
//! has a [mark](mark::Mark) inside, and nothing that is in a folder without one is ever removed, whatever it is called and wherever
//! it stands.

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
};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use thiserror::Error;

pub(crate) use self::temporary::Temporary;
use self::{mark::Mark, remove_tree::remove_tree};

use crate::{FailedOperation, FailureClass};

/// The failure to make the folder of temporary files of a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum ScratchError {
    /// The folder cannot be created.
    #[error(
        "cannot make a temporary folder in `{}`: {error}; TMPDIR names another place",
        base.display()
    )]
    NotCreated {
        /// The place for temporary files.
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
}

/// Below this many free bytes a trial's failure is put down to the full disk: HIP's compiler writes some
/// hundred KiB for each kernel.
const LEAST: u64 = 4 << 20;

/// How the name of a run's folder begins.
const PREFIX: &str = "run-";

/// The folder of one run. It goes when this is dropped.
pub struct Scratch {
    folder: PathBuf,
    /// Says to other runs that this one lives, also to those that cannot see its process; the kernel lets go of it however
    /// this process ends.
    _lock: File,
}

impl Scratch {
    /// Makes a folder for one trial.
    ///
    /// # Errors
    /// What the file system refuses.
    pub fn trial(&self) -> io::Result<TrialFolder> {
        let folder = tempfile::Builder::new().prefix("trial-").tempdir_in(&self.folder)?;
        Ok(TrialFolder(folder.keep()))
    }

    /// The folder of the run.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Why a trial may have failed for want of space, where there is none left.
    pub(crate) fn full(&self) -> Option<String> {
        full(&self.folder)
    }
}

/// The folder of one trial. It is removed when this is dropped, however deep a process made it.
#[derive(Debug)]
pub struct TrialFolder(PathBuf);

impl TrialFolder {
    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TrialFolder {
    fn drop(&mut self) {
        // A later run tries again.
        let _ = remove_tree(&self.0);
    }
}

impl Drop for Scratch {
    /// Best effort, because a folder that stays does no harm but to space.
    fn drop(&mut self) {
        let _ = remove(&self.folder);
        if let Some(home) = self.folder.parent() {
            // Fails where other runs have folders in it.
            let _ = fs::remove_dir(home);
        }
    }
}

/// Makes a fresh folder. What killed runs left is removed.
pub(crate) fn create() -> Result<Scratch, ScratchError> {
    let base = std::env::temp_dir();
    let scratch =
        create_in(&base).map_err(|error| ScratchError::NotCreated { base: base.clone(), error })?;
    match scratch.full() {
        Some(full) => Err(ScratchError::Full(full)),
        None => Ok(scratch),
    }
}

fn create_in(base: &Path) -> io::Result<Scratch> {
    let home = std::path::absolute(base)?.join(home_name());
    // Another run may remove the empty home between any two of these steps.
    for _ in 0..20 {
        own_folder(&home)?;
        remove_abandoned(&home);
        match fresh(&home) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
    }
    Err(io::Error::other(format!("`{}` vanishes again and again", home.display())))
}

fn fresh(home: &Path) -> io::Result<Scratch> {
    // Until it has its mark it goes by itself, as nobody would ever know it for ours.
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(home)?;
    let lock = open_folder(folder.path())?;
    flock(&lock, FlockOperation::NonBlockingLockShared)?;
    Mark::own(&lock)?.write(folder.path())?;
    Ok(Scratch { folder: folder.keep(), _lock: lock })
}

/// The folder of all runs of one user.
fn home_name() -> String {
    format!("rocrepro-scratch-{}", rustix::process::getuid().as_raw())
}

/// Makes a folder that nobody else can write to, or finds that it is one.
fn own_folder(at: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(at) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other,
    }
    let found = match fs::symlink_metadata(at) {
        // Another run has removed it just now; making a folder in it will tell.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let ours = found.is_dir()
        && found.uid() == rustix::process::getuid().as_raw()
        && found.mode() & 0o022 == 0;
    if ours {
        return Ok(());
    }
    Err(io::Error::other(format!("`{}` is not a folder of this user alone", at.display())))
}

/// Opens a folder, and nothing that a symbolic link leads to.
fn open_folder(at: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(at, flags, Mode::empty())?))
}

fn full(folder: &Path) -> Option<String> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    (free < LEAST).then(|| {
        format!(
            "no space is left for temporary files in `{}` ({} KiB free); free some, or name another \
             place in TMPDIR",
            folder.parent().unwrap_or(folder).display(),
            free >> 10
        )
    })
}

/// Removes the folders of runs that have ended without doing so. Best effort, as in [`Scratch::drop`].
fn remove_abandoned(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let folder = entry.path();
        // The lock is held until the folder is gone, so that of two runs one removes it.
        if let Some(_lock) = abandoned(&folder) {
            let _ = remove(&folder);
        }
    }
}

/// The locked folder, where it has our mark and its owner is gone.
fn abandoned(folder: &Path) -> Option<File> {
    let opened = open_folder(folder).ok()?;
    let mark = Mark::read(&opened)?;
    if !mark.owner_is_gone() {
        return None;
    }
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(opened)
}

/// Removes a folder of ours, its mark last: if it cannot be removed whole, what stays is still marked.
fn remove(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == mark::FILE {
            continue;
        }
        // Neither follows symbolic links.
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
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
