//! Layouts of the C structures in `hsakmttypes.h`. That header packs them to an alignment of four bytes.

use std::ffi::c_void;

/// Layout of `HsaVersionInfo`.
#[repr(C)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// Layout of `HsaSystemProperties`.
#[repr(C)]
pub(crate) struct SystemProperties {
    pub(crate) nodes: u32,
    pub(crate) platform: [u32; 3],
}

/// Layout of `HsaNodeProperties`.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct NodeProperties {
    pub(crate) cpu_cores: u32,
    pub(crate) simds: u32,
    pub(crate) neural_cores: u32,
    pub(crate) memory_banks: u32,
    pub(crate) caches: u32,
    pub(crate) links: u32,
    pub(crate) first_cpu: u32,
    pub(crate) first_simd: u32,
    pub(crate) capability: u32,
    pub(crate) capability2: u32,
    pub(crate) waves_per_simd: u32,
    pub(crate) lds_kib: u32,
    pub(crate) gds_kib: u32,
    pub(crate) wave_size: u32,
    pub(crate) shader_engines: u32,
    pub(crate) arrays_per_engine: u32,
    pub(crate) units_per_array: u32,
    pub(crate) simds_per_unit: u32,
    pub(crate) scratch_slots: u32,
    /// Version of the firmware (10 bits), major version (6), minor version (8) and stepping (8) of the instruction set.
    pub(crate) engine: u32,
    pub(crate) override_engine: u32,
    pub(crate) vendor: u16,
    pub(crate) device: u16,
    pub(crate) location: u32,
    pub(crate) local_memory: u64,
    pub(crate) gpu_clock: u32,
    pub(crate) cpu_clock: u32,
    pub(crate) render_minor: i32,
    pub(crate) marketing_name: [u16; 64],
    pub(crate) amd_name: [u8; 64],
    pub(crate) firmware: u32,
    pub(crate) debug: u64,
    pub(crate) hive: u64,
    pub(crate) sdma_engines: u32,
    pub(crate) sdma_xgmi_engines: u32,
    pub(crate) sdma_queues_per_engine: u8,
    pub(crate) compute_queues: u8,
    pub(crate) wave_syncs: u8,
    pub(crate) integrated: u8,
    pub(crate) domain: u32,
    pub(crate) unique_id: u64,
    pub(crate) vgpr_bytes: u32,
    pub(crate) sgpr_bytes: u32,
    pub(crate) dies: u32,
    pub(crate) gpu_id: u32,
    pub(crate) family: u32,
}

/// Layout of `HsaMemoryProperties`.
#[derive(Clone, Copy, Default)]
#[repr(C, packed(4))]
pub(crate) struct MemoryProperties {
    pub(crate) heap: u32,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
    pub(crate) width: u32,
    pub(crate) clock: u32,
    pub(crate) base: u64,
}

/// Layout of `HsaCacheProperties`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CacheProperties {
    pub(crate) processor: u32,
    pub(crate) level: u32,
    pub(crate) kib: u32,
    pub(crate) line: u32,
    pub(crate) lines_per_tag: u32,
    pub(crate) associativity: u32,
    pub(crate) latency: u32,
    pub(crate) kind: u32,
    pub(crate) siblings: [u32; 256],
}

/// Layout of `HsaIoLinkProperties`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct LinkProperties {
    pub(crate) kind: u32,
    pub(crate) version: [u32; 2],
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) weight: u32,
    pub(crate) latency: [u32; 2],
    pub(crate) bandwidth: [u32; 2],
    pub(crate) transfer_bytes: u32,
    pub(crate) sdma_mask: u32,
    pub(crate) flags: u32,
}

/// Layout of `HsaQueueResource`.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct QueueResource {
    pub(crate) id: u64,
    pub(crate) doorbell: u64,
    pub(crate) write_index: u64,
    pub(crate) read_index: u64,
    /// Address of the value of a signal that receives errors of the queue; null if ROCr does not wait for errors.
    pub(crate) errors: u64,
}

/// Layout of `HsaClockCounters`.
#[repr(C, packed(4))]
pub(crate) struct ClockCounters {
    pub(crate) gpu: u64,
    pub(crate) cpu: u64,
    pub(crate) system: u64,
    pub(crate) system_frequency: u64,
}

/// Layout of `HsaPointerInfo`.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct PointerInfo {
    pub(crate) kind: u32,
    pub(crate) node: u32,
    pub(crate) flags: u32,
    pub(crate) host_address: u64,
    pub(crate) device_address: u64,
    pub(crate) bytes: u64,
    pub(crate) registered_count: u32,
    pub(crate) mapped_count: u32,
    pub(crate) registered: *const u32,
    pub(crate) mapped: *const u32,
    pub(crate) user_data: *mut c_void,
}

/// Layout of `HsaEventDescriptor`.
#[repr(C, packed(4))]
pub(crate) struct EventDescriptor {
    pub(crate) kind: u32,
    pub(crate) node: u32,
    pub(crate) sync_variable: u64,
    pub(crate) sync_bytes: u64,
}

/// Layout of `HsaEvent`, which contains an `HsaEventData`.
#[repr(C, packed(4))]
pub(crate) struct Event {
    pub(crate) id: u32,
    pub(crate) kind: u32,
    /// A union in C. This library uses only its member for the synchronisation variable.
    pub(crate) data: [u32; 5],
    pub(crate) hardware_data: [u32; 5],
}

/// Layout of `HsaGpuTileConfig`.
#[repr(C, packed(4))]
pub(crate) struct TileConfig {
    pub(crate) tables: [u64; 2],
    pub(crate) table_lengths: [u32; 2],
    pub(crate) address_config: u32,
    pub(crate) banks: u32,
    pub(crate) ranks: u32,
    pub(crate) reserved: [u32; 7],
}

const _: () = {
    assert!(size_of::<NodeProperties>() == 368);
    assert!(size_of::<MemoryProperties>() == 32);
    assert!(size_of::<CacheProperties>() == 1056);
    assert!(size_of::<LinkProperties>() == 52);
    assert!(size_of::<QueueResource>() == 40);
    assert!(size_of::<PointerInfo>() == 68);
    assert!(size_of::<Event>() == 48);
    assert!(size_of::<TileConfig>() == 64);
};

/// Flags of an allocation (`HsaMemFlags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct MemoryFlags(pub(crate) u32);

impl MemoryFlags {
    const SCRATCH: u32 = 1 << 9;
    const FIXED_ADDRESS: u32 = 1 << 15;
    const NO_ADDRESS: u32 = 1 << 18;
    const ONLY_ADDRESS: u32 = 1 << 19;

    pub(crate) fn is_scratch(self) -> bool {
        self.0 & Self::SCRATCH != 0
    }

    /// Returns true if the memory must be at the requested address.
    pub(crate) fn is_fixed(self) -> bool {
        self.0 & Self::FIXED_ADDRESS != 0
    }

    /// Returns true if the memory gets no address until it is mapped.
    pub(crate) fn has_no_address(self) -> bool {
        self.0 & Self::NO_ADDRESS != 0
    }

    /// Returns true if only an address range is reserved.
    pub(crate) fn is_only_address(self) -> bool {
        self.0 & Self::ONLY_ADDRESS != 0
    }
}
