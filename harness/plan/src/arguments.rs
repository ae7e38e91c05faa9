//! What calls are made with: places in memory, arguments of kernels, and which of several functions or kinds is meant.

use serde::{Deserialize, Serialize};

use crate::{Scalar, ScalarType};

/// Bytes of guard on each side of a guarded buffer.
///
/// 256 keeps the alignment that hipMalloc promises for the first usable byte.
pub const GUARD_BYTES: u64 = 256;

/// Bytes of the largest buffer that a plan can use, as the reference model holds all of them in memory. Larger ones are for
/// allocations that must fail.
pub const MAX_BUFFER_BYTES: u64 = 4 << 30;

/// The name of a buffer, stream, event, graph, executable graph or handle in its plan.
pub type Name = String;

/// A position in a buffer, in bytes from its first usable byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The buffer.
    pub buffer: Name,
    /// Bytes from its start.
    #[serde(default)]
    pub offset: u64,
}

/// A place in a buffer that is taken for slices of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Box3d {
    /// The buffer, from its first byte.
    pub buffer: Name,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Rows from one slice to the next.
    pub rows: u64,
    /// Where it begins: byte, row and slice.
    #[serde(default)]
    pub at: [u64; 3],
}

impl Box3d {
    /// Where row `row` of slice `slice` of the box begins, in bytes.
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
    /// The address of a place.
    Address(Place),
    /// The address of a place that a kernel of the case's own takes as a pointer to what is `const`: it only reads there.
    Input(Place),
    /// A number.
    Number(Scalar),
    /// A struct by value, whose members are aligned as C aligns them.
    Struct(Vec<Arg>),
    /// The bytes of something by value.
    Bytes(Vec<u8>),
}

impl Arg {
    /// `unsigned int`.
    pub fn u32(value: u32) -> Arg {
        Arg::Number(Scalar::u32(value))
    }

    /// `float`.
    pub fn f32(value: f32) -> Arg {
        Arg::Number(Scalar::f32(value))
    }

    /// The number, if it is an `unsigned int`.
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Arg::Number(Scalar { ty: ScalarType::U32, bits }) => Some(*bits as u32),
            Arg::Number(_) | Arg::Address(_) | Arg::Input(_) | Arg::Struct(_) | Arg::Bytes(_) => {
                None
            }
        }
    }

    /// The place whose address it is itself.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Arg::Address(place) | Arg::Input(place) => Some(place),
            Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => None,
        }
    }

    /// Every place whose address it has, and whether the kernel only reads there as far as the argument tells.
    pub fn places(&self) -> Vec<(&Place, bool)> {
        match self {
            Arg::Address(place) => vec![(place, false)],
            Arg::Input(place) => vec![(place, true)],
            Arg::Struct(members) => members.iter().flat_map(Arg::places).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// The same, to be changed.
    pub fn places_mut(&mut self) -> Vec<&mut Place> {
        match self {
            Arg::Address(place) | Arg::Input(place) => vec![place],
            Arg::Struct(members) => members.iter_mut().flat_map(Arg::places_mut).collect(),
            Arg::Number(_) | Arg::Bytes(_) => Vec::new(),
        }
    }

    /// Its bytes, where `address` tells that of a place.
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

    /// What its place in a struct is a multiple of.
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
    /// Which allocator it comes from.
    pub memory: Memory,
    /// Usable size, in bytes.
    pub bytes: u64,
    /// Whether it has [`GUARD_BYTES`] on each side.
    pub guarded: bool,
}

impl Buffer {
    /// Size of the whole allocation, guards included, in bytes.
    pub fn allocation(&self) -> u64 {
        self.bytes + 2 * self.guard()
    }

    /// Bytes of guard on each side.
    pub fn guard(&self) -> u64 {
        if self.guarded { GUARD_BYTES } else { 0 }
    }
}

/// Kinds of memory, by the call that makes them.
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
    /// Whether the host may read and write it directly.
    pub fn on_host(self) -> bool {
        !matches!(self, Memory::Device | Memory::DevicePitched | Memory::DeviceAsync)
    }
}

/// What hipDeviceGetAttribute may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceAttribute {
    /// Work-items in a wave.
    WarpSize,
    /// Work-items in the largest workgroup.
    MaxThreadsPerBlock,
    /// Compute units.
    MultiprocessorCount,
}

/// How a stream is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// hipStreamDefault: waits for and is waited for by the null stream.
    Blocking,
    /// hipStreamNonBlocking.
    NonBlocking,
}

/// The name of the null stream.
pub const DEFAULT_STREAM: &str = "default";

/// The functions that copy a flat range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyApi {
    /// hipMemcpy with hipMemcpyDefault's explicit direction.
    Memcpy,
    /// hipMemcpyAsync.
    MemcpyAsync,
    /// hipMemcpyWithStream: stream-ordered, returns when the copy is over.
    MemcpyWithStream,
    /// hipMemcpyHtoD or hipMemcpyDtoH or hipMemcpyDtoD.
    MemcpyDirected,
}

impl CopyApi {
    /// Whether the function takes a stream; the others work in the null stream.
    pub(crate) fn has_stream(self) -> bool {
        match self {
            CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream => true,
            CopyApi::Memcpy | CopyApi::MemcpyDirected => false,
        }
    }
}

/// The functions that put a host function into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFuncApi {
    /// hipStreamAddCallback, which no capture takes.
    AddCallback,
    /// hipLaunchHostFunc, since 5.3.
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

/// hiprandRngType_t, the pseudo-random ones.
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
