//! Topology: the nodes and their properties, memory banks, caches and links.

use device::{
    Arch, Config,
    model::{self, Model},
};

use crate::{
    clocks, configuration,
    node::{self, Node},
    status::Status,
    types::{
        CacheProperties, LinkProperties, MemoryProperties, NodeProperties, SystemProperties,
        TileConfig, Version,
    },
};

/// Version of the `amdkfd` driver interface that the device imitates. Since version 1.15, ROCr uses buffer objects of
/// libdrm for virtual memory.
const VERSION: Version = Version { major: 1, minor: 18 };

const AMD: u16 = 0x1002;

/// Heap types of a memory bank (`HSA_HEAPTYPE`).
mod heap {
    pub(super) const SYSTEM: u32 = 0;
    pub(super) const PUBLIC: u32 = 1;
    pub(super) const PRIVATE: u32 = 2;
    pub(super) const LDS: u32 = 4;
    pub(super) const SCRATCH: u32 = 5;
}

/// Upper 32 bits of the addresses of LDS and scratch in the flat address space. The crate `isa` defines the same
/// values.
const LDS_APERTURE: u64 = 0x0002_0000 << 32;
const SCRATCH_APERTURE: u64 = 0x0001_0000 << 32;

/// Types of a link (`HSA_IOLINKTYPE`), and the weight that the driver assigns to a link over PCI Express.
const PCI_EXPRESS: u32 = 2;
const WEIGHT: u32 = 20;

/// Bits that mark a GPU data cache in the type of a cache.
const GPU_DATA_CACHE: u32 = 1 | 1 << 3;

/// Values and bit positions of fields in `HSA_CAPABILITY`: the only doorbell type that ROCr supports, the chip
/// revision, and error correction of registers.
const DOORBELL_TYPE: u32 = 2 << 12;
const REVISION: u32 = 1 << 22;
const ECC: u32 = 1 << 26;

/// Returns the id of the GPU with this index. The id differs from that of the driver, which is a hash.
pub(crate) fn gpu_id(index: u32) -> u32 {
    0x6500 + index
}

/// Returns the chip family in the driver `amdgpu` (`AMDGPU_FAMILY_*` in `amdgpu_drm.h`).
pub(crate) fn family(arch: Arch) -> u32 {
    match model::version(arch) {
        [9, ..] => 141,
        [10, ..] => 143,
        [11, 0, 3] => 148,
        [11, 0, _] => 145,
        [11, ..] => 150,
        _ => 152,
    }
}

fn host_bytes() -> u64 {
    // SAFETY: the calls only read system values, which exist on every Linux.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    pages.max(0) as u64 * page.max(0) as u64
}

fn empty() -> NodeProperties {
    // SAFETY: all fields are integers or arrays of integers.
    unsafe { std::mem::zeroed() }
}

fn marketing_name(name: &str) -> [u16; 64] {
    let mut field = [0; 64];
    for (to, from) in field.iter_mut().take(63).zip(name.encode_utf16()) {
        *to = from;
    }
    field
}

fn properties(config: &Config, node: Node) -> NodeProperties {
    let Some(index) = node.gpu() else {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        return NodeProperties {
            cpu_cores: threads,
            memory_banks: 1,
            links: links(config, node).len() as u32,
            render_minor: -1,
            marketing_name: marketing_name("host processor"),
            ..empty()
        };
    };
    let arch = config.arch;
    let model = model::for_arch(arch);
    let Model { compute_units, simds_per_unit, arrays_per_engine, .. } = model;
    let [major, minor, stepping] = model::version(arch);
    let mut amd_name = [0; 64];
    amd_name[..arch.name().len()].copy_from_slice(arch.name().as_bytes());
    NodeProperties {
        simds: compute_units * simds_per_unit,
        memory_banks: banks(config, node).len() as u32,
        caches: caches(config, node).len() as u32,
        links: links(config, node).len() as u32,
        first_simd: 0x8000_0000,
        capability: DOORBELL_TYPE | REVISION | if arch.has_ecc() { ECC } else { 0 },
        waves_per_simd: model.waves_per_unit / simds_per_unit,
        lds_kib: arch.facts().lds_bytes >> 10,
        wave_size: arch.wave_size(),
        shader_engines: model.shader_engines,
        arrays_per_engine,
        units_per_array: compute_units.div_ceil(model.shader_engines * arrays_per_engine),
        simds_per_unit,
        scratch_slots: 32,
        engine: major << 10 | minor << 16 | stepping << 24,
        vendor: AMD,
        device: model.chip_id as u16,
        location: model::location(index),
        local_memory: config.total_memory(),
        gpu_clock: model.clock,
        render_minor: 128 + index as i32,
        marketing_name: marketing_name(&format!("rocrepro emulated {arch}")),
        amd_name,
        sdma_engines: 2,
        sdma_queues_per_engine: 8,
        compute_queues: 24,
        wave_syncs: 64,
        integrated: arch.is_apu().into(),
        unique_id: model::unique_id(index),
        dies: model.dies,
        gpu_id: gpu_id(index),
        family: family(arch),
        ..empty()
    }
}

fn banks(config: &Config, node: Node) -> Vec<MemoryProperties> {
    let bank = MemoryProperties::default();
    if node == Node::HOST {
        return vec![MemoryProperties { heap: heap::SYSTEM, bytes: host_bytes(), ..bank }];
    }
    let model = model::for_arch(config.arch);
    let local = if config.large_bar { heap::PUBLIC } else { heap::PRIVATE };
    let lds = config.arch.facts().lds_bytes.into();
    vec![
        MemoryProperties {
            heap: local,
            bytes: config.total_memory(),
            width: model.bus,
            clock: model.memory_clock,
            ..bank
        },
        MemoryProperties { heap: heap::LDS, bytes: lds, base: LDS_APERTURE, ..bank },
        // The size is that of an aperture.
        MemoryProperties { heap: heap::SCRATCH, bytes: 4 << 30, base: SCRATCH_APERTURE, ..bank },
    ]
}

fn caches(config: &Config, node: Node) -> Vec<CacheProperties> {
    if node == Node::HOST {
        return Vec::new();
    }
    let model = model::for_arch(config.arch);
    let sizes = model.caches.into_iter().zip(1..);
    let cache = |(kib, level)| CacheProperties {
        processor: 0x8000_0000,
        level,
        kib,
        line: model.cache_line,
        lines_per_tag: 1,
        associativity: 16,
        latency: 0,
        kind: GPU_DATA_CACHE,
        siblings: [0; 256],
    };
    sizes.filter(|(kib, _)| *kib > 0).map(cache).collect()
}

/// Returns the links from a node. The driver lists a link from the host to a GPU only if the host can access all memory
/// of the GPU.
fn links(config: &Config, node: Node) -> Vec<LinkProperties> {
    let link = |other: Node| LinkProperties {
        kind: PCI_EXPRESS,
        from: node.number(),
        to: other.number(),
        weight: WEIGHT,
        ..LinkProperties::default()
    };
    let exists = |other: &Node| *other != node && (config.large_bar || node != Node::HOST);
    Node::all().filter(exists).map(link).collect()
}

/// Writes the first `wanted` of the values to an array of the caller.
///
/// # Safety
/// `to` must be null or valid for writing `wanted` values.
unsafe fn put_all<T: Copy>(to: *mut T, wanted: u32, values: &[T]) -> Status {
    if to.is_null() && wanted > 0 {
        return Status::INVALID_PARAMETER;
    }
    for (index, value) in values.iter().take(wanted as usize).enumerate() {
        // SAFETY: the caller has space for `wanted` values.
        unsafe { to.add(index).write_unaligned(*value) };
    }
    Status::SUCCESS
}

/// Writes a value to an output pointer of the caller. Returns an error for a null pointer.
///
/// # Safety
/// As the thunk requires, `to` must be valid for writing.
unsafe fn put<T>(to: *mut T, value: T) -> Status {
    if to.is_null() {
        return Status::INVALID_PARAMETER;
    }
    // SAFETY: the pointer is not null, and the caller passes one that is valid for writing.
    unsafe { to.write_unaligned(value) };
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtOpenKFD() -> Status {
    if configuration::valid().is_some() { Status::SUCCESS } else { Status::ERROR }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtCloseKFD() -> Status {
    Status::SUCCESS
}

/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetVersion(version: *mut Version) -> Status {
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { put(version, VERSION) }
}

/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtAcquireSystemProperties(to: *mut SystemProperties) -> Status {
    // SAFETY: the caller passes a pointer that is valid for writing.
    unsafe { put(to, SystemProperties { nodes: node::count(), platform: [0; 3] }) }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtReleaseSystemProperties() -> Status {
    Status::SUCCESS
}

/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetNodeProperties(node: u32, to: *mut NodeProperties) -> Status {
    match Node::new(node) {
        // SAFETY: the caller passes a pointer that is valid for writing.
        Ok(node) => unsafe { put(to, properties(configuration::get(), node)) },
        Err(status) => status,
    }
}

/// # Safety
/// As the thunk requires, the array must be valid for writing `wanted` values.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetNodeMemoryProperties(
    node: u32,
    wanted: u32,
    to: *mut MemoryProperties,
) -> Status {
    match Node::new(node) {
        // SAFETY: the caller has space for `wanted` values.
        Ok(node) => unsafe { put_all(to, wanted, &banks(configuration::get(), node)) },
        Err(status) => status,
    }
}

/// # Safety
/// As the thunk requires, the array must be valid for writing `wanted` values.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetNodeCacheProperties(
    node: u32,
    _processor: u32,
    wanted: u32,
    to: *mut CacheProperties,
) -> Status {
    match Node::new(node) {
        // SAFETY: the caller has space for `wanted` values.
        Ok(node) => unsafe { put_all(to, wanted, &caches(configuration::get(), node)) },
        Err(status) => status,
    }
}

/// # Safety
/// As the thunk requires, the array must be valid for writing `wanted` values.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetNodeIoLinkProperties(
    node: u32,
    wanted: u32,
    to: *mut LinkProperties,
) -> Status {
    match Node::new(node) {
        // SAFETY: the caller has space for `wanted` values.
        Ok(node) => unsafe { put_all(to, wanted, &links(configuration::get(), node)) },
        Err(status) => status,
    }
}

/// Reports the layout of images in memory. The device stores images line by line and has no tiles.
///
/// # Safety
/// As the thunk requires, the pointer must be valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsaKmtGetTileConfig(node: u32, to: *mut TileConfig) -> Status {
    if Node::new(node).is_err() || to.is_null() {
        return Status::INVALID_PARAMETER;
    }
    // SAFETY: the caller passes a structure whose tables have the stated lengths. Only the lengths and the other fields
    // are written.
    unsafe {
        (*to).table_lengths = [0; 2];
        (*to).address_config = 0;
        (*to).banks = 0;
        (*to).ranks = 0;
    }
    Status::SUCCESS
}

/// Frequency of the GPU's clock counter, in kHz.
pub(crate) const COUNTER_KHZ: u32 = (clocks::GPU_FREQUENCY / 1000) as u32;
