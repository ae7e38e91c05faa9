use std::{collections::BTreeMap, path::Path, time::Duration};

use device::Config;
use plan::{Event, Plan, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that the harness observed about one worker process.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Events that the worker reported, in order.
    pub events: Vec<Event>,
    /// Lines on the event pipe that are not events and precede the first event or follow the last event, for example a
    /// launcher's greeting.
    pub noise: Vec<String>,
    /// Lines on the event pipe that are not events but lie between events. They show that another process writes to the
    /// pipe.
    pub garbage: Vec<String>,
    /// Way in which the process ended.
    pub end: End,
    /// Standard error of the worker, without the bytes that were dropped.
    pub stderr: String,
    /// Number of bytes of standard error that were dropped, because standard error was too long.
    pub stderr_dropped: u64,
    /// Call stacks of all threads at the moment when a time limit was reached or a program crashed, one line per
    /// thread. Empty in other cases, and if the call stacks could not be read.
    pub stacks: Vec<String>,
    /// Descendants of the worker that still existed a short time after the worker's end.
    pub left_behind: Vec<LeftProcess>,
    /// Time from the start of the process until it was reaped.
    pub wall: Duration,
}

/// A process that the worker or a program left running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftProcess {
    /// Name of the first thread of the process, at most 15 bytes; see `proc_pid_comm(5)`.
    pub name: String,
    /// Words of the command line of the process.
    pub command: Vec<String>,
}

/// Way in which a worker process ended.
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
    /// Limit of the time from the start of the worker to its end.
    Total,
    /// Limit of the time between two consecutive events.
    Quiet,
}

/// Evidence that this machine can run ROCm. If the HIP runtime does not start and this evidence is missing, the cause
/// may be the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RocmEvidence {
    /// No worker has run on the device yet.
    Unknown,
    /// A worker of another stack has run on the same device.
    AnotherStack,
    /// A worker of this stack has run on the same device.
    ThisStack,
}

/// Everything that a trial is judged against: its requested configuration and its expected results.
#[derive(Clone)]
pub struct Context<'a> {
    /// Plan that was sent to the worker.
    pub plan: &'a Plan,
    /// Nonce that the worker must repeat in its first event.
    pub nonce: &'a str,
    /// Digest of the [`Order`](plan::Order) that was sent to the worker. The worker must report the same digest.
    pub order: &'a str,
    /// GNU build id that the worker's program must have; `None` if it is unknown.
    pub build: Option<&'a str>,
    /// GNU build id of the emulated device's library; `None` on a GPU, or if the library has no build id.
    pub device_build: Option<&'a str>,
    /// GNU build id of the stack's libhsa-runtime64; `None` if it is unknown. If the emulated device replaces the
    /// thunk library ([`Level::Thunk`]), the worker must have used the library with this build id.
    ///
    /// [`Level::Thunk`]: device::Level::Thunk
    pub hsa_build: Option<&'a str>,
    /// Environment variables with which the worker must have run.
    pub environment: &'a BTreeMap<String, String>,
    /// True if a launcher started the worker. A launcher may add environment variables.
    pub launched: bool,
    /// Resource limits with which the worker must have run.
    pub limits: &'a BTreeMap<String, String>,
    /// True if the worker must inject delays.
    pub late: bool,
    /// Digests of the expected bytes of the checks, each with step id and occurrence.
    pub wanted: &'a [(u32, u32, String)],
    /// Name of the stack as given on the command line, for example `debian:7.2.4`.
    pub spec: &'a str,
    /// Function that returns an instruction for adding a library to the stack, as the end of a message. The argument is
    /// the name of the library.
    pub adding: &'a dyn Fn(&str) -> String,
    /// Evidence that this machine can run ROCm.
    pub evidence: RocmEvidence,
    /// ROCm version of the stack; `None` if only the runtime can report it.
    pub rocm: Option<Version>,
    /// Architecture that device 0 must have, for example `gfx1151`; `None` accepts any architecture. Features after a
    /// colon are compared only if this value contains features.
    pub expect_gfx: Option<&'a str>,
    /// Requested configuration of the emulated device; `None` if device 0 is a GPU.
    pub emulated: Option<&'a Config>,
    /// Folder that must contain libamdhip64, as a path without symbolic links. With `None`, libamdhip64 may be in any
    /// folder.
    pub stack_root: Option<&'a Path>,
    /// Function that reads a file of the spool folder, in which the worker stores bytes that checks have read.
    pub spool: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}
