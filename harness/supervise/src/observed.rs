//! Limits of one child, and everything that was observed about it.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use crate::group::SETTLE_TIME;
use crate::{Line, Log, Process, Suspension};

/// Time limits of a child. `Duration::MAX` means no limit. Time in which the child was suspended does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time from the start to the end of the child.
    pub total: Duration,
    /// Maximum silence: the longest time from the start of the child to its first event line, or from one event line to
    /// the next. While the child computes, its processor time counts as silence, but at most the elapsed time. Time in
    /// which the child waits for a processor does not count.
    pub quiet: Duration,
    /// Prefix of the names of the threads whose work counts as progress, for example the threads of the emulated
    /// device. If `None`, all processor time counts as silence, as described for [`Limits::quiet`].
    ///
    /// The child is not silent while such a thread of the child or of a descendant computes, or while the child writes
    /// to standard error. While none of them computes, the processor time of the other threads counts as follows:
    ///
    /// * A quarter of their time in user mode counts as silence, because a program may compute for long without a line.
    /// * If their time in system calls is longer than their time in user mode, the time in system calls counts instead,
    ///   without a reduction. Such threads wait actively: they yield in a loop.
    pub progress: Option<String>,
    /// Time from SIGTERM until SIGKILL is sent to a child that does not end.
    pub grace: Duration,
    /// Time from SIGKILL until the supervisor gives up. A process in an uninterruptible wait of a driver ends only
    /// after that wait.
    pub reap: Duration,
    /// Time from the end of a child that exits by itself until its remaining descendants are killed.
    pub after: Duration,
    /// Command line of a process that calls [`unwind_copies`](crate::unwind_copies). When the child reaches a time
    /// limit, the process reads the call stacks of the child's threads before the child is killed. If the command line
    /// is empty, call stacks are not read.
    pub looker: Vec<OsString>,
}

impl Default for Limits {
    /// Returns the default limits: ten minutes in total, two minutes of silence, two seconds from SIGTERM to SIGKILL,
    /// ten seconds after SIGKILL, and 0.2 seconds from the end of the child until its descendants are killed. Call
    /// stacks are not read.
    fn default() -> Limits {
        Limits {
            total: Duration::from_secs(600),
            quiet: Duration::from_secs(120),
            progress: None,
            grace: Duration::from_secs(2),
            reap: Duration::from_secs(10),
            after: SETTLE_TIME,
            looker: Vec::new(),
        }
    }
}

/// Everything that was observed about one child.
#[derive(Debug)]
pub struct Observed {
    /// Process id of the child, by which the Linux kernel's log names it. `None` if the child was not started.
    pub pid: Option<u32>,
    /// End of the child.
    pub ended: ChildEnd,
    /// Event lines, in the order in which they were read.
    pub lines: Vec<Line>,
    /// Bytes after the newline of the last event line.
    pub torn: Vec<u8>,
    /// Standard error.
    pub stderr: Log,
    /// Call stack of each thread when a time limit was reached, one line each. If some call stacks could not be read,
    /// the first line gives the reason. Empty if no limit was reached, or without [`Limits::looker`].
    pub stacks: Vec<String>,
    /// Time from just before the start until the child was reaped and its pipes were empty. The clock is monotonic and
    /// stops while the machine is suspended.
    pub wall: Duration,
    /// Resource usage, or `None` if the child was not reaped.
    pub usage: Option<Usage>,
    /// Descendants of the child, in its process group or outside of it, that still existed after the end of the child
    /// and were sent SIGKILL. After [`ChildEnd::CouldNotBeKilled`], the child itself is in this list.
    pub left_behind: Vec<Process>,
}

/// End of a child.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChildEnd {
    /// The child exited with this status.
    Exited(i32),
    /// A signal that the supervisor did not send ended the child.
    Signalled {
        /// Number of the signal.
        signal: i32,
        /// True if the Linux kernel wrote a core dump.
        core: bool,
    },
    /// The supervisor ended the child with a signal to its process group.
    Stopped {
        /// Reason why the supervisor ended the child.
        reason: StopReason,
        /// True if the child did not end within [`Limits::grace`] after SIGTERM, so that SIGKILL was needed.
        forced: bool,
    },
    /// The child still existed [`Limits::reap`] after SIGKILL. It may end later. Until then it keeps its resources,
    /// possibly including the device.
    CouldNotBeKilled {
        /// Reason why the supervisor tried to end the child.
        reason: StopReason,
    },
    /// The child could not be started.
    SpawnFailed(io::Error),
    /// The child was started but could not be watched, and was killed. Possible causes: this process has no free file
    /// descriptors or threads, or this process ignores SIGCHLD, so that Linux keeps no exit status.
    Lost(io::Error),
}

/// Reason why the supervisor ended a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// [`Limits::total`] was reached.
    Total,
    /// [`Limits::quiet`] was reached.
    Quiet,
    /// The child or a member of its group was suspended when a limit was reached. Or the child was suspended, without a
    /// break, for as long as its shortest limit.
    Suspended(Suspension),
    /// A line was longer than [`MAX_LINE_BYTES`](crate::MAX_LINE_BYTES), or all lines together were larger than
    /// [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES).
    Flooded,
    /// The [`Cancel`](crate::Cancel) was requested. A child that had not been started at that time is never started.
    Cancelled,
}

/// Resource usage of a child, including the usage of its own children for which it has waited; see `wait4(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_cpu: Duration,
    /// Processor time in kernel mode, in system calls.
    pub system_cpu: Duration,
    /// Largest resident set in bytes. Linux starts with the resident set of this process at the start of the child
    /// (`exec_mmap` keeps the larger value), so a small child of a large parent looks large.
    pub max_rss_bytes: u64,
}
