use std::collections::BTreeMap;

use device::{Acts, Planted};
use serde::{Deserialize, Serialize};

use crate::Phase;

/// What a worker says, one JSON object a line, on the standard output it was started with.
///
/// Events report; they do not judge. Times are nanoseconds of the worker's monotonic clock since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line: the plan was read. The nonce is the one that the parent passed, which proves that
    /// this worker and no other program answered. The rest says what it was told and how it was started, so that whatever
    /// a launcher did on the way shows.
    Hello {
        /// [`PLAN_VERSION`](crate::PLAN_VERSION) of the worker.
        version: u32,
        /// The GNU build id of the worker's program, in hexadecimal; none where it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        build: Option<String>,
        /// The parent's nonce.
        nonce: String,
        /// Process id.
        pid: u32,
        /// [`digest`](crate::digest) of the order, in hexadecimal.
        #[serde(default)]
        order: String,
        /// The environment that it found; what is not UTF-8 has replacement characters.
        #[serde(default)]
        environment: BTreeMap<String, String>,
        /// The limits of resources that it found.
        #[serde(default)]
        limits: BTreeMap<String, String>,
    },
    /// How far the kernel keeps this worker to [`Order::writable`]; only where that was ordered.
    Confined {
        /// Whether all that was asked for is enforced.
        complete: bool,
        /// Why not; empty where it is.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// A phase begins.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// A library or function that the plan needs is not there; the worker ends.
    Missing {
        /// `libhiprand` or a function's name.
        what: String,
        /// What the loader said.
        why: String,
        /// Whether the library is there all the same and cannot be loaded.
        #[serde(default)]
        there: bool,
    },
    /// The worker cannot carry out its order, by no fault of the stack or the device; it ends.
    Broken {
        /// Why.
        why: String,
    },
    /// The case is mistaken in a way that only its compiled code shows, and nothing more is made of it; the worker ends.
    Mistaken {
        /// The step that cannot be made.
        step: u32,
        /// Every mistake.
        why: Vec<String>,
    },
    /// The libraries in the process, once they are loaded, and again after initialisation and at the end when there are more.
    Loaded {
        /// ROCm libraries, by path.
        libraries: Vec<LoadedLibrary>,
    },
    /// What the runtime says of itself and of device 0.
    Device {
        /// hipRuntimeGetVersion.
        hip_runtime: i32,
        /// Devices that the runtime sees.
        count: i32,
        /// Name of device 0.
        name: String,
        /// Architecture of device 0 with its features, such as `gfx90a:sramecc+:xnack-`.
        gfx: String,
        /// Device memory, in bytes.
        memory: u64,
        /// The PCI address of device 0, such as `0000:03:00.0`; empty where the runtime does not tell.
        #[serde(default)]
        bdf: String,
        /// The nodes of the kernel's GPU drivers that are mapped into the worker, such as `/dev/kfd`.
        #[serde(default)]
        nodes: Vec<String>,
        /// The call that was refused, for which nothing further is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedCall>,
        /// The emulated device's own statement; none on a GPU.
        emulated: Option<device::Identity>,
    },
    /// How much device memory was free, told several times before the body while this process did nothing: on a GPU, for a plan that
    /// asks for it. It moves where something else uses the GPU.
    FreeAtRest {
        /// Bytes, in the order of the answers.
        bytes: Vec<u64>,
    },
    /// A step is about to be made.
    Begin {
        /// [`Step::id`](crate::Step::id).
        step: u32,
        /// How often this step was made before, in this process.
        occurrence: u32,
    },
    /// The step returned.
    End {
        /// The step.
        step: u32,
        /// Its occurrence.
        occurrence: u32,
        /// Status code of the call; 0 for steps without one.
        code: i32,
        /// The status's name as the library spells it.
        status: String,
        /// The value that the call gives, or the log of a failed compilation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// The function that gave the status, where the step makes several calls and this is not the one that it is named after.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        function: Option<String>,
        /// Where the buffer is that the step allocated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<u64>,
        /// Duration, in nanoseconds.
        ns: u64,
    },
    /// Bytes that a check reads.
    Data {
        /// The step.
        step: u32,
        /// Its occurrence.
        occurrence: u32,
        /// The buffer.
        buffer: String,
        /// Size, in bytes.
        bytes: u64,
        /// [`digest`](crate::digest) of the bytes, in hexadecimal.
        digest: String,
        /// File in the spool folder with the bytes; kept only where the digest is not the wanted one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// A checked call failed and the rest of the plan was not made.
    Stopped {
        /// The step that failed.
        step: u32,
    },
    /// How often each planted fault has misbehaved, those of the device and those at calls. Comes once, before
    /// [`Done`](Event::Done) or after the plan was stopped.
    Acted {
        /// One entry for each fault.
        acts: Vec<Acts>,
    },
    /// How often work was made late on purpose; only where that was ordered, once, before [`Done`](Event::Done).
    Delayed {
        /// Kernels that spun.
        times: u64,
    },
    /// Everything but the teardown is over. What happens from here on is a teardown failure.
    Done,
    /// The teardown is over; only the process's own end is left.
    Bye,
    /// How the process ended, as its starter says below a launcher, whose own exit status may be another.
    Ended {
        /// Its exit status, where it ended by itself.
        #[serde(default)]
        exited: Option<i32>,
        /// The signal that ended it.
        #[serde(default)]
        signal: Option<i32>,
    },
}

/// Exit status of a worker that returned from its `main`. It is none that a program has by chance: a library that ends the
/// process in its destructor, by `_exit(0)`, shows by another.
pub const WORKER_DONE: i32 = 85;

/// Exit status of a worker whose pipe of events was closed from within its process.
pub const PIPE_CLOSED: i32 = 86;

/// Exit status of a worker that nobody waits for any more: the other end of its standard input or of its pipe is closed.
pub const WORKER_ORPHANED: i32 = 87;

/// A call of the first look at the device that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Its function.
    pub api: String,
    /// The status's name as the library spells it.
    pub status: String,
}

/// A library mapped into the worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoadedLibrary {
    /// File name, such as `libamdhip64.so.7`.
    pub name: String,
    /// The path it was mapped from.
    pub path: String,
    /// GNU build id in hexadecimal; none where the file has none.
    pub build_id: Option<String>,
}

/// What the parent sends to the worker: one line of JSON on its standard input, which then stays open until the worker has
/// been reaped. A worker that sees it close kills its process group, so that no trial outlives its runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// To be repeated in [`Event::Hello`].
    pub nonce: String,
    /// The plan.
    pub plan: crate::Plan,
    /// Probabilities and seeds of the faults planted at calls; one that is not named here misbehaves every time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Planted>,
    /// Whether work is late on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<crate::Late>,
    /// Folder for the bytes of failed checks.
    pub spool: String,
    /// Folder of compiled kernels shared by the trials of a run; none compiles every time.
    pub code_cache: Option<String>,
    /// The only places where the worker may write: it runs a case that nobody vouches for. None for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writable: Option<Vec<String>>,
    /// Wanted digests of checks, by step and occurrence: bytes that match need not be kept.
    pub wanted: Vec<(u32, u32, String)>,
}
