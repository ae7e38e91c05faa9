use std::{collections::BTreeMap, path::Path, time::Duration};

use device::Config;
use plan::{Event, Plan, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that was observed of one worker.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Events that the worker reported, in order.
    pub events: Vec<Event>,
    /// Lines on the event pipe that are not events, before the first event and after the last one: for example a
    /// launcher's greeting.
    pub noise: Vec<String>,
    /// Lines that are not events, after the first event: another process writes to the pipe.
    pub garbage: Vec<String>,
    /// End of the process.
    pub end: End,
    /// The part of standard error that was kept.
    pub stderr: String,
    /// Bytes of standard error that were dropped.
    pub stderr_dropped: u64,
    /// Stack of each thread when the time limit was reached, one line each. Empty if the limit was not reached, or the
    /// stacks could not be read.
    pub stacks: Vec<String>,
    /// Number of processes of the worker's group that still existed after its end.
    pub left_behind: u32,
    /// Time from the start until the process was reaped.
    pub wall: Duration,
}

/// End of a worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The process exited with this status.
    Exited(i32),
    /// A signal that the harness did not send ended the process.
    Signalled {
        /// Number of the signal.
        signal: i32,
    },
    /// The harness killed the process at a time limit.
    TimedOut {
        /// The limit that was reached.
        limit: Limit,
    },
    /// The process still existed after SIGKILL.
    CouldNotBeKilled,
    /// The process could not be started; the text says why.
    NotStarted(String),
    /// The harness stopped watching the process for a reason outside the trial: the run was cancelled, or the worker
    /// flooded its pipe.
    Lost(String),
}

/// Time limits of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Time from start to end.
    Total,
    /// Time from one event to the next.
    Quiet,
}

/// Evidence that this machine can run ROCm. Without it, a runtime that does not start may be the machine's fault and
/// not the stack's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Able {
    /// No evidence.
    Unknown,
    /// A worker of another stack has run on the same device.
    AnotherStack,
    /// A worker of this stack has run on the same device.
    ThisStack,
}

/// Requested configuration and right results of a trial.
#[derive(Clone)]
pub struct Context<'a> {
    /// Plan that was sent to the worker.
    pub plan: &'a Plan,
    /// Nonce that the worker must repeat.
    pub nonce: &'a str,
    /// Digest of the whole order, which the worker must repeat.
    pub order: &'a str,
    /// GNU build id that the worker's program must have; `None` if unknown.
    pub build: Option<&'a str>,
    /// GNU build id of the emulated device's library; `None` if it has none, or on a GPU.
    pub device_build: Option<&'a str>,
    /// Environment that the worker must find.
    pub environment: &'a BTreeMap<String, String>,
    /// True if a launcher started the worker. A launcher may add variables.
    pub launched: bool,
    /// Resource limits that the worker must find.
    pub limits: &'a BTreeMap<String, String>,
    /// True if delays are injected.
    pub late: bool,
    /// Digests of the right bytes of all checks, each with step and occurrence.
    pub wanted: &'a [(u32, u32, String)],
    /// Name of the stack as the user gives it, such as `debian:7.2.4`.
    pub spec: &'a str,
    /// Returns how a library, given by its name, can be added to the stack, as the end of a message.
    pub adding: &'a dyn Fn(&str) -> String,
    /// Evidence that this machine can run ROCm.
    pub able: Able,
    /// ROCm version of the stack; `None` if only the runtime can report it.
    pub rocm: Option<Version>,
    /// Architecture that device 0 must have, such as `gfx1151`. Features after a colon are compared only if they are
    /// given here.
    pub expect_gfx: Option<&'a str>,
    /// Requested configuration of the emulated device; `None` if device 0 is a GPU.
    pub emulated: Option<&'a Config>,
    /// Folder that libamdhip64 must come from, without symbolic links.
    pub stack_root: Option<&'a Path>,
    /// Reads a file of the spool folder, in which the worker keeps bytes that checks read.
    pub spool: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}
