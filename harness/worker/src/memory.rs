use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ffi::{c_int, c_void},
    ptr, thread,
    time::{Duration, Instant},
};

use hip_sys::{Extent, MEM_ATTACH_GLOBAL, Memcpy3dParams, MemcpyKind, PitchedPtr};
use plan::{
    Box3d, Buffer, BufferAddress, Call, CopyApi, DeviceAttribute, GUARD_BYTE, Memory, POISON_BYTE,
    Step, fill_stamp, pattern, small_numbers,
};

use crate::{
    broken::WorkerError,
    device_look,
    handles::Kind,
    machine::{CallResult, Machine},
};

/// Alignment of host allocations, in bytes. Device allocations have the same alignment, so an offset is equally aligned
/// on the host and on the device.
const HOST_ALIGN: usize = 256;

/// Returns the direction of a copy. For managed memory, the HIP runtime determines the direction, because the memory
/// may be on the host or on the device.
pub(crate) fn direction(to: Memory, from: Memory) -> MemcpyKind {
    if to == Memory::Managed || from == Memory::Managed {
        return MemcpyKind::Default;
    }
    match (from.on_host(), to.on_host()) {
        (true, true) => MemcpyKind::HostToHost,
        (true, false) => MemcpyKind::HostToDevice,
        (false, true) => MemcpyKind::DeviceToHost,
        (false, false) => MemcpyKind::DeviceToDevice,
    }
}

/// Executes a call that allocates, frees, copies or sets memory.
pub(crate) fn call(
    machine: &Machine<'_>,
    step: &Step,
    occurrence: u32,
) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    match &step.call {
        Call::Alloc { buffer, stream } => allocate(machine, buffer, stream),
        Call::Free { buffer, stream } => free(machine, buffer, stream),
        Call::FreeAddress { address } => {
            // SAFETY: the HIP runtime looks up the address and does not dereference it.
            let code = unsafe { hip.hipFree(ptr::without_provenance_mut(*address as usize)) }?;
            Ok(CallResult::hip(code))
        }
        Call::Poison { buffer } => poison(machine, buffer),
        Call::Fill { buffer: name, stamp } => {
            let mut bytes = vec![0; declared(machine, name)?.bytes as usize];
            pattern(fill_stamp(*stamp, occurrence), &mut bytes);
            store(machine, name, 0, &bytes)?;
            Ok(CallResult::NONE)
        }
        Call::FillNumbers { buffer: name, dtype, stamp } => {
            let mut bytes = vec![0; declared(machine, name)?.bytes as usize];
            small_numbers(*dtype, fill_stamp(*stamp, occurrence), &mut bytes);
            store(machine, name, 0, &bytes)?;
            Ok(CallResult::NONE)
        }
        Call::FillFile { buffer: name, file } => {
            let found = machine.plan().files.get(file);
            let found = found.ok_or_else(|| WorkerError(format!("unknown file `{file}`")))?;
            store(machine, name, 0, found.bytes())?;
            Ok(CallResult::NONE)
        }
        Call::Copy { to, from, bytes, api, stream } => {
            copy(machine, to, from, *bytes as usize, *api, stream)
        }
        Call::Copy2d { to, to_pitch, from, from_pitch, width, height, asynchronous, stream } => {
            let kind = kind(machine, to, from)?;
            let (to, from) = (machine.address(to), machine.address(from));
            let (to_pitch, from_pitch) = (*to_pitch as usize, *from_pitch as usize);
            let (width, height) = (*width as usize, *height as usize);
            let stream = machine.stream(stream);
            // SAFETY: the addresses are inside buffers of the plan, which exist until the plan frees them. An extent
            // that exceeds a buffer is a deliberate mistake of the plan.
            let code = unsafe {
                if *asynchronous {
                    hip.hipMemcpy2DAsync(
                        to, to_pitch, from, from_pitch, width, height, kind, stream,
                    )
                } else {
                    hip.hipMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind)
                }
            }?;
            Ok(CallResult::hip(code))
        }
        Call::Copy3d { to, from, width, height, depth, asynchronous, stream } => {
            let of = |of: &Box3d| Ok::<_, WorkerError>(declared(machine, &of.buffer)?.memory);
            let kind = direction(of(to)?, of(from)?);
            let params = Memcpy3dParams {
                from_array: ptr::null_mut(),
                from_at: position(from),
                from: pitched(machine, from),
                to_array: ptr::null_mut(),
                to_at: position(to),
                to: pitched(machine, to),
                extent: extent([*width, *height, *depth]),
                kind: kind as c_int,
            };
            let stream = machine.stream(stream);
            // SAFETY: as for the copy of rows above; the parameters live until the call has copied them.
            let code = unsafe {
                match asynchronous {
                    true => hip.hipMemcpy3DAsync(&params, stream),
                    false => hip.hipMemcpy3D(&params),
                }
            }?;
            Ok(CallResult::hip(code))
        }
        Call::SetRows { to, value, width, height, depth, asynchronous, stream } => {
            let (stream, value) = (machine.stream(stream), c_int::from(*value));
            let place = pitched(machine, to);
            let place = PitchedPtr {
                address: place.address.wrapping_byte_add(to.offset(0, 0) as usize),
                ..place
            };
            let (rows, address) = (*height as usize, place.address);
            let width_bytes = *width as usize;
            // SAFETY: as for the copy of rows above.
            let code = unsafe {
                match (depth, *asynchronous) {
                    (None, true) => {
                        hip.hipMemset2DAsync(address, place.pitch, value, width_bytes, rows, stream)
                    }
                    (None, false) => {
                        hip.hipMemset2D(address, place.pitch, value, width_bytes, rows)
                    }
                    (Some(depth), true) => {
                        let extent = extent([*width, *height, *depth]);
                        hip.hipMemset3DAsync(place, value, extent, stream)
                    }
                    (Some(depth), false) => {
                        hip.hipMemset3D(place, value, extent([*width, *height, *depth]))
                    }
                }
            }?;
            Ok(CallResult::hip(code))
        }
        Call::Set { to, value, words, bytes, asynchronous, stream } => {
            let (to, value, bytes) = (machine.address(to), value.cast_signed(), *bytes as usize);
            let stream = machine.stream(stream);
            // SAFETY: as for the copy of rows above.
            let code = unsafe {
                match (*words, *asynchronous) {
                    (true, true) => hip.hipMemsetD32Async(to, value, bytes / 4, stream),
                    (true, false) => hip.hipMemsetD32(to, value, bytes / 4),
                    (false, true) => hip.hipMemsetAsync(to, value, bytes, stream),
                    (false, false) => hip.hipMemset(to, value, bytes),
                }
            }?;
            Ok(CallResult::hip(code))
        }
        Call::DeviceAttribute { attribute, device } => {
            let mut value = 0;
            let (attribute, device) = (attribute_code(*attribute), device.cast_signed());
            // SAFETY: the result goes to a separate variable.
            let code = unsafe { hip.hipDeviceGetAttribute(&mut value, attribute, device) }?;
            Ok(CallResult::hip(code).with((code == 0).then(|| value.to_string())))
        }
        Call::MemGetInfo => free_bytes(machine, step.gives.is_some()),
        Call::TrimPool => {
            let mut pool = ptr::null_mut();
            // SAFETY: the result goes to a separate variable, and the pool is used only if the call succeeded.
            let code = unsafe {
                match hip.hipDeviceGetDefaultMemPool(&mut pool, 0)? {
                    0 => hip.hipMemPoolTrimTo(pool, 0)?,
                    code => code,
                }
            };
            Ok(CallResult::hip(code))
        }
        other => Err(WorkerError(format!("{other:?} is not a call about memory"))),
    }
}

/// Time for which freed memory may be missing from the amount of free memory that hipMemGetInfo reports, and the time
/// between two queries. The HIP runtime has a separate thread that frees the memory of finished work, such as the
/// arguments of a graph's kernels.
const RETURN_TIME: Duration = Duration::from_secs(1);
const BETWEEN_QUERIES: Duration = Duration::from_millis(10);

/// Queries the amount of free device memory. `compared` is true if the case compares the amount with that of the first
/// query. If it is compared and is less, repeats the query until two consecutive queries return at least the first
/// amount, but at most for [`RETURN_TIME`]. Returns the lesser of the last two amounts, because a single sufficient
/// amount may be a coincidence.
fn free_bytes(machine: &Machine<'_>, compared: bool) -> Result<CallResult, WorkerError> {
    let until = Instant::now() + RETURN_TIME;
    let mut before = usize::MAX;
    loop {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the results go to separate variables.
        let code = unsafe { machine.libraries.hip.hipMemGetInfo(&mut free, &mut total) }?;
        if code != 0 {
            return Ok(CallResult::hip(code));
        }
        let first = *machine.state().free_at_first.get_or_insert(free);
        let least = free.min(before);
        if !compared || least >= first || Instant::now() >= until {
            let text =
                if free > total { "more than the total".to_owned() } else { least.to_string() };
            return Ok(CallResult::hip(code).with(Some(text)));
        }
        before = free;
        thread::sleep(BETWEEN_QUERIES);
    }
}

/// Returns HIP's description of a buffer as pitched memory: slices that consist of rows.
fn pitched(machine: &Machine<'_>, of: &Box3d) -> PitchedPtr {
    let place = BufferAddress { buffer: of.buffer.clone(), offset: 0 };
    let (pitch, rows) = (of.pitch as usize, of.rows as usize);
    PitchedPtr { address: machine.address(&place), pitch, x_size: pitch, y_size: rows }
}

fn position(of: &Box3d) -> Extent {
    extent(of.at)
}

fn extent([width, height, depth]: [u64; 3]) -> Extent {
    Extent { width: width as usize, height: height as usize, depth: depth as usize }
}

/// Returns the value of the attribute in `hipDeviceAttribute_t` (hip/hip_runtime_api.h). The values have not changed
/// since ROCm 5.2.3.
fn attribute_code(attribute: DeviceAttribute) -> c_int {
    match attribute {
        DeviceAttribute::MaxThreadsPerBlock => 56,
        DeviceAttribute::MultiprocessorCount => 63,
        DeviceAttribute::WarpSize => 87,
    }
}

/// Returns the declaration of a buffer in the plan. `plan::impossible_steps` has checked that it exists.
pub(crate) fn declared<'a>(machine: &Machine<'a>, name: &str) -> Result<&'a Buffer, WorkerError> {
    let found = machine.plan().buffers.get(name);
    found.ok_or_else(|| WorkerError(format!("unknown buffer `{name}`")))
}

pub(crate) fn kind(
    machine: &Machine<'_>,
    to: &BufferAddress,
    from: &BufferAddress,
) -> Result<c_int, WorkerError> {
    let to = declared(machine, &to.buffer)?.memory;
    let from = declared(machine, &from.buffer)?.memory;
    Ok(direction(to, from) as c_int)
}

fn copy(
    machine: &Machine<'_>,
    to: &BufferAddress,
    from: &BufferAddress,
    bytes: usize,
    api: CopyApi,
    stream: &str,
) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let kind = kind(machine, to, from)?;
    let on_host = machine.plan().ends_on_host(from, to);
    let (to, from) = (machine.address(to), machine.address(from));
    let stream = machine.stream(stream);
    // SAFETY: the addresses are inside buffers of the plan. Host memory remains allocated until the plan frees it, even
    // if a step stops the plan. An extent that exceeds a buffer is a deliberate mistake of the plan.
    let code = unsafe {
        match api {
            CopyApi::Memcpy => hip.hipMemcpy(to, from, bytes, kind),
            CopyApi::MemcpyAsync => hip.hipMemcpyAsync(to, from, bytes, kind, stream),
            CopyApi::MemcpyWithStream => hip.hipMemcpyWithStream(to, from, bytes, kind, stream),
            CopyApi::MemcpyDirected => match on_host {
                (true, false) => hip.hipMemcpyHtoD(to, from, bytes),
                (false, true) => hip.hipMemcpyDtoH(to, from, bytes),
                (true, true) | (false, false) => hip.hipMemcpyDtoD(to, from, bytes),
            },
        }
    }?;
    Ok(CallResult::hip(code))
}

fn host_layout(buffer: &Buffer) -> Result<Layout, WorkerError> {
    let bytes = buffer.allocation().max(1) as usize;
    Layout::from_size_align(bytes, HOST_ALIGN)
        .map_err(|_| WorkerError(format!("{bytes} bytes of host memory are too many")))
}

fn allocate_on_host(buffer: &Buffer) -> Result<*mut c_void, WorkerError> {
    let layout = host_layout(buffer)?;
    // SAFETY: the size is not zero.
    let base = unsafe { alloc_zeroed(layout) };
    if base.is_null() {
        return Err(WorkerError(format!(
            "{} bytes of host memory cannot be allocated",
            layout.size()
        )));
    }
    Ok(base.cast())
}

fn allocate(machine: &Machine<'_>, name: &str, stream: &str) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let buffer = declared(machine, name)?;
    let bytes = buffer.allocation() as usize;
    let mut base = ptr::null_mut();
    if matches!(buffer.memory, Memory::HostPageable | Memory::HostRegistered) {
        base = allocate_on_host(buffer)?;
    }
    // SAFETY: results go to a separate variable; the registered range was allocated above.
    let code = unsafe {
        match buffer.memory {
            Memory::Device => hip.hipMalloc(&mut base, bytes)?,
            Memory::DevicePitched => {
                let mut pitch = 0;
                hip.hipMallocPitch(&mut base, &mut pitch, bytes, 1)?
            }
            Memory::DeviceAsync => hip.hipMallocAsync(&mut base, bytes, machine.stream(stream))?,
            Memory::Managed => hip.hipMallocManaged(&mut base, bytes, MEM_ATTACH_GLOBAL)?,
            Memory::HostPinned => hip.hipHostMalloc(&mut base, bytes, 0)?,
            Memory::HostRegistered => hip.hipHostRegister(base, bytes, 0)?,
            Memory::HostPageable => 0,
        }
    };
    machine.store_handle(Kind::Buffer, name, base, code);
    if code == 0 {
        let first = machine.address(&BufferAddress { buffer: name.to_owned(), offset: 0 });
        let (bytes, guard) = (buffer.bytes as usize, buffer.guard() as usize);
        device_look::is_buffer(first.cast_const(), bytes, guard, name);
    }
    Ok(match buffer.memory {
        Memory::HostPageable => CallResult::NONE,
        _ => CallResult::hip(code),
    })
}

fn free(machine: &Machine<'_>, name: &str, stream: &str) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let buffer = declared(machine, name)?;
    let base = machine.handle(Kind::Buffer, name);
    // If the plan frees a buffer twice, the second call passes the old address. The HIP runtime must recognise that the
    // memory was freed.
    let address = if base.is_null() { machine.old_buffer(name) } else { base };
    // SAFETY: the address is null or came from the matching allocator. The HIP runtime looks up the address before it
    // uses the memory, so a freed address is harmless.
    let code = unsafe {
        match buffer.memory {
            Memory::Device | Memory::DevicePitched | Memory::Managed => hip.hipFree(address)?,
            Memory::DeviceAsync => hip.hipFreeAsync(address, machine.stream(stream))?,
            Memory::HostPinned => hip.hipHostFree(address)?,
            Memory::HostRegistered => hip.hipHostUnregister(address)?,
            Memory::HostPageable => 0,
        }
    };
    // From here on, no other thread can find the address.
    machine.drop_handle(Kind::Buffer, name, code);
    let of_this_process = matches!(buffer.memory, Memory::HostPageable | Memory::HostRegistered);
    if of_this_process && code == 0 && !base.is_null() {
        // SAFETY: the memory was allocated with this layout and is not registered any more.
        unsafe { dealloc(base.cast(), host_layout(buffer)?) };
    }
    Ok(match buffer.memory {
        Memory::HostPageable => CallResult::NONE,
        _ => CallResult::hip(code),
    })
}

fn poison(machine: &Machine<'_>, name: &str) -> Result<CallResult, WorkerError> {
    let hip = &machine.libraries.hip;
    let buffer = declared(machine, name)?;
    if buffer.memory.on_host() {
        let guard = vec![GUARD_BYTE; buffer.guard() as usize];
        let guard_bytes = buffer.guard() as i64;
        store(machine, name, -guard_bytes, &guard)?;
        store(machine, name, 0, &vec![POISON_BYTE; buffer.bytes as usize])?;
        store(machine, name, buffer.bytes as i64, &guard)?;
        return Ok(CallResult::NONE);
    }
    let base = machine.handle(Kind::Buffer, name);
    let first = machine.address(&BufferAddress { buffer: name.to_owned(), offset: 0 });
    let set = |to, byte: u8, bytes: u64| {
        // SAFETY: both ranges are inside the allocation, or the address is null, which the HIP runtime rejects.
        unsafe { hip.hipMemset(to, byte.into(), bytes as usize) }
    };
    let mut code = 0;
    if buffer.guarded {
        code = set(base, GUARD_BYTE, buffer.allocation())?;
    }
    if code == 0 {
        code = set(first, POISON_BYTE, buffer.bytes)?;
        // hipMemset is asynchronous and may still be running here. Bytes that it writes after this mark count as
        // written, so the sanitizer can miss an uninitialised read of them but never reports a false one. The device is
        // idle before the body begins.
        device_look::never_written(first.cast_const(), buffer.bytes as usize);
    }
    Ok(CallResult::hip(code))
}

/// Writes bytes from the host to a buffer. `offset` is relative to the first byte after the low guard, so it is
/// negative inside the low guard.
fn store(machine: &Machine<'_>, name: &str, offset: i64, bytes: &[u8]) -> Result<(), WorkerError> {
    let to = host_address(machine, name, offset)?;
    // SAFETY: callers stay within the allocation, which is host-accessible. The device may read the memory at the same
    // time, so no reference to it is created.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}

/// Reads bytes of a buffer on the host. `offset` has the same meaning as in [`store`].
pub(crate) fn load(
    machine: &Machine<'_>,
    name: &str,
    offset: i64,
    bytes: u64,
) -> Result<Vec<u8>, WorkerError> {
    let from = host_address(machine, name, offset)?;
    let mut out = vec![0; bytes as usize];
    // SAFETY: as in `store`.
    unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
    Ok(out)
}

fn host_address(machine: &Machine<'_>, name: &str, offset: i64) -> Result<*mut u8, WorkerError> {
    match machine.address(&BufferAddress { buffer: name.to_owned(), offset: 0 }) {
        address if address.is_null() => {
            Err(WorkerError(format!("the host accesses buffer `{name}`, which is not allocated")))
        }
        address => Ok(address.cast::<u8>().wrapping_offset(offset as isize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(to: Memory, from: Memory, kind: MemcpyKind) {
        assert_eq!(direction(to, from), kind);
    }

    #[test]
    fn direction_follows_the_kind_of_memory() {
        use Memory::*;
        check(Device, HostPageable, MemcpyKind::HostToDevice);
        check(DeviceAsync, HostPinned, MemcpyKind::HostToDevice);
        check(HostRegistered, DeviceAsync, MemcpyKind::DeviceToHost);
        check(Device, DeviceAsync, MemcpyKind::DeviceToDevice);
        check(HostPinned, HostPageable, MemcpyKind::HostToHost);
        check(Managed, HostPageable, MemcpyKind::Default);
        check(HostPageable, Managed, MemcpyKind::Default);
        check(Managed, Device, MemcpyKind::Default);
    }
}
