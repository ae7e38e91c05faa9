//! Registers host memory, so that the device can access it.

use crate::{
    address_map::{self, AddressMap, Nodes, Registration},
    node::Node,
    status::Status,
    types::MemoryFlags,
};

fn register(start: u64, bytes: u64, flags: MemoryFlags) -> Status {
    if start == 0 || bytes == 0 {
        return Status::INVALID_PARAMETER;
    }
    let mut map = address_map::write();
    // Memory that was allocated through the thunk needs no registration.
    if map.allocation(start).is_none() {
        let mapped = Nodes::default();
        map.registrations.push(Registration { start, bytes, flags, mapped, user_data: 0 });
    }
    Status::SUCCESS
}

/// Maps the newest registration that contains an address, so that `nodes` may access it. Returns the device address of
/// `address`.
pub(crate) fn map(map: &mut AddressMap, address: u64, nodes: Nodes) -> Result<u64, Status> {
    let found =
        map.registrations.iter_mut().rev().find(|known| {
            address.checked_sub(known.start).is_some_and(|inside| inside < known.bytes)
        });
    let found = found.ok_or(Status::INVALID_PARAMETER)?;
    found.mapped = nodes;
    Ok(address)
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtRegisterMemory(start: u64, bytes: u64) -> Status {
    register(start, bytes, MemoryFlags::default())
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtRegisterMemoryWithFlags(start: u64, bytes: u64, flags: MemoryFlags) -> Status {
    register(start, bytes, flags)
}

/// # Safety
/// As the thunk requires, `nodes` must point at `count` nodes.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtRegisterMemoryToNodes(
    start: u64,
    bytes: u64,
    count: u64,
    nodes: *const u32,
) -> Status {
    if nodes.is_null() && count > 0 {
        return Status::INVALID_PARAMETER;
    }
    for index in 0..count as usize {
        // SAFETY: the caller passes `count` nodes.
        if let Err(status) = Node::new(unsafe { nodes.add(index).read() }) {
            return status;
        }
    }
    register(start, bytes, MemoryFlags::default())
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtDeregisterMemory(start: u64) -> Status {
    let mut map = address_map::write();
    if map.allocation(start).is_some() {
        return Status::SUCCESS;
    }
    let newest = map.registrations.iter().rposition(|known| known.start == start);
    match newest {
        Some(index) => {
            map.registrations.remove(index);
            Status::SUCCESS
        }
        None => Status::MEMORY_NOT_REGISTERED,
    }
}
