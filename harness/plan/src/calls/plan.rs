//! The plan: all calls of one process, in steps. This module is part of `calls`, because some calls contain steps.

use std::collections::BTreeMap;

use device::Fault;
use serde::{Deserialize, Serialize};

use super::Call;
use crate::{Buffer, ByVersion, Memory, OwnKernel, Place, StreamKind};

/// Version of the plan format. A worker rejects plans of other versions.
pub const PLAN_VERSION: u32 = 4;

/// All calls that one process makes for one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format version, see [`PLAN_VERSION`].
    pub version: u32,
    /// Id of the trial, for example `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// Environment variables that the case sets before the process starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Resource limits that are set before the process starts and override the usual ones: `stack`, `core` and
    /// `files`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Libraries other than HIP and hipRTC that the plan uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// Functions that must exist; otherwise the trial is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Buffers by name.
    pub buffers: BTreeMap<String, Buffer>,
    /// Streams by name, created in the set-up. The null stream `default` is not listed.
    pub streams: BTreeMap<String, StreamKind>,
    /// Events by name, created in the set-up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Kernel sources by name. Each contains one `extern "C" __global__` function of that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, String>,
    /// Kernels that the case defines. Kernels of the library have no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_kernels: BTreeMap<String, OwnKernel>,
    /// Allocations, initial contents, streams and compiled kernels.
    pub setup: Vec<Step>,
    /// The steps of the case.
    pub body: Vec<Step>,
    /// Reads of guards and similar checks after the body.
    pub verify: Vec<Step>,
    /// Steps that run after the worker has sent [`Event::Done`](crate::Event::Done): a failure here is a teardown
    /// failure.
    pub teardown: Vec<Step>,
}

impl Plan {
    /// Returns an empty plan, which shows only whether the runtime starts.
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

    /// Returns the four phases with their steps, in order.
    pub fn phases(&self) -> [(Phase, &[Step]); 4] {
        [
            (Phase::Setup, &self.setup),
            (Phase::Body, &self.body),
            (Phase::Verify, &self.verify),
            (Phase::Teardown, &self.teardown),
        ]
    }

    /// Returns all steps of all phases in the order of the text; blocks come before their bodies.
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

    /// Returns the memory kind of a buffer; `None` for an unknown buffer.
    pub(crate) fn memory(&self, buffer: &str) -> Option<Memory> {
        self.buffers.get(buffer).map(|buffer| buffer.memory)
    }

    /// Returns true for pool memory (hipMallocAsync), which is allocated and freed in stream order.
    pub fn is_pool_memory(&self, buffer: &str) -> bool {
        self.memory(buffer) == Some(Memory::DeviceAsync)
    }

    /// Returns true if the buffer exists and the host can access it directly.
    pub(crate) fn on_host(&self, buffer: &str) -> bool {
        self.memory(buffer).is_some_and(Memory::on_host)
    }

    /// Returns for source and target of a directed copy whether it is host memory. Managed memory counts as device
    /// memory.
    pub fn ends_on_host(&self, from: &Place, to: &Place) -> (bool, bool) {
        let on_host = |place: &Place| {
            let memory = self.memory(&place.buffer);
            memory.is_some_and(|memory| memory.on_host() && memory != Memory::Managed)
        };
        (on_host(from), on_host(to))
    }

    /// Returns the step with this id.
    pub fn step(&self, id: u32) -> Option<&Step> {
        self.steps().into_iter().find(|s| s.id == id)
    }
}

/// Phase of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the libraries are loaded.
    Start,
    /// Loading of the libraries.
    Load,
    /// `hipInit` and the first queries of the device.
    Init,
    /// Execution of [`Plan::setup`].
    Setup,
    /// Execution of [`Plan::body`].
    Body,
    /// Execution of [`Plan::verify`].
    Verify,
    /// Execution of [`Plan::teardown`], and the end of the process.
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

/// A ROCm library other than HIP and hipRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// hipRAND, on top of rocRAND.
    Hiprand,
    /// hipBLASLt.
    Hipblaslt,
    /// rocBLAS.
    Rocblas,
}

impl Library {
    /// Returns the name that cases, `--with` and reports use.
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
    /// Unique in the plan, and the same in every run of the plan.
    pub id: u32,
    /// The call.
    #[serde(flatten)]
    pub call: Call,
    /// Accepted statuses by name, for example `hipSuccess`. Without this field, the worker stops at a failed call.
    /// With it, the worker continues whatever the status is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<ByVersion<Vec<String>>>,
    /// Accepted values, for calls that return one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<ByVersion<Vec<String>>>,
    /// Line of the case file; 0 for steps that lowering adds.
    #[serde(default)]
    pub line: u32,
    /// Faults injected at this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted: Vec<InjectedFault>,
}

impl Step {
    /// Returns true if a failed status ends the trial.
    pub fn checked(&self) -> bool {
        self.returns.is_none()
    }
}

impl Call {
    /// Returns the steps of a block; `None` for other calls.
    pub fn body(&self) -> Option<&[Step]> {
        if let Call::Repeat { body, .. } | Call::Thread { body } = self { Some(body) } else { None }
    }

    /// Like [`Call::body`], but mutable.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Step>> {
        if let Call::Repeat { body, .. } | Call::Thread { body } = self { Some(body) } else { None }
    }
}

/// A fault injected at a call. [`Order::faults`](crate::Order::faults) has the probability that it acts each time.
/// If several faults are injected at a call, the first one that is drawn acts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InjectedFault {
    /// The fault.
    pub fault: Fault,
    /// The effect of the fault at this call.
    pub effect: Effect,
}

/// Effect of a fault that is injected at a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The call is not made, and this status code is returned; 0 drops the call silently.
    Return(i32),
    /// The call is made, and success is returned if it failed.
    Accept,
    /// The call is made, and this status code is returned if it succeeded.
    Deny(i32),
    /// The call is made, and a different value is returned.
    OtherValue,
    /// The call is made twice; the second status counts.
    Twice,
    /// The call is made after a delay, in milliseconds.
    Late(u64),
    /// The call is made after the next graph launch.
    AfterNextLaunch,
    /// The process aborts instead of making the call.
    Abort,
    /// The process exits with this status instead of making the call.
    Exit(i32),
}
