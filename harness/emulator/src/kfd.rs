//! Files that the `amdkfd` driver would create in `/sys/class/kfd` for the emulated GPUs. Frameworks and RCCL read
//! properties there that HSA does not report.
//!
//! Names and units follow Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c.

use std::{collections::BTreeMap, fmt::Display, fmt::Write as _};

use device::{Arch, Config};

use crate::model::{self, Model};

/// PCI vendor id of AMD.
const VENDOR: u32 = 0x1002;

/// Number for PCI Express as the type of an io_link.
const PCIE: u32 = 2;

/// Flag of an io_link that is enabled.
const ENABLED: u32 = 1;

/// Weight that the driver assigns to an io_link over PCI Express.
const WEIGHT: u32 = 20;

/// Heap types of a memory bank: frame buffer that the host can access, frame buffer that the host cannot access, and
/// system memory.
const FRAME_BUFFER_PUBLIC: u32 = 1;
const FRAME_BUFFER_PRIVATE: u32 = 2;
const SYSTEM: u32 = 0;

/// Returns the files below `/sys/class/kfd/kfd/topology`. The key is the relative path, the value the content of the
/// file.
pub fn topology(config: &Config) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        ("generation_id".to_owned(), "1\n".to_owned()),
        (
            "system_properties".to_owned(),
            lines(&[("platform_oem", &0), ("platform_id", &0), ("platform_rev", &0)]),
        ),
    ]);
    let nodes = config.devices + 1;
    for node in 0..nodes {
        let mut put = |name: &str, text| files.insert(format!("nodes/{node}/{name}"), text);
        // The host is node 0, and each GPU is linked to every other node.
        let others: Vec<u32> = (0..nodes).filter(|other| *other != node).collect();
        let number = node.checked_sub(1);
        put("gpu_id", format!("{}\n", number.map_or(0, gpu_id)));
        put(
            "name",
            number.map_or_else(|| "\n".to_owned(), |_| format!("{}\n", config.arch.name())),
        );
        put("properties", properties(config, number, others.len()));
        put("mem_banks/0/properties", memory(config, number));
        for (index, other) in others.iter().enumerate() {
            put(&format!("io_links/{index}/properties"), link(node, *other));
        }
    }
    files
}

/// Returns the GPU id for the GPU with this number. The driver computes a hash. Programs only require that the id is
/// not 0, which is the id of the host.
fn gpu_id(number: u32) -> u32 {
    0x6500 + number
}

fn properties(config: &Config, number: Option<u32>, links: usize) -> String {
    let host = std::thread::available_parallelism().map_or(1, |n| n.get());
    let Some(number) = number else {
        return lines(&[
            ("cpu_cores_count", &host),
            ("simd_count", &0),
            ("mem_banks_count", &1),
            ("io_links_count", &links),
        ]);
    };
    let model = model::for_arch(config.arch);
    let Model { compute_units, simds_per_unit, arrays_per_engine, .. } = model;
    let arrays = model.shader_engines * arrays_per_engine;
    lines(&[
        ("cpu_cores_count", &0),
        ("simd_count", &(compute_units * simds_per_unit)),
        ("mem_banks_count", &1),
        ("caches_count", &0),
        ("io_links_count", &links),
        ("p2p_links_count", &0),
        ("max_waves_per_simd", &(model.waves_per_unit / simds_per_unit)),
        ("lds_size_in_kb", &(config.arch.facts().lds_bytes >> 10)),
        ("wave_front_size", &config.arch.wave_size()),
        ("array_count", &arrays),
        ("simd_arrays_per_engine", &arrays_per_engine),
        ("cu_per_simd_array", &compute_units.div_ceil(arrays)),
        ("simd_per_cu", &simds_per_unit),
        ("gfx_target_version", &target_version(config.arch)),
        ("vendor_id", &VENDOR),
        ("device_id", &model.chip_id),
        ("location_id", &model::location(number)),
        ("domain", &0),
        ("hive_id", &0),
        ("max_engine_clk_fcompute", &model.clock),
        ("local_mem_size", &config.memory),
        ("unique_id", &model::unique_id(number)),
        ("num_xcc", &model.dies),
    ])
}

fn memory(config: &Config, number: Option<u32>) -> String {
    let model = model::for_arch(config.arch);
    let (heap, bytes) = match number {
        // The size of the host's memory is not given here, because readers get this size from the host itself.
        None => (SYSTEM, 0),
        Some(_) if config.large_bar => (FRAME_BUFFER_PUBLIC, config.memory),
        Some(_) => (FRAME_BUFFER_PRIVATE, config.memory),
    };
    let of_gpu = |value: u32| number.map_or(0, |_| value);
    lines(&[
        ("heap_type", &heap),
        ("size_in_bytes", &bytes),
        ("flags", &0),
        ("width", &of_gpu(model.bus)),
        ("mem_clk_max", &of_gpu(model.memory_clock)),
    ])
}

fn link(from: u32, to: u32) -> String {
    lines(&[
        ("type", &PCIE),
        ("version_major", &0),
        ("version_minor", &0),
        ("node_from", &from),
        ("node_to", &to),
        ("weight", &WEIGHT),
        ("min_latency", &0),
        ("max_latency", &0),
        ("min_bandwidth", &0),
        ("max_bandwidth", &0),
        ("recommended_transfer_size", &0),
        ("recommended_sdma_engine_id_mask", &0),
        ("flags", &ENABLED),
    ])
}

/// Returns the architecture as the driver encodes it, for example 90010 for `gfx90a`: the minor version and the
/// stepping have two decimal digits each.
fn target_version(arch: Arch) -> u32 {
    let [major, minor, stepping] = model::version(arch);
    major * 10_000 + minor * 100 + stepping
}

fn lines(values: &[(&str, &dyn Display)]) -> String {
    let mut text = String::new();
    for (name, value) in values {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_versions_match_the_driver() {
        // Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_device.c.
        for (arch, version) in [
            (Arch::Gfx906, 90_006),
            (Arch::Gfx90a, 90_010),
            (Arch::Gfx942, 90_402),
            (Arch::Gfx950, 90_500),
            (Arch::Gfx1030, 100_300),
            (Arch::Gfx1100, 110_000),
            (Arch::Gfx1151, 110_501),
            (Arch::Gfx1201, 120_001),
        ] {
            assert_eq!(target_version(arch), version, "{arch}");
        }
    }

    #[test]
    fn nodes_link_to_all_others() {
        let config = Config { arch: Arch::Gfx942, devices: 3, ..Config::default() };
        let files = topology(&config);
        let of = |node: u32, name: &str| {
            let text = &files[&format!("nodes/{node}/properties")];
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
        };
        assert_eq!(of(0, "simd_count"), "0");
        assert_ne!(of(0, "cpu_cores_count"), "0");
        for node in 1..4 {
            // 304 compute units with four SIMDs each.
            assert_eq!(of(node, "simd_count"), "1216");
            assert_eq!(of(node, "gfx_target_version"), "90402");
            assert_eq!(of(node, "io_links_count"), "3");
            assert_eq!(files[&format!("nodes/{node}/name")], "gfx942\n");
            let to: Vec<_> = (0..3)
                .map(|link| &files[&format!("nodes/{node}/io_links/{link}/properties")])
                .map(|text| text.lines().find_map(|line| line.strip_prefix("node_to ")).unwrap())
                .collect();
            let others: Vec<_> =
                (0..4).filter(|other| *other != node).map(|n| n.to_string()).collect();
            assert_eq!(to, others);
        }
        assert_eq!(of(2, "location_id"), "1024");
        assert!(!files.contains_key("nodes/4/gpu_id"));
    }
}
