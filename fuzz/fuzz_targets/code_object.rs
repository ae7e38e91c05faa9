//! Fuzz target that passes bytes to the HSA calls that load a code object and query its symbols, in the order in which
//! the HIP runtime makes these calls. For every input, each call must return a status.

#![no_main]

use std::{
    ffi::{CStr, c_char, c_void},
    ptr::null,
};

// The functions of this crate are called by their C names.
use hsa_runtime64 as _;
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    safe fn hsa_init() -> u32;
    fn hsa_code_object_reader_create_from_memory(at: *const u8, len: usize, out: *mut u64) -> u32;
    safe fn hsa_code_object_reader_destroy(reader: u64) -> u32;
    fn hsa_executable_create_alt(p: u32, r: u32, options: *const c_char, out: *mut u64) -> u32;
    fn hsa_executable_agent_global_variable_define(
        executable: u64,
        agent: u64,
        name: *const c_char,
        address: u64,
    ) -> u32;
    fn hsa_executable_load_agent_code_object(
        executable: u64,
        agent: u64,
        reader: u64,
        options: *const c_char,
        loaded: *mut u64,
    ) -> u32;
    fn hsa_executable_freeze(executable: u64, options: *const c_char) -> u32;
    fn hsa_executable_iterate_symbols(
        executable: u64,
        callback: extern "C" fn(u64, u64, *mut c_void) -> u32,
        data: *mut c_void,
    ) -> u32;
    fn hsa_executable_symbol_get_info(symbol: u64, attribute: u32, value: *mut c_void) -> u32;
    safe fn hsa_executable_destroy(executable: u64) -> u32;
    fn hsa_iterate_agents(
        callback: extern "C" fn(u64, *mut c_void) -> u32,
        data: *mut c_void,
    ) -> u32;
}

/// Name of an external variable, so that relocations against an external variable are tested.
const EXTERNAL: &CStr = c"x";

extern "C" fn last_agent(agent: u64, out: *mut c_void) -> u32 {
    // SAFETY: `out` points to the variable of `gpu`, which is alive.
    unsafe { out.cast::<u64>().write(agent) };
    0
}

/// Returns the agent of the GPU, which is the last one.
fn gpu() -> u64 {
    let mut agent = 0u64;
    // SAFETY: the callback writes to `agent`, which outlives the call.
    let status = unsafe { hsa_iterate_agents(last_agent, (&raw mut agent).cast()) };
    assert_eq!(status, 0);
    agent
}

/// Values of `hsa_executable_symbol_info_t` to query. The result of each is a number of four or eight bytes.
const NUMBERS: [u32; 14] = [0, 5, 9, 10, 11, 12, 13, 14, 15, 17, 20, 21, 22, 99];
const NAME_LENGTH: u32 = 1;
const NAME: u32 = 2;

extern "C" fn ask(_: u64, symbol: u64, _: *mut c_void) -> u32 {
    for attribute in NUMBERS {
        let mut value = 0u64;
        // SAFETY: no query in `NUMBERS` writes more than eight bytes.
        unsafe { hsa_executable_symbol_get_info(symbol, attribute, (&raw mut value).cast()) };
    }
    let mut length = 0u32;
    // SAFETY: the length of a name is written as four bytes.
    let status =
        unsafe { hsa_executable_symbol_get_info(symbol, NAME_LENGTH, (&raw mut length).cast()) };
    assert_eq!(status, 0);
    let mut name = vec![0u8; length as usize];
    // SAFETY: the buffer has the length that the last query returned.
    let status = unsafe { hsa_executable_symbol_get_info(symbol, NAME, name.as_mut_ptr().cast()) };
    assert_eq!(status, 0);
    assert!(!name.contains(&0), "a zero inside of a name");
    0
}

fuzz_target!(init: assert_eq!(hsa_init(), 0), |bytes: &[u8]| {
    let (mut reader, mut executable) = (0, 0);
    // SAFETY: the pointers point to live variables, and the bytes outlive the calls.
    unsafe {
        if hsa_code_object_reader_create_from_memory(bytes.as_ptr(), bytes.len(), &mut reader) != 0 {
            return;
        }
        assert_eq!(hsa_executable_create_alt(1, 0, null(), &mut executable), 0);
    }
    let agent = gpu();
    // SAFETY: the pointers point to live variables, and the callback keeps no pointer.
    unsafe {
        hsa_executable_agent_global_variable_define(executable, agent, EXTERNAL.as_ptr(), 0x1000);
        let mut loaded = 0;
        let status =
            hsa_executable_load_agent_code_object(executable, agent, reader, null(), &mut loaded);
        hsa_executable_freeze(executable, null());
        if status == 0 {
            assert_eq!(
                hsa_executable_iterate_symbols(executable, ask, std::ptr::null_mut()),
                0
            );
        }
    }
    assert_eq!(hsa_executable_destroy(executable), 0);
    assert_eq!(hsa_code_object_reader_destroy(reader), 0);
});
