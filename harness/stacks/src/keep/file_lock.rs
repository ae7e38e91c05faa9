//! Locks on files, which Linux releases when the process that holds them ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::{Hint, PathError};

const POLL: Duration = Duration::from_millis(20);

/// Maximum time to wait for a lock, two hours. At 4 MB/s, the download of the largest build takes less.
pub const MAX_LOCK_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

/// An open lock file.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

/// Mode of a file lock, which determines if other processes may hold the lock at the same time.
#[derive(Clone, Copy, Debug)]
pub enum LockMode {
    /// Shared lock: other processes may hold it too and use the same build.
    Shared,
    /// Exclusive lock: no other process may hold it. Needed to create or remove a build.
    Alone,
}

/// Error while locking a file.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file could not be opened or locked.
    #[error(transparent)]
    File(PathError),
    /// Another process held the lock for longer than the maximum time.
    #[error("{path} is locked by {holder}, and waiting for it took too long")]
    Late {
        /// The lock file.
        path: PathBuf,
        /// Name of the process that holds the lock.
        holder: String,
    },
    /// The caller cancelled the wait.
    #[error("the wait was cancelled")]
    Cancelled,
}

impl Hint for LockError {
    fn hint(&self) -> Option<String> {
        let late = matches!(self, Self::Late { .. });
        late.then(|| "end that process, and try again".into())
    }
}

impl LockError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File(PathError::new(action, path, source))
    }
}

impl FileLock {
    /// Opens a lock file. Creates the file and its folder if they are missing.
    ///
    /// # Errors
    /// [`LockError::File`].
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

    /// Returns the open file. The lock is held until the file is closed.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Tries to lock the file, or to change the mode of the lock. Returns false if another process's lock prevents
    /// this.
    ///
    /// # Errors
    /// [`LockError::File`].
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

    /// Locks the file, and waits if another process holds the lock. `waiting` is then called once with the name of that
    /// process.
    ///
    /// # Errors
    /// [`LockError::Late`] after the time `longest`, [`LockError::Cancelled`] when `cancel` is true.
    pub fn hold(
        &self,
        hold: LockMode,
        longest: Duration,
        cancel: &AtomicBool,
        waiting: &dyn Fn(&str),
    ) -> Result<(), LockError> {
        let begun = Instant::now();
        let mut reported = false;
        while !self.try_hold(hold)? {
            if cancel.load(Ordering::Relaxed) {
                return Err(LockError::Cancelled);
            }
            if begun.elapsed() >= longest {
                return Err(LockError::Late { path: self.path.clone(), holder: self.holder() });
            }
            if !reported {
                waiting(&self.holder());
                reported = true;
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns the name of the process that holds the lock, according to `/proc/locks`.
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

/// Returns the ids of the processes that hold a lock on the file with this inode. `locks` is the text of `/proc/locks`,
/// whose lines have the form `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. The lines of processes that wait for a
/// lock contain an arrow.
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
    fn reports_the_holder_after_the_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (first, second) =
            (FileLock::open(path.clone()).unwrap(), FileLock::open(path).unwrap());
        assert!(first.try_hold(LockMode::Alone).unwrap());
        let reported = std::cell::RefCell::new(String::new());
        let waiting = |holder: &str| reported.borrow_mut().push_str(holder);
        let never = AtomicBool::new(false);
        let wait = Duration::from_millis(60);
        let error = second.hold(LockMode::Shared, wait, &never, &waiting).unwrap_err();
        assert_eq!(reported.into_inner(), "this process");
        assert!(error.to_string().contains("is locked by this process"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("end that process, and try again"));
        assert_eq!(LockError::Cancelled.hint(), None);
        drop(first);
        second.hold(LockMode::Alone, wait, &never, &|_| ()).unwrap();
    }

    #[test]
    fn parses_the_kernels_list_of_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  READ 12 fe:00:5 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:5 0 EOF\n3: FLOCK  ADVISORY  WRITE 14 fe:00:6 0 EOF\n";
        assert_eq!(holders(locks, 5).collect::<Vec<_>>(), [12]);
        assert_eq!(holders(locks, 7).count(), 0);
    }

    #[test]
    fn waits_longer_than_the_largest_download_takes() {
        let seconds_of_11_gb_at_4_mb_per_second = 11_000 / 4;
        assert!(MAX_LOCK_WAIT > Duration::from_secs(seconds_of_11_gb_at_4_mb_per_second));
    }
}
