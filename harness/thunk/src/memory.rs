//! Allocates memory, and maps it for the device. Host and device use the same addresses.

use std::sync::Mutex;

use aql::report::trace;

use crate::{
    address_map::{self, Allocation, Nodes, PAGE, Purpose},
    buffer_objects, configuration, in_use,
    node::Node,
    registration,
    status::Status,
    types::MemoryFlags,
};

/// Size of huge pages on the host, in bytes. Allocations of at least this size are aligned to it.
const HUGE_PAGE: u64 = 2 << 20;

/// Number of allocated bytes of each GPU, by its index.
static USED: Mutex<[u64; device::MAX_DEVICES as usize]> =
    Mutex::new([0; device::MAX_DEVICES as usize]);

/// Counts memory of a GPU as used. Returns false, and counts nothing, if the GPU has too little free memory. Memory of
/// the host is not counted.
fn charge(node: Node, bytes: u64) -> bool {
    let Some(index) = node.gpu() else { return true };
    let mut used = address_map::lock(&USED);
    let Some(used) = used.get_mut(index as usize) else { return false };
    let enough = used.saturating_add(bytes) <= configuration::get().total_memory();
    if enough {
        *used += bytes;
    }
    enough
}

fn release(node: Node, bytes: u64) {
    let mut used = address_map::lock(&USED);
    if let Some(used) = node.gpu().and_then(|index| used.get_mut(index as usize)) {
        *used = used.saturating_sub(bytes);
    }
}

/// Maps anonymous memory with the given alignment, and returns its address; `None` if this is impossible. If `at` is
/// given, the memory must start there.
fn map_pages(bytes: u64, alignment: u64, at: Option<u64>, protection: i32) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let fixed = if at.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let slack = if at.is_some() || alignment <= PAGE { 0 } else { alignment };
    let wanted = usize::try_from(bytes.checked_add(slack)?).ok()?;
    let at = at.unwrap_or(0) as *mut libc::c_void;
    // SAFETY: a new mapping, which replaces none.
    let found = unsafe { libc::mmap(at, wanted, protection, flags | fixed, -1, 0) };
    if found == libc::MAP_FAILED {
        return None;
    }
    let found = found as u64;
    if !at.is_null() && found != at as u64 {
        in_use::unmap(found, wanted as u64);
        return None;
    }
    if slack == 0 {
        return Some(found);
    }
    let start = found.next_multiple_of(alignment);
    in_use::unmap(found, start - found);
    in_use::unmap(start + bytes, found + wanted as u64 - start - bytes);
    Some(start)
}

fn purpose(flags: MemoryFlags) -> Purpose {
    if flags.is_only_address() {
        Purpose::Reservation
    } else if flags.is_scratch() {
        Purpose::Scratch
    } else if flags.has_no_address() {
        Purpose::Object
    } else {
        Purpose::Memory
    }
}

fn allocate(
    node: u32,
    bytes: u64,
    alignment: u64,
    flags: MemoryFlags,
    wanted: u64,
) -> Result<u64, Status> {
    let node = Node::new(node)?;
    if bytes == 0 || !(alignment == 0 || alignment.is_power_of_two()) {
        return Err(Status::INVALID_PARAMETER);
    }
    let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Status::NO_MEMORY)?;
    let purpose = purpose(flags);
    let uses_memory = matches!(purpose, Purpose::Memory | Purpose::Object);
    if uses_memory && !charge(node, bytes) {
        return Err(Status::NO_MEMORY);
    }
    let alignment = alignment.max(if bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE });
    let protection = if uses_memory { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    let at = (flags.is_fixed() && wanted != 0).then_some(wanted);
    let start = match purpose {
        Purpose::Object => buffer_objects::create(bytes),
        _ if flags.is_fixed() && at.is_none() => None,
        _ => map_pages(bytes, alignment, at, protection),
    };
    let Some(start) = start else {
        if uses_memory {
            release(node, bytes);
        }
        return Err(Status::NO_MEMORY);
    };
    let mapped = Nodes::default();
    let allocation = Allocation { bytes, node, flags, purpose, mapped, user_data: 0 };
    address_map::write().allocations.insert(start, allocation);
    trace!("allocate {start:#x}, {bytes} bytes of node {}: {purpose:?}", node.number());
    Ok(start)
}

/// # Safety
/// As the thunk requires, `address` must be valid for reading and writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtAllocMemoryAlign(
    node: u32,
    bytes: u64,
    alignment: u64,
    flags: MemoryFlags,
    address: *mut u64,
) -> Status {
    if address.is_null() {
        return Status::INVALID_PARAMETER;
    }
    // SAFETY: the caller passes a pointer that is valid for reading and writing.
    match allocate(node, bytes, alignment, flags, unsafe { address.read() }) {
        Ok(start) => {
            // SAFETY: as above.
            unsafe { address.write(start) };
            Status::SUCCESS
        }
        Err(status) => status,
    }
}

/// # Safety
/// As the thunk requires, `address` must be valid for reading and writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtAllocMemory(
    node: u32,
    bytes: u64,
    flags: MemoryFlags,
    address: *mut u64,
) -> Status {
    // SAFETY: the caller passes a pointer that is valid for reading and writing.
    unsafe { hsaKmtAllocMemoryAlign(node, bytes, 0, flags, address) }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtFreeMemory(address: u64, _bytes: u64) -> Status {
    let mut map = address_map::write();
    let Some(freed) = map.allocations.remove(&address) else { return Status::INVALID_PARAMETER };
    if freed.purpose == Purpose::Object {
        buffer_objects::release(address);
    } else {
        let end = address + freed.bytes;
        map.views.retain(|start, _| !(address..end).contains(start));
        // The memory is unmapped while the map is locked. Otherwise another thread could get the same address before.
        in_use::unmap_later(address, freed.bytes);
    }
    if matches!(freed.purpose, Purpose::Memory | Purpose::Object) {
        release(freed.node, freed.bytes);
    }
    trace!("free {address:#x}");
    Status::SUCCESS
}

/// # Safety
/// As the thunk requires, `bytes` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtAvailableMemory(node: u32, bytes: *mut u64) -> Status {
    let Ok(Some(index)) = Node::new(node).map(Node::gpu) else { return Status::INVALID_NODE_UNIT };
    if bytes.is_null() {
        return Status::INVALID_PARAMETER;
    }
    let used = address_map::lock(&USED).get(index as usize).copied().unwrap_or(0);
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { bytes.write(configuration::get().total_memory().saturating_sub(used)) };
    Status::SUCCESS
}

/// Maps memory for nodes. For registered host memory, returns the device address, which on some hardware differs from
/// the host address. For other memory, returns 0.
fn map_for(address: u64, nodes: Nodes) -> Result<u64, Status> {
    let mut map = address_map::write();
    if let Some(found) = map.allocation_mut(address) {
        found.mapped = nodes;
        return Ok(0);
    }
    registration::map(&mut map, address, nodes)
}

/// Stores the device address of a mapping in `device_address`, unless the pointer is null, and returns the status.
///
/// # Safety
/// As the thunk requires, `device_address` must be null or valid for writing.
unsafe fn answer(found: Result<u64, Status>, device_address: *mut u64) -> Status {
    match found {
        Ok(found) => {
            if !device_address.is_null() {
                // SAFETY: the pointer is not null, and the caller passes one that is valid for writing.
                unsafe { device_address.write(found) };
            }
            Status::SUCCESS
        }
        Err(status) => status,
    }
}

/// # Safety
/// As the thunk requires, `device_address` must be null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtMapMemoryToGPU(
    address: u64,
    _bytes: u64,
    device_address: *mut u64,
) -> Status {
    // SAFETY: the caller passes a pointer that is null or valid for writing.
    unsafe { answer(map_for(address, Nodes::from_nodes(Node::gpus())), device_address) }
}

/// # Safety
/// As the thunk requires, `device_address` must be null or valid for writing, and `nodes` must point at `count` nodes.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtMapMemoryToGPUNodes(
    address: u64,
    _bytes: u64,
    device_address: *mut u64,
    _flags: u32,
    count: u64,
    nodes: *const u32,
) -> Status {
    if nodes.is_null() || count == 0 {
        return Status::INVALID_PARAMETER;
    }
    // SAFETY: the caller passes `count` nodes.
    let nodes = unsafe { std::slice::from_raw_parts(nodes, count as usize) };
    let nodes: Result<Vec<Node>, Status> = nodes.iter().map(|node| Node::new(*node)).collect();
    let mapped = nodes.and_then(|nodes| map_for(address, Nodes::from_nodes(nodes.into_iter())));
    // SAFETY: the caller passes a pointer that is null or valid for writing.
    unsafe { answer(mapped, device_address) }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtUnmapMemoryToGPU(address: u64) -> Status {
    let mut map = address_map::write();
    if let Some(found) = map.allocation_mut(address) {
        found.mapped = Nodes::default();
    }
    // Registered memory stays mapped until its registration ends.
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetMemoryPolicy(
    _node: u32,
    _default: u32,
    _alternate: u32,
    _address: u64,
    _bytes: u64,
) -> Status {
    // The device has no caches, so a policy has no effect.
    Status::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocates_maps_and_frees() {
        let flags = MemoryFlags::default();
        let start = allocate(1, 5000, 0, flags, 0).unwrap();
        assert_eq!(address_map::read().reach(start), None, "not mapped yet");
        assert_eq!(map_for(start, Nodes::from_nodes(Node::gpus())), Ok(0));
        assert_eq!(address_map::read().reach(start + 8), Some(start..start + 8192));
        assert_eq!(hsaKmtUnmapMemoryToGPU(start), Status::SUCCESS);
        assert_eq!(address_map::read().reach(start), None);
        assert_eq!(hsaKmtFreeMemory(start, 5000), Status::SUCCESS);
        assert_eq!(hsaKmtFreeMemory(start, 5000), Status::INVALID_PARAMETER);
        let large = allocate(0, 3 << 20, 0, flags, 0).unwrap();
        assert_eq!(large % HUGE_PAGE, 0);
        assert_eq!(hsaKmtFreeMemory(large, 3 << 20), Status::SUCCESS);
        assert_eq!(allocate(9, 4096, 0, flags, 0), Err(Status::INVALID_NODE_UNIT));
        assert_eq!(allocate(1, 0, 0, flags, 0), Err(Status::INVALID_PARAMETER));
    }
}
