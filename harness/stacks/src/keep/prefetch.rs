//! Downloads the build that is likely to be needed next, while the current build is being tested.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::{Build, BuildStore};

/// A build that is being downloaded in the background. Dropping this value cancels the download.
///
/// The result is not reported. Calling [`BuildStore::obtain`] for the same build waits for the download, and then
/// returns the build. If the download failed, [`BuildStore::obtain`] makes an attempt of its own.
#[derive(Debug)]
pub struct Prefetch {
    id: String,
    cancel: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BuildStore {
    /// Begins to download a build in the background.
    pub fn prefetch(&self, build: &Build) -> Prefetch {
        let cancel = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("prefetch".into()).spawn({
            let (store, build, cancel) = (self.clone(), build.clone(), Arc::clone(&cancel));
            move || {
                store.ahead.lock().push(build.id.clone());
                drop(store.obtain_unless(&build, &cancel, &|_| ()));
                let mut ahead = store.ahead.lock();
                if let Some(at) = ahead.iter().position(|id| *id == build.id) {
                    ahead.swap_remove(at);
                }
            }
        });
        // If no thread can be started, the build is downloaded later, when it is needed.
        Prefetch { id: build.id.clone(), cancel, thread: thread.ok() }
    }
}

impl Prefetch {
    /// Returns the id of the build.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if the download has ended, successfully or not.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}
