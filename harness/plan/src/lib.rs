//! The plan of a trial: the list of HIP and library calls that the trial executes.
//!
//! The worker executes the plan. The reference model computes from it the expected content of every checked buffer. The
//! order analysis rejects a plan whose accesses race. The exporter prints the plan as a C++ program. All of them use
//! the same plan, so an exported reproducer cannot differ from the test. A plan contains all its inputs, including the
//! kernel sources, and can be serialised. A failing plan can therefore be kept and repeated without its YAML file.
//!
//! This crate is pure: it does no I/O and does not know YAML, processes or verdicts.

// Matches over calls must not have a wildcard arm. If a call is added, the compiler then lists every match that has to
// be extended.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod arguments;
mod calls;
mod captures;
mod choice;
mod display;
mod event;
mod executable;
mod file_content;
#[expect(clippy::wildcard_enum_match_arm, reason = "matches on types and operators, not on calls")]
mod formula;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "matches on types, roles and arguments, not on calls"
)]
mod hip;
mod kernel;
mod late;
mod matmul;
#[expect(clippy::wildcard_enum_match_arm, reason = "only a few calls can be misplaced")]
mod misplaced;
mod model;
mod order;
mod pattern;
pub mod program;
mod promise;
#[expect(clippy::wildcard_enum_match_arm, reason = "matches on types and operators, not on calls")]
mod scalar;
mod source;

pub use arguments::*;
pub use calls::{
    Accessor, Asynchronous, Call, CaptureEffect, CaptureHandling, CompletedOnReturn, CppForm,
    Effect, Field, FieldKind, FirstValueCheck, InjectedFault, Key, KeyType, Keys, Library,
    MemoryEffect, NamedObject, ObjectKind, ObjectUse, OrderEffect, PLAN_VERSION, Phase, Plan,
    ReadVerb, Step, ValueKind, Verb, VerbArguments, WorkStream, WriteVerb, api, apis, functions,
    functions_of_verb, is_output_argument, verbs, verbs_that_make,
};
pub use captures::{
    CaptureRole, CapturedSteps, Captures, accepts_success, captured_steps, leaves_capture_open,
    may_succeed, recorded,
};
pub use choice::Choice;
pub use display::affects_display;
pub use event::*;
pub use executable::impossible_steps;
pub use file_content::{FileContent, Files};
pub use formula::{
    BinaryOperator, Expr, Formula, FormulaError, FormulaInputs, MathFunction, common_type,
    promoted_type,
};
pub use hip::{
    HipAccess, HipArg, HipFunction, HipParameter, HipRead, HipReadType, HipRole, HipSize,
    MAX_ARGUMENTS, MAX_VALUE_BYTES, hip_accesses, hip_declarations, hip_declared, hip_function,
    hip_functions, hip_functions_of_steps, is_handle, is_struct, number_of, pointed, scalar,
};
pub use kernel::{KERNELS, Kernel, KernelFunction, KernelReach, Parameter, ReadTiming, kernel};
pub use late::{DelayInjection, delayed_stream};
pub use matmul::{Dtype, MatmulProblem, Operands, matmul, small_numbers};
pub use misplaced::{MisplacedStep, misplaced_steps};
pub use model::{BufferWrite, Expected, ExpectedBytes, Mistake, Reference, analyse, reference};
pub use order::races;
pub use pattern::{GUARD_BYTE, POISON_BYTE, digest, fill_stamp, pattern};
pub use program::Program;
pub use scalar::{Scalar, ScalarType};
pub use source::{
    CaseKernel, KernelCode, KernelParameter, KernelParameterKind, flat_args, flat_parameters,
    kernel_names, own_parameters,
};
pub use version::{ByVersion, ParseVersionError, Version, VersionRange};
