//! Fetching the likelier next build while the current one runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::{Build, BuildStore};

/// A fetch ahead of need. Dropping it calls the fetch off.
///
/// What it finds out is not told: [`BuildStore::obtain`] of the same build waits for it and then finds the build, or the
/// trouble, itself.
#[derive(Debug)]
pub struct Prefetch {
    id: String,
    cancel: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BuildStore {
    /// Begins to fetch a build in the background.
    pub fn prefetch(&self, build: &Build) -> Prefetch {
        let cancel = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("prefetch".into()).spawn({
            let (store, build, cancel) = (self.clone(), build.clone(), Arc::clone(&cancel));
            move || drop(store.obtain_unless(&build, &cancel, &|_| ()))
        });
        // Without a thread there is no prefetch, and nothing else is different.
        Prefetch { id: build.id.clone(), cancel, thread: thread.ok() }
    }
}

impl Prefetch {
    /// The id of the build.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}
