//! Types and constants of the HSA C interface.
//!
//! Layouts and values are those of `hsa.h`, `hsa_ext_amd.h`, `amd_hsa_signal.h` and `amd_hsa_queue.h`. Attributes that
//! are newer than ROCm 5.2 come from the headers of ROCm 6.2.

use std::{
    ffi::{c_char, c_int, c_void},
    sync::atomic::{AtomicI64, AtomicU32, AtomicU64},
};

pub(crate) use aql::{Condition, kind as packet};

use crate::config;

/// `hsa_status_t`. The type is not an enum, because callbacks of the program may return any value. An `hsa_iterate_*`
/// function ends as soon as its callback returns anything but `SUCCESS`. `INFO_BREAK` is not treated specially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Status(pub(crate) u32);

impl Status {
    pub(crate) const SUCCESS: Status = Status(0);
    pub(crate) const INFO_BREAK: Status = Status(1);
    pub(crate) const INVALID_MEMORY_POOL: Status = Status(40);
    pub(crate) const ILLEGAL_INSTRUCTION: Status = Status(42);
    pub(crate) const MEMORY_FAULT: Status = Status(43);
    pub(crate) const ERROR: Status = Status(0x1000);
    pub(crate) const INVALID_ARGUMENT: Status = Status(0x1001);
    pub(crate) const INVALID_QUEUE_CREATION: Status = Status(0x1002);
    pub(crate) const INVALID_ALLOCATION: Status = Status(0x1003);
    pub(crate) const INVALID_AGENT: Status = Status(0x1004);
    pub(crate) const INVALID_REGION: Status = Status(0x1005);
    pub(crate) const INVALID_SIGNAL: Status = Status(0x1006);
    pub(crate) const INVALID_QUEUE: Status = Status(0x1007);
    pub(crate) const OUT_OF_RESOURCES: Status = Status(0x1008);
    pub(crate) const INVALID_PACKET_FORMAT: Status = Status(0x1009);
    pub(crate) const RESOURCE_FREE: Status = Status(0x100A);
    pub(crate) const NOT_INITIALIZED: Status = Status(0x100B);
    pub(crate) const REFCOUNT_OVERFLOW: Status = Status(0x100C);
    pub(crate) const INCOMPATIBLE_ARGUMENTS: Status = Status(0x100D);
    pub(crate) const INVALID_INDEX: Status = Status(0x100E);
    pub(crate) const INVALID_ISA: Status = Status(0x100F);
    pub(crate) const INVALID_CODE_OBJECT: Status = Status(0x1010);
    pub(crate) const INVALID_EXECUTABLE: Status = Status(0x1011);
    pub(crate) const FROZEN_EXECUTABLE: Status = Status(0x1012);
    pub(crate) const INVALID_SYMBOL_NAME: Status = Status(0x1013);
    pub(crate) const VARIABLE_ALREADY_DEFINED: Status = Status(0x1014);
    pub(crate) const VARIABLE_UNDEFINED: Status = Status(0x1015);
    pub(crate) const EXCEPTION: Status = Status(0x1016);
    pub(crate) const INVALID_ISA_NAME: Status = Status(0x1017);
    pub(crate) const INVALID_SIGNAL_GROUP: Status = Status(0x1018);
    pub(crate) const INVALID_EXECUTABLE_SYMBOL: Status = Status(0x1019);
    pub(crate) const INVALID_CODE_OBJECT_READER: Status = Status(0x1021);
    pub(crate) const INVALID_CACHE: Status = Status(0x1022);
    pub(crate) const INVALID_WAVEFRONT: Status = Status(0x1023);

    pub(crate) const IMAGE_FORMAT_UNSUPPORTED: Status = Status(0x3000);
    pub(crate) const IMAGE_SIZE_UNSUPPORTED: Status = Status(0x3001);
    pub(crate) const IMAGE_PITCH_UNSUPPORTED: Status = Status(0x3002);

    /// Returns the name of the status in `hsa.h` or `hsa_ext_amd.h`.
    pub(crate) const fn c_name(self) -> &'static std::ffi::CStr {
        match self {
            Status::SUCCESS => c"HSA_STATUS_SUCCESS",
            Status::INFO_BREAK => c"HSA_STATUS_INFO_BREAK",
            Status::INVALID_MEMORY_POOL => c"HSA_STATUS_ERROR_INVALID_MEMORY_POOL",
            Status::ILLEGAL_INSTRUCTION => c"HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
            Status::MEMORY_FAULT => c"HSA_STATUS_ERROR_MEMORY_FAULT",
            Status::ERROR => c"HSA_STATUS_ERROR",
            Status::INVALID_ARGUMENT => c"HSA_STATUS_ERROR_INVALID_ARGUMENT",
            Status::INVALID_QUEUE_CREATION => c"HSA_STATUS_ERROR_INVALID_QUEUE_CREATION",
            Status::INVALID_ALLOCATION => c"HSA_STATUS_ERROR_INVALID_ALLOCATION",
            Status::INVALID_AGENT => c"HSA_STATUS_ERROR_INVALID_AGENT",
            Status::INVALID_REGION => c"HSA_STATUS_ERROR_INVALID_REGION",
            Status::INVALID_SIGNAL => c"HSA_STATUS_ERROR_INVALID_SIGNAL",
            Status::INVALID_QUEUE => c"HSA_STATUS_ERROR_INVALID_QUEUE",
            Status::OUT_OF_RESOURCES => c"HSA_STATUS_ERROR_OUT_OF_RESOURCES",
            Status::INVALID_PACKET_FORMAT => c"HSA_STATUS_ERROR_INVALID_PACKET_FORMAT",
            Status::RESOURCE_FREE => c"HSA_STATUS_ERROR_RESOURCE_FREE",
            Status::NOT_INITIALIZED => c"HSA_STATUS_ERROR_NOT_INITIALIZED",
            Status::REFCOUNT_OVERFLOW => c"HSA_STATUS_ERROR_REFCOUNT_OVERFLOW",
            Status::INCOMPATIBLE_ARGUMENTS => c"HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS",
            Status::INVALID_INDEX => c"HSA_STATUS_ERROR_INVALID_INDEX",
            Status::INVALID_ISA => c"HSA_STATUS_ERROR_INVALID_ISA",
            Status::INVALID_CODE_OBJECT => c"HSA_STATUS_ERROR_INVALID_CODE_OBJECT",
            Status::INVALID_EXECUTABLE => c"HSA_STATUS_ERROR_INVALID_EXECUTABLE",
            Status::FROZEN_EXECUTABLE => c"HSA_STATUS_ERROR_FROZEN_EXECUTABLE",
            Status::INVALID_SYMBOL_NAME => c"HSA_STATUS_ERROR_INVALID_SYMBOL_NAME",
            Status::VARIABLE_ALREADY_DEFINED => c"HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED",
            Status::VARIABLE_UNDEFINED => c"HSA_STATUS_ERROR_VARIABLE_UNDEFINED",
            Status::EXCEPTION => c"HSA_STATUS_ERROR_EXCEPTION",
            Status::INVALID_ISA_NAME => c"HSA_STATUS_ERROR_INVALID_ISA_NAME",
            Status::INVALID_SIGNAL_GROUP => c"HSA_STATUS_ERROR_INVALID_SIGNAL_GROUP",
            Status::INVALID_EXECUTABLE_SYMBOL => c"HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL",
            Status::INVALID_CODE_OBJECT_READER => c"HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER",
            Status::INVALID_CACHE => c"HSA_STATUS_ERROR_INVALID_CACHE",
            Status::INVALID_WAVEFRONT => c"HSA_STATUS_ERROR_INVALID_WAVEFRONT",
            Status::IMAGE_FORMAT_UNSUPPORTED => c"HSA_EXT_STATUS_ERROR_IMAGE_FORMAT_UNSUPPORTED",
            Status::IMAGE_SIZE_UNSUPPORTED => c"HSA_EXT_STATUS_ERROR_IMAGE_SIZE_UNSUPPORTED",
            Status::IMAGE_PITCH_UNSUPPORTED => c"HSA_EXT_STATUS_ERROR_IMAGE_PITCH_UNSUPPORTED",
            _ => c"unknown HSA status",
        }
    }
}

/// `hsa_agent_t`. The host processor is agent 1, and the emulated GPUs are agents 2, 3 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Agent(pub(crate) u64);

impl Agent {
    pub(crate) const CPU: Agent = Agent(1);
    /// Handle of the first GPU.
    pub(crate) const GPU: Agent = Agent(2);

    /// Returns the index of the GPU, counted from 0. Returns `None` for the host and for invalid handles.
    pub(crate) fn gpu(self) -> Option<usize> {
        let index = self.0.checked_sub(Agent::GPU.0)?;
        (index < config::get().devices.into()).then_some(index as usize)
    }

    pub(crate) fn is_gpu(self) -> bool {
        self.gpu().is_some()
    }

    pub(crate) fn gpus() -> impl Iterator<Item = Agent> {
        (0..u64::from(config::get().devices)).map(|index| Agent(Agent::GPU.0 + index))
    }

    pub(crate) fn all() -> impl Iterator<Item = Agent> {
        [Agent::CPU].into_iter().chain(Agent::gpus())
    }
}

/// `hsa_signal_t`: the address of a [`SignalCell`], or zero for no signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Signal(pub(crate) u64);

/// `hsa_amd_memory_pool_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Pool(pub(crate) u64);

/// `hsa_dim3_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

/// `hsa_pitched_ptr_t`. Pitch and slice are in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PitchedPtr {
    pub(crate) base: *mut u8,
    pub(crate) pitch: usize,
    pub(crate) slice: usize,
}

/// `amd_signal_t`. The emulated device stores a flag of its own in a field that the ABI reserves.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct SignalCell {
    pub(crate) kind: AtomicI64,
    pub(crate) value: AtomicI64,
    pub(crate) event_mailbox: AtomicU64,
    pub(crate) event_id: AtomicU32,
    /// Field `reserved1`: nonzero once the host has asked for the address of `value`. From then on the host may change
    /// the value without an HSA call.
    pub(crate) exposed: AtomicU32,
    pub(crate) start: AtomicU64,
    pub(crate) end: AtomicU64,
    /// Address of the queue whose doorbell this signal is, or zero if the signal is not a doorbell.
    pub(crate) queue: AtomicU64,
    pub(crate) reserved3: [u32; 2],
}

/// `hsa_queue_t`.
#[repr(C)]
pub(crate) struct QueueHead {
    pub(crate) kind: u32,
    pub(crate) features: u32,
    pub(crate) base: *mut u8,
    pub(crate) doorbell: Signal,
    pub(crate) size: u32,
    pub(crate) reserved1: u32,
    pub(crate) id: u64,
}

/// `amd_queue_t`.
#[repr(C, align(64))]
pub(crate) struct QueueCell {
    pub(crate) head: QueueHead,
    pub(crate) reserved1: [u32; 4],
    pub(crate) write_index: AtomicU64,
    pub(crate) group_aperture_hi: u32,
    pub(crate) private_aperture_hi: u32,
    pub(crate) max_cu_id: u32,
    pub(crate) max_wave_id: u32,
    pub(crate) legacy_doorbell: [u32; 3],
    pub(crate) reserved2: [u32; 9],
    pub(crate) read_index: AtomicU64,
    pub(crate) read_index_offset: u32,
    pub(crate) scratch: [u32; 10],
    pub(crate) properties: u32,
    pub(crate) reserved3: [u32; 2],
    pub(crate) inactive_signal: Signal,
    pub(crate) reserved4: [u32; 14],
}

const _: () = {
    assert!(size_of::<SignalCell>() == 64);
    assert!(size_of::<QueueCell>() == 256);
    assert!(std::mem::offset_of!(QueueCell, write_index) == 56);
    assert!(std::mem::offset_of!(QueueCell, read_index) == 128);
    assert!(std::mem::offset_of!(QueueCell, inactive_signal) == 192);
};

/// `hsa_kernel_dispatch_packet_t`.
pub(crate) type DispatchPacket = aql::DispatchPacket<Signal>;

/// `hsa_barrier_and_packet_t` and `hsa_barrier_or_packet_t`.
pub(crate) type BarrierPacket = aql::BarrierPacket<Signal>;

/// `hsa_amd_barrier_value_packet_t`.
pub(crate) type BarrierValuePacket = aql::BarrierValuePacket<Signal>;

/// `hsa_amd_memory_pool_global_flag_t`.
pub(crate) mod pool_flag {
    pub(crate) const KERNARG: u32 = 1;
    pub(crate) const FINE_GRAINED: u32 = 2;
    pub(crate) const COARSE_GRAINED: u32 = 4;
}

/// `hsa_amd_pointer_info_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PointerInfo {
    pub(crate) size: u32,
    pub(crate) kind: u32,
    pub(crate) agent_base: u64,
    pub(crate) host_base: u64,
    pub(crate) bytes: usize,
    pub(crate) user_data: u64,
    pub(crate) owner: Agent,
    pub(crate) global_flags: u32,
    /// Field that version 1.13 of AMD's extension of HSA added (`hsa_ext_amd.h` of ROCm 7.0).
    pub(crate) registered: u32,
}

const _: () = assert!(size_of::<PointerInfo>() == 56);

/// `hsa_amd_event_t` with an `hsa_amd_gpu_memory_fault_info_t` or an `hsa_amd_gpu_memory_error_info_t`. Both have the
/// same layout.
#[repr(C)]
pub(crate) struct MemoryEvent {
    pub(crate) kind: u32,
    pub(crate) agent: Agent,
    pub(crate) address: u64,
    pub(crate) reasons: u32,
}

/// `hsa_amd_profiling_dispatch_time_t` and `hsa_amd_profiling_async_copy_time_t`. Times are in ticks of the system
/// clock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Times {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// `hsa_amd_memory_access_desc_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AccessDesc {
    pub(crate) permission: u32,
    pub(crate) agent: Agent,
}

pub(crate) type QueueCallback = extern "C" fn(Status, *mut QueueCell, *mut c_void);
pub(crate) type SystemEventCallback = extern "C" fn(*const MemoryEvent, *mut c_void) -> Status;
pub(crate) type SignalHandler = extern "C" fn(i64, *mut c_void) -> bool;

/// Pointer through which an HSA function returns a value.
///
/// Only C callers create values of this type. HSA requires them to pass a pointer that is null or valid for writing a
/// `T`. Therefore the methods that write through the pointer are safe.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Returns a null pointer, for callers that do not need the output.
    pub(crate) fn none() -> Out<T> {
        Out(std::ptr::null_mut())
    }

    /// Writes the value to the output. Returns `INVALID_ARGUMENT` for a null pointer.
    pub(crate) fn put(self, value: T) -> Status {
        if self.0.is_null() {
            return Status::INVALID_ARGUMENT;
        }
        // SAFETY: the pointer is not null and, by the contract of the type, valid for writing. C does not guarantee the
        // alignment of `void *` outputs.
        unsafe { self.0.write_unaligned(value) };
        Status::SUCCESS
    }

    pub(crate) fn put_if_wanted(self, value: T) {
        let _ = self.put(value);
    }

    /// Writes consecutive values to the array of the caller. The array must have room for all values; this is not
    /// checked.
    pub(crate) fn put_all(self, values: impl IntoIterator<Item = T>) -> Status {
        if self.0.is_null() {
            return Status::INVALID_ARGUMENT;
        }
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the contract of the type holds for the whole array.
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Status::SUCCESS
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Reads the current value, for parameters that are both input and output. Returns `None` for a null pointer.
    pub(crate) fn get(self) -> Option<T> {
        // SAFETY: the pointer is not null and, by the contract of the type, points at a `T` of the caller.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// Writes only the first `bytes` bytes of `value`. A caller that was compiled with an older header passes the
    /// address of a shorter struct.
    pub(crate) fn put_prefix(self, value: T, bytes: usize) -> Status {
        if self.0.is_null() {
            return Status::INVALID_ARGUMENT;
        }
        let bytes = bytes.min(size_of::<T>());
        // SAFETY: the pointer is not null and valid for the size that the caller passed, and `value` is at least that
        // long.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), self.0.cast(), bytes);
        }
        Status::SUCCESS
    }
}

/// Output of an `hsa_*_get_info` function. The type of the value depends on the attribute.
///
/// As with [`Out`], only C callers create values of this type. HSA requires the memory to be large enough for the type
/// of the attribute.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InfoOutput(*mut c_void);

impl InfoOutput {
    pub(crate) fn put<T: Copy>(self, value: T) -> Status {
        Out(self.0.cast::<T>()).put(value)
    }

    /// Writes the first `bytes` bytes of `value`, like [`Out::put_prefix`].
    pub(crate) fn prefix<T: Copy>(self, value: T, bytes: usize) -> Status {
        Out(self.0.cast::<T>()).put_prefix(value, bytes)
    }

    /// Writes a string to an output of `N` bytes and fills the remaining bytes with zeros.
    pub(crate) fn text<const N: usize>(self, text: &str) -> Status {
        let mut field = [0u8; N];
        let bytes = text.as_bytes();
        let len = bytes.len().min(N - 1);
        field[..len].copy_from_slice(&bytes[..len]);
        self.put(field)
    }

    /// Writes a string whose length the caller has queried before, and also the terminating zero if `zero` is true.
    pub(crate) fn bytes(self, text: &str, zero: bool) -> Status {
        if self.0.is_null() {
            return Status::INVALID_ARGUMENT;
        }
        let to = self.0.cast::<u8>();
        // SAFETY: the pointer is not null, and the caller allocated the buffer with the queried length of this string.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
            if zero {
                to.add(text.len()).write(0);
            }
        }
        Status::SUCCESS
    }
}

/// Converts the array argument `(pointer, count)` of a C caller to a slice, which is empty for a null pointer.
///
/// # Safety
/// The pointer must be null, or valid for `count` elements as long as the result is used.
pub(crate) unsafe fn array<'a, T>(pointer: *const T, count: u32) -> &'a [T] {
    if pointer.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the pointer is not null, and the caller guarantees `count` values at its address.
    unsafe { std::slice::from_raw_parts(pointer, count as usize) }
}

/// Reads a string argument of a C caller; `None` for a null pointer. Bytes that are not UTF-8 are replaced.
///
/// # Safety
/// The pointer must be null or a terminated C string.
pub(crate) unsafe fn name(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, and the caller guarantees a C string.
    Some(unsafe { std::ffi::CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// `hsa_file_t`.
pub(crate) type File = c_int;

/// Exports one function under several names. HSA has one name for each memory order, and keeps names from older
/// versions. The exported function uses the strongest memory order, which also satisfies the requirements of the weaker
/// orders.
macro_rules! export {
    (fn $body:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;) => {};
    (fn $body:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?; $name:ident $($more:ident)*) => {
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
            $body($($argument),*)
        }
        $crate::abi::export! { fn $body($($argument: $kind),*) $(-> $result)?; $($more)* }
    };
}
pub(crate) use export;
