use std::collections::BTreeMap;

use device::{FaultActivations, FaultSpec};
use serde::{Deserialize, Serialize};

use crate::Phase;

/// An event that a worker reports: one line of JSON on its original standard output.
///
/// Events contain observations, never a judgement. Times are in nanoseconds of the monotonic clock since the
/// worker's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// First event of a worker, sent after the worker has read its [`Order`]. The nonce from the parent proves that the
    /// event comes from this worker and not from another program. The other fields contain the digest of the order and
    /// the actual configuration, so that the parent detects changes by a launcher.
    Hello {
        /// [`PLAN_VERSION`](crate::PLAN_VERSION) of the worker.
        version: u32,
        /// GNU build id of the worker's program, in hexadecimal; `None` if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        build: Option<String>,
        /// Nonce that the parent sent to the worker.
        nonce: String,
        /// Process id of the worker.
        pid: u32,
        /// [`digest`](crate::digest) of the [`Order`] that the worker received.
        #[serde(default)]
        order: String,
        /// Environment variables of the worker. Bytes that are not UTF-8 are replaced.
        #[serde(default)]
        environment: BTreeMap<String, String>,
        /// Resource limits of the worker, by name.
        #[serde(default)]
        limits: BTreeMap<String, String>,
    },
    /// The worker has restricted itself to the files in [`Order::confinement`]. Sent only if the order contains this
    /// field.
    Confined {
        /// True if the Linux kernel enforces all restrictions of the confinement.
        complete: bool,
        /// Device files that the worker may use.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<String>,
        /// Why some restrictions are not enforced; empty if all of them are.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// A phase of the worker begins.
    Phase {
        /// The phase that begins.
        phase: Phase,
    },
    /// A library or function that the plan needs is missing. The worker ends.
    Missing {
        /// Name of the library, for example `libhiprand`, or of the function.
        what: String,
        /// Error message of the loader.
        why: String,
        /// True if the library exists but the loader fails to load it.
        #[serde(default)]
        there: bool,
    },
    /// The worker cannot execute its [`Order`], for a reason that concerns neither the stack nor the device. The worker
    /// ends.
    Broken {
        /// Why the order cannot be executed.
        why: String,
    },
    /// The case contains a mistake that can be found only in the compiled code of a kernel. The worker ends.
    Mistaken {
        /// Id of the step that cannot be executed.
        step: u32,
        /// Messages about all mistakes that were found.
        why: Vec<String>,
    },
    /// Libraries mapped into the process. Sent after loading; sent again after initialisation and at the end if more
    /// libraries are mapped then.
    Loaded {
        /// ROCm libraries, sorted by path.
        libraries: Vec<LoadedLibrary>,
    },
    /// Properties of the runtime and of device 0.
    Device {
        /// Number that hipRuntimeGetVersion returned.
        hip_runtime: i32,
        /// Number of devices that the HIP runtime reports.
        count: i32,
        /// Name of device 0.
        name: String,
        /// Architecture of device 0 with its features, such as `gfx90a:sramecc+:xnack-`.
        gfx: String,
        /// Size of the device memory, in bytes.
        memory: u64,
        /// PCI address of device 0, for example `0000:03:00.0`; empty if the runtime does not report it.
        #[serde(default)]
        bdf: String,
        /// Device nodes of the Linux kernel's GPU drivers that the worker has mapped, for example `/dev/kfd`.
        #[serde(default)]
        nodes: Vec<String>,
        /// The first query that failed, if any. The worker makes no further queries after a failed one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedCall>,
        /// Identity of the emulated device; `None` on a GPU.
        emulated: Option<device::Identity>,
    },
    /// Free device memory, sampled before the body while the worker is idle. Sent only on a GPU, and only if the plan
    /// compares free memory. Samples that differ show that another process uses the GPU.
    FreeAtRest {
        /// Free device memory in bytes, in the order of sampling.
        bytes: Vec<u64>,
    },
    /// A step of the plan begins.
    Begin {
        /// Id of the step, see [`Step::id`](crate::Step::id).
        step: u32,
        /// Number of earlier executions of the step in this process.
        occurrence: u32,
    },
    /// A step has returned or failed.
    End {
        /// Id of the step.
        step: u32,
        /// Number of earlier executions of the step in this process.
        occurrence: u32,
        /// Status code of the call; 0 if the step has no status.
        code: i32,
        /// Name of the status, as the library spells it.
        status: String,
        /// Value that the call returned. For a compilation that failed, the log of the compiler.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// The function that returned the status, if it is not the function that [`api`](crate::api) returns for the
        /// call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        function: Option<String>,
        /// Address of the buffer that the step allocated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<u64>,
        /// Duration of the step, in nanoseconds.
        ns: u64,
    },
    /// A check has read the bytes of a buffer.
    Data {
        /// Id of the checking step.
        step: u32,
        /// Number of earlier executions of the step in this process.
        occurrence: u32,
        /// Name of the buffer.
        buffer: String,
        /// Number of bytes that the check has read.
        bytes: u64,
        /// [`digest`](crate::digest) of the bytes.
        digest: String,
        /// File in the spool folder that contains the bytes; `None` if the digest is the expected one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// A call failed although success was required. The worker skips the rest of the plan.
    Stopped {
        /// Id of the failed step.
        step: u32,
    },
    /// Number of times that each injected fault took effect. Sent once, before [`Done`](Event::Done) or after
    /// [`Stopped`](Event::Stopped).
    Acted {
        /// One entry per fault, for faults of the emulated device and for faults at calls.
        acts: Vec<FaultActivations>,
    },
    /// Number of injected delays. Sent once, before [`Done`](Event::Done), and only if [`Order::late`] requests delays.
    Delayed {
        /// Number of kernels that were launched to delay other work.
        times: u64,
    },
    /// All phases before the teardown have completed. Any later failure is a teardown failure.
    Done,
    /// The teardown has completed. The process ends after this event.
    Bye,
    /// The worker process has ended. If a launcher is used, the process that starts the worker for the launcher sends
    /// this event, because the launcher's own exit status may differ.
    Ended {
        /// Exit status, if the process exited.
        #[serde(default)]
        exited: Option<i32>,
        /// Signal that killed the process, if one did.
        #[serde(default)]
        signal: Option<i32>,
    },
}

/// Exit status of a worker that returned from its `main`. The value is unusual on purpose: if a destructor of a library
/// ends the process, for example by `_exit(0)`, the exit status differs.
pub const WORKER_DONE: i32 = 85;

/// Exit status of a worker whose event pipe was closed from inside the worker's process, for example by a library.
pub const PIPE_CLOSED: i32 = 86;

/// Exit status of a worker that has lost its parent: the parent's end of the worker's standard input or of the event
/// pipe is closed.
pub const WORKER_ORPHANED: i32 = 87;

/// A query of the runtime or of device 0 that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Name of the function that failed.
    pub api: String,
    /// Name of the status, as the library spells it.
    pub status: String,
}

/// A library file that is mapped into the worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoadedLibrary {
    /// File name, for example `libamdhip64.so.7`.
    pub name: String,
    /// Path of the file.
    pub path: String,
    /// GNU build id in hexadecimal; `None` if the file has none.
    pub build_id: Option<String>,
}

/// Files that a worker may use while it executes an untrusted case. Paths that do not exist are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and folders that the worker may read.
    pub readable: Vec<String>,
    /// Folders in which the worker may also create, write, rename and remove files and folders.
    pub writable: Vec<String>,
    /// Device files, and folders of device files, that the worker may read, write and control. Empty on the emulated
    /// device.
    pub devices: Vec<String>,
}

/// Everything that a worker needs to execute one trial: one line of JSON that the parent writes to the worker's
/// standard input. The parent keeps that pipe open until it has reaped the worker. If the pipe closes earlier, the
/// worker kills its process group, so that no trial outlives its runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Nonce that the worker repeats in [`Event::Hello`].
    pub nonce: String,
    /// The plan to execute.
    pub plan: crate::Plan,
    /// Faults at calls that take effect only with some probability, each with probability and seed. A fault without an
    /// entry takes effect at every call at which it is injected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
    /// Delay injection; `None` for no delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<crate::DelayInjection>,
    /// Folder in which the worker saves the bytes of failed checks.
    pub spool: String,
    /// Folder of compiled kernels that all trials of a run share; `None` if each trial compiles its kernels.
    pub code_cache: Option<String>,
    /// Files to which the worker restricts itself before it loads any library, for an untrusted case; `None` means no
    /// restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<Confinement>,
    /// Expected digests of the checks, each with step id and occurrence. The worker saves the bytes of a check only if
    /// their digest differs.
    pub wanted: Vec<(u32, u32, String)>,
}
