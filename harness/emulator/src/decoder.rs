//! Exports a function that shows other programs how the interpreter decodes an instruction. The instruction is not
//! executed.

use std::ffi::{CStr, c_char, c_void};

use device::Arch;

/// Decodes one instruction. [`device::Decode`] describes the arguments and the result.
#[unsafe(no_mangle)]
unsafe extern "C" fn rocrepro_device_decode(
    arch: *const c_char,
    address: u64,
    bytes: *const u8,
    length: usize,
    tell: extern "C" fn(*mut c_void, *const u8, usize, bool),
    whom: *mut c_void,
) -> i64 {
    let say = |text: &str, executable| tell(whom, text.as_ptr(), text.len(), executable);
    // SAFETY: the caller guarantees a C string.
    let name = unsafe { CStr::from_ptr(arch) }.to_string_lossy();
    let arch = match name.parse::<Arch>() {
        Ok(arch) => arch,
        Err(unknown) => {
            say(&unknown.to_string(), false);
            return -1;
        }
    };
    // SAFETY: the caller guarantees `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    match isa::instruction(arch, address, bytes) {
        Ok(None) => 0,
        Ok(Some(found)) => {
            say(&found.text, found.executable);
            found.size as i64
        }
        Err(why) => {
            say(&why, false);
            -1
        }
    }
}

// Checks at compile time that the function has the type that callers use.
const _: device::Decode = rocrepro_device_decode;
