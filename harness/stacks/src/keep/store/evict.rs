//! Removes the least recently used builds and unfinished downloads, to make room on the disk.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use rustix::fs::FileType;

use super::{BuildStore, RECORD};
use crate::{
    Archive, BuildEvent, BuildProgress, LockMode,
    keep::{
        folder::{Entry, entries, remove_folder},
        partial,
    },
    watch::CleanupLimit,
};

impl BuildStore {
    /// Removes unfinished downloads and builds until the disk budget has room for `room` more bytes. Downloads of
    /// `archives` are kept. Without a disk budget, nothing is removed.
    pub(super) fn keep_to_budget(
        &self,
        room: u64,
        archives: &[Archive],
        stop: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) {
        if let Some(budget) = self.budget {
            self.evict(budget.saturating_sub(room), archives, stop, progress);
        }
    }

    /// Removes unfinished downloads and then builds, the least recently used first, until the rest has at most `limit`
    /// bytes or `stop` is true. Downloads of `archives`, and everything that a process has locked, are kept. Returns
    /// the number of removals.
    pub(super) fn evict(
        &self,
        limit: u64,
        archives: &[Archive],
        stop: &AtomicBool,
        progress: &BuildProgress<'_>,
    ) -> usize {
        let patience = CleanupLimit::new(stop);
        let blobs = self.blobs();
        let bytes = || blobs.bytes() + partial::bytes(&self.partial());
        let spared: Vec<&str> = archives.iter().map(|archive| archive.url.as_str()).collect();
        let mut evicted = 0;
        while bytes() > limit
            && let Some(url) = partial::evict(&self.partial(), &spared)
        {
            evicted += 1;
            progress(BuildEvent::Evicted { id: &format!("the partial download of {url}") });
        }
        let builds = entries(&self.prefixes()).into_iter().filter_map(|entry| {
            let name = entry.name.into_string().ok().filter(|name| !name.starts_with('.'))?;
            let is_record = |file: &Entry| file.name == RECORD;
            let record = entries(&entry.path).into_iter().find(is_record);
            let used = record.map_or(SystemTime::UNIX_EPOCH, |record| record.modified);
            (entry.kind == FileType::Directory).then_some((used, name))
        });
        let mut builds: Vec<(SystemTime, String)> = builds.collect();
        builds.sort();
        for (_, key) in builds {
            if stop.load(Ordering::Relaxed) || bytes() <= limit {
                break;
            }
            // Processes that use or pin the build hold a shared lock on it.
            let free = self.lock(&key).and_then(|lock| {
                let free = lock.try_hold(LockMode::Alone)?;
                Ok(free.then_some(lock))
            });
            let Ok(Some(_lock)) = free else { continue };
            let gone = self.prefixes().join(format!(".{key}.work"));
            if fs::rename(self.prefix(&key), &gone).is_ok()
                && remove_folder(&gone, &patience).is_ok()
            {
                blobs.sweep(&patience);
                evicted += 1;
                progress(BuildEvent::Evicted { id: &key });
            }
        }
        evicted
    }
}
