//! The GPUs and their driver, from the files that the kernel offers.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use report::issue::{Driver, Gpu, NotRead};

use crate::card;

/// AMD's PCI vendor id.
const AMD: &str = "1002";

/// The GPUs below a root folder, and the ids by which a single one could be recognised.
///
/// The files: Documentation/gpu/amdgpu/driver-misc.rst of the kernel for `/sys/class/drm`, drivers/gpu/drm/amd/amdkfd/kfd_topology.c
/// for `/sys/class/kfd`.
pub(super) fn gpus(root: &Path, not_read: &mut Vec<NotRead>) -> (Vec<Gpu>, Vec<String>) {
    let (mut gpus, mut serials) = (Vec::new(), Vec::new());
    let cards = card::cards(root);
    for card in sorted(&root.join("sys/class/drm")) {
        let name = card.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let device = card.join("device");
        let is_card = name.strip_prefix("card").is_some_and(|n| n.parse::<u32>().is_ok());
        let id = |file: &str| text(&device.join(file)).trim_start_matches("0x").to_owned();
        if !is_card || id("vendor") != AMD {
            continue;
        }
        for file in ["unique_id", "serial_number"] {
            serials.extend(Some(text(&device.join(file))).filter(|t| !t.is_empty()));
        }
        let (product, revision) = (id("device"), id("revision"));
        let named = text(&device.join("product_name"));
        let name = if named.is_empty() { marketing_name(root, &product, &revision) } else { named };
        let minor = render_minor(&device);
        let gfx = cards.iter().find(|card| Some(card.minor) == minor).map(|card| card.gfx.clone());
        let vbios = text(&device.join("vbios_version"));
        gpus.push(Gpu {
            name,
            gfx: gfx.unwrap_or_else(|| "gfx unknown".to_owned()),
            pci: format!("{AMD}:{product} rev {revision}"),
            vram_bytes: text(&device.join("mem_info_vram_total")).parse().unwrap_or(0),
            vbios: (!vbios.is_empty()).then_some(vbios),
            firmware: firmware(&device),
        });
    }
    if !root.join("sys/class/kfd").exists() {
        let why = "the kernel offers no compute driver for AMD GPUs here".to_owned();
        not_read.push(NotRead { what: "/sys/class/kfd".to_owned(), why });
    }
    (gpus, serials)
}

/// The driver, and who may use it.
pub(super) fn driver(root: &Path, not_read: &mut Vec<NotRead>) -> Driver {
    let module = root.join("sys/module/amdgpu");
    let version = text(&module.join("version"));
    let mut driver = Driver {
        amdgpu: (!version.is_empty()).then_some(version),
        loaded: module.exists(),
        access: Vec::new(),
    };
    if !driver.loaded {
        return driver;
    }
    let mut devices = vec![root.join("dev/kfd")];
    let render = |p: &PathBuf| p.to_string_lossy().contains("/renderD");
    devices.extend(sorted(&root.join("dev/dri")).into_iter().filter(render));
    for device in devices {
        let name = device.display();
        match fs::OpenOptions::new().read(true).write(true).open(&device) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::PermissionDenied => driver.access.push(format!(
                "{name}: permission denied; it belongs to the group `render` (or `video`), of which this user is not"
            )),
            Err(e) if e.kind() == ErrorKind::NotFound => driver.access.push(format!(
                "{name} is missing; a container needs --device=/dev/kfd --device=/dev/dri"
            )),
            Err(e) => driver.access.push(format!("{name}: {e}")),
        }
    }
    let debug = root.join("sys/kernel/debug/dri");
    if let Err(error) = fs::read_dir(&debug) {
        let what = "/sys/kernel/debug/dri/*/amdgpu_firmware_info".to_owned();
        not_read.push(NotRead { what, why: error.to_string() });
    }
    driver
}

fn render_minor(device: &Path) -> Option<u32> {
    sorted(&device.join("drm"))
        .iter()
        .find_map(|entry| entry.file_name()?.to_str()?.strip_prefix("renderD")?.parse().ok())
}

fn firmware(device: &Path) -> Vec<(String, String)> {
    let files = sorted(&device.join("fw_version"));
    files
        .iter()
        .filter_map(|file| {
            let part = file.file_name()?.to_str()?.strip_suffix("_fw_version")?.to_owned();
            let version = text(file);
            // A part that the GPU does not have reads as zero.
            let none = version.trim_start_matches("0x").bytes().all(|b| b == b'0');
            (!none).then_some((part, version))
        })
        .collect()
}

/// The name that libdrm's table has for a product: lines of `device,\trevision,\tname`.
fn marketing_name(root: &Path, product: &str, revision: &str) -> String {
    let tables = ["opt/amdgpu/share/libdrm/amdgpu.ids", "usr/share/libdrm/amdgpu.ids"];
    let found = tables.iter().find_map(|table| {
        text(&root.join(table)).lines().find_map(|line| {
            let mut columns = line.split(',').map(str::trim);
            let same = columns.next()?.eq_ignore_ascii_case(product)
                && columns.next()?.eq_ignore_ascii_case(revision);
            let name = columns.next()?;
            same.then(|| name.to_owned())
        })
    });
    found.unwrap_or_default()
}

/// A small file's text; empty where it cannot be read.
fn text(path: &Path) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// What a folder holds, by name; nothing where it cannot be read.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_gpu_of_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let device = "sys/class/drm/card1/device";
        write(root, &format!("{device}/vendor"), "0x1002\n");
        write(root, &format!("{device}/device"), "0x744c\n");
        write(root, &format!("{device}/revision"), "0xc8\n");
        write(root, &format!("{device}/unique_id"), "18f2a3b4c5d6e7f8\n");
        write(root, &format!("{device}/mem_info_vram_total"), "25753026560\n");
        write(root, &format!("{device}/fw_version/mec_fw_version"), "0x000001f6\n");
        write(root, &format!("{device}/fw_version/uvd_fw_version"), "0x00000000\n");
        write(root, &format!("{device}/drm/renderD128/dev"), "226:128\n");
        write(root, "sys/class/drm/card1-DP-1/status", "connected\n");
        write(root, "sys/class/drm/card0/device/vendor", "0x10de\n");
        write(root, "usr/share/libdrm/amdgpu.ids", "# x\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n");
        let node = "sys/class/kfd/kfd/topology/nodes/1/properties";
        write(root, node, "simd_count 192\ngfx_target_version 110000\ndrm_render_minor 128\n");
        let (gpus, serials) = gpus(root, &mut Vec::new());
        assert_eq!(serials, ["18f2a3b4c5d6e7f8"]);
        let expected = Gpu {
            name: "AMD Radeon RX 7900 XTX".to_owned(),
            gfx: "gfx1100".to_owned(),
            pci: "1002:744c rev c8".to_owned(),
            vram_bytes: 25_753_026_560,
            vbios: None,
            firmware: vec![("mec".to_owned(), "0x000001f6".to_owned())],
        };
        assert_eq!(gpus, [expected]);
    }

    #[test]
    fn a_machine_without_gpu_says_so() {
        let root = tempfile::tempdir().unwrap();
        let mut not_read = Vec::new();
        assert_eq!(gpus(root.path(), &mut not_read).0, []);
        assert_eq!(not_read[0].what, "/sys/class/kfd");
        assert_eq!(driver(root.path(), &mut not_read), Driver::default());
    }

    #[test]
    fn missing_devices_of_a_container_are_named() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sys/module/amdgpu/version", "6.16.6\n");
        let driver = driver(root.path(), &mut Vec::new());
        assert_eq!(driver.amdgpu.as_deref(), Some("6.16.6"));
        assert!(driver.access[0].contains("--device=/dev/kfd"), "{:?}", driver.access);
    }
}
