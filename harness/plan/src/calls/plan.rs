//! The type of a plan, which contains all calls of a trial as steps. This module is part of `calls`, because some calls
//! contain steps.

use std::collections::BTreeMap;

use device::Fault;
use serde::{Deserialize, Serialize};

use super::Call;
use crate::{Buffer, BufferAddress, ByVersion, CaseKernel, Files, Memory, StreamKind};

/// Version of the plan format. A worker rejects plans of other versions.
pub const PLAN_VERSION: u32 = 4;

/// All calls that one worker process makes for one trial, with the buffers, kernels and files that these calls use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format version, see [`PLAN_VERSION`].
    pub version: u32,
    /// Id of the trial, for example `copies/small-sizes[bytes=2,host=pageable]`.
    pub trial: String,
    /// Environment variables that the case sets before the process starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Resource limits that are set before the process starts: `stack`, `core` and `files`. They override the default
    /// limits of a worker.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Libraries other than HIP and hipRTC that the plan uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// Functions that the libraries must export. If one is missing, the trial is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Declared buffers, by name.
    pub buffers: BTreeMap<String, Buffer>,
    /// Streams by name, created in the set-up. The null stream `default` is not listed.
    pub streams: BTreeMap<String, StreamKind>,
    /// Events by name, created in the set-up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Kernel sources by the name of the kernel. Each source contains one `extern "C" __global__` function with that
    /// name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, String>,
    /// Kernels that the case itself defines, by name. Kernels of the built-in library have no entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_kernels: BTreeMap<String, CaseKernel>,
    /// Code objects of kernels, and bytes that steps write or expect, by the name of the file.
    #[serde(default, skip_serializing_if = "Files::is_empty")]
    pub files: Files,
    /// Steps of the set-up: allocations, initial contents, streams and compiled kernels.
    pub setup: Vec<Step>,
    /// The steps of the case.
    pub body: Vec<Step>,
    /// Checks after the body, for example of the guards.
    pub verify: Vec<Step>,
    /// Steps that run after the worker has sent [`Event::Done`](crate::Event::Done): a failure here is a teardown
    /// failure.
    pub teardown: Vec<Step>,
}

impl Plan {
    /// Returns a plan without calls, which checks only that the runtime starts.
    pub fn empty() -> Plan {
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
            files: Files::new(),
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

    /// Returns all steps of all phases, in the order in which the case lists them. A block is followed by the steps
    /// inside it.
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

    pub(crate) fn memory(&self, buffer: &str) -> Option<Memory> {
        self.buffers.get(buffer).map(|buffer| buffer.memory)
    }

    /// Returns true if the buffer is pool memory (hipMallocAsync), which is allocated and freed in stream order.
    pub fn is_pool_memory(&self, buffer: &str) -> bool {
        self.memory(buffer) == Some(Memory::DeviceAsync)
    }

    pub(crate) fn on_host(&self, buffer: &str) -> bool {
        self.memory(buffer).is_some_and(Memory::on_host)
    }

    /// Returns two flags for a copy with explicit direction. The first is true if the source `from` is host memory, the
    /// second if the target `to` is host memory. Managed memory counts as device memory.
    pub fn ends_on_host(&self, from: &BufferAddress, to: &BufferAddress) -> (bool, bool) {
        let on_host = |place: &BufferAddress| {
            let memory = self.memory(&place.buffer);
            memory.is_some_and(|memory| memory.on_host() && memory != Memory::Managed)
        };
        (on_host(from), on_host(to))
    }

    /// Returns the step with this id; `None` if the plan has no such step.
    pub fn step(&self, id: u32) -> Option<&Step> {
        self.steps().into_iter().find(|s| s.id == id)
    }
}

/// Phase of a worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The libraries have not been loaded yet.
    Start,
    /// The libraries are being loaded.
    Load,
    /// `hipInit` and the first queries of the device are running.
    Init,
    /// The steps of [`Plan::setup`] are running.
    Setup,
    /// The steps of [`Plan::body`] are running.
    Body,
    /// The steps of [`Plan::verify`] are running.
    Verify,
    /// The steps of [`Plan::teardown`] are running, or the process is ending.
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
    /// Returns the name of the library in cases, in `--with` and in reports.
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
    /// Id of the step: unique in the plan, and equal in all runs of the plan.
    pub id: u32,
    /// The call that the step makes.
    #[serde(flatten)]
    pub call: Call,
    /// Accepted statuses by name, for example `hipSuccess`. `None` means that the worker stops if the call fails. If a
    /// step lists accepted statuses, the worker continues after any status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<ByVersion<Vec<String>>>,
    /// Accepted values of a call that returns a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives: Option<ByVersion<Vec<String>>>,
    /// Line of the case file; 0 for steps that the case file does not contain.
    #[serde(default)]
    pub line: u32,
    /// Faults injected at this call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted: Vec<InjectedFault>,
}

impl Step {
    /// Returns true if the worker stops when the call fails.
    pub fn checked(&self) -> bool {
        self.returns.is_none()
    }
}

impl Call {
    /// Returns the steps inside a block; `None` for calls that are not blocks.
    pub fn body(&self) -> Option<&[Step]> {
        if let Call::Repeat { body, .. } | Call::Thread { body } = self { Some(body) } else { None }
    }

    /// Returns a mutable reference to the steps inside a block; `None` for calls that are not blocks.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Step>> {
        if let Call::Repeat { body, .. } | Call::Thread { body } = self { Some(body) } else { None }
    }
}

/// A fault that is injected at a call. [`Order::faults`](crate::Order::faults) contains the probability with which it
/// takes effect. If several faults are injected at one call, at most one takes effect: the first one whose random draw
/// succeeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InjectedFault {
    /// The injected fault.
    pub fault: Fault,
    /// Effect of the fault at this call.
    pub effect: Effect,
}

/// Effect of an injected fault on the call at which it is injected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The call is not made, and this status code is returned in its place. With code 0, the caller believes that the
    /// call succeeded.
    Return(i32),
    /// The call is made. If it fails, success is returned.
    Accept,
    /// The call is made. If it succeeds, this status code is returned.
    Deny(i32),
    /// The call is made, and a wrong value is returned in place of the call's value.
    OtherValue,
    /// The call is made twice, and the status of the second call is returned.
    Twice,
    /// The call is made after a delay of this many milliseconds.
    Late(u64),
    /// The call is made after the next graph launch.
    AfterNextLaunch,
    /// The process aborts instead of making the call.
    Abort,
    /// The process exits with this status instead of making the call.
    Exit(i32),
}
