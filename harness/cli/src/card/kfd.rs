//! The architectures of the GPUs, from what their driver tells:
//! <https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/amdkfd/kfd_topology.c>.

use std::{fs, path::Path};

/// A GPU as the driver lists it.
#[derive(Debug, PartialEq)]
pub(super) struct Card {
    /// The minor number of its render node.
    pub(super) minor: u32,
    /// Such as `gfx1151`.
    pub(super) gfx: String,
}

/// The GPUs below a root folder, in the order in which the runtime counts them.
pub(super) fn cards(root: &Path) -> Vec<Card> {
    let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes"));
    let number = |entry: fs::DirEntry| {
        entry.file_name().to_str()?.parse::<u32>().ok().zip(Some(entry.path()))
    };
    let mut nodes: Vec<_> = nodes.into_iter().flatten().filter_map(|e| number(e.ok()?)).collect();
    nodes.sort();
    let card = |(_, node): &(u32, std::path::PathBuf)| {
        let properties = fs::read_to_string(node.join("properties")).ok()?;
        let value = |name: &str| {
            properties.lines().find_map(|line| {
                line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u32>().ok()
            })
        };
        // The target version is that of LLVM: major * 10000 + minor * 100 + stepping, the stepping in hexadecimal in the name.
        let target = value("gfx_target_version").filter(|v| *v > 0)?;
        let gfx = format!("gfx{}{}{:x}", target / 10_000, target / 100 % 100, target % 100);
        Some(Card { minor: value("drm_render_minor")?, gfx })
    };
    nodes.iter().filter_map(card).collect()
}

/// The architecture of the GPU that programs get.
pub(crate) fn first(root: &Path) -> Option<String> {
    cards(root).into_iter().next().map(|card| card.gfx)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes what the driver says of a node.
    fn node(root: &Path, number: u32, target: u32) {
        let folder = root.join(format!("sys/class/kfd/kfd/topology/nodes/{number}"));
        fs::create_dir_all(&folder).unwrap();
        let text = format!("simd_count 1\ngfx_target_version {target}\ndrm_render_minor 128\n");
        fs::write(folder.join("properties"), text).unwrap();
    }

    #[test]
    fn cards_come_in_the_order_of_their_nodes() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(first(root.path()), None);
        // A processor, and two GPUs whose nodes sort otherwise by their letters.
        for (number, target) in [(0, 0), (10, 90_010), (2, 110_000)] {
            node(root.path(), number, target);
        }
        let names: Vec<_> = cards(root.path()).into_iter().map(|card| card.gfx).collect();
        assert_eq!(names, ["gfx1100", "gfx90a"]);
        assert_eq!(first(root.path()).as_deref(), Some("gfx1100"));
    }

    #[test]
    fn the_stepping_of_an_architecture_is_hexadecimal() {
        for (target, expected) in [(90_010, "gfx90a"), (90_402, "gfx942"), (110_501, "gfx1151")] {
            let root = tempfile::tempdir().unwrap();
            node(root.path(), 0, target);
            assert_eq!(first(root.path()).as_deref(), Some(expected));
        }
    }
}
