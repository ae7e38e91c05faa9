//! The plan: the list of HIP and library calls that a trial lowers to.
//!
//! It is the one lowering. The worker executes it, the reference model computes from it what every
//! checked buffer must hold, and the order analysis refuses it when it is itself wrong, so a repro cannot
//! drift from its test. A plan is self-contained (kernel sources included) and
//! serialises, so a failing one can be kept and replayed without its YAML.
//!
//! This crate is pure: it does no I/O and knows no YAML, no processes and no verdicts.

// A new call must be seen wherever calls are told apart; what all calls have is asked of their declarations.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod arguments;
mod calls;
mod captures;
mod choice;
mod event;
mod executable;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types and operators are told apart here, and no calls"
)]
mod formula;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types, roles and arguments are told apart here, and no calls"
)]
mod hip;
mod kernel;
mod late;
mod matmul;
mod model;
mod order;
mod pattern;
pub mod program;
mod promise;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types and operators are told apart here, and no calls"
)]
mod scalar;
mod source;

pub use arguments::*;
pub use calls::{
    Accessor, Asynchronous, Call, CompletedOnReturn, Cpp, Effect, Field, FieldKind,
    FirstValueCheck, InCapture, InjectedFault, Key, KeyType, Keys, Library, Named, NamedAs,
    OnCaptures, OnMemory, OnOrder, PLAN_VERSION, Phase, Plan, ReadVerb, Step, Thing, ValueKind,
    Verb, VerbArguments, WorkStream, WriteVerb, api, apis, functions, is_output_argument, verbs,
    verbs_that_make,
};
pub use captures::{
    CaptureRole, CapturedSteps, Captures, accepts_success, captured_steps, may_succeed, recorded,
};
pub use choice::Choice;
pub use event::*;
pub use executable::impossible_steps;
pub use formula::{
    Binary, Expr, Formula, FormulaError, FormulaInputs, Function, common_type, promoted_type,
};
pub use hip::{
    HipAccess, HipArg, HipFunction, HipParameter, HipRead, HipRole, HipSize, MAX_ARGUMENTS,
    MAX_VALUE_BYTES, Sort, hip_accesses, hip_declared, hip_function, hip_functions,
    hip_functions_of_steps, is_handle, is_struct, number_of, pointed, scalar,
};
pub use kernel::{KERNELS, Kernel, KernelFunction, KernelReach, Parameter, ReadTiming, kernel};
pub use late::{Late, delayed_stream};
pub use matmul::{Dtype, MatmulProblem, Operands, matmul, small_numbers};
pub use model::{BufferWrite, Expected, ExpectedBytes, Mistake, Reference, analyse, reference};
pub use order::races;
pub use pattern::{GUARD_BYTE, POISON_BYTE, digest, fill_stamp, pattern};
pub use program::Program;
pub use scalar::{Scalar, ScalarType};
pub use source::{OwnKernel, OwnKind, OwnParameter, flat_args, flat_parameters, own_parameters};
pub use version::{ByVersion, ParseVersionError, Version, VersionRange};
