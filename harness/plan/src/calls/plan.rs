//! The plan: the calls of one process, in steps. It stands among the calls, as some of them have steps in them.

use std::collections::BTreeMap;

use device::Fault;
use serde::{Deserialize, Serialize};

use super::Call;
use crate::{Buffer, ByVersion, Memory, OwnKernel, Place, StreamKind};

/// Version of the plan format; a worker refuses a plan of another version.
pub const PLAN_VERSION: u32 = 4;

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
    pub planted: Vec<InjectedFault>,
}

impl Step {
    /// Whether a failing status ends the trial.
    pub fn checked(&self) -> bool {
        self.returns.is_none()
    }
}

impl Call {
    /// The steps of a block; none for a call.
    pub fn body(&self) -> Option<&[Step]> {
        if let Call::Repeat { body, .. } | Call::Thread { body } = self { Some(body) } else { None }
    }

    /// The steps of a block, to be changed.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Step>> {
        if let Call::Repeat { body, .. } | Call::Thread { body } = self { Some(body) } else { None }
    }
}

/// A fault that is planted at a call, and how it shows there. Whether it does each time is drawn as
/// [`Order::faults`](crate::Order::faults) says; of several, the first that is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InjectedFault {
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
