//! HSA queries about the data caches of the GPU. The device reports caches but does not emulate them.

use std::ffi::{CStr, c_char, c_void};

use crate::{
    abi::{Agent, InfoOutput, Status},
    config, model,
};

/// `hsa_cache_t`: the level of a GPU cache, counted from 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Cache(u64);

const NAMES: [&CStr; 3] = [c"GPU L1", c"GPU L2", c"GPU L3"];

/// Returns the size of a cache in bytes; `None` if the handle is invalid or the GPU has no cache of this level.
fn bytes(Cache(level): Cache) -> Option<u32> {
    let caches = model::for_arch(config::get().arch).caches;
    let kib = caches.get(usize::try_from(level).ok()?.checked_sub(1)?)?;
    (*kib > 0).then_some(*kib << 10)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_agent_iterate_caches(
    agent: Agent,
    callback: Option<extern "C" fn(Cache, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    if !Agent::all().any(|known| known == agent) {
        return Status::INVALID_AGENT;
    }
    let all = (1..=NAMES.len() as u64).map(Cache);
    for cache in all.filter(|cache| agent.is_gpu() && bytes(*cache).is_some()) {
        let status = callback(cache, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_cache_get_info(cache: Cache, attribute: u32, value: InfoOutput) -> Status {
    let Some(bytes) = bytes(cache) else { return Status::INVALID_CACHE };
    let name: &'static CStr = NAMES[cache.0 as usize - 1];
    match attribute {
        // NAME_LENGTH and NAME. As in ROCr, NAME returns the address of the string.
        0 => value.put(name.count_bytes() as u32),
        1 => value.put(name.as_ptr().cast::<c_char>()),
        // LEVEL, SIZE
        2 => value.put(cache.0 as u8),
        3 => value.put(bytes),
        _ => Status::INVALID_ARGUMENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_report_level_and_size() {
        extern "C" fn note(cache: Cache, data: *mut c_void) -> Status {
            let (mut level, mut size) = (0u8, 0u32);
            // SAFETY: `InfoOutput` is a transparent pointer, in this case to local variables of the attributes' types.
            // `data` points to the vector of the test.
            unsafe {
                let level = std::mem::transmute::<*mut u8, InfoOutput>(&raw mut level);
                let size = std::mem::transmute::<*mut u32, InfoOutput>(&raw mut size);
                assert_eq!(hsa_cache_get_info(cache, 2, level), Status::SUCCESS);
                assert_eq!(hsa_cache_get_info(cache, 3, size), Status::SUCCESS);
            }
            // SAFETY: `data` points to the vector of the test, which outlives the call.
            unsafe { (*data.cast::<Vec<(u8, u32)>>()).push((level, size)) };
            if level == 2 { Status::INFO_BREAK } else { Status::SUCCESS }
        }
        let mut seen: Vec<(u8, u32)> = Vec::new();
        let data = (&raw mut seen).cast::<c_void>();
        // The value that the callback returned ends the iteration.
        assert_eq!(hsa_agent_iterate_caches(Agent::GPU, Some(note), data), Status::INFO_BREAK);
        let [l1, l2, _] = model::for_arch(config::get().arch).caches;
        assert_eq!(seen, [(1, l1 << 10), (2, l2 << 10)]);
        assert_eq!(hsa_agent_iterate_caches(Agent(99), Some(note), data), Status::INVALID_AGENT);
    }
}
