//! Cache of fetched Debian stacks, with locks for the processes that change it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::FileType;

use super::file_lock::{FileLock, LockMode, MAX_LOCK_WAIT};
use super::folder::{Entry, check_no_links, entries, remove_folder};
use crate::watch::CleanupLimit;
use crate::{FetchError, Manifest, NoCacheError, Release};

/// Directory of the cache. Its folder `stacks/` contains the stacks. Its folder `apt/` contains, for each stack, a
/// separate state of apt and the downloaded packages.
///
/// A stack is a symbolic link, for example `stacks/debian-7.2.4`, to a root directory such as `stacks/.debian-7.2.4.N`.
/// Therefore a single rename publishes or replaces the stack on any file system. Nothing is created before the first
/// fetch.
#[derive(Clone, Debug)]
pub struct StackCache {
    cache: PathBuf,
}

impl StackCache {
    /// Returns the user's cache: `$XDG_CACHE_HOME/rocrepro`, or `~/.cache/rocrepro`.
    ///
    /// # Errors
    /// [`NoCacheError`] if neither XDG_CACHE_HOME nor HOME is an absolute path. Relative paths are ignored, as the XDG
    /// Base Directory Specification demands.
    pub fn from_environment() -> Result<Self, NoCacheError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Ok(Self::at(base.ok_or(NoCacheError)?.join("rocrepro")))
    }

    /// Returns the cache in the given directory.
    pub fn at(cache: PathBuf) -> Self {
        Self { cache }
    }

    /// Returns the directory of the cache.
    pub fn path(&self) -> &Path {
        &self.cache
    }

    /// Returns the root folder of a fetched stack; `None` if the stack is not complete.
    pub(crate) fn root(&self, release: &Release) -> Option<PathBuf> {
        let root = fs::canonicalize(self.link(release)).ok()?;
        Manifest::read(&root).map(|_| root)
    }

    pub(crate) fn apt(&self, release: &Release) -> PathBuf {
        self.cache.join("apt").join(name(release))
    }

    fn stacks(&self) -> PathBuf {
        self.cache.join("stacks")
    }

    fn link(&self, release: &Release) -> PathBuf {
        self.stacks().join(name(release))
    }

    /// Locks a stack, so that this process may change it. `waiting` is called once, with the name of the process, if
    /// another process has the lock.
    ///
    /// Linux releases the lock when this process and all children that have inherited the open file have ended.
    pub(crate) fn lock(
        &self,
        release: &Release,
        stop: &AtomicBool,
        waiting: &dyn Fn(&str),
    ) -> Result<File, FetchError> {
        for folder in [self.stacks(), self.apt(release).join("archives")] {
            check_no_links(&self.cache, &folder)?;
        }
        let lock = FileLock::open(self.stacks().join(format!(".{}.lock", name(release))))?;
        lock.hold(LockMode::Alone, MAX_LOCK_WAIT, stop, waiting)?;
        Ok(lock.into_file())
    }

    /// Removes the root folders that killed fetches and replaced stacks have left behind. A fetch does not remove the
    /// root that it replaces, because programs may still be running in that root. Symbolic links are kept, because
    /// their targets belong to another user or program.
    ///
    /// # Errors
    /// [`FetchError::Cancelled`] if `stop` became true; otherwise the error for a folder that cannot be removed.
    pub(crate) fn clean(
        &self,
        release: &Release,
        _lock: &File,
        stop: &AtomicBool,
    ) -> Result<(), FetchError> {
        let patience = CleanupLimit::new(stop);
        let current = fs::canonicalize(self.link(release)).ok();
        for (_, root) in self.roots(release) {
            let path = root.path;
            if root.kind == FileType::Directory && fs::canonicalize(&path).ok() != current {
                remove_folder(&path, &patience).map_err(|error| match patience.is_over() {
                    true => FetchError::Cancelled,
                    false => FetchError::io("remove", &path)(error),
                })?;
            }
        }
        Ok(())
    }

    pub(crate) fn new_root(&self, release: &Release, _lock: &File) -> Result<PathBuf, FetchError> {
        let next = self.roots(release).iter().map(|(n, _)| n + 1).max().unwrap_or(1);
        let path = self.stacks().join(format!(".{}.{next}", name(release)));
        fs::create_dir(&path).map_err(FetchError::io("create", &path))?;
        fs::canonicalize(&path).map_err(FetchError::io("find", &path))
    }

    /// Makes a finished root folder the current root of the stack, by replacing the symbolic link of the stack.
    pub(crate) fn publish(
        &self,
        release: &Release,
        root: &Path,
        _lock: &File,
    ) -> Result<(), FetchError> {
        let temporary = self.stacks().join(format!(".{}.link", name(release)));
        let _ = fs::remove_file(&temporary);
        let target = Path::new(root.file_name().unwrap_or_default());
        symlink(target, &temporary).map_err(FetchError::io("create", &temporary))?;
        let link = self.link(release);
        fs::rename(&temporary, &link).map_err(FetchError::io("publish", &link))
    }

    fn roots(&self, release: &Release) -> Vec<(u32, Entry)> {
        let prefix = format!(".{}.", name(release));
        let number = |entry: &Entry| entry.name.to_str()?.strip_prefix(&prefix)?.parse().ok();
        let numbered = |entry: Entry| Some((number(&entry)?, entry));
        entries(&self.stacks()).into_iter().filter_map(numbered).collect()
    }
}

fn name(release: &Release) -> String {
    release.to_string().replace(':', "-")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    static NEVER: AtomicBool = AtomicBool::new(false);

    use super::*;
    use crate::{RELEASES, Version};

    fn store() -> (tempfile::TempDir, StackCache, &'static Release) {
        let directory = tempfile::tempdir().unwrap();
        let store = StackCache::at(directory.path().join("cache"));
        (directory, store, Release::latest())
    }

    fn manifest(release: &Release) -> Manifest {
        Manifest {
            spec: release.to_string(),
            rocm: Version::from_prefix(release.version).unwrap(),
            fetched: 1,
            mirror: "copy:/nowhere".into(),
            suites: vec![],
            with: vec![],
            architectures: vec![],
            packages: vec![],
        }
    }

    #[test]
    fn publishes_only_complete_roots() {
        let (_directory, store, release) = store();
        assert_eq!(store.root(release), None);
        assert!(!store.path().exists(), "a query must not create anything");

        let lock = store.lock(release, &NEVER, &|_| panic!("the lock is free")).unwrap();
        let root = store.new_root(release, &lock).unwrap();
        assert_eq!(store.root(release), None);
        store.publish(release, &root, &lock).unwrap();
        assert_eq!(store.root(release), None, "a root without a manifest is incomplete");
        manifest(release).write(&root).unwrap();
        assert_eq!(store.root(release), Some(root));
    }

    #[test]
    fn removes_the_roots_of_interrupted_fetches() {
        let (_directory, store, release) = store();
        let lock = store.lock(release, &NEVER, &|_| ()).unwrap();
        let dead = store.new_root(release, &lock).unwrap();
        fs::write(dead.join("half"), "x").unwrap();
        store.clean(release, &lock, &AtomicBool::new(false)).unwrap();
        assert!(!dead.exists());

        let first = store.new_root(release, &lock).unwrap();
        manifest(release).write(&first).unwrap();
        store.publish(release, &first, &lock).unwrap();
        let second = store.new_root(release, &lock).unwrap();
        manifest(release).write(&second).unwrap();
        // This is the state after a process was killed between creating the link and renaming it.
        symlink("nowhere", store.stacks().join(".debian-7.2.4.link")).unwrap();
        assert_eq!(store.root(release), Some(first.clone()));
        store.publish(release, &second, &lock).unwrap();
        assert_eq!(store.root(release), Some(second.clone()));
        assert!(first.exists(), "programs may still run in the old root");
        store.clean(release, &lock, &AtomicBool::new(false)).unwrap();
        assert!(!first.exists() && second.exists());
    }

    #[test]
    fn keeps_folders_that_links_lead_to() {
        let (directory, store, release) = store();
        let lock = store.lock(release, &NEVER, &|_| ()).unwrap();
        let theirs = directory.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("file"), "x").unwrap();
        symlink(&theirs, store.stacks().join(".debian-7.2.4.7")).unwrap();
        store.clean(release, &lock, &AtomicBool::new(false)).unwrap();
        assert!(theirs.join("file").exists());
        let next = store.new_root(release, &lock).unwrap();
        assert!(next.ends_with(".debian-7.2.4.8"), "{}", next.display());
    }

    #[test]
    fn refuses_folders_of_the_cache_that_are_links() {
        let (directory, store, release) = store();
        let theirs = directory.path().join("theirs");
        fs::create_dir_all(theirs.join(".debian-7.2.4.7")).unwrap();
        fs::create_dir_all(store.path()).unwrap();
        symlink(&theirs, store.stacks()).unwrap();
        let error = store.lock(release, &NEVER, &|_| ()).unwrap_err();
        assert!(matches!(error, FetchError::File(error) if error.path() == store.stacks()));
        fs::remove_file(store.stacks()).unwrap();
        fs::create_dir_all(store.apt(release)).unwrap();
        symlink(&theirs, store.apt(release).join("archives")).unwrap();
        assert!(store.lock(release, &NEVER, &|_| ()).is_err());
    }

    #[test]
    fn waits_for_another_fetch_of_the_same_stack() {
        let (_directory, store, release) = store();
        let lock = store.lock(release, &NEVER, &|_| ()).unwrap();
        let (sender, receiver) = mpsc::channel();
        let other = store.clone();
        let thread = std::thread::spawn(move || {
            let waiting = sender.clone();
            let _lock = other
                .lock(release, &NEVER, &|holder| waiting.send(holder.to_owned()).unwrap())
                .unwrap();
            sender.send("locked".to_owned()).unwrap();
        });
        let long = Duration::from_secs(60);
        assert_eq!(receiver.recv_timeout(long), Ok("this process".to_owned()));
        assert!(receiver.try_recv().is_err(), "the thread must wait while the lock is held");
        drop(lock);
        assert_eq!(receiver.recv_timeout(long), Ok("locked".to_owned()));
        thread.join().unwrap();
    }

    #[test]
    fn releases_do_not_share_a_lock() {
        let (_directory, store, release) = store();
        let _one = store.lock(release, &NEVER, &|_| panic!("free")).unwrap();
        let _other = store.lock(&RELEASES[0], &NEVER, &|_| panic!("free")).unwrap();
    }
}
