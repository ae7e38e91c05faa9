//! The end of a process: what the device has begun comes to its end before the runtime above takes its objects away.
//!
//! A runtime hands over packets that it does not wait for (what it marks a stream with, and the handlers that free what was
//! used), and destroys in its static destructors what those handlers use. A device is done with them microseconds after
//! the host's last wait; here, on a busy machine, the host could be at its end before, and a process in some hundred
//! died of that.

use std::{
    sync::{
        Once, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{events, part::Part as _, queue, signal};

/// How long the end of a process waits at most, in all: a kernel may run for ever.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// How much work of the device was begun and is not done.
#[derive(Default)]
pub(crate) struct Begun(AtomicUsize);

/// Work that was begun and whose signal is not lowered yet, for as long as this lives.
pub(crate) struct Work(&'static Begun);

impl Work {
    pub(crate) fn begin() -> Work {
        let begun = Begun::here();
        begun.0.fetch_add(1, Ordering::SeqCst);
        Work(begun)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Has the end of the process wait for the device. What was registered before, as the destructors of a library that was
/// loaded before, comes after it.
pub(crate) fn before_exit() {
    // The end of the process is one for all its devices.
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function takes nothing and does not unwind; the C library forgets it when this library is unloaded.
        unsafe { libc::atexit(wait) };
    });
}

/// Until when the end of the process waits, once it has begun: it ends with all its devices.
static END: OnceLock<Instant> = OnceLock::new();

extern "C" fn wait() {
    END.get_or_init(|| Instant::now() + PATIENCE);
    events::notify();
    at_call();
}

/// Whether the end of the process has begun.
pub(crate) fn process_ends() -> bool {
    END.get().is_some()
}

/// While the process ends, a call that hands over work or looks at it comes back when the work is done: a runtime in its
/// destructors hands over some more. Elsewhere this does nothing.
pub(crate) fn at_call() {
    let Some(end) = END.get().filter(|_| !signal::in_handler()) else { return };
    // A handler may itself wait for a lock of the caller's.
    let end = (*end).min(Instant::now() + signal::SETTLE);
    while !rests() && Instant::now() < end {
        std::thread::sleep(LOOK);
    }
}

/// Whether nothing that was handed over can call a handler any more.
fn rests() -> bool {
    // A packet is work before it leaves its queue, and a signal is lowered before its work ends: hence this order.
    !queue::any_ready() && Begun::here().0.load(Ordering::SeqCst) == 0 && signal::settled()
}
