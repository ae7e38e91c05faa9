//! Work that somebody may have had enough of.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// How often the flag is looked at: what it ends, ends within a blink.
const LOOK: Duration = Duration::from_millis(20);

/// Ends the watch however the work ends, by a panic too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does some work, and calls `stopped` again and again from when `stop` is set until the work is over. Where no thread can be had,
/// the work ends when it ends.
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
            thread::sleep(LOOK);
        }
    };
    thread::scope(|scope| {
        let _watches = thread::Builder::new().spawn_scoped(scope, watch);
        let _ends = Ends(&ended);
        work()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn work_that_panics_is_watched_no_longer() {
        let panicked = catch_unwind(|| {
            watched(&AtomicBool::new(false), || (), || panic!("the work"));
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn work_is_told_that_somebody_has_had_enough() {
        let (stop, told) = (AtomicBool::new(false), AtomicBool::new(false));
        watched(
            &stop,
            || told.store(true, Ordering::Relaxed),
            || {
                stop.store(true, Ordering::Relaxed);
                while !told.load(Ordering::Relaxed) {
                    thread::sleep(LOOK);
                }
            },
        );
    }
}
