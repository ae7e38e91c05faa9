use std::collections::BTreeMap;

use device::{Acts, Planted};
use serde::{Deserialize, Serialize};

use crate::Phase;

/// An event that a worker reports: one line of JSON on its original standard output.
///
/// Events contain observations, never a judgement. Times are in nanoseconds of the monotonic clock since the
/// worker's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first event: the worker has read its plan. The nonce of the parent proves that the event comes from this
    /// worker and not from another program. The other fields repeat the order and the actual configuration, so that the
    /// parent detects changes by a launcher.
    Hello {
        /// [`PLAN_VERSION`](crate::PLAN_VERSION) of the worker.
        version: u32,
        /// GNU build id of the worker's program, in hexadecimal; `None` if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        build: Option<String>,
        /// Nonce from the parent.
        nonce: String,
        /// Process id.
        pid: u32,
        /// [`digest`](crate::digest) of the [`Order`] that the worker received.
        #[serde(default)]
        order: String,
        /// Actual environment. Bytes that are not UTF-8 are replaced.
        #[serde(default)]
        environment: BTreeMap<String, String>,
        /// Actual resource limits.
        #[serde(default)]
        limits: BTreeMap<String, String>,
    },
    /// Result of applying [`Order::confinement`]. Sent only if the order has that field.
    Confined {
        /// True if the kernel enforces all restrictions.
        complete: bool,
        /// Device files that the worker may use.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<String>,
        /// Reason why some restrictions are not enforced; empty if all are.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// A phase begins.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// A library or function that the plan needs is missing. The worker ends.
    Missing {
        /// Name of the library, for example `libhiprand`, or of the function.
        what: String,
        /// Message of the loader.
        why: String,
        /// True if the library exists but the loader cannot load it.
        #[serde(default)]
        there: bool,
    },
    /// The worker cannot execute its order, for a reason outside of the stack and the device. The worker ends.
    Broken {
        /// Reason.
        why: String,
    },
    /// The case has a mistake that can be found only in the compiled code. The worker ends.
    Mistaken {
        /// The step that cannot be executed.
        step: u32,
        /// All mistakes.
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
        /// Version from hipRuntimeGetVersion.
        hip_runtime: i32,
        /// Number of devices that the runtime sees.
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
        /// Device nodes of the kernel's GPU drivers that the worker has mapped, for example `/dev/kfd`.
        #[serde(default)]
        nodes: Vec<String>,
        /// The query that failed; the worker made no queries after it. `None` if all succeeded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedCall>,
        /// Identity of the emulated device; `None` on a GPU.
        emulated: Option<device::Identity>,
    },
    /// Free device memory, sampled before the body while this process is idle. Sent only on a GPU, and only if the plan
    /// compares free memory. If the samples differ, another process uses the GPU.
    FreeAtRest {
        /// Samples in bytes, in order of time.
        bytes: Vec<u64>,
    },
    /// A step begins.
    Begin {
        /// Id of the step, see [`Step::id`](crate::Step::id).
        step: u32,
        /// Number of earlier executions of the step in this process.
        occurrence: u32,
    },
    /// A step has returned.
    End {
        /// Id of the step.
        step: u32,
        /// Number of earlier executions of the step.
        occurrence: u32,
        /// Status code of the call; 0 if the step has no status.
        code: i32,
        /// Name of the status, as the library spells it.
        status: String,
        /// Value that the call returned. After a failed compilation, the log of the compiler.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// The function that returned the status; `None` if it is the function that [`api`](crate::api) returns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        function: Option<String>,
        /// Address of the buffer that the step allocated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<u64>,
        /// Duration, in nanoseconds.
        ns: u64,
    },
    /// Bytes that a check has read.
    Data {
        /// Id of the step.
        step: u32,
        /// Number of earlier executions of the step.
        occurrence: u32,
        /// Name of the buffer.
        buffer: String,
        /// Size, in bytes.
        bytes: u64,
        /// [`digest`](crate::digest) of the bytes.
        digest: String,
        /// File in the spool folder that contains the bytes; `None` if the digest is the expected one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// A call whose status must be success failed. The worker skips the rest of the plan.
    Stopped {
        /// Id of the failed step.
        step: u32,
    },
    /// Number of times that each injected fault has taken effect. Sent once, before [`Done`](Event::Done) or after
    /// [`Stopped`](Event::Stopped).
    Acted {
        /// One entry per fault. The faults of the device and the faults at calls are included.
        acts: Vec<Acts>,
    },
    /// Number of injected delays. Sent once, before [`Done`](Event::Done), and only if the order requests delays.
    Delayed {
        /// Number of delaying kernels.
        times: u64,
    },
    /// All phases before the teardown have completed. Any later failure is a teardown failure.
    Done,
    /// The teardown has completed; the process ends next.
    Bye,
    /// End of the worker process. Sent by the process that started the worker below a launcher, because the launcher's
    /// own exit status may differ.
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

/// Exit status of a worker if code in its own process closed the event pipe.
pub const PIPE_CLOSED: i32 = 86;

/// Exit status of a worker whose parent is gone: the parent's end of the worker's standard input or of the event pipe
/// is closed.
pub const WORKER_ORPHANED: i32 = 87;

/// A failed query of the device properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Name of the function.
    pub api: String,
    /// Name of the status, as the library spells it.
    pub status: String,
}

/// A library mapped into the worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoadedLibrary {
    /// File name, for example `libamdhip64.so.7`.
    pub name: String,
    /// Path of the file.
    pub path: String,
    /// GNU build id in hexadecimal; `None` if the file has none.
    pub build_id: Option<String>,
}

/// Files that a worker may use if it executes an untrusted case. Paths that do not exist are left out.
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

/// The order that the parent sends to a worker: one line of JSON on the worker's standard input. The parent keeps that
/// pipe open until it has reaped the worker. A worker whose pipe closes earlier kills its process group, so that no
/// trial outlives its runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Nonce that the worker repeats in [`Event::Hello`].
    pub nonce: String,
    /// The plan.
    pub plan: crate::Plan,
    /// Probabilities and seeds of the faults injected at calls. A fault without an entry takes effect every time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Planted>,
    /// Delay injection; `None` for no delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<crate::Late>,
    /// Folder for the bytes of failed checks.
    pub spool: String,
    /// Folder of compiled kernels that all trials of a run share. `None` means that each trial compiles its kernels.
    pub code_cache: Option<String>,
    /// Files to which the worker restricts itself before it loads a library. Set for an untrusted case; `None` means no
    /// restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<Confinement>,
    /// Expected digests of checks, as step, occurrence and digest. The worker writes the bytes of a check to a file
    /// only if their digest differs.
    pub wanted: Vec<(u32, u32, String)>,
}
