//! Starts one process, watches it, kills it when it must end, reaps it, and keeps what was seen.
//!
//! Nothing here knows what the process does: its lines are bytes, and how it ended is reported
//! and never judged.
//!
//! # What the child has to do
//!
//! * Read one line from standard input: its orders. Standard input then stays open until the
//!   child has been reaped, however this process ends. A child that sees it close has lost its
//!   parent and must end its own process group (`kill(0, SIGKILL)`), so a parent killed with
//!   SIGKILL leaves nothing behind. `PR_SET_PDEATHSIG` would need `pre_exec`, which makes the
//!   standard library fork instead of using `posix_spawn`: 70 ms from a parent of 2 GiB.
//! * Write one event per line to standard output. A child that loads libraries duplicates that
//!   descriptor first and points descriptor 1 at standard error, so that nobody else's output
//!   mixes with events.
//! * Stay in the process group that it starts in, of which it is the leader; a terminal's Ctrl-C
//!   does not reach that group ([`Cancel::on_signals`] passes it on). What it starts may leave the
//!   group: this process adopts whoever outlives it, and ends them.
//!
//! Linux 5.3 or later is needed, for `pidfd_open`.

mod adopted;
mod calls;
mod cancel;
mod group;
mod journal;
mod lines;
mod log;
mod observed;
mod pipes;
mod pool;
mod resource;
mod run;
mod silence;
mod stacks;
mod start;
mod suspended;
mod view;

pub use adopted::RUN_VARIABLE;
pub use calls::{ForbiddenCall, try_system_calls};
pub use cancel::{Cancel, PATIENCE};
pub use group::Process;
pub use journal::{Durability, Journal, JournalError, Read, Unreadable, read};
pub use lines::{Line, MAX_EVENT_BYTES, MAX_LINE_BYTES};
pub use log::{LOG_HEAD_BYTES, LOG_TAIL_BYTES, Log};
pub use observed::{Ended, Limits, Observed, Reason, Usage};
pub use pool::{for_each, in_order};
pub use resource::{Limit, Resource};
pub use run::run;
pub use start::Start;
pub use suspended::Suspension;
pub use view::{Laid, Made, View};
