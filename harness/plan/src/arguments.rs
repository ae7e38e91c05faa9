//! Arguments of calls: positions in memory, kernel arguments, and enums that select a function or a kind of object.

use serde::{Deserialize, Serialize};

use crate::{Scalar, ScalarType};

/// Size of the guard on each side of a guarded buffer, in bytes.
///
/// 256 keeps the alignment that hipMalloc promises for the first usable byte.
pub const GUARD_BYTES: u64 = 256;

/// Size of the largest buffer that a plan can use, in bytes. The limit exists because the reference model keeps all
/// buffers in memory. Only allocations that must fail may be larger.
pub const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// Name of a buffer, stream, event, graph, executable graph or handle in its plan.
pub type Name = String;

/// A position in a buffer at which a call reads or writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferAddress {
    /// Name of the buffer.
    pub buffer: Name,
    /// Offset from the first usable byte of the buffer, in bytes.
    #[serde(default)]
    pub offset: u64,
}

/// A three-dimensional box of bytes in a buffer, as hipMemcpy3D copies it. The buffer is divided into slices, and each
/// slice into rows of `pitch` bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Box3d {
    /// Name of the buffer. The first slice of rows begins at the start of the buffer.
    pub buffer: Name,
    /// Distance between two rows, in bytes.
    pub pitch: u64,
    /// Rows per slice.
    pub rows: u64,
    /// Origin of the box in the buffer: byte in the row, row in the slice, and slice. Each number counts from 0.
    #[serde(default)]
    pub at: [u64; 3],
}

impl Box3d {
    /// Returns the offset of a row of the box from the start of the buffer, in bytes. `row` and `slice` are relative to
    /// the origin of the box.
    pub fn offset(&self, row: u64, slice: u64) -> u64 {
        let [x, y, z] = self.at;
        let rows = z.saturating_add(slice).saturating_mul(self.rows).saturating_add(y + row);
        rows.saturating_mul(self.pitch).saturating_add(x)
    }
}

/// A kernel argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// The address of a place in a buffer.
    Address(BufferAddress),
    /// The address of a place that the kernel only reads: the argument for a pointer-to-`const` parameter of a kernel
    /// that the case defines.
    Input(BufferAddress),
    /// A number.
    Number(Scalar),
    /// A struct by value, whose members are aligned as in C.
    Struct(Vec<Arg>),
    /// A value of any type, as its bytes.
    Bytes(Vec<u8>),
}

impl Arg {
    /// Returns an argument of type `unsigned int`.
    pub fn u32(value: u32) -> Arg {
        Arg::Number(Scalar::u32(value))
    }

    /// Returns an argument of type `float`.
    pub fn f32(value: f32) -> Arg {
        Arg::Number(Scalar::f32(value))
    }

    /// Returns the number if the argument has type `unsigned int`, else `None`.
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Arg::Number(Scalar { ty: ScalarType::U32, bits }) => Some(*bits as u32),
            Arg::Number(_) | Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => {
                None
            }
        }
    }

    /// Returns the place if the argument is the address of a place in a buffer, else `None`. Addresses inside a struct
    /// are not returned.
    pub fn place(&self) -> Option<&BufferAddress> {
        match self {
            Arg::Address(place) | Arg::Input(place) => Some(place),
            Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => None,
        }
    }

    /// Returns all places whose addresses the argument contains, each with a flag. The flag is true if the kernel only
    /// reads at the place; false does not prove that the kernel writes there.
    pub fn places(&self) -> Vec<(&BufferAddress, bool)> {
        match self {
            Arg::Address(place) => vec![(place, false)],
            Arg::Input(place) => vec![(place, true)],
            Arg::Struct(members) => members.iter().flat_map(Arg::places).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// Returns mutable references to all places whose addresses the argument contains.
    pub fn places_mut(&mut self) -> Vec<&mut BufferAddress> {
        match self {
            Arg::Address(place) | Arg::Input(place) => vec![place],
            Arg::Struct(members) => members.iter_mut().flat_map(Arg::places_mut).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// Returns the bytes of the argument as a kernel receives them. The function `address` maps a place to its address.
    pub fn to_bytes(&self, address: &impl Fn(&BufferAddress) -> u64) -> Vec<u8> {
        match self {
            Arg::Address(place) | Arg::Input(place) => address(place).to_le_bytes().to_vec(),
            Arg::Number(scalar) => scalar.to_bytes(),
            Arg::Bytes(bytes) => bytes.clone(),
            Arg::Struct(members) => {
                let mut all = Vec::new();
                for member in members {
                    all.resize(all.len().next_multiple_of(member.alignment()), 0);
                    all.extend(member.to_bytes(address));
                }
                all.resize(all.len().next_multiple_of(self.alignment()), 0);
                all
            }
        }
    }

    fn alignment(&self) -> usize {
        match self {
            Arg::Address(_) | Arg::Input(_) => 8,
            Arg::Number(scalar) => scalar.ty.bytes(),
            Arg::Bytes(_) => 1,
            Arg::Struct(members) => members.iter().map(Arg::alignment).max().unwrap_or(1),
        }
    }
}

/// A buffer of a plan: a block of host or device memory that steps refer to by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Kind of memory, which determines the function that allocates the buffer.
    pub memory: Memory,
    /// Usable size, in bytes.
    pub bytes: u64,
    /// True if a guard of [`GUARD_BYTES`] lies before and after the usable bytes.
    pub guarded: bool,
}

impl Buffer {
    /// Returns the size of the allocation including both guards, in bytes.
    pub fn allocation(&self) -> u64 {
        self.bytes + 2 * self.guard()
    }

    /// Returns the size of each guard in bytes; 0 if the buffer is not guarded.
    pub fn guard(&self) -> u64 {
        if self.guarded { GUARD_BYTES } else { 0 }
    }
}

/// Kinds of memory, by the function that allocates the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Device memory from hipMalloc.
    Device,
    /// Device memory from hipMallocPitch, with a single row.
    DevicePitched,
    /// Device memory from hipMallocAsync, which is allocated and freed in stream order.
    DeviceAsync,
    /// Managed memory from hipMallocManaged.
    Managed,
    /// Pageable host memory from malloc.
    HostPageable,
    /// Pinned host memory from hipHostMalloc.
    HostPinned,
    /// Host memory from malloc, pinned afterwards with hipHostRegister.
    HostRegistered,
}

impl Memory {
    /// Returns true if the host can access the memory directly.
    pub fn on_host(self) -> bool {
        !matches!(self, Memory::Device | Memory::DevicePitched | Memory::DeviceAsync)
    }
}

/// Attributes that hipDeviceGetAttribute can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceAttribute {
    /// Number of work-items per wave.
    WarpSize,
    /// Maximum number of work-items per workgroup.
    MaxThreadsPerBlock,
    /// Number of compute units.
    MultiprocessorCount,
}

/// Kinds of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// hipStreamDefault: the stream and the null stream wait for each other.
    Blocking,
    /// hipStreamNonBlocking: the stream and the null stream do not wait for each other.
    NonBlocking,
}

/// Name of the null stream.
pub const DEFAULT_STREAM: &str = "default";

/// Functions that copy a contiguous range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyApi {
    /// hipMemcpy with an explicit direction, or hipMemcpyDefault if a buffer is managed memory.
    Memcpy,
    /// hipMemcpyAsync.
    MemcpyAsync,
    /// hipMemcpyWithStream: the copy is ordered in the stream, and the function returns after the copy has completed.
    MemcpyWithStream,
    /// hipMemcpyHtoD, hipMemcpyDtoH or hipMemcpyDtoD, depending on the memory kinds of the buffers.
    MemcpyDirected,
}

impl CopyApi {
    pub(crate) fn has_stream(self) -> bool {
        match self {
            CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream => true,
            CopyApi::Memcpy | CopyApi::MemcpyDirected => false,
        }
    }
}

/// Functions that enqueue a host function to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFuncApi {
    /// hipStreamAddCallback, which must fail during a capture.
    AddCallback,
    /// hipLaunchHostFunc, since ROCm 5.3.
    LaunchHostFunc,
}

/// Modes of a stream capture (hipStreamCaptureMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// hipStreamCaptureModeGlobal.
    Global,
    /// hipStreamCaptureModeThreadLocal.
    ThreadLocal,
    /// hipStreamCaptureModeRelaxed.
    Relaxed,
}

/// Pseudo-random generators of hipRAND (hiprandRngType_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RandKind {
    /// HIPRAND_RNG_PSEUDO_XORWOW.
    Xorwow,
    /// HIPRAND_RNG_PSEUDO_MRG32K3A.
    Mrg32k3a,
    /// HIPRAND_RNG_PSEUDO_PHILOX4_32_10.
    Philox,
}
