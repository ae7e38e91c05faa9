//! Locks on files. The kernel releases them when the process ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::{Hint, PathError};

/// Interval between two attempts to take a lock.
const POLL: Duration = Duration::from_millis(20);

/// Longest wait for a lock. A download of the largest build at 4 MB/s takes less.
pub const LONGEST_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Open lock file.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

/// Mode of a lock.
#[derive(Clone, Copy, Debug)]
pub enum LockMode {
    /// Shared with other users of the same build.
    Shared,
    /// Exclusive, to make or remove the build.
    Alone,
}

/// A lock that could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file of the lock could not be used.
    #[error(transparent)]
    File(PathError),
    /// Another process had the lock for longer than the time limit.
    #[error("{path} is held by {holder}, and waiting for it took too long")]
    Late {
        /// The file of the lock.
        path: PathBuf,
        /// The process, as the kernel names it.
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
    /// Opens the file of a lock, and creates it and its folder if they are missing.
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

    /// Returns the open file, which holds the lock.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Takes the lock or changes its mode. Returns false if another holder prevents that.
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

    /// Takes the lock. `waiting` is called once if another process has it, with the name of that process.
    ///
    /// # Errors
    /// [`LockError::Late`] after `longest`, [`LockError::Cancelled`] once `cancel` is true.
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

    /// Returns the holder of the lock according to the kernel's list of locks.
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

/// Returns the processes that hold a lock of a file, from lines such as `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. Lines of
/// waiting processes have an arrow.
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
        assert!(error.to_string().contains("held by this process"), "{error}");
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
        assert!(LONGEST_WAIT > Duration::from_secs(seconds_of_11_gb_at_4_mb_per_second));
    }
}
