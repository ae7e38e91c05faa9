//! Typed bindings to HIP, hipRTC, hipRAND, hipBLASLt and rocBLAS that are resolved at run time.
//!
//! The program is not linked with these libraries. Therefore, one binary works with every ROCm release. If a release
//! lacks a library or function, loading or calling it returns a [`LoadError`]. Opened libraries are never closed,
//! because the ROCm libraries register exit handlers and start threads that use the library's code until the process
//! ends.
//!
//! Function names, parameters and constants are those of the public headers. If an item differs between releases, its
//! documentation mentions this. Calls are `unsafe`, because handles and pointers must meet the requirements of the
//! header.

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
