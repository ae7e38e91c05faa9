//! What is asked of one child, and what was seen of it.

use std::io;
use std::time::Duration;

use crate::{Line, Log, Process, Suspension};

/// Time limits of a child. `Duration::MAX` means for ever. Time in which it was suspended does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From its start to its end.
    pub total: Duration,
    /// From its start to the first event line, and from one event line to the next. While the child computes its own
    /// processor time counts, at most as fast as the clock; while it waits for its turn, nothing does.
    pub quiet: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// From SIGKILL to giving up on it: a process in an uninterruptible wait of a driver does not
    /// end before that wait does.
    pub reap: Duration,
    /// Whether to look where its threads stand before it is told to end because its time is over.
    pub stacks: bool,
}

impl Default for Limits {
    /// Ten minutes in all, two of them in silence, two seconds of grace and ten to reap; no look at threads.
    fn default() -> Limits {
        Limits {
            total: Duration::from_secs(600),
            quiet: Duration::from_secs(120),
            grace: Duration::from_secs(2),
            reap: Duration::from_secs(10),
            stacks: false,
        }
    }
}

/// Everything that was seen of one child.
#[derive(Debug)]
pub struct Observed {
    /// Its process id, under which the kernel log speaks of it; `None` where it was not started.
    pub pid: Option<u32>,
    /// How it ended.
    pub ended: Ended,
    /// The event lines, in order.
    pub lines: Vec<Line>,
    /// What it wrote after the newline of the last event line.
    pub torn: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Log,
    /// Where its threads stood when its time was over, a line for each; empty where it was not, and without [`Limits::stacks`].
    pub stacks: Vec<String>,
    /// From before its start to when it had been reaped and its pipes were empty. Monotonic time,
    /// in which a suspended machine stands still.
    pub wall: Duration,
    /// What it used; `None` where it was not reaped.
    pub usage: Option<Usage>,
    /// Processes that it started, in its group or not, that were still there after it had ended and were sent SIGKILL. After
    /// [`Ended::CouldNotBeKilled`] the child itself is one of them.
    pub left_behind: Vec<Process>,
}

/// How a child ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It exited by itself, with this status.
    Exited(i32),
    /// A signal that was not ours ended it.
    Signalled {
        /// The signal's number.
        signal: i32,
        /// Whether the kernel wrote a core dump.
        core: bool,
    },
    /// It was told to end, by a signal to its group.
    Stopped {
        /// Why.
        reason: Reason,
        /// Whether SIGTERM and the grace were not enough and it took SIGKILL.
        forced: bool,
    },
    /// It was still there after SIGKILL and the wait of [`Limits::reap`]. It may end later; until
    /// then it holds what it holds, the device perhaps included.
    CouldNotBeKilled {
        /// Why it was to end.
        reason: Reason,
    },
    /// It was not started.
    SpawnFailed(io::Error),
    /// It was started and killed, because it could not be watched: the process is out of file
    /// descriptors, the kernel is older than 5.3, or SIGCHLD is ignored in this process, in which
    /// case the kernel keeps no exit status.
    Lost(io::Error),
}

/// Why a child was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// [`Limits::total`] was over.
    Total,
    /// [`Limits::quiet`] was over.
    Quiet,
    /// The child or one of its group was suspended, as long as its shortest limit without a break, or when a limit was over.
    Suspended(Suspension),
    /// A line was longer than [`MAX_LINE_BYTES`](crate::MAX_LINE_BYTES), or all of them larger
    /// than [`MAX_EVENT_BYTES`](crate::MAX_EVENT_BYTES).
    Flooded,
    /// The [`Cancel`](crate::Cancel) was requested. A child that had not been started by then never is.
    Cancelled,
}

/// What a child used, with its own children as far as it waited for them; see `wait4(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_cpu: Duration,
    /// Processor time in the kernel.
    pub system_cpu: Duration,
    /// The largest resident set, in bytes. The kernel counts in what this process had resident
    /// when it started the child (`exec_mmap` keeps the larger of both), so a small child of a
    /// large parent cannot be told from a large one.
    pub max_rss_bytes: u64,
}
