//! Functions without an effect, and functions that the device does not support. ROCr opens the library only if all of
//! them exist.

use std::ffi::{c_int, c_void};

use aql::report;

use crate::status::Status;

/// Accepts the trap handler, which the device never runs, because it reports traps itself.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetTrapHandler(
    _node: u32,
    _code: u64,
    _code_bytes: u64,
    _data: u64,
    _data_bytes: u64,
) -> Status {
    Status::SUCCESS
}

/// Accepts the address at which debuggers find the loaded code objects. Because the call succeeds, ROCr receives errors
/// of queues through signals.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtRuntimeEnable(_debug: *mut c_void, _set_up: bool) -> Status {
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtRuntimeDisable() -> Status {
    Status::SUCCESS
}

/// Capability `HSA_RUNTIME_ENABLE_CAPS_SUPPORTS_CORE_DUMP_MASK`: the driver writes core dumps of the GPU. Without this
/// bit, ROCr itself would write one.
const DRIVER_DUMPS_CORE: u32 = 1 << 31;

/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetRuntimeCapabilities(mask: *mut u32) -> Status {
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { mask.write(DRIVER_DUMPS_CORE) };
    Status::SUCCESS
}

/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtModelEnabled(enabled: *mut bool) -> Status {
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { enabled.write(false) };
    Status::SUCCESS
}

/// Reports that page faults of the device are never retried (XNACK).
///
/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetXNACKMode(mode: *mut i32) -> Status {
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { mode.write(0) };
    Status::SUCCESS
}

/// Defines functions that query or request an optional feature. Each function returns an error without reporting it to
/// the user.
macro_rules! absent {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            Status::NOT_SUPPORTED
        })*
    };
}

absent! {
    hsaKmtCheckRuntimeDebugSupport
    hsaKmtPcSamplingQueryCapabilities
    hsaKmtPcSamplingSupport
    hsaKmtSetXNACKMode
}

/// Defines functions that a program needs in order to behave as on hardware. Each function reports that it is not
/// emulated, and returns an error.
macro_rules! missing {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> Status {
            report::unsupported("(none)", concat!("call not emulated: ", stringify!($name)));
            Status::NOT_SUPPORTED
        })*
    };
}

missing! {
    // These functions share memory with other processes or with graphics interfaces.
    hsaKmtMapGraphicHandle
    hsaKmtProcessVMRead
    hsaKmtProcessVMWrite
    hsaKmtRegisterGraphicsHandleToNodes
    hsaKmtRegisterGraphicsHandleToNodesExt
    hsaKmtRegisterSharedHandle
    hsaKmtRegisterSharedHandleToNodes
    hsaKmtShareMemory
    hsaKmtUnmapGraphicHandle
    // These functions manage shared virtual memory with page migration. The nodes report that it is not supported.
    hsaKmtSVMGetAttr
    hsaKmtSVMSetAttr
    // These functions let the device access files directly.
    hsaKmtAisReadWriteFile
    // These functions read hardware counters and samples.
    hsaKmtOpenSMI
    hsaKmtPcSamplingCreate
    hsaKmtPcSamplingDestroy
    hsaKmtPcSamplingStart
    hsaKmtPcSamplingStop
    hsaKmtPmcAcquireTraceAccess
    hsaKmtPmcGetCounterProperties
    hsaKmtPmcQueryTrace
    hsaKmtPmcRegisterTrace
    hsaKmtPmcReleaseTraceAccess
    hsaKmtPmcStartTrace
    hsaKmtPmcStopTrace
    hsaKmtPmcUnregisterTrace
    hsaKmtSPMAcquire
    hsaKmtSPMRelease
    hsaKmtSPMSetDestBuffer
    // These functions serve debuggers.
    hsaKmtDbgAddressWatch
    hsaKmtDbgDisable
    hsaKmtDbgEnable
    hsaKmtDbgGetDeviceData
    hsaKmtDbgGetQueueData
    hsaKmtDbgRegister
    hsaKmtDbgUnregister
    hsaKmtDbgWavefrontControl
    hsaKmtDebugTrapIoctl
    hsaKmtGetQueueInfo
    // These functions belong to builds of ROCr with AddressSanitizer.
    hsaKmtReplaceAsanHeaderPage
    hsaKmtReturnAsanHeaderPage
}

/// Defines functions of libdrm_amdgpu that a program needs. Each function reports that it is not emulated, and returns
/// an error number.
macro_rules! missing_of_drm {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            report::unsupported("(none)", concat!("call not emulated: ", stringify!($name)));
            -libc::ENOSYS
        })*
    };
}

missing_of_drm! {
    amdgpu_bo_cpu_map
    amdgpu_bo_query_info
    amdgpu_bo_set_metadata
}
