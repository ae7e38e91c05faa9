//! Memory pools, and the functions that allocate, free, lock and describe memory.

use std::ffi::c_void;

use crate::{
    abi::{Agent, InfoOutput, Out, PointerInfo, Pool, Status, pool_flag},
    address_map::{Kind, PAGE, Region},
    config, copy_engine, deallocation,
    isas::group_bytes,
    memory,
    report::trace,
    row::Row,
    system_events,
    transfer::CopyEffect,
    vmem,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Global { flags: u32 },
    Group,
}

const HOST_FINE: Pool = Pool(0x11);
const HOST_KERNARG: Pool = Pool(0x12);
const HOST_COARSE: Pool = Pool(0x13);
const DEVICE_COARSE: Pool = Pool(0x21);
const DEVICE_FINE: Pool = Pool(0x22);
const DEVICE_GROUP: Pool = Pool(0x23);
/// Position of the lowest bit of the GPU number within a pool handle.
const NUMBER_SHIFT: u32 = 8;

impl Pool {
    /// Returns the agent that owns the pool, and the memory segment of the pool; `None` for an invalid handle.
    fn describe(self) -> Option<(Agent, Segment)> {
        use pool_flag::{COARSE_GRAINED, FINE_GRAINED, KERNARG};
        let global = |flags| Segment::Global { flags };
        // The handles of the pools of two GPUs differ only in the GPU's number in the upper bits.
        let agent = Agent(Agent::GPU.0 + (self.0 >> NUMBER_SHIFT));
        let kind = Pool(self.0 & ((1 << NUMBER_SHIFT) - 1));
        if !agent.is_gpu() || (agent != Agent::GPU && kind.0 < DEVICE_COARSE.0) {
            return None;
        }
        Some(match kind {
            HOST_FINE => (Agent::CPU, global(FINE_GRAINED)),
            HOST_KERNARG => (Agent::CPU, global(FINE_GRAINED | KERNARG)),
            HOST_COARSE => (Agent::CPU, global(COARSE_GRAINED)),
            DEVICE_COARSE => (agent, global(COARSE_GRAINED)),
            DEVICE_FINE => (agent, global(FINE_GRAINED)),
            DEVICE_GROUP => (agent, Segment::Group),
            _ => return None,
        })
    }

    /// Returns the owner and the global flags of the pool; `None` if memory cannot be allocated from it.
    pub(crate) fn allocatable(self) -> Option<(Agent, u32)> {
        match self.describe()? {
            (owner, Segment::Global { flags }) => Some((owner, flags)),
            (_, Segment::Group) => None,
        }
    }
}

fn host_bytes() -> usize {
    // SAFETY: neither call has preconditions.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0) * usize::try_from(size).unwrap_or(0)
}

pub(crate) fn of_agent(agent: Agent) -> Option<[Pool; 3]> {
    match (agent, agent.gpu()) {
        (Agent::CPU, _) => Some([HOST_FINE, HOST_KERNARG, HOST_COARSE]),
        (_, Some(index)) => Some(
            [DEVICE_COARSE, DEVICE_FINE, DEVICE_GROUP]
                .map(|pool| Pool(pool.0 | (index as u64) << NUMBER_SHIFT)),
        ),
        _ => None,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_agent_iterate_memory_pools(
    agent: Agent,
    callback: Option<extern "C" fn(Pool, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    let Some(pools) = of_agent(agent) else { return Status::INVALID_AGENT };
    for pool in pools {
        let status = callback(pool, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_amd_memory_pool_get_info(
    pool: Pool,
    attribute: u32,
    value: InfoOutput,
) -> Status {
    let Some((owner, segment)) = pool.describe() else { return Status::INVALID_MEMORY_POOL };
    let bytes = match segment {
        Segment::Group => group_bytes() as usize,
        Segment::Global { .. } if owner.is_gpu() => memory::reported_bytes() as usize,
        Segment::Global { .. } => host_bytes(),
    };
    match attribute {
        // SEGMENT: global is 0, group is 3.
        0 => value.put(if segment == Segment::Group { 3u32 } else { 0 }),
        // GLOBAL_FLAGS
        1 => value.put(match segment {
            Segment::Global { flags } => flags,
            Segment::Group => 0,
        }),
        // SIZE, ALLOC_MAX_SIZE
        2 | 16 => value.put(bytes),
        // RUNTIME_ALLOC_ALLOWED
        5 => value.put(segment != Segment::Group),
        // RUNTIME_ALLOC_GRANULE, RUNTIME_ALLOC_ALIGNMENT
        6 | 7 => value.put(PAGE),
        // ACCESSIBLE_BY_ALL
        15 => value.put(!owner.is_gpu()),
        // LOCATION
        17 => value.put(u32::from(owner.is_gpu())),
        // RUNTIME_ALLOC_REC_GRANULE: the size of a large page.
        18 => value.put(2usize << 20),
        _ => {
            trace!("memory_pool_get_info: attribute {attribute} is not known");
            Status::INVALID_ARGUMENT
        }
    }
}

/// `hsa_amd_memory_pool_link_info_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct LinkInfo {
    latency: [u32; 2],
    bandwidth: [u32; 2],
    atomic_32: bool,
    atomic_64: bool,
    coherent: bool,
    kind: u32,
    numa_distance: u32,
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_agent_memory_pool_get_info(
    agent: Agent,
    pool: Pool,
    attribute: u32,
    value: InfoOutput,
) -> Status {
    let Some((owner, _)) = pool.describe() else { return Status::INVALID_MEMORY_POOL };
    match attribute {
        // ACCESS: 0 is never, 1 is allowed, 2 is disallowed by default. Without a large BAR the host can never access
        // device memory directly. A GPU can access memory of another GPU on request.
        0 => value.put(match (agent == owner, owner.is_gpu(), agent.is_gpu()) {
            (true, ..) => 1u32,
            (false, true, false) if !config::get().large_bar => 0,
            _ => 2,
        }),
        // NUM_LINK_HOPS
        1 => value.put(u32::from(agent != owner)),
        // LINK_INFO: one PCIe link with atomics.
        2 if agent == owner => Status::SUCCESS,
        2 => value.put(LinkInfo {
            latency: [0; 2],
            bandwidth: [0; 2],
            atomic_32: true,
            atomic_64: true,
            coherent: true,
            kind: 2,
            numa_distance: 20,
        }),
        _ => Status::INVALID_ARGUMENT,
    }
}

/// Returns the maximum size of an allocation that this agent owns, in bytes.
fn room(owner: Agent) -> usize {
    if owner.is_gpu() { config::get().total_memory() as usize } else { host_bytes() }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_amd_memory_pool_allocate(
    pool: Pool,
    bytes: usize,
    _flags: u32,
    pointer: Out<usize>,
) -> Status {
    let Some((owner, flags)) = pool.allocatable() else { return Status::INVALID_MEMORY_POOL };
    if bytes == 0 || pointer.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    if bytes > room(owner) {
        return Status::INVALID_ALLOCATION;
    }
    match memory::allocate(bytes, owner, flags, Kind::Pool) {
        Some(start) => {
            trace!("allocate {bytes} bytes of pool {:#x} at {start:#x}", pool.0);
            pointer.put(start)
        }
        None => {
            trace!("allocate {bytes} bytes of pool {:#x}: not enough memory", pool.0);
            Status::OUT_OF_RESOURCES
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn hsa_amd_memory_pool_free(pointer: usize) -> Status {
    if pointer == 0 {
        return Status::SUCCESS;
    }
    trace!("free {pointer:#x}");
    // The address is the ring of a queue or a loaded executable. Like the amdgpu driver, the device refuses to free
    // memory that is in use.
    let found = memory::map().find(pointer);
    if let Some((start, Region { kind: Kind::Internal, owner, .. })) = found
        && start == pointer
    {
        system_events::memory_in_use(pointer as u64, owner);
        return Status::ERROR;
    }
    if deallocation::free(pointer) { Status::SUCCESS } else { Status::INVALID_ALLOCATION }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_agents_allow_access(
    _count: u32,
    _agents: *const Agent,
    _flags: *const u32,
    pointer: usize,
) -> Status {
    // All pools are accessible to every GPU.
    if memory::map().find(pointer).is_some() { Status::SUCCESS } else { Status::INVALID_ALLOCATION }
}

fn lock(pointer: usize, bytes: usize, device_pointer: Out<usize>) -> Status {
    if pointer == 0 || bytes == 0 {
        return Status::INVALID_ARGUMENT;
    }
    trace!("lock {bytes} bytes at {pointer:#x}");
    let flags = pool_flag::FINE_GRAINED;
    let region = Region { len: bytes, kind: Kind::Locked { count: 0 }, owner: Agent::CPU, flags };
    memory::map_mut().lock(pointer, region);
    device_pointer.put(pointer)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_memory_lock(
    pointer: usize,
    bytes: usize,
    _agents: *const Agent,
    _count: i32,
    device_pointer: Out<usize>,
) -> Status {
    lock(pointer, bytes, device_pointer)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_memory_lock_to_pool(
    pointer: usize,
    bytes: usize,
    _agents: *const Agent,
    _count: i32,
    _pool: Pool,
    _flags: u32,
    device_pointer: Out<usize>,
) -> Status {
    lock(pointer, bytes, device_pointer)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_memory_unlock(pointer: usize) -> Status {
    trace!("unlock {pointer:#x}");
    // Like ROCr, the device reports no error if the memory was not locked.
    memory::map_mut().unlock(pointer);
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_pointer_info(
    pointer: usize,
    info: Out<PointerInfo>,
    allocate: Option<extern "C" fn(usize) -> *mut c_void>,
    agent_count: Out<u32>,
    agents: Out<*mut Agent>,
) -> Status {
    let Some(asked) = info.get() else { return Status::INVALID_ARGUMENT };
    let bytes = (asked.size as usize).min(size_of::<PointerInfo>());
    let unknown = PointerInfo {
        size: bytes as u32,
        kind: 0,
        agent_base: 0,
        host_base: 0,
        bytes: 0,
        user_data: 0,
        owner: Agent(0),
        global_flags: 0,
        registered: 0,
    };
    let found = memory::map().find(pointer);
    // HSA_EXT_POINTER_TYPE_RESERVED_ADDR (ROCm 6.2) is 5.
    let reserved = vmem::reservation(pointer).map_or(unknown, |(start, bytes)| PointerInfo {
        kind: 5,
        agent_base: start as u64,
        host_base: start as u64,
        bytes,
        ..unknown
    });
    let answer = found.map_or(reserved, |(start, region)| PointerInfo {
        // hsa_amd_pointer_type_t: HSA is 1, LOCKED 2, IPC 4, HSA_VMEM (ROCm 6.4) 6.
        kind: match region.kind {
            Kind::Pool | Kind::Internal => 1,
            Kind::Locked { .. } => 2,
            Kind::Attached => 4,
            Kind::Virtual { .. } => 6,
        },
        agent_base: start as u64,
        host_base: start as u64,
        bytes: region.len,
        owner: region.owner,
        global_flags: region.flags,
        registered: 1,
        ..unknown
    });
    let reachable: Vec<Agent> = match found {
        None => Vec::new(),
        Some((_, Region { kind: Kind::Virtual { .. }, .. })) => vmem::agents_with_access(pointer),
        Some(_) => Agent::all().collect(),
    };
    agent_count.put_if_wanted(reachable.len() as u32);
    if let (Some(allocate), false, false) = (allocate, agents.is_null(), reachable.is_empty()) {
        let list = allocate(size_of_val(reachable.as_slice())).cast::<Agent>();
        if list.is_null() {
            return Status::OUT_OF_RESOURCES;
        }
        // SAFETY: the caller's allocator returned enough memory for the list.
        unsafe { std::ptr::copy_nonoverlapping(reachable.as_ptr(), list, reachable.len()) };
        agents.put_if_wanted(list);
    }
    info.put_prefix(answer, bytes)
}

/// `hsa_amd_memory_fill` sets 32-bit words. As in ROCr (`Runtime::FillMemory`), the call returns after the words have
/// been set, and its writes are not ordered with packets and copies.
#[unsafe(no_mangle)]
extern "C" fn hsa_amd_memory_fill(pointer: usize, value: u32, count: usize) -> Status {
    if pointer == 0 || !pointer.is_multiple_of(size_of::<u32>()) {
        return Status::INVALID_ARGUMENT;
    }
    if count == 0 {
        return Status::SUCCESS;
    }
    trace!("fill {count} words at {pointer:#x} with {value:#x}");
    let in_use = memory::InUse::new();
    let end = count.checked_mul(size_of::<u32>()).and_then(|bytes| pointer.checked_add(bytes));
    let region = memory::map().find(pointer);
    match (region, end) {
        (Some((start, region)), Some(end)) if end <= start + region.len => {}
        _ => return Status::INVALID_ALLOCATION,
    }
    let pattern = vec![value; count.min(FILL_WORDS)];
    let rows: Vec<Row> = (0..count)
        .step_by(FILL_WORDS)
        .map(|first| Row {
            to: pointer + first * size_of::<u32>(),
            from: pattern.as_ptr() as usize,
            len: (count - first).min(FILL_WORDS) * size_of::<u32>(),
        })
        .collect();
    // SAFETY: the words are in the address map, `in_use` keeps them mapped, and the pattern is as long as the longest
    // row.
    let status = unsafe { copy_engine::move_by_host(&rows, CopyEffect::Complete) };
    drop(in_use);
    status
}

/// Number of words that are set by one [`Row`] of a fill.
const FILL_WORDS: usize = 16 << 10;

#[unsafe(no_mangle)]
extern "C" fn hsa_memory_register(pointer: usize, bytes: usize) -> Status {
    lock(pointer, bytes, Out::none());
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_memory_deregister(pointer: usize, _bytes: usize) -> Status {
    hsa_amd_memory_unlock(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills memory in an allocation of one page, and compares the status and the first and last byte of the page with
    /// the expected ones.
    #[track_caller]
    fn check(offset: usize, count: usize, status: Status, ends: [u8; 2]) {
        let start = memory::allocate(PAGE, Agent::GPU, 0, Kind::Pool).unwrap();
        assert_eq!(hsa_amd_memory_fill(start + offset, 0x0403_0201, count), status);
        // SAFETY: the bytes are the first and the last byte of the page, which nothing else accesses.
        let bytes = unsafe { [*(start as *const u8), *((start + PAGE - 1) as *const u8)] };
        assert_eq!(bytes, ends);
        assert_eq!(hsa_amd_memory_pool_free(start), Status::SUCCESS);
    }

    #[test]
    fn fill_needs_whole_words_in_one_allocation() {
        check(0, PAGE / 4, Status::SUCCESS, [1, 4]);
        check(0, 1, Status::SUCCESS, [1, 0]);
        check(4, PAGE / 4 - 1, Status::SUCCESS, [0, 4]);
        check(0, 0, Status::SUCCESS, [0, 0]);
        check(2, 1, Status::INVALID_ARGUMENT, [0, 0]);
        check(4, PAGE / 4, Status::INVALID_ALLOCATION, [0, 0]);
        check(4, usize::MAX, Status::INVALID_ALLOCATION, [0, 0]);
        assert_eq!(hsa_amd_memory_fill(0, 0, 1), Status::INVALID_ARGUMENT);
    }
}
