//! Locks on files: they go with the process, however it dies.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// How often a lock that somebody else has is asked for.
const POLL: Duration = Duration::from_millis(20);

/// The largest build at 4 MB/s takes less: somebody who has a stack in work for longer does not work on it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

/// A lock file, open.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug)]
pub enum LockMode {
    /// With others that use the same build.
    Shared,
    /// Alone, to make or remove the build.
    Alone,
}

/// Why a lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A file or folder of this machine.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody has had it for longer than it is waited for.
    #[error(
        "{path} is held by {holder}, and waiting for it took too long; end that process, and try again"
    )]
    Late {
        /// The lock's file.
        path: PathBuf,
        /// A process, as the kernel names it.
        holder: String,
    },
    /// Somebody ended the waiting.
    #[error("the wait was called off")]
    CalledOff,
}

impl LockError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

impl FileLock {
    /// Opens the file of a lock, which is made with its folder where it is missing.
    ///
    /// # Errors
    /// [`LockError::Io`].
    pub fn open(path: PathBuf) -> Result<Self, LockError> {
        let parent = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(LockError::io("create", parent))?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(LockError::io("create", &path))?;
        Ok(Self { file, path })
    }

    /// The open file: whoever has it holds the lock too.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Takes the lock or changes how it is held; `false` where somebody else is in the way.
    ///
    /// # Errors
    /// [`LockError::Io`].
    pub fn try_hold(&self, hold: LockMode) -> Result<bool, LockError> {
        let operation = match hold {
            LockMode::Shared => FlockOperation::NonBlockingLockShared,
            LockMode::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        loop {
            return match flock(&self.file, operation) {
                Ok(()) => Ok(true),
                Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => Err(LockError::io("lock", &self.path)(errno.into())),
            };
        }
    }

    /// Takes the lock; `waiting` is called once if somebody has it, with who that is.
    ///
    /// # Errors
    /// [`LockError::Late`] after `longest`, [`LockError::CalledOff`] once `cancel` is true.
    pub fn hold(
        &self,
        hold: LockMode,
        longest: Duration,
        cancel: &AtomicBool,
        waiting: &dyn Fn(&str),
    ) -> Result<(), LockError> {
        let begun = Instant::now();
        let mut told = false;
        while !self.try_hold(hold)? {
            if cancel.load(Ordering::Relaxed) {
                return Err(LockError::CalledOff);
            }
            if begun.elapsed() >= longest {
                return Err(LockError::Late { path: self.path.clone(), holder: self.holder() });
            }
            if !told {
                waiting(&self.holder());
                told = true;
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Who has the lock, as the kernel's list of locks says.
    fn holder(&self) -> String {
        let inode = self.file.metadata().map(|meta| meta.ino()).unwrap_or_default();
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        holders(&locks, inode)
            .map(|pid| match fs::read_to_string(format!("/proc/{pid}/comm")) {
                _ if pid == std::process::id() => "this process".to_owned(),
                Ok(name) => format!("{} (process {pid})", name.trim()),
                Err(_) => format!("process {pid}"),
            })
            .next()
            .unwrap_or_else(|| "another process".to_owned())
    }
}

/// Processes with a lock of this file: `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. Those that wait have an arrow.
fn holders(locks: &str, inode: u64) -> impl Iterator<Item = u32> {
    locks.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { return None };
        (file.rsplit(':').next()?.parse() == Ok(inode)).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_and_tells_who_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (first, second) =
            (FileLock::open(path.clone()).unwrap(), FileLock::open(path).unwrap());
        assert!(first.try_hold(LockMode::Alone).unwrap());
        let told = std::cell::RefCell::new(String::new());
        let waiting = |holder: &str| told.borrow_mut().push_str(holder);
        let never = AtomicBool::new(false);
        let wait = Duration::from_millis(60);
        let error = second.hold(LockMode::Shared, wait, &never, &waiting).unwrap_err();
        assert_eq!(told.into_inner(), "this process");
        assert!(error.to_string().contains("held by this process"), "{error}");
        drop(first);
        second.hold(LockMode::Alone, wait, &never, &|_| ()).unwrap();
    }

    #[test]
    fn the_kernels_list_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  READ 12 fe:00:5 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:5 0 EOF\n3: FLOCK  ADVISORY  WRITE 14 fe:00:6 0 EOF\n";
        assert_eq!(holders(locks, 5).collect::<Vec<_>>(), [12]);
        assert_eq!(holders(locks, 7).count(), 0);
    }
}
