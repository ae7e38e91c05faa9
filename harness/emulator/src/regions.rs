//! Memory regions of HSA's core interface. Each region corresponds to a pool of AMD's extension and has the handle of
//! that pool.

use std::ffi::c_void;

use crate::{
    abi::{Agent, InfoOutput, Out, Pool, Status},
    isas::group_bytes,
    pools::{
        hsa_amd_memory_pool_allocate, hsa_amd_memory_pool_free, hsa_amd_memory_pool_get_info,
        of_agent,
    },
};

/// Calls the callback for each region of an agent. As in ROCr, the regions of an agent are its own memory and the
/// memory of the host.
#[unsafe(no_mangle)]
extern "C" fn hsa_agent_iterate_regions(
    agent: Agent,
    callback: Option<extern "C" fn(Pool, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    let Some(own) = of_agent(agent) else { return Status::INVALID_AGENT };
    let host = of_agent(Agent::CPU).filter(|_| agent != Agent::CPU);
    for region in own.into_iter().chain(host.into_iter().flatten()) {
        let status = callback(region, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_region_get_info(region: Pool, attribute: u32, value: InfoOutput) -> Status {
    let status = match (attribute, region.allocatable()) {
        // SEGMENT, GLOBAL_FLAGS, SIZE, RUNTIME_ALLOC_ALLOWED, RUNTIME_ALLOC_GRANULE and RUNTIME_ALLOC_ALIGNMENT have
        // the same numbers as for pools.
        (0..=2 | 5..=7, _) => hsa_amd_memory_pool_get_info(region, attribute, value),
        // ALLOC_MAX_SIZE. Memory of the group segment cannot be allocated.
        (4, Some(_)) => hsa_amd_memory_pool_get_info(region, 16, value),
        (4, None) => value.put(0usize),
        // ALLOC_MAX_PRIVATE_WORKGROUP_SIZE
        (8, None) => value.put(group_bytes()),
        _ => Status::INVALID_ARGUMENT,
    };
    if status == Status::INVALID_MEMORY_POOL { Status::INVALID_REGION } else { status }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_memory_allocate(region: Pool, bytes: usize, pointer: Out<usize>) -> Status {
    match hsa_amd_memory_pool_allocate(region, bytes, 0, pointer) {
        Status::INVALID_MEMORY_POOL => Status::INVALID_REGION,
        status => status,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_memory_free(pointer: usize) -> Status {
    hsa_amd_memory_pool_free(pointer)
}

/// Does nothing, as in ROCr, because every agent can access every pool.
#[unsafe(no_mangle)]
extern "C" fn hsa_memory_assign_agent(pointer: usize, agent: Agent, access: u32) -> Status {
    // hsa_access_permission_t: read is 1, write 2, both 3.
    if pointer == 0 || !(1..=3).contains(&access) {
        Status::INVALID_ARGUMENT
    } else if !Agent::all().any(|known| known == agent) {
        Status::INVALID_AGENT
    } else {
        Status::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(region: Pool, bytes: usize, expected: Status) {
        let mut pointer = 0usize;
        // SAFETY: `Out` is a transparent pointer, in this case to a local variable of its type.
        let out = unsafe { std::mem::transmute::<*mut usize, Out<usize>>(&raw mut pointer) };
        assert_eq!(hsa_memory_allocate(region, bytes, out), expected);
        assert_eq!(pointer != 0, expected == Status::SUCCESS);
        assert_eq!(hsa_memory_free(pointer), Status::SUCCESS);
    }

    #[test]
    fn allocates_only_from_global_regions() {
        let [host, ..] = of_agent(Agent::CPU).unwrap();
        let [device, _, group] = of_agent(Agent::GPU).unwrap();
        check(host, 100, Status::SUCCESS);
        check(device, 100, Status::SUCCESS);
        check(device, 0, Status::INVALID_ARGUMENT);
        check(device, usize::MAX, Status::INVALID_ALLOCATION);
        check(group, 100, Status::INVALID_REGION);
        check(Pool(9), 100, Status::INVALID_REGION);
        assert_eq!(hsa_memory_free(1), Status::INVALID_ALLOCATION);
        assert_eq!(hsa_memory_assign_agent(1, Agent::GPU, 4), Status::INVALID_ARGUMENT);
    }
}
