//! Functions of libdrm and libdrm_amdgpu that ROCr looks up in this library.

use std::{
    ffi::{c_int, c_void},
    os::fd::IntoRawFd as _,
    sync::OnceLock,
};

use aql::report;

use crate::{address_map, buffer_objects, configuration, node::Node, status::Status, topology};

/// The start of libdrm's `struct amdgpu_device`. The function `amdgpu_device_get_fd` of libdrm reads the file
/// descriptor from it. The device appends space, because later versions of the function may read more.
#[repr(C)]
struct DrmDevice {
    references: c_int,
    next: *mut c_void,
    file: c_int,
    space: [u8; 4096],
}

struct Pointer(*mut DrmDevice);
// SAFETY: the structure is never freed and never changes.
unsafe impl Send for Pointer {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pointer {}

/// Returns the handle of the only render node, which all devices share.
fn handle() -> *mut DrmDevice {
    static DEVICE: OnceLock<Pointer> = OnceLock::new();
    let new = || DrmDevice {
        references: 1,
        next: std::ptr::null_mut(),
        file: buffer_objects::file(),
        space: [0; 4096],
    };
    DEVICE.get_or_init(|| Pointer(Box::into_raw(Box::new(new())))).0
}

/// # Safety
/// As the thunk requires, `to` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetAMDGPUDeviceHandle(node: u32, to: *mut *mut c_void) -> Status {
    match Node::new(node).map(Node::gpu) {
        Ok(Some(_)) if !to.is_null() => {
            // SAFETY: the caller passes a pointer that is valid for writing.
            unsafe { to.write(handle().cast()) };
            Status::SUCCESS
        }
        _ => Status::INVALID_PARAMETER,
    }
}

/// Layout of libdrm's `struct amdgpu_gpu_info`, up to the last field that this library sets.
#[repr(C)]
struct GpuInfo {
    chip: u32,
    revision: [u32; 2],
    family: u32,
    other: [u64; 3],
    engines: [u32; 8],
    counter_khz: u32,
    more: [u32; 85],
}

const _: () = {
    assert!(size_of::<GpuInfo>() == 416);
    assert!(std::mem::offset_of!(GpuInfo, counter_khz) == 72);
};

/// # Safety
/// As libdrm requires, `to` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_query_gpu_info(_device: *mut c_void, to: *mut GpuInfo) -> c_int {
    let arch = configuration::get().arch;
    let found = GpuInfo {
        chip: device::model::for_arch(arch).chip_id,
        revision: [1; 2],
        family: topology::family(arch),
        other: [0; 3],
        engines: [0; 8],
        counter_khz: topology::COUNTER_KHZ,
        more: [0; 85],
    };
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { to.write(found) };
    0
}

/// Always fails, because the emulated device has no device file that could be opened.
#[unsafe(no_mangle)]
extern "C" fn amdgpu_device_initialize(
    _file: c_int,
    _major: *mut u32,
    _minor: *mut u32,
    _device: *mut *mut c_void,
) -> c_int {
    -libc::ENODEV
}

#[unsafe(no_mangle)]
extern "C" fn amdgpu_device_deinitialize(_device: *mut c_void) -> c_int {
    0
}

/// Types of a shared handle (`enum amdgpu_bo_handle_type`).
const BY_NUMBER: u32 = 1;
const BY_FILE: u32 = 2;

/// Layout of libdrm's `struct amdgpu_bo_import_result`.
#[repr(C)]
struct Imported {
    object: u64,
    bytes: u64,
}

/// # Safety
/// As libdrm requires, `to` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_bo_import(
    _device: *mut c_void,
    kind: u32,
    shared: u32,
    to: *mut Imported,
) -> c_int {
    let found = (kind == BY_FILE).then(|| buffer_objects::import(shared as c_int)).flatten();
    let Some((object, bytes)) = found else { return -libc::EINVAL };
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { to.write(Imported { object, bytes }) };
    0
}

/// # Safety
/// As libdrm requires, `shared` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn amdgpu_bo_export(object: u64, kind: u32, shared: *mut u32) -> c_int {
    let Some(found) = buffer_objects::find(object) else { return -libc::EINVAL };
    let number = match kind {
        // The number of an object is the number of its first page, counted from 1.
        BY_NUMBER => (found.offset / address_map::PAGE) as u32 + 1,
        BY_FILE => match buffer_objects::export(object) {
            Some(file) => file.into_raw_fd() as u32,
            None => return -libc::ENOMEM,
        },
        _ => return -libc::EINVAL,
    };
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { shared.write(number) };
    0
}

/// Index of the command `DRM_AMDGPU_GEM_MMAP`, the only one that ROCr sends.
const COMMAND_MAP: u64 = 1;

/// Returns the offset in the render node's file at which the host can map an object.
///
/// # Safety
/// As libdrm requires, `data` must be valid for reading and writing `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn drmCommandWriteRead(
    _file: c_int,
    command: u64,
    data: *mut c_void,
    bytes: u64,
) -> c_int {
    if command != COMMAND_MAP || bytes < 8 || data.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: the caller passes a structure whose first four bytes are the number of an object.
    let number = unsafe { data.cast::<u32>().read() };
    let Some(page) = number.checked_sub(1) else { return -libc::ENOENT };
    // SAFETY: the caller passes a structure whose first eight bytes receive the offset.
    unsafe { data.cast::<u64>().write(u64::from(page) * address_map::PAGE) };
    0
}

/// Operations of `amdgpu_bo_va_op`: map a buffer object to a device address, and unmap it.
const MAP: u32 = 1;
const UNMAP: u32 = 2;

#[unsafe(no_mangle)]
extern "C" fn amdgpu_bo_va_op(
    object: u64,
    offset: u64,
    bytes: u64,
    address: u64,
    _flags: u64,
    operation: u32,
) -> c_int {
    let Some(found) = buffer_objects::find(object) else { return -libc::EINVAL };
    let mut map = address_map::write();
    match operation {
        MAP if offset.checked_add(bytes).is_some_and(|end| end <= found.bytes) => {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let how = libc::MAP_SHARED | libc::MAP_FIXED;
            let (at, length) = (address as *mut c_void, bytes as usize);
            let from = (found.offset + offset) as i64;
            // SAFETY: ROCr maps objects only to addresses that it has reserved for them.
            let mapped =
                unsafe { libc::mmap(at, length, protection, how, buffer_objects::file(), from) };
            if mapped == libc::MAP_FAILED {
                return -libc::ENOMEM;
            }
            map.views.insert(address, bytes);
            0
        }
        // The host may still use the pages, so they are not unmapped before the reservation ends.
        UNMAP => {
            map.views.remove(&address);
            0
        }
        _ => -libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
extern "C" fn amdgpu_bo_free(object: u64) -> c_int {
    buffer_objects::release(object);
    0
}

/// # Safety
/// As the thunk requires, `file` and `offset` must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtExportDMABufHandle(
    address: u64,
    _bytes: u64,
    file: *mut c_int,
    offset: *mut u64,
) -> Status {
    if buffer_objects::find(address).is_none() {
        // Ordinary memory is private to the process, so it has no file.
        report::unsupported(
            "(none)",
            "call not emulated: hsaKmtExportDMABufHandle of memory with an address",
        );
        return Status::NOT_SUPPORTED;
    }
    let Some(exported) = buffer_objects::export(address) else { return Status::NO_MEMORY };
    // SAFETY: the caller passes pointers that are valid for writing.
    unsafe {
        file.write(exported.into_raw_fd());
        offset.write(0);
    }
    Status::SUCCESS
}
