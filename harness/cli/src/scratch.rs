//! The folder for what trials leave behind, and whether there is space for it.

use std::{fs::File, path::Path, time::Duration};

use tempfile::TempDir;

use crate::Stop;

const PREFIX: &str = "rocrepro-";

/// Below this many free bytes a trial's failure is put down to the full disk: HIP's compiler writes some
/// hundred KiB for each kernel.
const LEAST: u64 = 4 << 20;

/// The folder of one run, in the system's place for temporary files.
pub(crate) struct Scratch {
    folder: TempDir,
    /// Says to other runs that this one lives; the kernel lets go of it however this process ends.
    _lock: File,
}

impl Scratch {
    /// A fresh folder for one trial.
    pub(crate) fn trial(&self) -> std::io::Result<TempDir> {
        tempfile::Builder::new().prefix("trial-").tempdir_in(self.folder.path())
    }

    /// Why a trial may have failed for want of space, where there is none left.
    pub(crate) fn full(&self) -> Option<String> {
        full(self.folder.path())
    }
}

/// Makes a fresh folder. What killed runs left is removed.
pub(crate) fn create() -> Result<Scratch, Stop> {
    let base = std::env::temp_dir();
    remove_abandoned(&base);
    let cannot = |e: std::io::Error| {
        Stop::no_verdict(format!(
            "error: cannot make a temporary folder in `{}`: {e}; TMPDIR names another place",
            base.display()
        ))
    };
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&base).map_err(cannot)?;
    let lock = File::open(folder.path()).map_err(cannot)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared)
        .map_err(|e| cannot(e.into()))?;
    match full(folder.path()) {
        Some(full) => Err(Stop::no_verdict(format!("error: {full}"))),
        None => Ok(Scratch { folder, _lock: lock }),
    }
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

/// Best effort, because a folder that stays does no harm but to space.
fn remove_abandoned(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Another run may be between making its folder and locking it.
        let old = entry
            .metadata()
            .ok()
            .filter(std::fs::Metadata::is_dir)
            .and_then(|data| data.modified().ok()?.elapsed().ok())
            .is_some_and(|age| age > Duration::from_secs(60));
        if named && old && is_abandoned(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    let Ok(folder) = File::open(folder) else { return false };
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}
