//! HSA's virtual memory calls: address ranges, memory handles and mappings.

use std::{
    collections::BTreeMap,
    ffi::CString,
    os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
    sync::Arc,
};

use crate::{
    abi::{AccessDesc, Agent, Out, Pool, Status, array},
    address_map::{Kind, PAGE, Region},
    locks::Mutex,
    memory, order,
    part::DeviceComponent as _,
    report::trace,
};

/// Physical memory that can be mapped several times. The memory is freed when its handle has been released and all
/// mappings have been removed.
struct Handle {
    memory: Arc<OwnedFd>,
    bytes: usize,
    pool: Pool,
    /// Type of the memory (`hsa_amd_memory_type_t`).
    kind: u32,
    /// GPU whose amount of free memory was reduced for this handle.
    charged: Option<Agent>,
    references: usize,
    mappings: usize,
}

struct Mapping {
    bytes: usize,
    handle: u64,
    /// Access permission (`hsa_access_permission_t`) of each agent. The key is the handle of the agent. The address map
    /// records only whether a GPU has access, so a write to read-only memory is not detected.
    access: BTreeMap<u64, u32>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Reserved address ranges. The key is the start, the value the length.
    reserved: BTreeMap<usize, usize>,
    handles: BTreeMap<u64, Handle>,
    mappings: BTreeMap<usize, Mapping>,
}

impl State {
    /// Decrements a count of the handle, which `holders` selects: references or mappings. Returns `false` if the handle
    /// does not exist or the count is zero.
    fn release(&mut self, handle: u64, holders: impl Fn(&mut Handle) -> &mut usize) -> bool {
        let Some(found) = self.handles.get_mut(&handle) else { return false };
        let holders = holders(found);
        let Some(left) = holders.checked_sub(1) else { return false };
        *holders = left;
        if found.references == 0 && found.mappings == 0 {
            if let Some(gpu) = found.charged {
                memory::discharge(gpu, found.bytes);
            }
            self.handles.remove(&handle);
        }
        true
    }

    fn mapping(&self, address: usize) -> Option<&Mapping> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < start + mapping.bytes).then_some(mapping)
    }
}

/// Returns the name of the memfd. A process that imports the memory parses the pool and the type of the memory from
/// this name.
fn file_name(pool: Pool, kind: u32) -> String {
    format!("rocrepro device memory {} {kind}", pool.0)
}

/// Parses the pool and the type of the memory from the link target of an open memfd; `None` if it is not such a memfd.
fn named(link: &str) -> Option<(Pool, u32)> {
    let (_, rest) = link.split_once("rocrepro device memory ")?;
    let mut words = rest.split(' ');
    Some((Pool(words.next()?.parse().ok()?), words.next()?.parse().ok()?))
}

/// Returns the start and the length of the reserved range that contains the address; `None` if no reserved range does.
pub(crate) fn reservation(address: usize) -> Option<(usize, usize)> {
    with(|state| {
        let (start, bytes) = state.reserved.range(..=address).next_back()?;
        (address < start + bytes).then_some((*start, *bytes))
    })
}

pub(crate) fn agents_with_access(address: usize) -> Vec<Agent> {
    with(|state| {
        let access = state.mapping(address).map(|mapping| &mapping.access);
        let given = access.into_iter().flatten().filter(|(_, permission)| **permission != 0);
        given.map(|(agent, _)| Agent(*agent)).collect()
    })
}

#[derive(Default)]
pub(crate) struct VirtualMemory(Mutex<State>);

fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    body(&mut VirtualMemory::current().0.lock())
}

/// Creates a memfd with this name that contains `bytes` zero bytes; `None` if Linux cannot create it.
pub(crate) fn file(name: &str, bytes: usize) -> Option<OwnedFd> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string. The result is checked and then owned.
    let file = unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }?;
    // SAFETY: the descriptor is open and owned by this function.
    let sized = unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) == 0 };
    sized.then_some(file)
}

/// Maps memory at the address `at`, which must lie in a reserved range; if `at` is zero, at an address that Linux
/// chooses. `file` is a memfd and an offset in it; without a memfd, maps new private memory. `reachable` is true if the
/// memory may be read and written. Returns `None` if the mapping fails.
fn map(at: usize, bytes: usize, file: Option<(&OwnedFd, usize)>, reachable: bool) -> Option<usize> {
    let mut flags = libc::MAP_NORESERVE;
    flags |= if at == 0 { 0 } else { libc::MAP_FIXED };
    let (fd, offset) = match file {
        Some((fd, offset)) => (fd.as_raw_fd(), libc::off_t::try_from(offset).ok()?),
        None => (-1, 0),
    };
    flags |= if fd < 0 { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
    let protection = if reachable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: without an address Linux selects free space. With an address, callers have checked that the range is part
    // of a reservation.
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
            // SAFETY: the range is a part of the new mapping outside of the aligned range.
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
        // SAFETY: the range is a reservation without mappings.
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
    kind: u32,
    _flags: u64,
    handle: Out<u64>,
) -> Status {
    let Some((owner, _)) = pool.allocatable() else { return Status::INVALID_MEMORY_POOL };
    if bytes == 0 || !bytes.is_multiple_of(PAGE) || handle.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    if owner.is_gpu() && !memory::charge(owner, bytes) {
        return Status::OUT_OF_RESOURCES;
    }
    match file(&file_name(pool, kind), bytes) {
        Some(file) => {
            trace!("vmem create {bytes} bytes of pool {:#x}", pool.0);
            handle.put(new_handle(Handle {
                memory: Arc::new(file),
                bytes,
                pool,
                kind,
                charged: owner.is_gpu().then_some(owner),
                references: 1,
                mappings: 0,
            }))
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
    let released = with(|state| state.release(handle, |held| &mut held.references));
    if released { Status::SUCCESS } else { Status::INVALID_ALLOCATION }
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
        let Some(memory) = state.handles.get_mut(&handle) else {
            return Status::INVALID_ALLOCATION;
        };
        let Some((owner, flags)) = memory.pool.allocatable() else {
            return Status::INVALID_ALLOCATION;
        };
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
        memory.mappings += 1;
        memory::map_mut().insert(address, Region { len: bytes, kind, owner, flags });
        state.mappings.insert(address, Mapping { bytes, handle, access: BTreeMap::new() });
        Status::SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_unmap(address: usize, bytes: usize) -> Status {
    with(|state| {
        let handle = match state.mappings.get(&address) {
            Some(mapping) if mapping.bytes == bytes => mapping.handle,
            _ => return Status::INVALID_ALLOCATION,
        };
        state.mappings.remove(&address);
        state.release(handle, |held| &mut held.mappings);
        order::forget(address as u64..(address + bytes) as u64);
        memory::map_mut().remove(address);
        // The range stays reserved, so Linux must not use its addresses for other mappings.
        match map(address, bytes, None, false) {
            Some(_) => Status::SUCCESS,
            None => Status::ERROR,
        }
    })
}

/// `hsa_amd_vmem_set_access`.
///
/// # Safety
/// As HSA requires, `descriptions` must point at `count` access descriptions.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_vmem_set_access(
    address: usize,
    bytes: usize,
    descriptions: *const AccessDesc,
    count: usize,
) -> Status {
    // SAFETY: HSA requires the caller to pass `count` descriptions.
    let descriptions = unsafe { array(descriptions, count as u32) };
    let Some(end) = address.checked_add(bytes) else { return Status::INVALID_ARGUMENT };
    with(|state| {
        let mut changed = 0;
        for (start, mapping) in state.mappings.range_mut(address..end) {
            for description in descriptions {
                mapping.access.insert(description.agent.0, description.permission);
            }
            changed += mapping.bytes;
            // HSA_ACCESS_PERMISSION_NONE is 0.
            let seen = Agent::gpus().any(|gpu| mapping.access.get(&gpu.0).is_some_and(|p| *p != 0));
            if let Some(Region { kind: Kind::Virtual { gpu_access }, .. }) =
                memory::map_mut().starting_at(*start)
            {
                *gpu_access = seen;
            }
        }
        if changed == bytes { Status::SUCCESS } else { Status::INVALID_ALLOCATION }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_get_access(
    address: usize,
    permission: Out<u32>,
    agent: Agent,
) -> Status {
    with(|state| {
        let Some(mapping) = state.mapping(address) else { return Status::INVALID_ALLOCATION };
        // HSA_ACCESS_PERMISSION_RW is 3. The host always has this permission.
        let otherwise = if agent.is_gpu() { 0 } else { 3 };
        permission.put(mapping.access.get(&agent.0).copied().unwrap_or(otherwise))
    })
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_retain_alloc_handle(handle: Out<u64>, address: usize) -> Status {
    if handle.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let found = with(|state| {
        let found = state.mapping(address)?.handle;
        state.handles.get_mut(&found)?.references += 1;
        Some(found)
    });
    found.map_or(Status::INVALID_ALLOCATION, |found| handle.put(found))
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_vmem_get_alloc_properties_from_handle(
    handle: u64,
    pool: Out<Pool>,
    kind: Out<u32>,
) -> Status {
    if pool.is_null() || kind.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let found = with(|state| state.handles.get(&handle).map(|found| (found.pool, found.kind)));
    let Some((its_pool, its_kind)) = found else { return Status::INVALID_ALLOCATION };
    pool.put_if_wanted(its_pool);
    kind.put(its_kind)
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
    // SAFETY: HSA requires an open file, which stays open during the call.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
    let Ok(own) = file.try_clone_to_owned() else { return Status::ERROR };
    let own = std::fs::File::from(own);
    let link = std::fs::read_link(format!("/proc/self/fd/{}", own.as_raw_fd()));
    let name = link.ok().and_then(|link| named(&link.to_string_lossy()));
    let Some((pool, kind)) = name else { return Status::INVALID_ALLOCATION };
    let Ok(bytes) = own.metadata().map(|m| m.len() as usize) else { return Status::ERROR };
    let memory = Arc::new(OwnedFd::from(own));
    // Imported memory counts as used only in the process that created the memory.
    let (charged, references, mappings) = (None, 1, 0);
    let imported = Handle { memory, bytes, pool, kind, charged, references, mappings };
    handle.put(new_handle(imported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_file_name_contains_the_pool() {
        let link = format!("/memfd:{} (deleted)", file_name(Pool(0x121), 1));
        assert_eq!(named(&link), Some((Pool(0x121), 1)));
        assert_eq!(named("/dmabuf:"), None);
        assert_eq!(named("/memfd:rocrepro device memory x (deleted)"), None);
    }

    #[test]
    fn memory_lives_until_handle_and_mappings_are_gone() {
        let answer = |place: *mut u64| {
            // SAFETY: `Out` is a transparent pointer.
            unsafe { std::mem::transmute::<*mut u64, Out<u64>>(place) }
        };
        let (mut address, mut handle, mut again, mut pool) = (0u64, 0u64, 0u64, 0u64);
        let mut kind = 9u32;
        // SAFETY: `Out` is a transparent pointer, and each type is a plain integer of the same size.
        let (to_address, to_pool, to_kind) = unsafe {
            (
                std::mem::transmute::<*mut u64, Out<usize>>(&raw mut address),
                std::mem::transmute::<*mut u64, Out<Pool>>(&raw mut pool),
                std::mem::transmute::<*mut u32, Out<u32>>(&raw mut kind),
            )
        };
        assert_eq!(hsa_amd_vmem_address_reserve(to_address, PAGE, 0, 0), Status::SUCCESS);
        let at = address as usize;
        let create = hsa_amd_vmem_handle_create(Pool(0x21), PAGE, 1, 0, answer(&raw mut handle));
        assert_eq!(create, Status::SUCCESS);
        let properties = hsa_amd_vmem_get_alloc_properties_from_handle(handle, to_pool, to_kind);
        assert_eq!((properties, pool, kind), (Status::SUCCESS, 0x21, 1));
        assert_eq!(hsa_amd_vmem_map(at, PAGE, 0, handle, 0), Status::SUCCESS);
        let retain = hsa_amd_vmem_retain_alloc_handle(answer(&raw mut again), at);
        assert_eq!((retain, again), (Status::SUCCESS, handle));
        assert_eq!(hsa_amd_vmem_handle_release(handle), Status::SUCCESS);
        assert_eq!(hsa_amd_vmem_handle_release(again), Status::SUCCESS);
        assert_eq!(hsa_amd_vmem_handle_release(handle), Status::INVALID_ALLOCATION);
        let lives = || with(|state| state.handles.contains_key(&handle));
        assert!(lives());
        assert_eq!(hsa_amd_vmem_unmap(at, PAGE), Status::SUCCESS);
        assert!(!lives());
        assert_eq!(hsa_amd_vmem_address_free(at, PAGE), Status::SUCCESS);
    }
}
