//! HSA queries about the GPU's instruction set, wave size and floating-point modes.

use std::ffi::{c_char, c_void};

use isa::LARGEST_WORKGROUP;

use crate::{
    abi::{Agent, Dim3, InfoOutput, Out, Status, name},
    config,
    report::trace,
};

/// `hsa_isa_t`. All GPUs have the same instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Isa(u64);

pub(crate) const ISA: Isa = Isa(1);

/// Handle of the only wave size (`hsa_wavefront_t`).
const WAVEFRONT: u64 = 1;

/// Returns the maximum size of the LDS of a workgroup, in bytes.
pub(crate) fn group_bytes() -> u32 {
    config::get().arch.facts().lds_bytes
}

fn isa_name() -> String {
    format!("amdgcn-amd-amdhsa--{}", config::get().arch.target_id())
}

#[unsafe(no_mangle)]
extern "C" fn hsa_agent_iterate_isas(
    agent: Agent,
    callback: Option<extern "C" fn(Isa, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    match (callback, agent) {
        (None, _) => Status::INVALID_ARGUMENT,
        (Some(callback), agent) if agent.is_gpu() => callback(ISA, data),
        (Some(_), _) => Status::SUCCESS,
    }
}

/// `hsa_isa_from_name`. Only the name of the device's own architecture is accepted.
///
/// # Safety
/// As HSA requires, `wanted` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_isa_from_name(wanted: *const c_char, isa: Out<Isa>) -> Status {
    // SAFETY: HSA requires the caller to pass a C string.
    match unsafe { name(wanted) } {
        None => Status::INVALID_ARGUMENT,
        Some(wanted) if wanted == isa_name() => isa.put(ISA),
        Some(_) => Status::INVALID_ISA_NAME,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_isa_get_info_alt(isa: Isa, attribute: u32, value: InfoOutput) -> Status {
    if isa != ISA {
        return Status::INVALID_ISA;
    }
    let name = isa_name();
    match attribute {
        // NAME_LENGTH and NAME. As in ROCr, both include the terminating zero.
        0 => value.put(name.len() as u32 + 1),
        1 => value.bytes(&name, true),
        // CALL_CONVENTION_COUNT and CALL_CONVENTION_INFO_WAVEFRONT_SIZE
        2 => value.put(1u32),
        3 => value.put(config::get().arch.wave_size()),
        // MACHINE_MODELS: small, large. PROFILES: base, full.
        5 => value.put([false, true]),
        6 => value.put([true, false]),
        // DEFAULT_FLOAT_ROUNDING_MODES, and the same for the base profile: default, zero, near.
        7 | 8 => value.put([false, false, true]),
        // FAST_F16_OPERATION
        9 => value.put(true),
        // WORKGROUP_MAX_DIM, WORKGROUP_MAX_SIZE
        12 => value.put([LARGEST_WORKGROUP as u16; 3]),
        13 => value.put(LARGEST_WORKGROUP),
        // GRID_MAX_DIM, GRID_MAX_SIZE
        14 => value.put(Dim3 { x: u32::MAX, y: u32::MAX, z: u32::MAX }),
        16 => value.put(u64::MAX),
        // FBARRIER_MAX_SIZE
        17 => value.put(32u32),
        _ => {
            trace!("isa_get_info_alt: attribute {attribute} is not known");
            Status::INVALID_ARGUMENT
        }
    }
}

/// Older form of `hsa_isa_get_info_alt`. `index` selects a calling convention, of which there is only one.
#[unsafe(no_mangle)]
extern "C" fn hsa_isa_get_info(isa: Isa, attribute: u32, index: u32, value: InfoOutput) -> Status {
    if index == 0 { hsa_isa_get_info_alt(isa, attribute, value) } else { Status::INVALID_INDEX }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_isa_compatible(code: Isa, agent: Isa, result: Out<bool>) -> Status {
    if code == ISA && agent == ISA { result.put(true) } else { Status::INVALID_ISA }
}

/// Returns an empty mask, because ROCr does not support floating-point exceptions on any GPU.
#[unsafe(no_mangle)]
extern "C" fn hsa_isa_get_exception_policies(isa: Isa, _profile: u32, mask: Out<u16>) -> Status {
    if isa == ISA { mask.put(0) } else { Status::INVALID_ISA }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_agent_get_exception_policies(
    agent: Agent,
    _profile: u32,
    mask: Out<u16>,
) -> Status {
    if Agent::all().any(|known| known == agent) { mask.put(0) } else { Status::INVALID_AGENT }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_isa_get_round_method(
    isa: Isa,
    _type: u32,
    _flush: u32,
    method: Out<u32>,
) -> Status {
    // HSA_ROUND_METHOD_SINGLE
    if isa == ISA { method.put(0) } else { Status::INVALID_ISA }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_isa_iterate_wavefronts(
    isa: Isa,
    callback: Option<extern "C" fn(u64, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    match callback {
        None => Status::INVALID_ARGUMENT,
        Some(_) if isa != ISA => Status::INVALID_ISA,
        Some(callback) => callback(WAVEFRONT, data),
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_wavefront_get_info(wavefront: u64, attribute: u32, value: InfoOutput) -> Status {
    match (wavefront, attribute) {
        // SIZE
        (WAVEFRONT, 0) => value.put(config::get().arch.wave_size()),
        (WAVEFRONT, _) => Status::INVALID_ARGUMENT,
        _ => Status::INVALID_WAVEFRONT,
    }
}
