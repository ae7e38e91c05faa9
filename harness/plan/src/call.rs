use std::collections::BTreeMap;

use device::Fault;
use serde::{Deserialize, Serialize};

use crate::{ByVersion, Call, OwnParameter, Scalar, ScalarType};

/// Version of the plan format; a worker refuses a plan of another version.
pub const PLAN_VERSION: u32 = 4;

/// Bytes of guard on each side of a guarded buffer.
///
/// 256 keeps the alignment that hipMalloc promises for the first usable byte.
pub const GUARD_BYTES: u64 = 256;

/// Bytes of the largest buffer that a plan can use, as the reference model holds all of them in memory. Larger ones are for
/// allocations that must fail.
pub const MOST_BYTES: u64 = 4 << 30;

/// Everything one process does for one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// The trial's id, such as `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// Environment variables that the case sets before the process starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Limits of resources that are set before the process starts, over the usual ones: `stack`, `core` and `files`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Libraries besides HIP and hipRTC that the plan calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// Functions that must exist, or the trial is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Buffers by name.
    pub buffers: BTreeMap<String, Buffer>,
    /// Streams by name, created in set-up. `default` is the null stream and is not listed.
    pub streams: BTreeMap<String, StreamKind>,
    /// Events by name, created in set-up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Kernel sources by name; each has one `extern "C" __global__` function of that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, String>,
    /// The kernels that the case brings itself; those of the library have no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_kernels: BTreeMap<String, OwnKernel>,
    /// Allocations, initial contents, streams, compiled kernels.
    pub setup: Vec<Step>,
    /// What the case is about.
    pub body: Vec<Step>,
    /// Guards and whatever else is read once the body is over.
    pub verify: Vec<Step>,
    /// Runs after the worker has said that it is done: a failure here is a teardown failure.
    pub teardown: Vec<Step>,
}

impl Plan {
    /// A plan that does nothing: whether the runtime starts is all that it tells.
    pub fn nothing() -> Plan {
        Plan {
            version: PLAN_VERSION,
            trial: "nothing".to_owned(),
            environment: BTreeMap::new(),
            limits: BTreeMap::new(),
            libraries: Vec::new(),
            functions: Vec::new(),
            buffers: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: Vec::new(),
            kernels: BTreeMap::new(),
            own_kernels: BTreeMap::new(),
            setup: Vec::new(),
            body: Vec::new(),
            verify: Vec::new(),
            teardown: Vec::new(),
        }
    }

    /// The four phases with their steps, in order.
    pub fn phases(&self) -> [(Phase, &[Step]); 4] {
        [
            (Phase::Setup, &self.setup),
            (Phase::Body, &self.body),
            (Phase::Verify, &self.verify),
            (Phase::Teardown, &self.teardown),
        ]
    }

    /// Every step of every phase, blocks before their bodies, in the order of the text.
    pub fn steps(&self) -> Vec<&Step> {
        fn walk<'a>(steps: &'a [Step], out: &mut Vec<&'a Step>) {
            for step in steps {
                out.push(step);
                if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
                    walk(body, out);
                }
            }
        }
        let mut out = Vec::new();
        for (_, steps) in self.phases() {
            walk(steps, &mut out);
        }
        out
    }

    /// The memory of a buffer; none where there is no such buffer.
    pub(crate) fn memory(&self, buffer: &str) -> Option<Memory> {
        self.buffers.get(buffer).map(|buffer| buffer.memory)
    }

    /// Whether a buffer is memory of a pool, which comes and goes in the order of a stream.
    pub fn is_of_pool(&self, buffer: &str) -> bool {
        self.memory(buffer) == Some(Memory::DeviceAsync)
    }

    /// Whether a buffer is there and the host may read and write it directly.
    pub(crate) fn on_host(&self, buffer: &str) -> bool {
        self.memory(buffer).is_some_and(Memory::on_host)
    }

    /// Whether each end of a directed copy is the host's; managed memory counts as the device's.
    pub fn ends_on_host(&self, from: &Place, to: &Place) -> (bool, bool) {
        let on_host = |place: &Place| {
            let memory = self.memory(&place.buffer);
            memory.is_some_and(|memory| memory.on_host() && memory != Memory::Managed)
        };
        (on_host(from), on_host(to))
    }

    /// The step with this id.
    pub fn step(&self, id: u32) -> Option<&Step> {
        self.steps().into_iter().find(|s| s.id == id)
    }
}

/// Where a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the libraries are loaded.
    Start,
    /// Loading the libraries.
    Load,
    /// `hipInit` and the first look at the device.
    Init,
    /// [`Plan::setup`].
    Setup,
    /// [`Plan::body`].
    Body,
    /// [`Plan::verify`].
    Verify,
    /// [`Plan::teardown`] and the end of the process.
    Teardown,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Start => "start",
            Phase::Load => "load",
            Phase::Init => "init",
            Phase::Setup => "setup",
            Phase::Body => "body",
            Phase::Verify => "verify",
            Phase::Teardown => "teardown",
        })
    }
}

/// A ROCm library besides HIP and hipRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// hipRAND over rocRAND.
    Hiprand,
    /// hipBLASLt.
    Hipblaslt,
    /// rocBLAS.
    Rocblas,
}

impl Library {
    /// The name that cases, `--with` and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Library::Hiprand => "hiprand",
            Library::Hipblaslt => "hipblaslt",
            Library::Rocblas => "rocblas",
        }
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Unique in the plan; stable between runs of the same plan.
    pub id: u32,
    /// What is done.
    #[serde(flatten)]
    pub call: Call,
    /// The statuses that are right, by name (`hipSuccess`). With anything but plain success
    /// listed, the worker goes on whatever the status is; else it stops at a failure, as a program that checks its
    /// calls does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<ByVersion<Vec<String>>>,
    /// The values that are right, for calls that give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<ByVersion<Vec<String>>>,
    /// Line of the case file that this step comes from; 0 for steps that lowering adds.
    #[serde(default)]
    pub line: u32,
    /// Planted misbehaviours of this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted: Vec<Misbehaviour>,
}

impl Step {
    /// Whether a failing status ends the trial.
    pub fn checked(&self) -> bool {
        self.returns.is_none()
    }
}

/// A fault that is planted at a call, and how it shows there. Whether it does each time is drawn as
/// [`Order::faults`](crate::Order::faults) says; of several, the first that is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Misbehaviour {
    /// Which fault.
    pub fault: Fault,
    /// What it does.
    pub effect: Effect,
}

/// How a planted call misbehaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It is not made and answers with this status code; 0 drops it unseen.
    Return(i32),
    /// It is made, and answers success where it was refused.
    Accept,
    /// It is made, and answers with this status code where it was a success.
    Deny(i32),
    /// It is made, and gives another value than it gave.
    OtherValue,
    /// It is made two times; the second status counts.
    Twice,
    /// It is made after a sleep, in milliseconds.
    Late(u64),
    /// It is made only after the next graph launch.
    AfterNextLaunch,
    /// The process aborts instead.
    Abort,
    /// The process exits instead, with this status.
    Exit(i32),
}

/// The name of a buffer, stream, event, graph, executable graph or handle in its plan.
pub type Name = String;

/// A position in a buffer, in bytes from its first usable byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The buffer.
    pub buffer: Name,
    /// Bytes from its start.
    #[serde(default)]
    pub offset: u64,
}

/// A place in a buffer that is taken for slices of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Box3d {
    /// The buffer, from its first byte.
    pub buffer: Name,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Rows from one slice to the next.
    pub rows: u64,
    /// Where it begins: byte, row and slice.
    #[serde(default)]
    pub at: [u64; 3],
}

impl Box3d {
    /// Where row `row` of slice `slice` of the box begins, in bytes.
    pub fn offset(&self, row: u64, slice: u64) -> u64 {
        let [x, y, z] = self.at;
        let rows = z.saturating_add(slice).saturating_mul(self.rows).saturating_add(y + row);
        rows.saturating_mul(self.pitch).saturating_add(x)
    }
}

/// What a plan knows of a kernel that the case brings itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnKernel {
    /// Where it stands, such as `line 7`.
    pub place: String,
    /// Options of the compiler besides the architecture, behind the usual `-O3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Its parameters, as its source has them; none where they cannot be read there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<OwnParameter>>,
    /// What it computes, as [`Formula`](crate::Formula) reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computes: Vec<String>,
}

/// A kernel argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// The address of a place.
    Address(Place),
    /// The address of a place that a kernel of the case's own takes as a pointer to what is `const`: it only reads there.
    Input(Place),
    /// A number.
    Number(Scalar),
    /// A struct by value, whose members are aligned as C aligns them.
    Struct(Vec<Arg>),
    /// The bytes of something by value.
    Bytes(Vec<u8>),
}

impl Arg {
    /// `unsigned int`.
    pub fn u32(value: u32) -> Arg {
        Arg::Number(Scalar::u32(value))
    }

    /// `float`.
    pub fn f32(value: f32) -> Arg {
        Arg::Number(Scalar::f32(value))
    }

    /// The number, if it is an `unsigned int`.
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Arg::Number(Scalar { ty: ScalarType::U32, bits }) => Some(*bits as u32),
            Arg::Number(_) | Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => {
                None
            }
        }
    }

    /// The place whose address it is itself.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Arg::Address(place) | Arg::Input(place) => Some(place),
            Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => None,
        }
    }

    /// Every place whose address it has, and whether the kernel only reads there as far as the argument tells.
    pub fn places(&self) -> Vec<(&Place, bool)> {
        match self {
            Arg::Address(place) => vec![(place, false)],
            Arg::Input(place) => vec![(place, true)],
            Arg::Struct(members) => members.iter().flat_map(Arg::places).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// The same, to be changed.
    pub fn places_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Arg::Address(place) | Arg::Input(place) => vec![place],
            Arg::Struct(members) => members.iter_mut().flat_map(Arg::places_mut).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// Its bytes, where `address` tells that of a place.
    pub fn to_bytes(&self, address: &impl Fn(&Place) -> u64) -> Vec<u8> {
        match self {
            Arg::Address(place) | Arg::Input(place) => address(place).to_le_bytes().to_vec(),
            Arg::Number(scalar) => scalar.to_bytes(),
            Arg::Bytes(bytes) => bytes.clone(),
            Arg::Struct(members) => {
                let mut all = Vec::new();
                for member in members {
                    all.resize(all.len().next_multiple_of(member.alignment()), 0);
                    all.extend(member.to_bytes(address));
                }
                all.resize(all.len().next_multiple_of(self.alignment()), 0);
                all
            }
        }
    }

    /// What its place in a struct is a multiple of.
    fn alignment(&self) -> usize {
        match self {
            Arg::Address(_) | Arg::Input(_) => 8,
            Arg::Number(scalar) => scalar.ty.bytes(),
            Arg::Bytes(_) => 1,
            Arg::Struct(members) => members.iter().map(Arg::alignment).max().unwrap_or(1),
        }
    }
}

/// A block of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Which allocator it comes from.
    pub memory: Memory,
    /// Usable size, in bytes.
    pub bytes: u64,
    /// Whether it has [`GUARD_BYTES`] on each side.
    pub guarded: bool,
}

impl Buffer {
    /// Size of the whole allocation, guards included, in bytes.
    pub fn allocation(&self) -> u64 {
        self.bytes + 2 * self.guard()
    }

    /// Bytes of guard on each side.
    pub fn guard(&self) -> u64 {
        if self.guarded { GUARD_BYTES } else { 0 }
    }
}

/// Kinds of memory, by the call that makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// hipMalloc.
    Device,
    /// hipMallocPitch, in one row.
    DevicePitched,
    /// hipMallocAsync.
    DeviceAsync,
    /// hipMallocManaged.
    Managed,
    /// malloc.
    HostPageable,
    /// hipHostMalloc.
    HostPinned,
    /// malloc and hipHostRegister.
    HostRegistered,
}

impl Memory {
    /// Whether the host may read and write it directly.
    pub fn on_host(self) -> bool {
        !matches!(self, Memory::Device | Memory::DevicePitched | Memory::DeviceAsync)
    }
}

/// What hipDeviceGetAttribute may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceAttribute {
    /// Work-items in a wave.
    WarpSize,
    /// Work-items in the largest workgroup.
    MaxThreadsPerBlock,
    /// Compute units.
    MultiprocessorCount,
}

/// How a stream is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// hipStreamDefault: waits for and is waited for by the null stream.
    Blocking,
    /// hipStreamNonBlocking.
    NonBlocking,
}

/// The name of the null stream.
pub const DEFAULT_STREAM: &str = "default";

/// The functions that copy a flat range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyApi {
    /// hipMemcpy with hipMemcpyDefault's explicit direction.
    Memcpy,
    /// hipMemcpyAsync.
    MemcpyAsync,
    /// hipMemcpyWithStream: stream-ordered, returns when the copy is over.
    MemcpyWithStream,
    /// hipMemcpyHtoD or hipMemcpyDtoH or hipMemcpyDtoD.
    MemcpyDirected,
}

impl CopyApi {
    /// Whether the function takes a stream; the others work in the null stream.
    pub(crate) fn has_stream(self) -> bool {
        match self {
            CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream => true,
            CopyApi::Memcpy | CopyApi::MemcpyDirected => false,
        }
    }
}

/// The functions that put a host function into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFuncApi {
    /// hipStreamAddCallback, which no capture takes.
    AddCallback,
    /// hipLaunchHostFunc, since 5.3.
    LaunchHostFunc,
}

/// hipStreamCaptureMode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// hipStreamCaptureModeGlobal.
    Global,
    /// hipStreamCaptureModeThreadLocal.
    ThreadLocal,
    /// hipStreamCaptureModeRelaxed.
    Relaxed,
}

/// hiprandRngType_t, the pseudo-random ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RandKind {
    /// HIPRAND_RNG_PSEUDO_XORWOW.
    Xorwow,
    /// HIPRAND_RNG_PSEUDO_MRG32K3A.
    Mrg32k3a,
    /// HIPRAND_RNG_PSEUDO_PHILOX4_32_10.
    Philox,
}
