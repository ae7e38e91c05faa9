//! Sleeping and waking of all threads that wait for signals.
//!
//! A thread may wait for one signal (the host), for all of several signals (a barrier-and packet), for any of several
//! signals (a barrier-or packet), or for the condition of a handler. Therefore a thread cannot sleep on a single
//! signal. Signals change rarely, so every change wakes all sleeping threads.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::{
    locks::{Condvar, Mutex},
    part::DeviceComponent as _,
};

/// Number of signal changes so far, and the condition variable that threads use to wait for the next change.
#[derive(Default)]
pub(crate) struct Events {
    epoch: Mutex<u64>,
    changed: Condvar,
    /// Number of [`SilentWriter`]s that exist.
    silent_writers: AtomicUsize,
}

/// Interval at which waiting threads poll while a [`SilentWriter`] exists.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

impl Events {
    fn notify(&self) {
        *self.epoch.lock() += 1;
        self.changed.notify_all();
    }
}

/// Wakes all threads that wait for signals, after a signal has changed.
pub(crate) fn notify() {
    Events::current().notify();
}

/// A writer that may change signals without a call to this library: a running kernel, which can write to any signal, or
/// a host program that has the address of a signal's value. The value exists as long as the writer.
pub(crate) struct SilentWriter(&'static Events);

impl SilentWriter {
    pub(crate) fn new() -> SilentWriter {
        let events = Events::current();
        events.silent_writers.fetch_add(1, Ordering::SeqCst);
        events.notify();
        SilentWriter(events)
    }
}

impl Drop for SilentWriter {
    fn drop(&mut self) {
        self.0.silent_writers.fetch_sub(1, Ordering::SeqCst);
        self.0.notify();
    }
}

/// Sleeps until `poll` returns a value, and returns this value; `None` if the deadline passes before. Each change of a
/// signal wakes the thread and calls `poll` again.
pub(crate) fn wait_until<T>(
    deadline: Option<Instant>,
    mut poll: impl FnMut() -> Option<T>,
) -> Option<T> {
    let events = Events::current();
    loop {
        let before = *events.epoch.lock();
        if let Some(answer) = poll() {
            return Some(answer);
        }
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return None;
        }
        let silent = events.silent_writers.load(Ordering::SeqCst) > 0;
        let limit = match (left, silent) {
            (Some(left), true) => Some(left.min(POLL_INTERVAL)),
            (None, true) => Some(POLL_INTERVAL),
            (left, false) => left,
        };
        let guard = events.epoch.lock();
        if *guard != before {
            continue;
        }
        match limit {
            Some(limit) => drop(events.changed.wait_timeout(guard, limit)),
            None => drop(events.changed.wait(guard)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn change_wakes_sleeper_without_deadline() {
        static SET: AtomicBool = AtomicBool::new(false);
        let sleeper =
            std::thread::spawn(|| wait_until(None, || SET.load(Ordering::SeqCst).then_some(7)));
        SET.store(true, Ordering::SeqCst);
        notify();
        assert_eq!(sleeper.join().unwrap(), Some(7));
    }

    #[test]
    fn silent_changes_are_polled() {
        static SET: AtomicBool = AtomicBool::new(false);
        let writer = SilentWriter::new();
        let sleeper =
            std::thread::spawn(|| wait_until(None, || SET.load(Ordering::SeqCst).then_some(7)));
        SET.store(true, Ordering::SeqCst);
        assert_eq!(sleeper.join().unwrap(), Some(7));
        drop(writer);
    }

    #[test]
    fn expired_deadline_polls_once() {
        assert_eq!(wait_until(Some(Instant::now()), || Some(1)), Some(1));
        assert_eq!(wait_until(Some(Instant::now()), || None::<u8>), None);
    }
}
