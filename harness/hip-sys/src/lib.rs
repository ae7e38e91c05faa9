//! Typed bindings to HIP, hipRTC, hipRAND, hipBLASLt and rocBLAS, resolved when the program runs.
//!
//! Nothing is linked: one binary serves every ROCm release, and a library or function that a release lacks is a
//! [`Missing`] value that says what and why. The library that was opened is never closed, because the
//! ROCm libraries register exit handlers and threads that must not outlive their code.
//!
//! Function names, arguments and constants are those of the public headers; where releases differ the item says so.
//! Calls are `unsafe` as they are in C: handles and pointers must be what the header asks for.

mod blaslt;
mod failure;
mod hip;
mod loader;
mod rand;
mod rocblas;
mod rtc;
mod words;

pub use blaslt::{
    Blaslt, HeuristicResult, Matrices, Operation, status_name as hipblas_status_name,
};
pub use failure::first_failure;
pub use hip::{
    CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL, Dim3, ERROR_NOT_READY,
    EVENT_DEFAULT, EVENT_DISABLE_TIMING, Extent, Hip, HostFunction, HostNodeParams,
    KernelNodeParams, MEM_ATTACH_GLOBAL, Memcpy3dParams, MemcpyKind, MemsetParams, PitchedPtr,
    Properties, STREAM_DEFAULT, STREAM_NON_BLOCKING, StreamCallback, capture_status_name,
    exec_update_name,
};
pub use loader::{Missing, Shared};
pub use rand::{Rand, RngType, status_name as hiprand_status_name};
pub use rocblas::{Rocblas, status_name as rocblas_status_name};
pub use rtc::{CompileError, Rtc};
pub use words::MOST_WORDS;
