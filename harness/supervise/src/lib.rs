//! Starts one process, watches it, kills it when it must end, reaps it, and returns what was observed.
//!
//! This crate does not interpret what the process does. Lines of output are bytes, and the end of the process is
//! reported without a judgement.
//!
//! # Requirements on the child
//!
//! * The child reads one line, the order that says what it has to do, from standard input. Standard input then stays
//!   open until the child has been reaped or this process has ended. If standard input closes, the child has lost its
//!   parent and must kill its own process group (`kill(0, SIGKILL)`). Thus even a parent that SIGKILL ends leaves no
//!   process behind. The alternative `PR_SET_PDEATHSIG` would need `pre_exec`, with which the standard library forks
//!   instead of using `posix_spawn`. A fork takes 70 ms in a parent of 2 GiB.
//! * The child writes one event per line to standard output. Before a child loads libraries, it must duplicate that
//!   descriptor and redirect descriptor 1 to standard error, so that the output of libraries does not mix with events.
//! * The child starts as the leader of a new process group and stays in it. The terminal does not send Ctrl-C to that
//!   group. [`Cancel::on_signals`] ends the group instead. Descendants may leave the group. Descendants that outlive
//!   the child become children of this process, which kills them.
//!
//! If `pidfd_open` is not available (before Linux 5.3, or in a container that forbids it), a thread waits for each
//! child instead.

mod adopted;
mod calls;
mod cancel;
mod ended;
mod group;
mod interrupt;
mod journal;
mod lines;
mod log;
mod observed;
mod pipes;
mod pool;
mod processor_time;
mod resource;
mod run;
mod silence;
mod stacks;
mod start;
mod suspended;
mod view;
mod work;

pub use adopted::RUN_VARIABLE;
pub use calls::{ForbiddenCall, try_system_calls};
pub use cancel::{Cancel, REPEATED_SIGNAL_TIME};
pub use group::Process;
pub use journal::{Durability, Journal, JournalContent, JournalError, UnreadableLine, read};
pub use lines::{Line, MAX_EVENT_BYTES, MAX_LINE_BYTES};
pub use log::{LOG_HEAD_BYTES, LOG_TAIL_BYTES, Log};
pub use observed::{ChildEnd, Limits, Observed, StopReason, Usage};
pub use pool::{for_each, in_order};
pub use resource::{Limit, Resource};
pub use run::run;
pub use stacks::{Call, CrashStacks, ThreadCalls, read_crash, unwind_copies};
pub use start::Start;
pub use suspended::Suspension;
pub use view::{Overlay, View, ViewEntry};
