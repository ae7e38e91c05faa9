//! The memory that the emulated GPU sees: allocation, accounting and the map of addresses.
//!
//! Device memory is ordinary memory of this process at its own address, so host and device agree on
//! every pointer, as they do under ROCr.

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
    part::Part as _,
    sanitizer,
};

/// What is allocated.
#[derive(Default)]
pub(crate) struct Memory {
    map: RwLock<AddressMap>,
    /// Bytes in use of each GPU's memory.
    used: Mutex<BTreeMap<u64, u64>>,
    /// How often it was asked how much is free.
    answers: AtomicU64,
    /// Addresses that an allocation got although they were taken, as often as it happened.
    aliases: Mutex<Vec<usize>>,
    /// Sizes that were given back two times, so that two allocations of this size get the same place.
    freed_twice: Mutex<Vec<usize>>,
    users: Mutex<Users>,
}

impl Memory {
    pub(crate) fn map(&self) -> RwLockReadGuard<'_, AddressMap> {
        self.map.read()
    }
}

fn used() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    Memory::here().used.lock()
}

pub(crate) fn map() -> RwLockReadGuard<'static, AddressMap> {
    Memory::here().map()
}

pub(crate) fn map_mut() -> RwLockWriteGuard<'static, AddressMap> {
    Memory::here().map.write()
}

/// Bytes that the device says it has.
pub(crate) fn told() -> u64 {
    let total = config::get().total_memory();
    match faults::planted(Fault::MemoryTotalWrong) {
        Some(planted) if faults::takes_at(Fault::MemoryTotalWrong, 0) => {
            total / 100 * planted.amount("percent").min(100)
        }
        _ => total,
    }
}

/// Bytes of the device's memory that are free.
pub(crate) fn available(device: Agent) -> u64 {
    let free =
        config::get().total_memory().saturating_sub(used().get(&device.0).copied().unwrap_or(0));
    let second = Memory::here().answers.fetch_add(1, Ordering::Relaxed) % 2 == 1;
    match second.then(|| faults::taken(Fault::MemoryFreeWrong)).flatten() {
        Some(planted) => free / 100 * planted.amount("percent").min(100),
        None => free,
    }
}

/// Takes memory of the device out of its free total; `false` when there is not enough.
pub(crate) fn charge(device: Agent, bytes: usize) -> bool {
    let mut all = used();
    let used = all.entry(device.0).or_default();
    let wanted =
        used.checked_add(bytes as u64).filter(|used| *used <= config::get().total_memory());
    *used = wanted.unwrap_or(*used);
    wanted.is_some()
}

/// Gives memory of the device back to its free total, unless a planted leak keeps it.
pub(crate) fn discharge(device: Agent, bytes: usize) {
    if faults::takes(Fault::AllocLeak) {
        return;
    }
    let mut all = used();
    let used = all.entry(device.0).or_default();
    *used = used.saturating_sub(bytes as u64);
}

/// With `alloc.alias` or `alloc.freed-twice`, the address of a live allocation of the same size.
fn alias(len: usize) -> Option<usize> {
    faults::planted(Fault::AllocAlias).or(faults::planted(Fault::AllocFreedTwice))?;
    let live = map().pool_of(len)?;
    let mut freed = Memory::here().freed_twice.lock();
    let twice = freed.iter().position(|size| *size == len).map(|at| freed.swap_remove(at));
    (twice.is_some() || faults::takes(Fault::AllocAlias)).then(|| {
        Memory::here().aliases.lock().push(live);
        live
    })
}

/// Ends one of the two lives of an address that was given out twice.
fn end_alias(start: usize) -> Option<Region> {
    let mut aliases = Memory::here().aliases.lock();
    let found = aliases.iter().position(|alias| *alias == start)?;
    aliases.swap_remove(found);
    drop(aliases);
    Some(map().find(start)?.1)
}

/// Zeros all device memory, as a reset leaves it.
pub(crate) fn forget() {
    for (start, len) in map().pools() {
        // SAFETY: the dispatch that is reset keeps all memory mapped, and device memory is the guest's alone.
        unsafe { std::ptr::write_bytes(start as *mut u8, 0, len) };
    }
}

/// Allocates zeroed memory of whole pages for an agent and maps it; the address, or `None` when
/// there is not enough.
///
/// A page that is never mapped follows every allocation, as the kernel driver leaves one: running
/// off the end of a large buffer is a fault and not a neighbour's data.
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
        sanitizer::allocated(start, bytes, counted && !config::get().large_bar);
    }
    Some(start)
}

/// Large allocations start at a multiple of a large page, as the kernel driver places them; the
/// device-side heap of ROCm relies on it.
const LARGE_PAGE: usize = 2 << 20;

fn map_pages(len: usize) -> Option<usize> {
    let align = if len >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
    let kept = len.checked_add(PAGE)?;
    let whole = kept.checked_add(align - PAGE)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
    let all = unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
    if all == libc::MAP_FAILED {
        return None;
    }
    let all = all as usize;
    let start = all.next_multiple_of(align);
    unmap(all, start - all);
    unmap(start + kept, all + whole - start - kept);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the first `len` bytes of what is left of the mapping.
    if unsafe { libc::mprotect(start as *mut libc::c_void, len, protection) } != 0 {
        unmap(start, kept);
        return None;
    }
    Some(start)
}

fn unmap(start: usize, len: usize) {
    if len > 0 {
        // SAFETY: callers pass what `map_pages` mapped, once nothing uses it any more.
        unsafe { libc::munmap(start as *mut libc::c_void, len) };
    }
}

/// Takes an allocation out of the map; the memory itself goes when no kernel or copy runs that may
/// still hold its address. `false` when nothing was allocated there.
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
    sanitizer::freed(start);
    // The sanitizer has allocations by the byte; what was taken are whole pages.
    let len = region.len.next_multiple_of(PAGE);
    order::forget(start as u64..(start + len) as u64);
    if region.owner.is_gpu() && region.kind == Kind::Pool {
        discharge(region.owner, len);
        if faults::takes(Fault::AllocFreedTwice) {
            Memory::here().freed_twice.lock().push(len);
        }
    }
    let mut users = users();
    users.retired.push(start..start + len + PAGE);
    users.sweep();
    true
}

/// How long a share waits for the kernels and copies that run: they may hold addresses of the memory, and write there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Moves the bytes of an allocation into a file, which is mapped in their place.
///
/// # Errors
/// Why not: something runs on and on, the allocation is freed meanwhile, or the kernel has no room.
///
/// What the host itself writes to the memory meanwhile may be lost, which only memory that the host reaches directly allows.
pub(crate) fn move_into(start: usize, file: &File) -> Result<(), &'static str> {
    let since = Instant::now();
    let users = loop {
        let users = users();
        if users.running == 0 {
            break users;
        }
        drop(users);
        if since.elapsed() > PATIENCE {
            return Err("a kernel or a copy runs on and on");
        }
        thread::sleep(Duration::from_millis(1));
    };
    // What is no more in the map may be somebody else's pages by now; what is, stays mapped while `users` is held.
    let Some(region) = map().find(start).filter(|found| found.0 == start) else {
        return Err("it is freed meanwhile");
    };
    let len = region.1.len.next_multiple_of(PAGE);
    for offset in (0..len).step_by(PAGE) {
        let mut page = [0; PAGE];
        // SAFETY: a page of a live allocation, in which nothing of the device writes while `users` is held.
        unsafe { std::ptr::copy((start + offset) as *const u8, page.as_mut_ptr(), PAGE) };
        // A page that was never written stays one in the file, too.
        if page != [0; PAGE] && file.write_all_at(&page, offset as u64).is_err() {
            return Err("there is no room for a second copy of it");
        }
    }
    let moved = map_file(start, len, file);
    drop(users);
    if moved { Ok(()) } else { Err("the kernel maps no file in its place") }
}

/// Maps a file over pages of ours.
fn map_file(start: usize, len: usize, file: &impl AsRawFd) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is of `map_pages`, and whoever has addresses of it finds the same bytes there.
    let mapped = unsafe {
        libc::mmap(start as *mut libc::c_void, len, protection, flags, file.as_raw_fd(), 0)
    };
    mapped != libc::MAP_FAILED
}

/// Maps the memory of another process; where.
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

/// Takes attached memory out of the map, as `free` does with memory of this process; `false` when none was attached there.
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

/// Makes host memory of the device itself visible to kernels, for ever.
pub(crate) fn register_host_block(start: usize, len: usize) {
    let flags = pool_flag::FINE_GRAINED;
    map_mut().insert(start, Region { len, kind: Kind::Internal, owner: Agent::CPU, flags });
}

/// Who may hold addresses of memory that has been freed meanwhile.
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
    Memory::here().users.lock()
}

/// While this exists no memory that was reachable at its start is unmapped: freeing memory that a
/// kernel uses must become a reported fault, not a crash of the process.
pub(crate) struct InUse(&'static Memory);

impl InUse {
    pub(crate) fn new() -> InUse {
        let memory = Memory::here();
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
    fn freed_memory_stays_mapped_while_it_is_in_use() {
        let start = allocate(100, Agent::CPU, 0, Kind::Pool).unwrap();
        assert_eq!(map().check(start, PAGE), Ok(()));
        assert_eq!(map().check(start, PAGE + 1), Err(start + PAGE));
        let in_use = InUse::new();
        assert!(free(start));
        assert_eq!(map().check(start, 1), Err(start));
        // SAFETY: the memory stays mapped as long as `in_use` lives, which is what is tested.
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
    fn more_than_the_device_has_is_refused() {
        let total = config::get().total_memory() as usize;
        assert_eq!(allocate(total + PAGE, Agent::GPU, 0, Kind::Pool), None);
        assert_eq!(allocate(usize::MAX, Agent::GPU, 0, Kind::Pool), None);
    }
}
