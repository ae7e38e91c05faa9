//! Properties that each emulated GPU reports.
//!
//! Values are from AMD's product pages and the ROCm page "Accelerator and GPU hardware specifications"; device ids are
//! from `pci.ids`. Clock rates are only reported: the emulated device does not model timing.

use crate::Arch;

/// Properties of one product, which represents its architecture.
pub struct Model {
    /// PCI device id.
    pub chip_id: u32,
    /// Number of compute units.
    pub compute_units: u32,
    /// Number of SIMD units in each compute unit.
    pub simds_per_unit: u32,
    /// Maximum number of waves that a compute unit runs at the same time.
    pub waves_per_unit: u32,
    /// Number of shader engines on all dies together.
    pub shader_engines: u32,
    /// Number of shader arrays in each shader engine.
    pub arrays_per_engine: u32,
    /// Engine clock in MHz.
    pub clock: u32,
    /// Memory clock in MHz.
    pub memory_clock: u32,
    /// Width of the memory bus in bits.
    pub bus: u32,
    /// Sizes of the data caches of level 1 to 3 in KiB; zero for a level that does not exist.
    pub caches: [u32; 3],
    /// Length of a cache line in bytes.
    pub cache_line: u32,
    /// Number of accelerator complex dies (XCDs).
    pub dies: u32,
}

/// Maximum workgroup size on all architectures, in work-items.
pub const LARGEST_WORKGROUP: u32 = 1024;

/// Unique id of the first GPU: "emulated" in ASCII.
const UNIQUE_ID: u64 = 0x656d_756c_6174_6564;

/// Returns the unique id of the GPU with this number, counted from 0.
pub fn unique_id(number: u32) -> u64 {
    UNIQUE_ID + u64::from(number)
}

/// Returns the PCI address of the GPU with this number: bus 3 plus the number, device 0, function 0.
pub fn location(number: u32) -> u32 {
    (3 + number) << 8
}

/// Returns the major version, minor version and stepping of an architecture, for example 9, 0 and 10 for `gfx90a`. In
/// the name, the minor version and the stepping have one hexadecimal digit each.
pub fn version(arch: Arch) -> [u32; 3] {
    let digits = arch.name().trim_start_matches("gfx");
    let (major, rest) = digits.split_at(digits.len() - 2);
    let rest = u32::from_str_radix(rest, 16).unwrap_or_default();
    [major.parse().unwrap_or_default(), rest >> 4, rest & 15]
}

/// Returns the properties of the product that represents this architecture.
pub fn for_arch(arch: Arch) -> Model {
    let rdna = Model {
        chip_id: 0,
        compute_units: 0,
        simds_per_unit: 2,
        waves_per_unit: 32,
        shader_engines: 4,
        arrays_per_engine: 2,
        clock: 0,
        memory_clock: 0,
        bus: 256,
        caches: [16, 0, 0],
        cache_line: 128,
        dies: 1,
    };
    let cdna = Model { simds_per_unit: 4, arrays_per_engine: 1, bus: 4096, ..rdna };
    match arch {
        // Radeon Instinct MI50.
        Arch::Gfx906 => Model {
            chip_id: 0x66a1,
            compute_units: 60,
            waves_per_unit: 40,
            clock: 1725,
            memory_clock: 1000,
            caches: [16, 4096, 0],
            cache_line: 64,
            ..cdna
        },
        // Instinct MI100.
        Arch::Gfx908 => Model {
            chip_id: 0x738c,
            compute_units: 120,
            waves_per_unit: 40,
            shader_engines: 8,
            clock: 1502,
            memory_clock: 1200,
            caches: [16, 8192, 0],
            cache_line: 64,
            ..cdna
        },
        // One die of an Instinct MI250X.
        Arch::Gfx90a => Model {
            chip_id: 0x7408,
            compute_units: 104,
            shader_engines: 8,
            clock: 1700,
            memory_clock: 1600,
            caches: [16, 8192, 0],
            ..cdna
        },
        // Instinct MI300X.
        Arch::Gfx942 => Model {
            chip_id: 0x74a1,
            compute_units: 304,
            shader_engines: 32,
            clock: 2100,
            memory_clock: 1300,
            bus: 8192,
            caches: [32, 4096, 256 << 10],
            dies: 8,
            ..cdna
        },
        // Instinct MI355X.
        Arch::Gfx950 => Model {
            chip_id: 0x75a3,
            compute_units: 256,
            shader_engines: 32,
            clock: 2400,
            memory_clock: 2000,
            bus: 8192,
            caches: [32, 4096, 256 << 10],
            dies: 8,
            ..cdna
        },
        // Radeon RX 6800.
        Arch::Gfx1030 => Model {
            chip_id: 0x73bf,
            compute_units: 60,
            clock: 2105,
            memory_clock: 1000,
            caches: [16, 4096, 128 << 10],
            ..rdna
        },
        // Radeon RX 7900 XTX.
        Arch::Gfx1100 => Model {
            chip_id: 0x744c,
            compute_units: 96,
            shader_engines: 6,
            clock: 2482,
            memory_clock: 1249,
            bus: 384,
            caches: [32, 6144, 96 << 10],
            ..rdna
        },
        // Radeon RX 7800 XT.
        Arch::Gfx1101 => Model {
            chip_id: 0x747e,
            compute_units: 60,
            shader_engines: 3,
            clock: 2430,
            memory_clock: 1219,
            caches: [32, 4096, 64 << 10],
            ..rdna
        },
        // Radeon RX 7600.
        Arch::Gfx1102 => Model {
            chip_id: 0x7480,
            compute_units: 32,
            shader_engines: 2,
            clock: 2655,
            memory_clock: 1124,
            bus: 128,
            caches: [32, 2048, 32 << 10],
            ..rdna
        },
        // Radeon 780M (Phoenix).
        Arch::Gfx1103 => Model {
            chip_id: 0x15bf,
            compute_units: 12,
            shader_engines: 1,
            clock: 2700,
            memory_clock: 800,
            bus: 128,
            caches: [32, 2048, 0],
            ..rdna
        },
        // Radeon 890M (Strix Point).
        Arch::Gfx1150 => Model {
            chip_id: 0x150e,
            compute_units: 16,
            shader_engines: 1,
            clock: 2900,
            memory_clock: 937,
            bus: 128,
            caches: [32, 2048, 0],
            ..rdna
        },
        // Radeon 8060S (Strix Halo).
        Arch::Gfx1151 => Model {
            chip_id: 0x1586,
            compute_units: 40,
            shader_engines: 2,
            clock: 2900,
            memory_clock: 1000,
            caches: [32, 2048, 32 << 10],
            ..rdna
        },
        // Radeon 860M (Krackan Point). The size of its level-2 cache is unknown, so the value of the 890M is used.
        Arch::Gfx1152 => Model {
            chip_id: 0x1114,
            compute_units: 8,
            shader_engines: 1,
            clock: 3000,
            memory_clock: 1000,
            bus: 128,
            caches: [32, 2048, 0],
            ..rdna
        },
        // Radeon RX 9060 XT.
        Arch::Gfx1200 => Model {
            chip_id: 0x7590,
            compute_units: 32,
            shader_engines: 2,
            clock: 3130,
            memory_clock: 1258,
            bus: 128,
            caches: [32, 4096, 32 << 10],
            ..rdna
        },
        // AMD has not published a product. The values are those of the Instinct MI355X, without a device id.
        Arch::Gfx1250 => Model {
            compute_units: 256,
            shader_engines: 32,
            clock: 2400,
            memory_clock: 2000,
            bus: 8192,
            caches: [32, 4096, 256 << 10],
            dies: 8,
            ..cdna
        },
        // Radeon RX 9070 XT.
        Arch::Gfx1201 => Model {
            chip_id: 0x7550,
            compute_units: 64,
            clock: 2970,
            memory_clock: 1258,
            caches: [32, 8192, 64 << 10],
            ..rdna
        },
    }
}
