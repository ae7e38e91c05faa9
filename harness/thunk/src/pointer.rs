//! Queries about pointers, and data that the host attaches to them.

use std::{collections::BTreeMap, ffi::c_void, ptr, sync::Mutex};

use crate::{
    address_map::{self, Nodes, Purpose},
    node::Node,
    status::Status,
    types::PointerInfo,
};

/// Kinds of memory (`HSA_POINTER_TYPE`).
mod kind {
    pub(super) const UNKNOWN: u32 = 0;
    pub(super) const ALLOCATED: u32 = 1;
    pub(super) const REGISTERED: u32 = 2;
    pub(super) const RESERVED: u32 = 5;
}

/// Returns a list of node numbers that is never freed, because the caller of the thunk reads it after the query. A
/// process has only a few different sets of nodes.
fn numbers(nodes: Nodes) -> &'static [u32] {
    static LISTS: Mutex<BTreeMap<Nodes, &'static [u32]>> = Mutex::new(BTreeMap::new());
    let mut lists = address_map::lock(&LISTS);
    lists.entry(nodes).or_insert_with(|| nodes.numbers().collect::<Vec<_>>().leak())
}

fn unknown() -> PointerInfo {
    PointerInfo {
        kind: kind::UNKNOWN,
        node: 0,
        flags: 0,
        host_address: 0,
        device_address: 0,
        bytes: 0,
        registered_count: 0,
        mapped_count: 0,
        registered: ptr::null(),
        mapped: ptr::null(),
        user_data: ptr::null_mut(),
    }
}

fn describe(address: u64) -> PointerInfo {
    let map = address_map::read();
    if let Some((start, found)) = map.allocation(address) {
        let mapped = numbers(found.mapped);
        let kind = match found.purpose {
            Purpose::Memory | Purpose::Object => kind::ALLOCATED,
            Purpose::Reservation => kind::RESERVED,
            Purpose::Scratch => return unknown(),
        };
        return PointerInfo {
            kind,
            node: found.node.number(),
            flags: found.flags.0,
            host_address: start,
            device_address: start,
            bytes: found.bytes,
            mapped_count: mapped.len() as u32,
            mapped: mapped.as_ptr(),
            user_data: found.user_data as *mut c_void,
            ..unknown()
        };
    }
    let Some(found) = map.registration(address) else { return unknown() };
    let mapped = numbers(found.mapped);
    PointerInfo {
        kind: kind::REGISTERED,
        node: Node::HOST.number(),
        flags: found.flags.0,
        host_address: found.start,
        device_address: found.start,
        bytes: found.bytes,
        mapped_count: mapped.len() as u32,
        mapped: mapped.as_ptr(),
        user_data: found.user_data as *mut c_void,
        ..unknown()
    }
}

/// # Safety
/// As the thunk requires, `to` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtQueryPointerInfo(address: u64, to: *mut PointerInfo) -> Status {
    if to.is_null() {
        return Status::INVALID_PARAMETER;
    }
    let found = describe(address);
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { to.write_unaligned(found) };
    if found.kind == kind::UNKNOWN { Status::ERROR } else { Status::SUCCESS }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetMemoryUserData(address: u64, data: *mut c_void) -> Status {
    let mut map = address_map::write();
    if let Some(found) = map.allocation_mut(address) {
        found.user_data = data as usize;
        return Status::SUCCESS;
    }
    let found = map.registrations.iter_mut().rev().find(|known| known.start == address);
    match found {
        Some(found) => {
            found.user_data = data as usize;
            Status::SUCCESS
        }
        None => Status::INVALID_PARAMETER,
    }
}
