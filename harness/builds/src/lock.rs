//! Locks on files: they go with the process, however it dies.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

    /// Takes the lock; `waiting` is called once if somebody has it, with who that is.
    ///
    /// # Errors
    /// [`Unusable::Locked`] after `longest`.
    pub(crate) fn hold(
        &self,
        hold: Hold,
        longest: Duration,
        cancel: &AtomicBool,
        waiting: &dyn Fn(&str),
    ) -> Result<(), Unusable> {
        let begun = Instant::now();
        let mut told = false;
        while !self.try_hold(hold)? {
            if cancel.load(Ordering::Relaxed) {
                return Err(Unusable::Cancelled);
            }
            if begun.elapsed() >= longest {
                return Err(Unusable::Locked { path: self.path.clone(), holder: self.holder() });
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
        let (first, second) = (Lock::open(path.clone()).unwrap(), Lock::open(path).unwrap());
        assert!(first.try_hold(Hold::Alone).unwrap());
        let told = std::cell::RefCell::new(String::new());
        let waiting = |holder: &str| told.borrow_mut().push_str(holder);
        let never = AtomicBool::new(false);
        let wait = Duration::from_millis(60);
        let error = second.hold(Hold::Shared, wait, &never, &waiting).unwrap_err();
        assert_eq!(told.into_inner(), "this process");
        assert!(error.to_string().contains("held by this process"), "{error}");
        assert!(error.is_environment());
        drop(first);
        second.hold(Hold::Alone, wait, &never, &|_| ()).unwrap();
    }

    #[test]
    fn the_kernels_list_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  READ 12 fe:00:5 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:5 0 EOF\n3: FLOCK  ADVISORY  WRITE 14 fe:00:6 0 EOF\n";
        assert_eq!(holders(locks, 5).collect::<Vec<_>>(), [12]);
        assert_eq!(holders(locks, 7).count(), 0);
    }
}
