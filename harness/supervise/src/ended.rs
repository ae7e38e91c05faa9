//! Opens a file descriptor that becomes ready when a child has ended, so that the end of the child can be polled.

use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

/// Opens a file descriptor that becomes ready when a child of this process has ended. If `pidfd_open` is missing
/// (before Linux 5.3) or a container forbids it, a thread waits for the child. The child still has to be reaped.
///
/// # Errors
/// Fails with `ESRCH` if the child has already been reaped, and with the operating system's error if no descriptor or
/// thread is available.
pub(crate) fn end_descriptor(child: Pid) -> io::Result<OwnedFd> {
    match pidfd_open(child, PidfdFlags::empty()) {
        Err(error) if is_unavailable(error) => wait_in_thread(child),
        opened => Ok(opened?),
    }
}

/// Returns true if the error means that `pidfd_open` does not work for any process on this machine.
pub(crate) fn is_unavailable(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM | Errno::ACCESS)
}

/// Time to sleep after `waitid` reports that the child was stopped instead of ended. Another thread of this process
/// stops children to read their call stacks. Linux reports such stops to every thread that waits, whatever its options
/// are (`wait_task_stopped` in Linux's kernel/exit.c).
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns a file descriptor that a thread makes ready when the child has ended.
pub(crate) fn wait_in_thread(child: Pid) -> io::Result<OwnedFd> {
    let (ready, held) = pipe()?;
    let wait = move || {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(child), ended) {
                Err(Errno::INTR) => {}
                Ok(Some(status)) if status.stopped() || status.trapped() => {
                    thread::sleep(POLL_INTERVAL)
                }
                _ => break,
            }
        }
        drop(held);
    };
    thread::Builder::new().name("wait for a child".to_owned()).spawn(wait)?;
    Ok(ready.into())
}
