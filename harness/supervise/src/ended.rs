//! Opens a descriptor that becomes ready when a child has ended.

use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

/// Opens a descriptor that becomes ready when a child of this process has ended. If the kernel lacks `pidfd_open`
/// (before Linux 5.3), or a container forbids it, a thread waits for the child. The child still has to be reaped.
///
/// # Errors
/// `ESRCH` if the child was reaped already; otherwise the kernel's error if it is out of descriptors or threads.
pub(crate) fn descriptor(child: Pid) -> io::Result<OwnedFd> {
    match pidfd_open(child, PidfdFlags::empty()) {
        Err(error) if is_unavailable(error) => by_thread(child),
        opened => Ok(opened?),
    }
}

/// Returns true if the error says that `pidfd_open` works for no process on this machine.
pub(crate) fn is_unavailable(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM | Errno::ACCESS)
}

fn by_thread(child: Pid) -> io::Result<OwnedFd> {
    let (ready, held) = pipe()?;
    let wait = move || {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(child), ended), Err(Errno::INTR)) {}
        drop(held);
    };
    thread::Builder::new().name("wait for a child".to_owned()).spawn(wait)?;
    Ok(ready.into())
}
