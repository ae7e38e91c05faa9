//! Virtual memory management: address ranges, memory handles, and mappings of one into the other.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    abi::{AccessDesc, Agent, Out, Pool, Status, array},
    address_map::{Kind, PAGE, Region},
    memory, order,
    report::trace,
};

/// Physical memory that can be mapped any number of times.
struct Handle {
    memory: Arc<OwnedFd>,
    bytes: usize,
    owner: Agent,
    flags: u32,
}

struct Mapping {
    bytes: usize,
    handle: u64,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Reserved ranges: start and length.
    reserved: BTreeMap<usize, usize>,
    handles: BTreeMap<u64, Handle>,
    mappings: BTreeMap<usize, Mapping>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    body(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Maps at an address of the kernel's choice (`at` zero), or over a part of a reserved range.
fn map(at: usize, bytes: usize, file: Option<(&OwnedFd, usize)>, reachable: bool) -> Option<usize> {
    let mut flags = libc::MAP_NORESERVE;
    flags |= if at == 0 { 0 } else { libc::MAP_FIXED };
    let (fd, offset) = match file {
        Some((fd, offset)) => (fd.as_raw_fd(), libc::off_t::try_from(offset).ok()?),
        None => (-1, 0),
    };
    flags |= if fd < 0 { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
    let protection = if reachable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: without an address the kernel picks free space; with one, callers checked that the
    // range is part of a reservation of ours.
    let start =
        unsafe { libc::mmap(at as *mut libc::c_void, bytes, protection, flags, fd, offset) };
    (start != libc::MAP_FAILED).then_some(start as usize)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_address_reserve_align(
    address: Out<usize>,
    bytes: usize,
    _wanted: u64,
    alignment: u64,
    _flags: u64,
) -> Status {
    let alignment = (alignment as usize).max(PAGE);
    if bytes == 0
        || !bytes.is_multiple_of(PAGE)
        || !alignment.is_power_of_two()
        || address.is_null()
    {
        return Status::INVALID_ARGUMENT;
    }
    let Some(whole) = bytes.checked_add(alignment - PAGE) else {
        return Status::OUT_OF_RESOURCES;
    };
    let Some(start) = map(0, whole, None, false) else { return Status::OUT_OF_RESOURCES };
    let aligned = start.next_multiple_of(alignment);
    for (unused, len) in
        [(start, aligned - start), (aligned + bytes, start + whole - aligned - bytes)]
    {
        if len > 0 {
            // SAFETY: the parts of the mapping just made that are outside of the aligned range.
            unsafe { libc::munmap(unused as *mut libc::c_void, len) };
        }
    }
    with(|state| state.reserved.insert(aligned, bytes));
    trace!("vmem reserve {bytes} bytes at {aligned:#x}");
    address.put(aligned)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_address_reserve(
    address: Out<usize>,
    bytes: usize,
    wanted: u64,
    flags: u64,
) -> Status {
    hsa_amd_vmem_address_reserve_align(address, bytes, wanted, 0, flags)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_address_free(address: usize, bytes: usize) -> Status {
    with(|state| {
        if state.reserved.get(&address) != Some(&bytes) {
            return Status::INVALID_ALLOCATION;
        }
        if state.mappings.range(address..address + bytes).next().is_some() {
            return Status::RESOURCE_FREE;
        }
        state.reserved.remove(&address);
        // SAFETY: a reservation of ours in which nothing is mapped.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
        Status::SUCCESS
    })
}

fn new_handle(handle: Handle) -> u64 {
    with(|state| {
        state.next += 1;
        state.handles.insert(state.next, handle);
        state.next
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_handle_create(
    pool: Pool,
    bytes: usize,
    _kind: u32,
    _flags: u64,
    handle: Out<u64>,
) -> Status {
    let Some((owner, flags)) = pool.allocatable() else { return Status::INVALID_MEMORY_POOL };
    if bytes == 0 || !bytes.is_multiple_of(PAGE) || handle.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    if owner.is_gpu() && !memory::charge(owner, bytes) {
        return Status::OUT_OF_RESOURCES;
    }
    // SAFETY: the name is a C string; the result is checked and then owned.
    let file = unsafe {
        let fd = libc::memfd_create(c"rocrepro device memory".as_ptr(), libc::MFD_CLOEXEC);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    };
    let sized = file.filter(|file| {
        // SAFETY: an open file of ours.
        unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) == 0 }
    });
    match sized {
        Some(file) => {
            trace!("vmem create {bytes} bytes of pool {:#x}", pool.0);
            handle.put(new_handle(Handle { memory: Arc::new(file), bytes, owner, flags }))
        }
        None => {
            if owner.is_gpu() {
                memory::discharge(owner, bytes);
            }
            Status::OUT_OF_RESOURCES
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_handle_release(handle: u64) -> Status {
    let Some(released) = with(|state| state.handles.remove(&handle)) else {
        return Status::INVALID_ALLOCATION;
    };
    // Mappings keep the memory itself; the total is given back with the last handle to it.
    if released.owner.is_gpu() && Arc::strong_count(&released.memory) == 1 {
        memory::discharge(released.owner, released.bytes);
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_map(
    address: usize,
    bytes: usize,
    offset: usize,
    handle: u64,
    _flags: u64,
) -> Status {
    with(|state| {
        let Some(memory) = state.handles.get(&handle) else { return Status::INVALID_ALLOCATION };
        let whole = offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes);
        let end = address.checked_add(bytes);
        let reserved = state.reserved.range(..=address).next_back();
        let inside = reserved.zip(end).is_some_and(|((start, len), end)| end <= start + len);
        if !whole
            || !inside
            || bytes == 0
            || !address.is_multiple_of(PAGE)
            || !bytes.is_multiple_of(PAGE)
        {
            return Status::INVALID_ARGUMENT;
        }
        if state.mappings.range(address..address + bytes).next().is_some() {
            return Status::INVALID_ALLOCATION;
        }
        if map(address, bytes, Some((&memory.memory, offset)), true).is_none() {
            return Status::OUT_OF_RESOURCES;
        }
        trace!("vmem map {bytes} bytes at {address:#x}");
        let kind = Kind::Virtual { gpu_access: false };
        let region = Region { len: bytes, kind, owner: memory.owner, flags: memory.flags };
        memory::map_mut().insert(address, region);
        state.mappings.insert(address, Mapping { bytes, handle });
        Status::SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_unmap(address: usize, bytes: usize) -> Status {
    with(|state| {
        match state.mappings.get(&address) {
            Some(mapping) if mapping.bytes == bytes => {}
            _ => return Status::INVALID_ALLOCATION,
        }
        state.mappings.remove(&address);
        order::forget(address as u64..(address + bytes) as u64);
        memory::map_mut().remove(address);
        // The range stays reserved and must not be given to anybody else.
        match map(address, bytes, None, false) {
            Some(_) => Status::SUCCESS,
            None => Status::ERROR,
        }
    })
}

/// `hsa_amd_vmem_set_access`.
///
/// # Safety
/// As the interface demands: `descriptions` points at `count` access descriptions.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_vmem_set_access(
    address: usize,
    bytes: usize,
    descriptions: *const AccessDesc,
    count: usize,
) -> Status {
    // SAFETY: by this function's contract.
    let descriptions = unsafe { array(descriptions, count as u32) };
    let Some(end) = address.checked_add(bytes) else { return Status::INVALID_ARGUMENT };
    let mut changed = 0;
    for (_, region) in memory::map_mut().starting_in(address..end) {
        if let Kind::Virtual { gpu_access } = &mut region.kind {
            for description in descriptions.iter().filter(|d| d.agent.is_gpu()) {
                // HSA_ACCESS_PERMISSION_NONE is 0.
                *gpu_access = description.permission != 0;
            }
            changed += region.len;
        }
    }
    if changed == bytes { Status::SUCCESS } else { Status::INVALID_ALLOCATION }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_get_access(
    address: usize,
    permission: Out<u32>,
    agent: Agent,
) -> Status {
    match memory::map().find(address) {
        Some((_, Region { kind: Kind::Virtual { gpu_access }, .. })) => {
            // HSA_ACCESS_PERMISSION_RW is 3.
            permission.put(if gpu_access || !agent.is_gpu() { 3 } else { 0 })
        }
        _ => Status::INVALID_ALLOCATION,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_retain_alloc_handle(handle: Out<u64>, address: usize) -> Status {
    let found = with(|state| {
        let (start, mapping) = state.mappings.range(..=address).next_back()?;
        (address < start + mapping.bytes).then_some(mapping.handle)
    });
    found.map_or(Status::INVALID_ALLOCATION, |found| handle.put(found))
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_export_shareable_handle(
    file: Out<i32>,
    handle: u64,
    _flags: u64,
) -> Status {
    let memory = with(|state| Some(Arc::clone(&state.handles.get(&handle)?.memory)));
    let Some(memory) = memory else { return Status::INVALID_ALLOCATION };
    match memory.try_clone() {
        Ok(copy) if !file.is_null() => file.put(copy.into_raw_fd()),
        _ => Status::ERROR,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_import_shareable_handle(file: i32, handle: Out<u64>) -> Status {
    if file < 0 || handle.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    // SAFETY: the interface requires an open file, which stays open during the call.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
    let Ok(own) = file.try_clone_to_owned() else { return Status::ERROR };
    let own = std::fs::File::from(own);
    let Ok(bytes) = own.metadata().map(|m| m.len() as usize) else { return Status::ERROR };
    let memory = Arc::new(OwnedFd::from(own));
    // Imported memory was counted where it was created.
    handle.put(new_handle(Handle { memory, bytes, owner: Agent::CPU, flags: 0 }))
}
