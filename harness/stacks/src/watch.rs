//! Runs work that can be cancelled by setting a flag, and limits the time for which clean-up continues afterwards.

use std::{
    ops::Deref,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Time for which clean-up may continue after a request to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Time limit of clean-up work, for example of removing a folder: one second after a request to stop.
#[derive(Debug)]
pub struct CleanupLimit<S> {
    stop: S,
    /// Time at which [`CleanupLimit::is_over`] first saw the request to stop.
    since: OnceLock<Instant>,
}

impl<S: Deref<Target = AtomicBool>> CleanupLimit<S> {
    /// Returns a time limit that begins to run when `stop` becomes true.
    pub fn new(stop: S) -> Self {
        Self { stop, since: OnceLock::new() }
    }

    /// Returns true if at least a second has passed since the first call that saw the request to stop.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) && self.since.get_or_init(Instant::now).elapsed() >= GRACE
    }
}

/// Interval at which [`watched`] checks the flag, and at which it calls `stopped` while the flag is true.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Guard that ends the watching thread when the work ends, even by a panic.
struct WatchGuard<'a>(&'a AtomicBool);

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Executes `work`. While `stop` is true, a second thread calls `stopped` repeatedly, until the work ends. If no thread
/// can be started, `stopped` is never called.
pub(crate) fn watched<T>(
    stop: &AtomicBool,
    stopped: impl Fn() + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let ended = AtomicBool::new(false);
    let watch = || {
        while !ended.load(Ordering::Relaxed) {
            if stop.load(Ordering::Relaxed) {
                stopped();
            }
            thread::sleep(CHECK_INTERVAL);
        }
    };
    thread::scope(|scope| {
        let _watches = thread::Builder::new().spawn_scoped(scope, watch);
        let _ends = WatchGuard(&ended);
        work()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn ends_the_watch_when_the_work_panics() {
        let panicked = catch_unwind(|| {
            watched(&AtomicBool::new(false), || (), || panic!("the work"));
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn cancels_the_work_when_the_flag_is_set() {
        let (stop, seen) = (AtomicBool::new(false), AtomicBool::new(false));
        watched(
            &stop,
            || seen.store(true, Ordering::Relaxed),
            || {
                stop.store(true, Ordering::Relaxed);
                while !seen.load(Ordering::Relaxed) {
                    thread::sleep(CHECK_INTERVAL);
                }
            },
        );
    }
}
