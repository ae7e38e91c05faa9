//! Lists the GPUs for compute as the driver amdkfd describes them in sysfs, see
//! <https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/amdkfd/kfd_topology.c>.

use std::{fs, path::Path};

/// A GPU, or a partition of a GPU, as the driver lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    pub(crate) minor: u32,
    pub(crate) gfx: String,
    /// PCI address; empty if it is unknown.
    pub(crate) bdf: String,
    /// Number of the partition; 0 without partitions.
    pub(crate) partition: u32,
    /// UUID for ROCR_VISIBLE_DEVICES; `None` if the GPU has no serial number.
    pub(crate) uuid: Option<String>,
}

/// Returns the GPUs that sysfs below a root folder lists, in the order in which the HIP runtime counts them.
pub fn cards(root: &Path) -> Vec<Card> {
    let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes"));
    let number = |entry: fs::DirEntry| {
        entry.file_name().to_str()?.parse::<u32>().ok().zip(Some(entry.path()))
    };
    let mut nodes: Vec<_> = nodes.into_iter().flatten().filter_map(|e| number(e.ok()?)).collect();
    nodes.sort();
    let card = |(_, node): &(u32, std::path::PathBuf)| {
        let properties = fs::read_to_string(node.join("properties")).ok()?;
        let long = |name: &str| {
            properties.lines().find_map(|line| {
                line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok()
            })
        };
        let value = |name: &str| long(name).and_then(|value| u32::try_from(value).ok());
        // LLVM's target version is major * 10000 + minor * 100 + stepping. The name of the architecture contains the
        // stepping in hexadecimal.
        let target = value("gfx_target_version").filter(|v| *v > 0)?;
        let gfx = format!("gfx{}{}{:x}", target / 10_000, target / 100 % 100, target % 100);
        // The value has the form of Linux's `pci_dev_id`, with the number of the partition in its upper bits.
        let place = value("location_id").filter(|place| *place > 0);
        let bdf = place.map(|place| {
            let domain = value("domain").unwrap_or(0);
            let [bus, slot, function] = [place >> 8 & 0xff, place >> 3 & 0x1f, place & 7];
            format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
        });
        let uuid = long("unique_id").filter(|id| *id > 0).map(|id| format!("GPU-{id:016x}"));
        Some(Card {
            minor: value("drm_render_minor")?,
            gfx,
            bdf: bdf.unwrap_or_default(),
            partition: place.map_or(0, |place| place >> 28),
            uuid,
        })
    };
    nodes.iter().filter_map(card).collect()
}

/// Returns the architecture of the first GPU, which programs use by default; `None` if sysfs lists none.
pub fn first(root: &Path) -> Option<String> {
    cards(root).into_iter().next().map(|card| card.gfx)
}

/// Returns true if the host can access the whole memory of the GPUs (large BAR); `None` if that is unknown or differs
/// between the GPUs.
pub fn large_bar(root: &Path) -> Option<bool> {
    let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes")).ok()?;
    let mut all = Vec::new();
    for node in nodes.filter_map(|entry| Some(entry.ok()?.path())) {
        for bank in fs::read_dir(node.join("mem_banks")).into_iter().flatten().flatten() {
            let properties = fs::read_to_string(bank.path().join("properties")).unwrap_or_default();
            let heap = properties.lines().find_map(|line| line.strip_prefix("heap_type "));
            match heap.map(str::trim) {
                Some(FRAME_BUFFER_PUBLIC) => all.push(true),
                Some(FRAME_BUFFER_PRIVATE) => all.push(false),
                _ => {}
            }
        }
    }
    let first = *all.first()?;
    all.iter().all(|one| *one == first).then_some(first)
}

/// `HSA_MEM_HEAP_TYPE_FB_PUBLIC`: the host can access the whole memory of the GPU.
const FRAME_BUFFER_PUBLIC: &str = "1";

/// `HSA_MEM_HEAP_TYPE_FB_PRIVATE`: the host can access only a part of the GPU's memory.
const FRAME_BUFFER_PRIVATE: &str = "2";

#[cfg(test)]
mod tests {
    use super::*;

    fn node(root: &Path, number: u32, target: u32) {
        let folder = root.join(format!("sys/class/kfd/kfd/topology/nodes/{number}"));
        fs::create_dir_all(&folder).unwrap();
        let text = format!("simd_count 1\ngfx_target_version {target}\ndrm_render_minor 128\n");
        fs::write(folder.join("properties"), text).unwrap();
    }

    #[test]
    fn gpus_are_in_the_order_of_their_nodes() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(first(root.path()), None);
        // A CPU, and two GPUs whose numbers would sort differently as text.
        for (number, target) in [(0, 0), (10, 90_010), (2, 110_000)] {
            node(root.path(), number, target);
        }
        let names: Vec<_> = cards(root.path()).into_iter().map(|card| card.gfx).collect();
        assert_eq!(names, ["gfx1100", "gfx90a"]);
        assert_eq!(first(root.path()).as_deref(), Some("gfx1100"));
    }

    /// Node 0 is the CPU.
    #[test]
    fn reads_large_bar_from_memory_banks() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(large_bar(root.path()), None);
        let bank = |node: u32, heap: u32| {
            let topology = root.path().join("sys/class/kfd/kfd/topology/nodes");
            let folder = topology.join(format!("{node}/mem_banks/0"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("properties"), format!("heap_type {heap}\nflags 0\n")).unwrap();
        };
        bank(0, 0);
        assert_eq!(large_bar(root.path()), None);
        bank(1, 1);
        assert_eq!(large_bar(root.path()), Some(true));
        bank(2, 2);
        assert_eq!(large_bar(root.path()), None);
        bank(1, 2);
        assert_eq!(large_bar(root.path()), Some(false));
    }

    /// `location_id` is encoded like Linux's `pci_dev_id`.
    #[test]
    fn decodes_pci_address_and_serial_number() {
        let root = tempfile::tempdir().unwrap();
        node(root.path(), 1, 90_402);
        let file = root.path().join("sys/class/kfd/kfd/topology/nodes/1/properties");
        let card = |more: &str| {
            let text = format!("gfx_target_version 90402\ndrm_render_minor 128\n{more}");
            fs::write(&file, text).unwrap();
            cards(root.path()).remove(0)
        };
        // The location is bus 0x43, slot 2, function 1 of PCI domain 1; the partition is 2.
        let one = card("location_id 536888081\ndomain 1\nunique_id 18446744073709551614\n");
        assert_eq!((one.bdf.as_str(), one.partition), ("0001:43:02.1", 2));
        assert_eq!(one.uuid.as_deref(), Some("GPU-fffffffffffffffe"));
        let none = card("location_id 0\nunique_id 0\n");
        assert_eq!((none.bdf.as_str(), none.partition, none.uuid), ("", 0, None));
    }

    #[test]
    fn stepping_is_hexadecimal() {
        for (target, expected) in [(90_010, "gfx90a"), (90_402, "gfx942"), (110_501, "gfx1151")] {
            let root = tempfile::tempdir().unwrap();
            node(root.path(), 0, target);
            assert_eq!(first(root.path()).as_deref(), Some(expected));
        }
    }
}
