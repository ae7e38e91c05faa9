//! The temporary folder of workers. All runs share it, because its path is part of the keys of comgr's cache.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::atomic::AtomicBool,
};

use rustix::fs::{FlockOperation, flock};
use stacks::CleanupLimit;

use super::remove_tree::remove_tree;

/// Prefixes of the names of comgr's temporary files.
const OF_COMGR: [&str; 2] = ["comgr-", "CompileSource-"];

/// A run's use of the shared temporary folder. The folder is not cleaned up while any run uses it.
pub struct Temporary {
    /// A shared lock on the folder; `None` if the cache folder is read-only.
    lock: Option<File>,
}

impl Temporary {
    /// Creates the temporary folder. If no other run uses it, removes the files that killed workers left there.
    pub(crate) fn open(code_cache: &Path, name: &str, stop: &AtomicBool) -> io::Result<Temporary> {
        let folder = code_cache.join(name);
        fs::create_dir_all(&folder)?;
        let file = code_cache.join(format!("{name}.lock"));
        let lock = File::options().write(true).create(true).truncate(false).open(file).ok();
        if let Some(lock) = &lock {
            // On a file system that does not support locks, the files remain.
            if flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // The target of a symbolic link belongs to another program.
                let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|at| at.is_dir());
                if is_own(code_cache) && is_own(&folder) {
                    remove_leftovers(&folder, &CleanupLimit::new(stop));
                }
            }
            let _ = flock(lock, FlockOperation::LockShared);
        }
        Ok(Temporary { lock })
    }

    /// Returns a file descriptor for the lock; `None` if the folder is not locked. With the descriptor, the lock is
    /// kept when this process executes another program.
    pub fn inheritable_lock(&self) -> Option<OwnedFd> {
        rustix::io::dup(self.lock.as_ref()?).ok()
    }
}

fn remove_leftovers(folder: &Path, patience: &CleanupLimit<&AtomicBool>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.take_while(|_| !patience.is_over()) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !OF_COMGR.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        // Neither call follows symbolic links.
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_tree(&entry.path(), patience),
            _ => fs::remove_file(entry.path()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_links_in_the_cache_lead_to() {
        let top = tempfile::tempdir().unwrap();
        let theirs = top.path().join("theirs");
        let file = theirs.join("tmp/CompileSource-1");
        fs::create_dir_all(theirs.join("tmp")).unwrap();
        fs::write(&file, "").unwrap();
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, top.path().join(name)).unwrap();
        };
        link(&theirs, "code");
        fs::create_dir(top.path().join("other")).unwrap();
        link(&theirs.join("tmp"), "other/tmp");
        for cache in ["code", "other"] {
            let cache = top.path().join(cache);
            drop(Temporary::open(&cache, "tmp", &AtomicBool::new(false)).unwrap());
            assert!(file.exists(), "{}", cache.display());
        }
        drop(Temporary::open(&theirs, "tmp", &AtomicBool::new(false)).unwrap());
        assert!(!file.exists());
    }

    #[test]
    fn last_user_removes_temporary_files() {
        let cache = tempfile::tempdir().unwrap();
        let tmp = cache.path().join("tmp");
        let leave = || {
            fs::create_dir_all(tmp.join("comgr-17-0-abc/input")).unwrap();
            fs::write(tmp.join("CompileSource-1.cli"), "").unwrap();
            fs::write(tmp.join("of-a-user"), "").unwrap();
            std::os::unix::fs::symlink(cache.path(), tmp.join("comgr-link")).unwrap();
        };
        let there = || fs::read_dir(&tmp).unwrap().count();
        let first = Temporary::open(cache.path(), "tmp", &AtomicBool::new(false)).unwrap();
        leave();
        let second = Temporary::open(cache.path(), "tmp", &AtomicBool::new(false)).unwrap();
        assert_eq!(there(), 4);
        drop(first);
        let third = Temporary::open(cache.path(), "tmp", &AtomicBool::new(false)).unwrap();
        assert_eq!(there(), 4);
        drop(second);
        let mut program = std::process::Command::new("cat");
        let kept = third.inheritable_lock().unwrap();
        let mut program = program.stdin(std::process::Stdio::piped()).spawn().unwrap();
        drop((third, kept));
        drop(Temporary::open(cache.path(), "tmp", &AtomicBool::new(false)).unwrap());
        assert_eq!(there(), 4, "a program uses it");
        drop(program.stdin.take());
        program.wait().unwrap();
        let _alone = Temporary::open(cache.path(), "tmp", &AtomicBool::new(false)).unwrap();
        assert_eq!(there(), 1);
        assert!(tmp.join("of-a-user").exists() && cache.path().join("tmp.lock").exists());
    }
}
