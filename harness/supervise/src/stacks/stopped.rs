//! A thread of another process, stopped for a moment.

use std::time::{Duration, Instant};

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// How long a thread may take to stop. One in an uninterruptible wait of a driver does not stop before that is over.
const PATIENCE: Duration = Duration::from_millis(200);

/// Where a thread is: its next instruction, its stack and its frame.
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) instruction: u64,
    pub(super) stack: u64,
    pub(super) frame: u64,
}

/// It goes on when this is dropped, and where this process ends.
pub(super) struct Stopped {
    tid: Pid,
}

impl Stopped {
    /// None where this process may not look (Yama, another user), or the thread does not stop.
    pub(super) fn stop(tid: i32) -> Option<Stopped> {
        let tid = Pid::from_raw(tid);
        ptrace::seize(tid, Options::empty()).ok()?;
        // From here on it must be let go.
        let stopped = Stopped { tid };
        ptrace::interrupt(tid).ok()?;
        let begun = Instant::now();
        // The end of a process is not waited for here: whoever started it does that.
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
