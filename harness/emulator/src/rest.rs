//! Shutdown of the process: work that was submitted completes before the runtime's static destructors run.
//!
//! A HIP runtime submits packets that it does not wait for (stream markers, and handlers that free memory), and its
//! static destructors destroy objects that those handlers use. Hardware completes them microseconds after the host's
//! last wait. Here, on a loaded machine, the host could reach its end earlier, and about one process in several hundred
//! crashed.

use std::{
    sync::{
        Once, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{events, part::Part as _, queue, signal};

/// Maximum total time for which the end of the process waits, because a kernel may never end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(1);

/// Number of pieces of work that were started and are not complete.
#[derive(Default)]
pub(crate) struct Begun(AtomicUsize);

/// Work that was started and whose signal is not yet lowered, as long as this value lives.
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

/// Registers the wait with `atexit`. Functions that were registered earlier, such as destructors of libraries loaded
/// earlier, run after it.
pub(crate) fn before_exit() {
    // The end of the process applies to all its devices.
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function takes no arguments and does not unwind; the C library removes it when this library is
        // unloaded.
        unsafe { libc::atexit(wait) };
    });
}

/// Deadline of the wait, set when the process begins to end.
static END: OnceLock<Instant> = OnceLock::new();

extern "C" fn wait() {
    END.get_or_init(|| Instant::now() + PATIENCE);
    events::notify();
    at_call();
}

/// Returns true if the process has begun to end.
pub(crate) fn process_ends() -> bool {
    END.get().is_some()
}

/// Called by HSA functions that submit or query work. While the process ends, waits until the work is complete, because
/// a runtime submits more work in its destructors. Otherwise does nothing.
pub(crate) fn at_call() {
    let Some(end) = END.get().filter(|_| !signal::in_handler()) else { return };
    // A handler may wait for a lock that the caller holds, so the wait is short.
    let end = (*end).min(Instant::now() + signal::SETTLE);
    while !rests() && Instant::now() < end {
        std::thread::sleep(LOOK);
    }
}

/// Returns true if no submitted work can call a handler any more.
fn rests() -> bool {
    // A packet counts as work before it leaves its queue, and a signal is lowered before its work ends. Therefore the
    // checks are in this order.
    !queue::any_ready() && Begun::here().0.load(Ordering::SeqCst) == 0 && signal::settled()
}
