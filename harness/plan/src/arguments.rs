//! Arguments of calls: positions in memory, kernel arguments, and enums that select one of several functions or
//! kinds.

use serde::{Deserialize, Serialize};

use crate::{Scalar, ScalarType};

/// Size of the guard on each side of a guarded buffer, in bytes.
///
/// 256 keeps the alignment that hipMalloc promises for the first usable byte.
pub const GUARD_BYTES: u64 = 256;

/// Size of the largest buffer that a plan can use, in bytes; the reference model holds all buffers in memory. Only
/// allocations that must fail may be larger.
pub const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// Name of a buffer, stream, event, graph, executable graph or handle in its plan.
pub type Name = String;

/// A position in a buffer, in bytes from its first usable byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Name of the buffer.
    pub buffer: Name,
    /// Offset from the start of the buffer, in bytes.
    #[serde(default)]
    pub offset: u64,
}

/// A box in a buffer that consists of slices of rows, as hipMemcpy3D uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Box3d {
    /// Name of the buffer; its first byte is the first byte of the first slice.
    pub buffer: Name,
    /// Distance between two rows, in bytes.
    pub pitch: u64,
    /// Rows per slice.
    pub rows: u64,
    /// Origin of the box: byte, row and slice.
    #[serde(default)]
    pub at: [u64; 3],
}

impl Box3d {
    /// Returns the offset in the buffer of a row of a slice of the box, in bytes.
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
    /// The address of a position in a buffer.
    Address(Place),
    /// Like [`Arg::Address`], for a pointer to `const` of a kernel defined in the case: the kernel only reads
    /// there.
    Input(Place),
    /// A number.
    Number(Scalar),
    /// A struct by value, whose members are aligned as in C.
    Struct(Vec<Arg>),
    /// Any value, as its bytes.
    Bytes(Vec<u8>),
}

impl Arg {
    /// Returns an `unsigned int`.
    pub fn u32(value: u32) -> Arg {
        Arg::Number(Scalar::u32(value))
    }

    /// Returns a `float`.
    pub fn f32(value: f32) -> Arg {
        Arg::Number(Scalar::f32(value))
    }

    /// Returns the number, if it is an `unsigned int`.
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Arg::Number(Scalar { ty: ScalarType::U32, bits }) => Some(*bits as u32),
            Arg::Number(_) | Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => {
                None
            }
        }
    }

    /// Returns the position whose address the argument is; `None` for structs and other values.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Arg::Address(place) | Arg::Input(place) => Some(place),
            Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => None,
        }
    }

    /// Returns all positions whose addresses the argument contains, each with true if the kernel only reads there.
    /// False is not a proof that it writes.
    pub fn places(&self) -> Vec<(&Place, bool)> {
        match self {
            Arg::Address(place) => vec![(place, false)],
            Arg::Input(place) => vec![(place, true)],
            Arg::Struct(members) => members.iter().flat_map(Arg::places).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// Like [`Arg::places`], but mutable.
    pub fn places_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Arg::Address(place) | Arg::Input(place) => vec![place],
            Arg::Struct(members) => members.iter_mut().flat_map(Arg::places_mut).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// Returns the bytes of the argument; `address` returns the address of a position.
    pub fn to_bytes(&self, address: &impl Fn(&Place) -> u64) -> Vec<u8> {
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

    /// Returns the alignment in a struct, in bytes.
    fn alignment(&self) -> usize {
        match self {
            Arg::Address(_) | Arg::Input(_) => 8,
            Arg::Number(scalar) => scalar.ty.bytes(),
            Arg::Bytes(_) => 1,
            Arg::Struct(members) => members.iter().map(Arg::alignment).max().unwrap_or(1),
        }
    }
}

/// A block of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Allocator of the memory.
    pub memory: Memory,
    /// Usable size, in bytes.
    pub bytes: u64,
    /// True if there are [`GUARD_BYTES`] on each side.
    pub guarded: bool,
}

impl Buffer {
    /// Returns the size of the allocation including guards, in bytes.
    pub fn allocation(&self) -> u64 {
        self.bytes + 2 * self.guard()
    }

    /// Returns the size of the guard on each side, in bytes.
    pub fn guard(&self) -> u64 {
        if self.guarded { GUARD_BYTES } else { 0 }
    }
}

/// Kinds of memory, by the call that allocates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// hipMalloc.
    Device,
    /// hipMallocPitch, in one row.
    DevicePitched,
    /// hipMallocAsync.
    DeviceAsync,
    /// hipMallocManaged.
    Managed,
    /// malloc.
    HostPageable,
    /// hipHostMalloc.
    HostPinned,
    /// malloc and hipHostRegister.
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
    /// Work-items per wave.
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
    /// hipStreamNonBlocking.
    NonBlocking,
}

/// Name of the null stream.
pub const DEFAULT_STREAM: &str = "default";

/// Functions that copy a flat range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyApi {
    /// hipMemcpy with an explicit direction, or hipMemcpyDefault if a buffer is managed memory.
    Memcpy,
    /// hipMemcpyAsync.
    MemcpyAsync,
    /// hipMemcpyWithStream: ordered in the stream, and returns after the copy.
    MemcpyWithStream,
    /// hipMemcpyHtoD, hipMemcpyDtoH or hipMemcpyDtoD, depending on the buffers.
    MemcpyDirected,
}

impl CopyApi {
    /// Returns true if the function takes a stream; the others use the null stream.
    pub(crate) fn has_stream(self) -> bool {
        match self {
            CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream => true,
            CopyApi::Memcpy | CopyApi::MemcpyDirected => false,
        }
    }
}

/// Functions that enqueue a host function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFuncApi {
    /// hipStreamAddCallback, which must fail during a capture.
    AddCallback,
    /// hipLaunchHostFunc, since ROCm 5.3.
    LaunchHostFunc,
}

/// hipStreamCaptureMode.
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

/// Pseudo-random generators of hiprandRngType_t.
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
