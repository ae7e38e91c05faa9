//! Stops a thread of another process for a moment, so that its registers and stack can be copied.

use std::time::{Duration, Instant};

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::copies::Registers;

/// Maximum time for a thread to stop. A thread in an uninterruptible wait of a driver stops only after that wait.
const PATIENCE: Duration = Duration::from_millis(200);

/// A stopped thread. It continues when this value is dropped, or when this process ends.
pub(super) struct Stopped {
    tid: Pid,
}

impl Stopped {
    /// Stops a thread. Returns `None` if this process may not trace the thread (Yama, another user), or if the thread
    /// does not stop.
    pub(super) fn stop(tid: i32) -> Option<Stopped> {
        let tid = Pid::from_raw(tid);
        ptrace::seize(tid, Options::empty()).ok()?;
        // From here on the thread must be released, which `Drop` does.
        let stopped = Stopped { tid };
        ptrace::interrupt(tid).ok()?;
        let begun = Instant::now();
        // The process is not reaped here, because the thread that started it does that.
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
        while waitid(Id::Pid(tid), flags).ok()? == WaitStatus::StillAlive {
            if begun.elapsed() >= PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(stopped)
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn registers(&self) -> Option<Registers> {
        let registers = ptrace::getregs(self.tid).ok()?;
        Some(Registers { instruction: registers.rip, stack: registers.rsp, frame: registers.rbp })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn registers(&self) -> Option<Registers> {
        None
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.tid, None);
    }
}
