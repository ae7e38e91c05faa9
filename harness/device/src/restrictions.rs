//! Restrictions: reasons why some faults cannot be injected at some library functions.

use crate::Fault;
use crate::functions::{HIP_STATUS, LibraryFunction};

/// Body of the case into which a fault is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseBody {
    /// Steps, whose calls the worker makes.
    Steps,
    /// A C++ program, whose calls an interposer library replaces.
    Program,
}

/// A reason why faults cannot be injected at some functions.
#[derive(Clone, Copy, Debug)]
pub struct Restriction {
    /// Faults that cannot be injected.
    pub faults: &'static [Fault],
    /// Body of the cases to which the restriction applies; `None` for all cases.
    pub body: Option<CaseBody>,
    /// Function that returns true for the library functions to which the restriction applies.
    pub concerns: fn(&LibraryFunction) -> bool,
    /// Reason, as a clause.
    pub reason: &'static str,
}

const AT_FUNCTIONS: &[Fault] = &[
    Fault::CallCrash,
    Fault::CallHang,
    Fault::CallRefused,
    Fault::CallIgnored,
    Fault::CallLeak,
    Fault::CallSlow,
];

/// All restrictions. A fault at library functions can be injected at every function to which no restriction applies.
pub const RESTRICTIONS: &[Restriction] = &[
    Restriction {
        faults: &[Fault::CallRefused, Fault::CallIgnored],
        body: None,
        concerns: |function| !function.returns_status(),
        reason: "the function returns no status",
    },
    Restriction {
        faults: &[Fault::CallRefused],
        body: None,
        concerns: |function| function.returns != HIP_STATUS,
        reason: "the function returns a status of another type than hipError_t",
    },
    Restriction {
        faults: &[Fault::CallLeak],
        body: Some(CaseBody::Steps),
        concerns: |_| true,
        reason: "only a C++ program can measure the memory of its process",
    },
    Restriction {
        faults: AT_FUNCTIONS,
        body: Some(CaseBody::Steps),
        concerns: |function| !function.in_steps,
        reason: "no step calls the function, but a C++ program can",
    },
    Restriction {
        faults: &[Fault::CallIgnored],
        body: Some(CaseBody::Steps),
        concerns: |function| ["hipHostMalloc", "hipMallocManaged"].contains(&function.name),
        reason: "the host would access memory that was never allocated",
    },
    Restriction {
        faults: &[Fault::CallIgnored],
        body: Some(CaseBody::Steps),
        concerns: |function| function.name == "hiprtcCompileProgram",
        reason: "the worker would load a kernel that was never compiled",
    },
];

/// Returns the reason if a fault cannot be injected at a function, otherwise `None`. Without `body`, only reasons that
/// apply to all cases are considered.
pub fn restriction(
    fault: Fault,
    function: &LibraryFunction,
    body: Option<CaseBody>,
) -> Option<&'static str> {
    let applies = |r: &&Restriction| {
        r.faults.contains(&fault) && (r.body.is_none() || r.body == body) && (r.concerns)(function)
    };
    RESTRICTIONS.iter().find(applies).map(|r| r.reason)
}
