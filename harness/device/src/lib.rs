//! Data types about the device below the HIP runtime.
//!
//! The emulated device, the worker and the command share these definitions: the architectures that can be emulated,
//! with the [facts](Facts) about their generations; the faults that can be injected; the configuration, which the
//! command passes to the device in an environment variable; and the report of the device about a process that uses it.
//! This crate does no I/O.

// No match has a wildcard arm, because it would hide that a new architecture must be handled there.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod acts;
mod arch;
mod config;
mod facts;
mod fault;
mod functions;
mod level;
pub mod model;
mod planted;
mod restrictions;
mod sanitize;
mod schedule;
mod witness;

pub use acts::{ACTS_SYMBOL, FaultActivation, FaultActivations};
pub use arch::{Arch, UnknownArch};
pub use config::{
    BUFFER_SYMBOL, CONFIG_VARIABLE, Config, DECODE_SYMBOL, Decode, IDENTITY_SYMBOL, Identity,
    LINE_SYMBOL, MAX_DEVICES, NEVER_WRITTEN_SYMBOL,
};
pub use facts::{
    Descriptors, Facts, Float8, LegacyMultiply, MatrixSums, MatrixUnit, Microcode, ScopeBits,
    WaitCounters,
};
pub use fault::{Fault, FaultPlace, Parameter, UnknownFault, Values};
pub use functions::{
    Enumerator, HIP_FUNCTIONS, HIP_FUNCTIONS_OF_STEPS, LibraryFunction, Names, hip_enumerators,
    hip_statuses, library_function, library_functions,
};
pub use level::Level;
pub use planted::{DecisionScope, FaultSpec, ParameterValue, ParseFaultError, mix};
pub use restrictions::{CaseBody, RESTRICTIONS, Restriction, restriction};
pub use sanitize::{Sanitize, UnknownSanitize};
pub use schedule::{Schedule, UnknownSchedule};
pub use witness::{
    CRASH_FILE_VARIABLE, CRASH_READER_VARIABLE, Mapped, RUNTIME_VARIABLE, WITNESS_VARIABLE, Witness,
};
