//! Older functions of the HSA interface for executables and their attributes.

use std::ffi::{c_char, c_void};

use super::{
    hsa_executable_create_alt, hsa_executable_freeze, hsa_executable_get_symbol_by_name,
    hsa_executable_iterate_symbols, with,
};
use crate::abi::{Agent, InfoOutput, Out, Status};

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_create(
    profile: u32,
    state: u32,
    options: *const c_char,
    executable: Out<u64>,
) -> Status {
    let status = hsa_executable_create_alt(profile, 0, options, executable);
    // HSA_EXECUTABLE_STATE_FROZEN is 1.
    match executable.get() {
        Some(created) if status == Status::SUCCESS && state == 1 => {
            hsa_executable_freeze(created, options)
        }
        _ => status,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_get_info(
    executable: u64,
    attribute: u32,
    value: InfoOutput,
) -> Status {
    let frozen = with(|registry| registry.executables.get(&executable).map(|e| e.frozen));
    let Some(frozen) = frozen else { return Status::INVALID_EXECUTABLE };
    match attribute {
        // PROFILE: base.
        1 => value.put(0u32),
        // STATE: unfrozen, frozen.
        2 => value.put(u32::from(frozen)),
        // DEFAULT_FLOAT_ROUNDING_MODE: near.
        3 => value.put(2u32),
        _ => Status::INVALID_ARGUMENT,
    }
}

/// Stores zero (valid) in `result`, because invalid executables have been rejected when they were loaded.
#[unsafe(no_mangle)]
extern "C" fn hsa_executable_validate(executable: u64, result: Out<u32>) -> Status {
    if with(|registry| registry.executables.contains_key(&executable)) {
        result.put(0)
    } else {
        Status::INVALID_EXECUTABLE
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_validate_alt(
    executable: u64,
    _options: *const c_char,
    result: Out<u32>,
) -> Status {
    hsa_executable_validate(executable, result)
}

/// `hsa_executable_get_symbol`. AMD's code objects have no modules, so a module name is never found.
///
/// # Safety
/// As HSA requires, `module` must be null or a C string, and `symbol_name` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_executable_get_symbol(
    executable: u64,
    module: *const c_char,
    symbol_name: *const c_char,
    agent: Agent,
    _convention: i32,
    symbol: Out<u64>,
) -> Status {
    // SAFETY: HSA requires the caller to pass a C string.
    if unsafe { crate::abi::name(module) }.is_some_and(|module| !module.is_empty()) {
        return Status::INVALID_SYMBOL_NAME;
    }
    // SAFETY: the name is passed on unchanged, and the agent is a local variable.
    unsafe { hsa_executable_get_symbol_by_name(executable, symbol_name, &agent, symbol) }
}

type AgentSymbolCallback = extern "C" fn(u64, Agent, u64, *mut c_void) -> Status;

#[unsafe(no_mangle)]
extern "C" fn hsa_executable_iterate_agent_symbols(
    executable: u64,
    agent: Agent,
    callback: Option<AgentSymbolCallback>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    let symbols = with(|registry| {
        let symbols = &registry.executables.get(&executable)?.symbols;
        let of_agent = |handle: &&u64| {
            registry.symbols.get(handle).is_some_and(|symbol| symbol.agent == agent)
        };
        Some(symbols.iter().filter(of_agent).copied().collect::<Vec<u64>>())
    });
    let Some(symbols) = symbols else { return Status::INVALID_EXECUTABLE };
    for symbol in symbols {
        let status = callback(executable, agent, symbol, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

/// Never calls the callback, because HSA would call it for symbols that belong to a program instead of an agent. AMD's
/// compiler never creates such symbols.
#[unsafe(no_mangle)]
extern "C" fn hsa_executable_iterate_program_symbols(
    executable: u64,
    callback: Option<extern "C" fn(u64, u64, *mut c_void) -> Status>,
    _data: *mut c_void,
) -> Status {
    extern "C" fn nothing(_executable: u64, _symbol: u64, _data: *mut c_void) -> Status {
        Status::SUCCESS
    }
    if callback.is_none() {
        return Status::INVALID_ARGUMENT;
    }
    hsa_executable_iterate_symbols(executable, Some(nothing), std::ptr::null_mut())
}
