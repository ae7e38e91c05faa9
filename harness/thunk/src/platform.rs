//! The two functions that ROCr calls to create and destroy its platform object for this library.

use std::ffi::{c_char, c_void};

/// Value whose address ROCr receives as the device. ROCr only checks that the address is not null.
static PLATFORM: u8 = 0;

#[unsafe(no_mangle)]
extern "C" fn DtifCreate(_name: *const c_char) -> *mut c_void {
    (&raw const PLATFORM).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn DtifDestroy() {}
