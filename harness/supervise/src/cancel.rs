//! Cancels all running children, from any thread or from a signal handler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Signals that ask this process to end.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Time after the first signal within which further signals belong to the same request. For example, `timeout(1)`
/// signals its child and then its own group, so the child receives two signals. An impatient user sends more.
pub const REPEATED_SIGNAL_TIME: Duration = Duration::from_secs(1);

/// A request to end all running children and to start no others. All clones share the request. It cannot be withdrawn.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requested: Arc<AtomicBool>,
    /// A file descriptor that becomes readable when the request is made. Nothing reads it, so it wakes every thread
    /// that polls it, at the time of the request or later.
    wake: OwnedFd,
    /// Number of the first signal that made the request, or 0.
    signal: AtomicI32,
}

impl Cancel {
    /// Returns a request that has not been made yet.
    ///
    /// # Errors
    /// Fails if the process or the system has no free file descriptors.
    pub fn new() -> io::Result<Cancel> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Cancel(Arc::new(Inner { requested: Arc::default(), wake, signal: AtomicI32::new(0) })))
    }

    /// Requests cancellation. Each [`run`](crate::run) ends its process group (SIGTERM, then SIGKILL) and returns, and
    /// [`for_each`](crate::for_each) starts no further job. A signal handler may call this function.
    pub fn cancel(&self) {
        if !self.0.requested.swap(true, Ordering::SeqCst) {
            // Writing fails only if the counter is full, and this is the only write.
            let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Returns true if the request has been made.
    pub fn is_cancelled(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// Returns the request as a flag that can be polled. The flag never becomes false again.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0.requested
    }

    /// Installs handlers so that the first SIGINT, SIGTERM or SIGHUP makes the request. A signal that arrives
    /// [`REPEATED_SIGNAL_TIME`] or more after the first ends this process at once with status 128 plus the signal's
    /// number, which closes the standard input of the children. The handlers stay installed until the process ends.
    ///
    /// Until `attended` is true, a signal has its default action. A program can therefore install the handlers before
    /// it starts threads, and set `attended` when it begins to poll the request. No signal is lost in between.
    ///
    /// # Errors
    /// Fails if a handler cannot be installed.
    pub fn on_signals(&self, attended: &Arc<AtomicBool>) -> io::Result<()> {
        let installed = Instant::now();
        let first = Arc::new(AtomicU64::new(u64::MAX));
        // A signal between the installation of the handler and that of its action would be lost.
        let _blocked = BlockedSignals::new();
        for signal in SIGNALS {
            let (cancel, first) = (self.clone(), Arc::clone(&first));
            let attended = Arc::clone(attended);
            let act = move || {
                if !attended.load(Ordering::SeqCst) {
                    // The default action ends the process.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                let now = installed.elapsed().as_millis() as u64;
                let before = first.fetch_min(now, Ordering::SeqCst);
                if now.saturating_sub(before) >= REPEATED_SIGNAL_TIME.as_millis() as u64 {
                    signal_hook::low_level::exit(128 + signal);
                }
                let _ =
                    cancel.0.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
                cancel.cancel();
            };
            // SAFETY: the action does nothing but atomic operations, clock_gettime(2), write(2),
            // _exit(2) and the default action, all of them async-signal-safe; it takes no lock,
            // allocates nothing and cannot panic: the monotonic clock never goes back, and `elapsed`
            // saturates.
            unsafe { signal_hook::low_level::register(signal, act) }?;
        }
        Ok(())
    }

    /// Returns the number of the first signal that made the request, or 0 if no signal made it.
    pub(crate) fn signal(&self) -> i32 {
        self.0.signal.load(Ordering::SeqCst)
    }

    /// Returns a descriptor that becomes readable when the request is made.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

/// Blocks the signals SIGINT, SIGTERM and SIGHUP in the calling thread, until this value is dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> BlockedSignals {
        // SAFETY: an all-zero `sigset_t` is a valid one. The calls fill in and read live locals only, and fail only for
        // numbers that are not signals.
        unsafe {
            let (mut set, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut set);
            SIGNALS.iter().for_each(|signal| _ = libc::sigaddset(&mut set, *signal));
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            BlockedSignals(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `pthread_sigmask` has filled in the set, and the null pointer means that the current set is not
        // returned.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
