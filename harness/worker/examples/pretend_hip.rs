//! A `libamdhip64` with a few functions that only pretend to work, for the tests of the worker. Its behaviour proves
//! nothing about HIP.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;

#[unsafe(no_mangle)]
extern "C" fn hipInit(_: c_uint) -> c_int {
    SUCCESS
}

/// # Safety
/// `version` must point to writable space for one number.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: callers of HIP pass an address at which the number can be stored.
    unsafe { version.write(1) };
    SUCCESS
}

/// # Safety
/// `count` must point to writable space for one number.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    // SAFETY: callers of HIP pass an address at which the number can be stored.
    unsafe { count.write(1) };
    SUCCESS
}

/// # Safety
/// `properties` must point to a zeroed structure of device properties.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDevicePropertiesR0600(properties: *mut c_void, _: c_int) -> c_int {
    let gcn_arch_name = properties.wrapping_byte_add(1160).cast::<u8>();
    // SAFETY: callers of HIP pass the address of a structure of properties, in which this field has 256 bytes.
    unsafe { ptr::copy_nonoverlapping(b"gfx0".as_ptr(), gcn_arch_name, 4) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    let name: &CStr = match status {
        SUCCESS => c"hipSuccess",
        INVALID_VALUE => c"hipErrorInvalidValue",
        _ => c"hipErrorUnknown",
    };
    name.as_ptr()
}

/// Reports 1 MiB of memory, all of it free. If `PRETEND_OTHERS` is set, the free memory shrinks by 4096 bytes at each
/// call, as if another process allocated memory. If `PRETEND_LATE` is set to a number, the 8th call and that many calls
/// after it report 4096 bytes less, as if the runtime freed memory late. If `PRETEND_LATE` is `even`, every second call
/// reports less.
///
/// # Safety
/// `free` and `total` must each point to writable space for one number.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    let late = std::env::var("PRETEND_LATE").ok();
    let is_even = late.as_ref().is_some_and(|late| late == "even");
    let late = late.and_then(|calls| calls.parse().ok());
    let taken = if std::env::var_os("PRETEND_OTHERS").is_some() {
        calls * 4096
    } else if late.is_some_and(|late: usize| calls >= 7 && calls <= 7 + late)
        || is_even && calls % 2 == 1
    {
        4096
    } else {
        0
    };
    // SAFETY: callers of HIP pass an address for each of the two numbers.
    unsafe {
        free.write((1 << 20) - taken);
        total.write(1 << 20);
    }
    SUCCESS
}

/// Prints to standard output, which libraries should not do.
#[unsafe(no_mangle)]
extern "C" fn hipDeviceSynchronize() -> c_int {
    println!("chatter");
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphLaunch(_: *mut c_void, _: *mut c_void) -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphDestroy(graph: *mut c_void) -> c_int {
    if graph.is_null() { INVALID_VALUE } else { SUCCESS }
}
