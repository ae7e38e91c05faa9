//! Memory that is shared with other processes: HSA's IPC calls.
//!
//! An allocation is private until it is shared. Sharing moves its bytes into a memfd that is mapped at the address of
//! the allocation. The handle contains the process id and the file descriptor, by which another process can open the
//! memfd. The memfd has no name in any folder, and its memory is freed when no process maps it any more.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::fd::{AsRawFd, IntoRawFd, OwnedFd},
    process,
};

use crate::{
    abi::{Agent, Out, Status},
    address_map::{Kind, PAGE, Region},
    locks::Mutex,
    memory,
    part::DeviceComponent as _,
    report,
    report::trace,
    vmem,
};

/// Contents of `hsa_amd_ipc_memory_t` as this device defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Handle {
    magic: u32,
    process: u32,
    file: u32,
    /// Random number that identifies the memfd. Another file may later have the same process id and file descriptor,
    /// but not this number.
    draw: [u32; 2],
    /// Requested size of the allocation, in bytes.
    bytes: [u32; 2],
    /// Agent that owns the allocation, and flags of the memory pool from which it was allocated.
    owner: [u16; 2],
}

const MAGIC: u32 = u32::from_le_bytes(*b"rcri");

#[derive(Default)]
pub(crate) struct Shared {
    /// Shared allocations, each with its memfd and handle. The key is the start address.
    known: Mutex<BTreeMap<usize, (OwnedFd, Handle)>>,
    sharing: Mutex<()>,
}

impl Handle {
    fn name(&self) -> String {
        format!("rocrepro shared memory {:08x}{:08x}", self.draw[0], self.draw[1])
    }

    fn bytes(&self) -> usize {
        self.bytes[0] as usize | (self.bytes[1] as usize) << 32
    }

    /// Opens the memfd of the allocation if it still exists.
    fn open(&self) -> Option<OwnedFd> {
        let path = format!("/proc/{}/fd/{}", self.process, self.file);
        let link = fs::read_link(&path).ok()?;
        if !link.to_str()?.contains(&self.name()) {
            return None;
        }
        let file = File::options().read(true).write(true).open(&path).ok()?;
        // The memfd is checked again after it was opened, because its descriptor may have been reused since the first
        // check.
        let whole = self.bytes().next_multiple_of(PAGE) as u64;
        let same = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()? == link;
        (same && file.metadata().ok()?.len() == whole).then(|| file.into())
    }
}

fn random_words() -> [u32; 2] {
    let mut bytes = [0u8; 8];
    // SAFETY: the call writes at most `bytes.len()` bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    debug_assert_eq!(got, 8, "getrandom returns up to 256 bytes in one call");
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Shares the allocation that starts at `start` and returns its handle. If the allocation is already shared, returns
/// the existing handle. Returns `None` if the memory cannot be shared.
fn share(start: usize, region: Region) -> Option<Handle> {
    // `known` must not be locked during the whole function. A thread that frees memory locks it, and this thread waits
    // below until no kernel or copy is running.
    let shared = Shared::current();
    let one_at_a_time = shared.sharing.lock();
    if let Some((_, handle)) = shared.known.lock().get(&start) {
        return Some(*handle);
    }
    let mut handle = Handle {
        magic: MAGIC,
        process: process::id(),
        file: 0,
        draw: random_words(),
        bytes: [region.len as u32, (region.len >> 32) as u32],
        owner: [u16::try_from(region.owner.0).ok()?, u16::try_from(region.flags).ok()?],
    };
    let file = File::from(vmem::file(&handle.name(), region.len.next_multiple_of(PAGE))?);
    handle.file = file.as_raw_fd() as u32;
    if let Err(why) = memory::move_into(start, &file) {
        report::unsupported(
            "(none)",
            format!("memory cannot be shared with another process: {why}"),
        );
        return None;
    }
    shared.known.lock().insert(start, (file.into(), handle));
    drop(one_at_a_time);
    Some(handle)
}

/// Removes a freed allocation from the shared allocations. Other processes keep their mappings.
pub(crate) fn forget(start: usize) {
    Shared::current().known.lock().remove(&start);
}

fn allocation(pointer: usize) -> Option<(usize, Region)> {
    memory::map().find(pointer).filter(|(_, region)| region.kind == Kind::Pool)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_ipc_memory_create(
    pointer: usize,
    bytes: usize,
    handle: Out<Handle>,
) -> Status {
    if bytes == 0 || handle.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let Some((start, region)) = allocation(pointer) else { return Status::INVALID_ARGUMENT };
    if start != pointer || bytes > region.len.next_multiple_of(PAGE) {
        return Status::INVALID_ARGUMENT;
    }
    trace!("share {bytes} bytes at {pointer:#x} with other processes");
    match share(start, region) {
        Some(made) => handle.put(made),
        None => Status::OUT_OF_RESOURCES,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_ipc_memory_attach(
    handle: Out<Handle>,
    bytes: usize,
    _count: u32,
    _agents: *const Agent,
    pointer: Out<usize>,
) -> Status {
    let Some(handle) = handle.get() else { return Status::INVALID_ARGUMENT };
    if handle.magic != MAGIC || pointer.is_null() || bytes > handle.bytes().next_multiple_of(PAGE) {
        return Status::INVALID_ARGUMENT;
    }
    // If the memfd cannot be opened, the other process has ended or has freed the memory, or this process may not
    // inspect it.
    let Some(file) = handle.open() else { return Status::INVALID_ARGUMENT };
    let [owner, flags] = handle.owner;
    let owner = Agent(owner.into());
    if !Agent::all().any(|agent| agent == owner) {
        return Status::INVALID_AGENT;
    }
    let region = Region { len: handle.bytes(), kind: Kind::Attached, owner, flags: flags.into() };
    match memory::attach(region, &file) {
        Some(start) => {
            trace!("attach {bytes} bytes of process {} at {start:#x}", handle.process);
            pointer.put(start)
        }
        None => Status::OUT_OF_RESOURCES,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_ipc_memory_detach(pointer: usize) -> Status {
    trace!("detach {pointer:#x}");
    if memory::detach(pointer) { Status::SUCCESS } else { Status::INVALID_ARGUMENT }
}

/// Returns a file descriptor for the allocation that contains the range, and the offset of the range within the
/// allocation. The caller must close the descriptor.
#[unsafe(no_mangle)]
extern "C" fn hsa_amd_portable_export_dmabuf(
    pointer: usize,
    bytes: usize,
    descriptor: Out<i32>,
    offset: Out<u64>,
) -> Status {
    if bytes == 0 || descriptor.is_null() || offset.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let Some((start, region)) = allocation(pointer) else { return Status::INVALID_ALLOCATION };
    let inside = pointer - start;
    if bytes > region.len.next_multiple_of(PAGE) - inside {
        return Status::INVALID_ARGUMENT;
    }
    if share(start, region).is_none() {
        return Status::OUT_OF_RESOURCES;
    }
    let copy =
        Shared::current().known.lock().get(&start).and_then(|(file, _)| file.try_clone().ok());
    let Some(copy) = copy else { return Status::OUT_OF_RESOURCES };
    let status = offset.put(inside as u64);
    if status != Status::SUCCESS {
        return status;
    }
    descriptor.put(copy.into_raw_fd())
}

/// Newer form of `hsa_amd_portable_export_dmabuf`, with flags for a PCIe path. The emulated device ignores the flags.
#[unsafe(no_mangle)]
extern "C" fn hsa_amd_portable_export_dmabuf_v2(
    pointer: usize,
    bytes: usize,
    descriptor: Out<i32>,
    offset: Out<u64>,
    _flags: u64,
) -> Status {
    hsa_amd_portable_export_dmabuf(pointer, bytes, descriptor, offset)
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_portable_close_dmabuf(descriptor: i32) -> Status {
    if descriptor < 0 {
        return Status::INVALID_ARGUMENT;
    }
    // SAFETY: HSA requires an open descriptor from `hsa_amd_portable_export_dmabuf`.
    let closed = unsafe { libc::close(descriptor) };
    if closed == 0 { Status::SUCCESS } else { Status::ERROR }
}
