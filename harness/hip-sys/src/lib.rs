//! Typed bindings to HIP, hipRTC, hipRAND, hipBLASLt and rocBLAS that are resolved at run time.
//!
//! Nothing is linked, so one binary serves every ROCm release. A library or function that a release lacks is a
//! [`LoadError`] value. Opened libraries are never closed, because the ROCm libraries register exit handlers and
//! threads that must not outlive their code.
//!
//! Function names, parameters and constants are those of the public headers; items that differ between releases
//! document it. Calls are `unsafe` as in C: handles and pointers must be what the header requires.

mod blaslt;
mod first_failure;
mod hip;
mod loader;
mod rand;
mod rocblas;
mod rtc;
mod word_calls;

pub use blaslt::{
    Blaslt, HeuristicResult, MatrixPointers, MatrixProduct, status_name as hipblas_status_name,
};
pub use first_failure::take_first_failure;
pub use hip::{
    CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL, DeviceProperties, Dim3,
    ERROR_NOT_READY, EVENT_DEFAULT, EVENT_DISABLE_TIMING, Extent, Hip, HostFunction,
    HostNodeParams, KernelNodeParams, MEM_ATTACH_GLOBAL, Memcpy3dParams, MemcpyKind, MemsetParams,
    PitchedPtr, STREAM_DEFAULT, STREAM_NON_BLOCKING, StreamCallback, capture_status_name,
    exec_update_name,
};
pub use loader::{LoadError, SharedLibrary};
pub use rand::{Rand, RngType, status_name as hiprand_status_name};
pub use rocblas::{Rocblas, status_name as rocblas_status_name};
pub use rtc::{CompileError, Rtc};
