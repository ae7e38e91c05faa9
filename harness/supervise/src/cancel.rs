//! Cancels all running children, from any thread or from a signal handler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Signals within one second of the first are one request: `timeout(1)` signals its child and then its own group, so
/// the child gets two, and an impatient user sends more.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// A request, shared by its clones, to kill running children and to start no further ones. It cannot be withdrawn.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requested: Arc<AtomicBool>,
    /// Written once and never read, so it wakes every thread that polls it now or later.
    wake: OwnedFd,
}

impl Cancel {
    /// Returns a request that is not made yet.
    ///
    /// # Errors
    /// Fails if the process or the system is out of file descriptors.
    pub fn new() -> io::Result<Cancel> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Cancel(Arc::new(Inner { requested: Arc::default(), wake })))
    }

    /// Makes the request: each [`run`](crate::run) kills its process group and returns, and
    /// [`for_each`](crate::for_each) starts no further job. May be called in a signal handler.
    pub fn cancel(&self) {
        if !self.0.requested.swap(true, Ordering::SeqCst) {
            // The only possible error is a full counter, and this is the only write.
            let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Returns whether the request was made.
    pub fn is_cancelled(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// Returns the request as a flag that can be polled. Once true it stays true.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0.requested
    }

    /// Makes the first SIGINT, SIGTERM or SIGHUP cancel. A signal that comes [`PATIENCE`] or more later ends this
    /// process at once with status 128 plus the signal's number; the children then see their standard input close. The
    /// handlers stay installed until the process ends.
    ///
    /// # Errors
    /// Fails if a handler cannot be installed.
    pub fn on_signals(&self) -> io::Result<()> {
        let installed = Instant::now();
        let first = Arc::new(AtomicU64::new(u64::MAX));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let (cancel, first) = (self.clone(), Arc::clone(&first));
            let act = move || {
                let now = installed.elapsed().as_millis() as u64;
                let before = first.fetch_min(now, Ordering::SeqCst);
                if now.saturating_sub(before) >= PATIENCE.as_millis() as u64 {
                    signal_hook::low_level::exit(128 + signal);
                }
                cancel.cancel();
            };
            // SAFETY: the action does nothing but atomic operations, clock_gettime(2), write(2) and
            // _exit(2), all of them async-signal-safe; it takes no lock, allocates nothing and
            // cannot panic: the monotonic clock never goes back, and `elapsed` saturates.
            unsafe { signal_hook::low_level::register(signal, act) }?;
        }
        Ok(())
    }

    /// Returns a descriptor that is readable once the request was made.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
