//! Buffer objects: memory without an address, which ROCr maps to reserved addresses (HIP's virtual memory management).
//!
//! All objects are parts of one file in memory. On hardware, ROCr maps a part of the file of the driver's render node
//! for the host, and asks the driver for the offset (`DRM_AMDGPU_GEM_MMAP`). Here the file in memory takes the place of
//! the render node.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
    sync::{Mutex, OnceLock},
};

use crate::address_map;

/// Size of the file in bytes. Only pages that are used occupy memory.
const FILE_BYTES: i64 = 1 << 42;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Number of handles that refer to the object: one from the allocation, and one from each import.
    handles: u32,
}

/// Objects by their keys. The key of an object is its offset in the file plus [`FIRST_KEY`] and is never reused.
static OBJECTS: Mutex<BTreeMap<u64, Object>> = Mutex::new(BTreeMap::new());

/// End of the part of the file that is in use, in bytes.
static END: Mutex<u64> = Mutex::new(0);

/// Keys of the exported objects. The key of an entry is the inode of the file that was exported for the object.
static EXPORTED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Distance between the offset and the key of an object. The key is also the handle of an allocation, so it must not be
/// an address that memory can have. The addresses from here on belong to the Linux kernel.
const FIRST_KEY: u64 = 1 << 63;

fn file_of_memory(name: &std::ffi::CStr, bytes: i64) -> Option<OwnedFd> {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return None;
    }
    // SAFETY: the descriptor was just created and belongs to nothing else.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: the descriptor is open.
    (unsafe { libc::ftruncate(file.as_raw_fd(), bytes) } == 0).then_some(file)
}

/// Returns the file that contains all objects; -1 if the system cannot create it.
pub(crate) fn file() -> RawFd {
    static FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let file = FILE.get_or_init(|| file_of_memory(c"rocrepro device memory", FILE_BYTES));
    file.as_ref().map_or(-1, |file| file.as_raw_fd())
}

/// Creates an object with one handle, and returns its key; `None` if the file has no space left.
pub(crate) fn create(bytes: u64) -> Option<u64> {
    if file() < 0 {
        return None;
    }
    let mut end = address_map::lock(&END);
    let offset = *end;
    let after = offset.checked_add(bytes).filter(|end| *end <= FILE_BYTES as u64)?;
    *end = after;
    let key = FIRST_KEY + offset;
    address_map::lock(&OBJECTS).insert(key, Object { offset, bytes, handles: 1 });
    Some(key)
}

pub(crate) fn find(key: u64) -> Option<Object> {
    address_map::lock(&OBJECTS).get(&key).copied()
}

/// Removes a handle. After the last handle, the memory is returned to the system.
pub(crate) fn release(key: u64) {
    let mut objects = address_map::lock(&OBJECTS);
    let Some(object) = objects.get_mut(&key) else { return };
    object.handles -= 1;
    if object.handles > 0 {
        return;
    }
    let (offset, bytes) = (object.offset as i64, object.bytes as i64);
    objects.remove(&key);
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no handle to this part of the file exists. If the file system does not support holes, the pages stay
    // occupied.
    unsafe { libc::fallocate(file(), hole, offset, bytes) };
}

fn inode(file: RawFd) -> Option<u64> {
    // SAFETY: all fields are integers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local variable.
    (unsafe { libc::fstat(file, &mut status) } == 0).then_some(status.st_ino)
}

/// Creates a file that identifies the object in this process; `None` if the object does not exist.
pub(crate) fn export(key: u64) -> Option<OwnedFd> {
    find(key)?;
    let file = file_of_memory(c"rocrepro buffer object", 0)?;
    address_map::lock(&EXPORTED).insert(inode(file.as_raw_fd())?, key);
    Some(file)
}

/// Adds a handle to the object that an exported file identifies. Returns the key and the size of the object in bytes.
pub(crate) fn import(file: RawFd) -> Option<(u64, u64)> {
    let key = *address_map::lock(&EXPORTED).get(&inode(file)?)?;
    let mut objects = address_map::lock(&OBJECTS);
    let object = objects.get_mut(&key)?;
    object.handles += 1;
    Some((key, object.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_lives_until_its_last_handle() {
        let key = create(8192).unwrap();
        let file = export(key).unwrap();
        assert_eq!(import(file.as_raw_fd()), Some((key, 8192)));
        release(key);
        assert!(find(key).is_some());
        release(key);
        assert!(find(key).is_none());
        assert_eq!(import(file.as_raw_fd()), None);
    }
}
