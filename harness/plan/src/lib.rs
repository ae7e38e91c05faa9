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
    Asynchronous, By, Call, Cpp, Effect, Field, Gives, Holds, InCapture, Key, KeyHolds, Keys,
    Library, Misbehaviour, Named, NamedAs, OnCaptures, OnMemory, OnOrder, Over, PLAN_VERSION,
    Phase, Plan, ReadVerb, SinceFirst, Step, Takes, Thing, Verb, WorksIn, WriteVerb, api, apis,
    functions, is_result, verbs, verbs_that_make,
};
pub use captures::{Captured, Captures, Role, accepts, captured, may_succeed, recorded};
pub use choice::Choice;
pub use event::*;
pub use executable::impossible;
pub use formula::{Binary, Expr, Formula, Function, Values, Wrong, promoted, together};
pub use hip::{
    HipArg, HipFunction, HipParameter, HipRead, HipRole, MOST_ARGUMENTS, ROOM, Size, Sort, Touched,
    hip_declared, hip_function, hip_functions, hip_functions_of_steps, is_handle, is_struct,
    number_of, pointed, scalar, touched,
};
pub use kernel::{Computes, KERNELS, Kernel, Parameter, Reach, Reads, kernel};
pub use late::{Late, late_on};
pub use matmul::{Dtype, MatmulProblem, Operands, matmul, numbers};
pub use model::{Content, Expected, Mistake, Reference, Write, analyse, reference};
pub use order::races;
pub use pattern::{GUARD_BYTE, POISON_BYTE, digest, fill_stamp, pattern};
pub use program::Program;
pub use scalar::{Scalar, ScalarType};
pub use source::{OwnKernel, OwnKind, OwnParameter, flat_args, flat_parameters, own_parameters};
pub use version::{ByVersion, ParseVersionError, Version, VersionRange};
