//! Delays the end of the process, so that submitted work completes before the static destructors of the HIP runtime
//! run.
//!
//! A HIP runtime submits packets for which it does not wait, for example stream markers, and has handlers that free
//! memory. Its static destructors destroy objects that these handlers use. A GPU completes such packets microseconds
//! after the last wait of the host, but an emulated device on a loaded machine is slower. Without this module, the host
//! program could end first, and about one process in several hundred crashed.

use std::{
    sync::{
        Once, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{events, part::DeviceComponent as _, queue, signal};

/// Maximum total time for which the end of the process is delayed. It is limited because a kernel may never end.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Interval at which the delayed process checks whether submitted work is complete.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Number of packets and copies that have been started and are not complete.
#[derive(Default)]
pub(crate) struct ActiveCount(AtomicUsize);

/// Guard for a packet or copy that has started and has not decremented its signal yet.
pub(crate) struct Work(&'static ActiveCount);

impl Work {
    pub(crate) fn begin() -> Work {
        let begun = ActiveCount::current();
        begun.0.fetch_add(1, Ordering::SeqCst);
        Work(begun)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Registers this module's wait with `atexit`. Functions that were registered earlier, for example destructors of
/// libraries that were loaded earlier, run after the wait.
pub(crate) fn before_exit() {
    // A process ends only once, even if it has several devices.
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function has no parameters and does not unwind. The C library removes it when this library is
        // unloaded.
        unsafe { libc::atexit(wait) };
    });
}

/// Deadline of the wait. Set when the process begins to end.
static END: OnceLock<Instant> = OnceLock::new();

extern "C" fn wait() {
    END.get_or_init(|| Instant::now() + MAX_WAIT);
    events::notify();
    at_call();
}

pub(crate) fn process_ends() -> bool {
    END.get().is_some()
}

/// If the process is ending, waits until submitted work is complete. HSA functions that submit or query work call this
/// function, because a runtime submits more work in its destructors.
pub(crate) fn at_call() {
    let Some(end) = END.get().filter(|_| !signal::in_handler()) else { return };
    // The caller may hold a lock for which a handler waits. Therefore this wait is short.
    let end = (*end).min(Instant::now() + signal::SETTLE);
    while !is_quiescent() && Instant::now() < end {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns true if no submitted work can cause a handler to be called any more.
fn is_quiescent() -> bool {
    // A packet is counted as work before it leaves its queue, and until its signal has been decremented. Therefore the
    // checks must be made in this order.
    !queue::any_ready() && ActiveCount::current().0.load(Ordering::SeqCst) == 0 && signal::settled()
}
