//! Memory that the emulated GPU can access: allocation, accounting and the address map.
//!
//! Device memory is ordinary memory of this process. Host and device use the same pointers, as they do with ROCr.

use std::{
    collections::BTreeMap,
    fs::File,
    ops::Range,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    sync::{
        MutexGuard, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use device::Fault;

use crate::{
    abi::{Agent, pool_flag},
    address_map::{AddressMap, Kind, PAGE, Region},
    config, faults,
    locks::{Mutex, RwLock},
    order,
    part::DeviceComponent as _,
    sanitizer,
};

#[derive(Default)]
pub(crate) struct Memory {
    map: RwLock<AddressMap>,
    /// Number of allocated bytes of each GPU. The key is the handle of the GPU.
    used: Mutex<BTreeMap<u64, u64>>,
    /// Number of times that the host has queried the amount of free memory. The fault `memory.free-wrong` affects every
    /// second query.
    answers: AtomicU64,
    /// Addresses at which an injected fault has placed a second allocation. An address is listed once for each
    /// additional allocation.
    aliases: Mutex<Vec<usize>>,
    /// Sizes of allocations that an injected fault has freed twice. Two later allocations of such a size get the same
    /// address.
    freed_twice: Mutex<Vec<usize>>,
    users: Mutex<Users>,
}

impl Memory {
    pub(crate) fn map(&self) -> RwLockReadGuard<'_, AddressMap> {
        self.map.read()
    }
}

fn used() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    Memory::current().used.lock()
}

pub(crate) fn map() -> RwLockReadGuard<'static, AddressMap> {
    Memory::current().map()
}

pub(crate) fn map_mut() -> RwLockWriteGuard<'static, AddressMap> {
    Memory::current().map.write()
}

pub(crate) fn reported_bytes() -> u64 {
    let total = config::get().total_memory();
    match faults::injected(Fault::MemoryTotalWrong) {
        Some(planted) if faults::is_active_at(Fault::MemoryTotalWrong, 0) => {
            total / 100 * planted.amount("percent").min(100)
        }
        _ => total,
    }
}

pub(crate) fn available(device: Agent) -> u64 {
    let free =
        config::get().total_memory().saturating_sub(used().get(&device.0).copied().unwrap_or(0));
    let second = Memory::current().answers.fetch_add(1, Ordering::Relaxed) % 2 == 1;
    match second.then(|| faults::active_fault(Fault::MemoryFreeWrong)).flatten() {
        Some(planted) => free / 100 * planted.amount("percent").min(100),
        None => free,
    }
}

/// Counts `bytes` bytes of the memory of `device` as used. If too few bytes are free, returns `false` and counts
/// nothing.
pub(crate) fn charge(device: Agent, bytes: usize) -> bool {
    let mut all = used();
    let used = all.entry(device.0).or_default();
    let wanted =
        used.checked_add(bytes as u64).filter(|used| *used <= config::get().total_memory());
    *used = wanted.unwrap_or(*used);
    wanted.is_some()
}

/// Counts `bytes` bytes of the memory of `device` as free, unless an injected leak keeps them.
pub(crate) fn discharge(device: Agent, bytes: usize) {
    if faults::is_active(Fault::AllocLeak) {
        return;
    }
    let mut all = used();
    let used = all.entry(device.0).or_default();
    *used = used.saturating_sub(bytes as u64);
}

/// Returns the address of a live allocation of `len` bytes if the fault `alloc.alias` or `alloc.freed-twice` takes
/// effect, else `None`.
fn alias(len: usize) -> Option<usize> {
    faults::injected(Fault::AllocAlias).or(faults::injected(Fault::AllocFreedTwice))?;
    let live = map().pool_of(len)?;
    let mut freed = Memory::current().freed_twice.lock();
    let twice = freed.iter().position(|size| *size == len).map(|at| freed.swap_remove(at));
    (twice.is_some() || faults::is_active(Fault::AllocAlias)).then(|| {
        Memory::current().aliases.lock().push(live);
        live
    })
}

/// If an injected fault has placed several allocations at this address, removes one of them and returns its region.
/// Otherwise returns `None`.
fn end_alias(start: usize) -> Option<Region> {
    let mut aliases = Memory::current().aliases.lock();
    let found = aliases.iter().position(|alias| *alias == start)?;
    aliases.swap_remove(found);
    drop(aliases);
    Some(map().find(start)?.1)
}

/// Fills all device memory with zeros, as a reset of the device does.
pub(crate) fn forget() {
    for (start, len) in map().pools() {
        // SAFETY: the dispatch that is reset keeps all memory mapped, and only the program on the emulated device uses
        // device memory.
        unsafe { std::ptr::write_bytes(start as *mut u8, 0, len) };
    }
}

/// Allocates zeroed whole pages for an agent and adds them to the address map as a region with these flags and of this
/// kind. Returns the address; `None` if too little memory is free.
///
/// Every allocation is followed by an unmapped page, as with the amdgpu driver. An access past the end of a large
/// buffer is therefore a fault and does not reach another allocation.
pub(crate) fn allocate(bytes: usize, owner: Agent, flags: u32, kind: Kind) -> Option<usize> {
    let len = bytes.max(1).checked_next_multiple_of(PAGE)?;
    let counted = owner.is_gpu() && kind == Kind::Pool;
    if counted && !charge(owner, len) {
        return None;
    }
    if counted && let Some(start) = alias(len) {
        return Some(start);
    }
    let Some(start) = map_pages(len) else {
        if counted {
            discharge(owner, len);
        }
        return None;
    };
    let by_the_byte = sanitizer::is_on() && kind == Kind::Pool;
    let visible = if by_the_byte { bytes } else { len };
    map_mut().insert(start, Region { len: visible, kind, owner, flags });
    if by_the_byte {
        sanitizer::record_allocation(start, bytes, counted && !config::get().large_bar);
    }
    Some(start)
}

/// Size of a large page, in bytes. The amdgpu driver aligns large allocations to this size, and the device-side heap of
/// ROCm relies on that.
const LARGE_PAGE: usize = 2 << 20;

fn map_pages(len: usize) -> Option<usize> {
    let align = if len >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
    let kept = len.checked_add(PAGE)?;
    let whole = kept.checked_add(align - PAGE)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: Linux chooses a free address, so the new mapping does not affect memory in use.
    let all = unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
    if all == libc::MAP_FAILED {
        return None;
    }
    let all = all as usize;
    let start = all.next_multiple_of(align);
    unmap(all, start - all);
    unmap(start + kept, all + whole - start - kept);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the range is the first `len` bytes of the new mapping.
    if unsafe { libc::mprotect(start as *mut libc::c_void, len, protection) } != 0 {
        unmap(start, kept);
        return None;
    }
    Some(start)
}

fn unmap(start: usize, len: usize) {
    if len > 0 {
        // SAFETY: callers pass an unused range from `map_pages`.
        unsafe { libc::munmap(start as *mut libc::c_void, len) };
    }
}

/// Removes an allocation from the address map. The pages are unmapped when no running kernel or copy can still access
/// them. Returns `false` if no allocation starts at this address.
pub(crate) fn free(start: usize) -> bool {
    if let Some(region) = end_alias(start) {
        discharge(region.owner, region.len.next_multiple_of(PAGE));
        return true;
    }
    let mut map = map_mut();
    let removable = map
        .starting_at(start)
        .is_some_and(|region| matches!(region.kind, Kind::Pool | Kind::Internal));
    let Some(region) = removable.then(|| map.remove(start)).flatten() else { return false };
    drop(map);
    sanitizer::record_free(start);
    // With the sanitizer, the map contains the exact size in bytes, although whole pages were allocated.
    let len = region.len.next_multiple_of(PAGE);
    order::forget(start as u64..(start + len) as u64);
    if region.owner.is_gpu() && region.kind == Kind::Pool {
        discharge(region.owner, len);
        if faults::is_active(Fault::AllocFreedTwice) {
            Memory::current().freed_twice.lock().push(len);
        }
    }
    let mut users = users();
    users.retired.push(start..start + len + PAGE);
    users.sweep();
    true
}

/// Maximum time for which [`move_into`] waits for running kernels and copies, which may access the memory.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Moves the bytes of an allocation into a file and maps the file at the address of the allocation.
///
/// If the host writes to the memory during the move, the write may be lost. This is only possible for memory that the
/// host accesses directly.
///
/// # Errors
/// Returns the reason: a kernel or copy does not end, the allocation was freed in the meantime, or the system is out of
/// memory.
pub(crate) fn move_into(start: usize, file: &File) -> Result<(), &'static str> {
    let since = Instant::now();
    let users = loop {
        let users = users();
        if users.running == 0 {
            break users;
        }
        drop(users);
        if since.elapsed() > MAX_WAIT {
            return Err("a kernel or a copy does not end");
        }
        thread::sleep(Duration::from_millis(1));
    };
    // An allocation that was removed from the map may have been unmapped. Allocations in the map stay mapped while
    // `users` is locked.
    let Some(region) = map().find(start).filter(|found| found.0 == start) else {
        return Err("it was freed in the meantime");
    };
    let len = region.1.len.next_multiple_of(PAGE);
    for offset in (0..len).step_by(PAGE) {
        let mut page = [0; PAGE];
        // SAFETY: the page belongs to a live allocation that the device does not write while `users` is locked.
        unsafe { std::ptr::copy((start + offset) as *const u8, page.as_mut_ptr(), PAGE) };
        // A page of zeros is not written and remains a hole in the file.
        if page != [0; PAGE] && file.write_all_at(&page, offset as u64).is_err() {
            return Err("there is too little memory for a second copy");
        }
    }
    let moved = map_file(start, len, file);
    drop(users);
    if moved { Ok(()) } else { Err("Linux cannot map a file in its place") }
}

/// Maps a file over the `len` bytes at `start`, which are pages from `map_pages`. Returns false if the mapping fails.
fn map_file(start: usize, len: usize, file: &impl AsRawFd) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range comes from `map_pages`, and the file contains the bytes that are now in the range.
    let mapped = unsafe {
        libc::mmap(start as *mut libc::c_void, len, protection, flags, file.as_raw_fd(), 0)
    };
    mapped != libc::MAP_FAILED
}

/// Maps memory of another process and returns its address; `None` if the memory cannot be mapped.
pub(crate) fn attach(region: Region, file: &OwnedFd) -> Option<usize> {
    let len = region.len.next_multiple_of(PAGE);
    let start = map_pages(len)?;
    if !map_file(start, len, file) {
        unmap(start, len + PAGE);
        return None;
    }
    map_mut().insert(start, region);
    Some(start)
}

/// Removes attached memory from the map, in the same way as [`free`]. Returns `false` if no attached memory starts at
/// this address.
pub(crate) fn detach(start: usize) -> bool {
    let mut map = map_mut();
    let attached = map.starting_at(start).is_some_and(|region| region.kind == Kind::Attached);
    let Some(region) = attached.then(|| map.remove(start)).flatten() else { return false };
    drop(map);
    let len = region.len.next_multiple_of(PAGE);
    order::forget(start as u64..(start + len) as u64);
    let mut users = users();
    users.retired.push(start..start + len + PAGE);
    users.sweep();
    true
}

/// Makes host memory of this library accessible to kernels until the process ends.
pub(crate) fn register_host_block(start: usize, len: usize) {
    let flags = pool_flag::FINE_GRAINED;
    map_mut().insert(start, Region { len, kind: Kind::Internal, owner: Agent::CPU, flags });
}

/// Number of running kernels and copies, and freed memory that stays mapped until all of them have ended.
#[derive(Default)]
struct Users {
    running: usize,
    retired: Vec<Range<usize>>,
}

impl Users {
    fn sweep(&mut self) {
        if self.running == 0 {
            for range in self.retired.drain(..) {
                unmap(range.start, range.len());
            }
        }
    }
}

fn users() -> MutexGuard<'static, Users> {
    Memory::current().users.lock()
}

/// Guard for memory that a kernel or copy uses. Memory that was accessible at the creation of the guard stays mapped as
/// long as the guard exists. Therefore a program that frees memory in use by a kernel gets a fault report instead of a
/// crash.
pub(crate) struct InUse(&'static Memory);

impl InUse {
    pub(crate) fn new() -> InUse {
        let memory = Memory::current();
        memory.users.lock().running += 1;
        InUse(memory)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut users = self.0.users.lock();
        users.running -= 1;
        users.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_stays_mapped_while_in_use() {
        let start = allocate(100, Agent::CPU, 0, Kind::Pool).unwrap();
        assert_eq!(map().check(start, PAGE), Ok(()));
        assert_eq!(map().check(start, PAGE + 1), Err(start + PAGE));
        let in_use = InUse::new();
        assert!(free(start));
        assert_eq!(map().check(start, 1), Err(start));
        // SAFETY: the memory stays mapped as long as `in_use` lives, which this test checks.
        assert_eq!(unsafe { *(start as *const u8) }, 0);
        drop(in_use);
        assert!(!free(start));
    }

    #[test]
    fn large_allocations_are_aligned_to_large_pages() {
        let start = allocate(LARGE_PAGE + 1, Agent::CPU, 0, Kind::Pool).unwrap();
        assert_eq!(start % LARGE_PAGE, 0);
        assert_eq!(map().check(start, LARGE_PAGE + PAGE), Ok(()));
        assert!(free(start));
    }

    #[test]
    fn rejects_allocations_larger_than_the_device() {
        let total = config::get().total_memory() as usize;
        assert_eq!(allocate(total + PAGE, Agent::GPU, 0, Kind::Pool), None);
        assert_eq!(allocate(usize::MAX, Agent::GPU, 0, Kind::Pool), None);
    }
}
