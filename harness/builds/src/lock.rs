//! Locks on files: they go with the process, however it dies.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::Unusable;

/// How often a lock that somebody else has is asked for.
const POLL: Duration = Duration::from_millis(20);

/// A lock file, open.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

/// How a lock is held.
#[derive(Clone, Copy)]
pub(crate) enum Hold {
    /// With others that use the same build.
    Shared,
    /// Alone, to make or remove the build.
    Alone,
}

impl Lock {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Unusable> {
        let parent = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(Unusable::io("create", parent))?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(Unusable::io("create", &path))?;
        Ok(Self { file, path })
    }

    /// Takes the lock or changes how it is held; `false` where somebody else is in the way.
    pub(crate) fn try_hold(&self, hold: Hold) -> Result<bool, Unusable> {
        let operation = match hold {
            Hold::Shared => FlockOperation::NonBlockingLockShared,
            Hold::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        loop {
            return match flock(&self.file, operation) {
                Ok(()) => Ok(true),
                Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => Err(Unusable::io("lock", &self.path)(errno.into())),
            };
        }
    }

    /// Takes the lock, however long that takes; `waiting` is called once if somebody has it.
    pub(crate) fn hold(
        &self,
        hold: Hold,
        cancel: &AtomicBool,
        waiting: &dyn Fn(),
    ) -> Result<(), Unusable> {
        let mut told = false;
        while !self.try_hold(hold)? {
            if cancel.load(Ordering::Relaxed) {
                return Err(Unusable::Cancelled);
            }
            if !told {
                waiting();
                told = true;
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}
