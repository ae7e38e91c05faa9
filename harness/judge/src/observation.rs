use std::{collections::BTreeMap, path::Path, time::Duration};

use device::Config;
use plan::{Event, Plan, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that was seen of one worker.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What it reported, in order.
    pub events: Vec<Event>,
    /// Lines on its event pipe that are no events, before its first one and after its end: a launcher's greetings.
    pub noise: Vec<String>,
    /// Such lines after its first event: somebody else writes on its pipe.
    pub garbage: Vec<String>,
    /// How it ended.
    pub end: End,
    /// What was kept of its standard error.
    pub stderr: String,
    /// Bytes of standard error that were not kept.
    pub stderr_dropped: u64,
    /// Where its threads stood when its time was over, a line for each; empty where it was not, or nobody looked.
    pub stacks: Vec<String>,
    /// Processes of its group that were still there after its end.
    pub left_behind: u32,
    /// From its start until it was reaped.
    pub wall: Duration,
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// By itself, with this exit status.
    Exited(i32),
    /// By a signal that the harness did not send.
    Signalled {
        /// Its number.
        signal: i32,
    },
    /// By the harness, because it took too long.
    TimedOut {
        /// Which limit was over.
        limit: Limit,
    },
    /// Not at all: it was still there after SIGKILL.
    CouldNotBeKilled,
    /// It was never started.
    NotStarted(String),
    /// The harness stopped watching it for a reason that is not the trial's: the run was cancelled, or the
    /// worker flooded its pipe.
    Lost(String),
}

/// The limits on a worker's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// From its start to its end.
    Total,
    /// From one event to the next.
    Quiet,
}

/// Whether this machine is known to be able to run ROCm: only then is it the stack's doing if the runtime does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Able {
    /// Nothing is known.
    Unknown,
    /// Another stack has run a worker on the same device.
    AnotherStack,
    /// This stack has.
    ThisStack,
}

/// What the trial was meant to be.
#[derive(Clone)]
pub struct Context<'a> {
    /// What the worker was told to do.
    pub plan: &'a Plan,
    /// The nonce that it was given.
    pub nonce: &'a str,
    /// Digest of all that it was told.
    pub order: &'a str,
    /// The GNU build id that the worker's program must have; none where nothing is known of it.
    pub build: Option<&'a str>,
    /// The GNU build id of the emulated device's library; none where it has none, and on a GPU.
    pub device_build: Option<&'a str>,
    /// The environment that it was to find.
    pub environment: &'a BTreeMap<String, String>,
    /// Whether it was started through a launcher, which may add variables of its own.
    pub launched: bool,
    /// The limits of resources that it was to find.
    pub limits: &'a BTreeMap<String, String>,
    /// Whether work was to be late on purpose.
    pub late: bool,
    /// Right digests, by step and occurrence.
    pub wanted: &'a [(u32, u32, String)],
    /// How the user names the stack, such as `debian:7.2.4`.
    pub spec: &'a str,
    /// What gives the stack a library that it lacks, by the library's name, in words that end a message.
    pub adding: &'a dyn Fn(&str) -> String,
    /// What is known of this machine besides.
    pub able: Able,
    /// The stack's ROCm version; none where only the runtime can tell.
    pub rocm: Option<Version>,
    /// The architecture of device 0, such as `gfx1151`; features after a colon are compared only where they are given.
    pub expect_gfx: Option<&'a str>,
    /// What the emulated device was told to be; none where device 0 is a GPU.
    pub emulated: Option<&'a Config>,
    /// The folder, without symbolic links, that libamdhip64 must come from.
    pub stack_root: Option<&'a Path>,
    /// Reads a file of the spool folder.
    pub spool: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}
