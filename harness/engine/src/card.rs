//! Reads facts about the GPUs of this machine and their driver from sysfs.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use report::{
    Errors, Gpu, Link,
    issue::{Driver, NotRead, Variable},
};
use sha2::{Digest, Sha256};

mod kfd;

pub use kfd::{Card, cards, first, large_bar};

/// PCI vendor id of AMD.
const AMD: &str = "1002";

/// Returns the GPUs that sysfs describes below the folder `root`, and their serial numbers. Appends each unreadable
/// file, with the reason, to `not_read`.
///
/// Files of the Linux kernel that define the formats: Documentation/gpu/amdgpu/driver-misc.rst for `/sys/class/drm`,
/// drivers/gpu/drm/amd/amdkfd/kfd_topology.c for `/sys/class/kfd`.
pub fn gpus(root: &Path, not_read: &mut Vec<NotRead>) -> (Vec<Gpu>, Vec<String>) {
    let (mut gpus, mut serials) = (Vec::new(), Vec::new());
    let cards = cards(root);
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
        let name = text(&device.join("product_name"));
        let name = if name.is_empty() { marketing_name(root, &product, &revision) } else { name };
        let minor = render_minor(&device);
        let gfx = cards.iter().find(|card| Some(card.minor) == minor).map(|card| card.gfx.clone());
        let number = |file: &str| text(&device.join(file)).parse().ok();
        let named = |file: &str| Some(text(&device.join(file))).filter(|text| !text.is_empty());
        let serial = named("unique_id").or_else(|| named("serial_number"));
        gpus.push(Gpu {
            name,
            gfx: gfx.unwrap_or_else(|| "gfx unknown".to_owned()),
            pci: format!("{AMD}:{product} rev {revision}"),
            bdf: slot(&device).unwrap_or_default(),
            card: serial.map(|serial| anonymous_id(&serial)),
            vram_bytes: number("mem_info_vram_total").unwrap_or(0),
            vram_used_bytes: number("mem_info_vram_used"),
            gtt_bytes: number("mem_info_gtt_total"),
            partition: named("current_compute_partition").map(|compute| {
                let memory = named("current_memory_partition");
                memory.map_or(compute.clone(), |memory| format!("{compute}/{memory}"))
            }),
            link: link(&device),
            celsius: sensors(&device, "temp").max().map(|milli| milli / 1000),
            power_cap_watts: sensors(&device, "power1_cap").max().map(|micro| micro / 1_000_000),
            errors: errors(&device),
            vbios: named("vbios_version"),
            firmware: firmware(&device),
        });
    }
    if !root.join("sys/class/kfd").exists() {
        let why = "the kernel provides no compute driver for AMD GPUs here".to_owned();
        not_read.push(NotRead { what: "/sys/class/kfd".to_owned(), why });
    }
    (gpus, serials)
}

/// Returns the state of the GPU driver, and the reasons why this user may not access its device files, if any.
pub fn driver(root: &Path, not_read: &mut Vec<NotRead>) -> Driver {
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
                "{name}: permission denied; it belongs to the group `render` (or `video`), and this user is not a \
                 member"
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

/// Returns a GPU's PCI address, from a line such as `PCI_SLOT_NAME=0000:03:00.0`.
fn slot(device: &Path) -> Option<String> {
    let uevent = text(&device.join("uevent"));
    uevent.lines().find_map(|line| Some(line.strip_prefix("PCI_SLOT_NAME=")?.to_owned()))
}

fn anonymous_id(serial: &str) -> String {
    let sum = Sha256::digest(serial);
    sum.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the state of a GPU's PCIe link; `None` if it is unknown. The driver writes the speed as `16.0 GT/s PCIe`, or
/// as `Unknown` inside an APU.
fn link(device: &Path) -> Option<Link> {
    let words = |which: &str| {
        let read = |what: &str| text(&device.join(format!("{which}_link_{what}")));
        let (speed, width) = (read("speed"), read("width"));
        let speed = speed.strip_suffix(" PCIe").unwrap_or(&speed);
        (speed.starts_with(|c: char| c.is_ascii_digit()) && !["", "0"].contains(&&*width))
            .then(|| format!("{speed} x{width}"))
    };
    Some(Link { now: words("current")?, most: words("max")? })
}

/// Returns the values in those sensor files of a GPU that are named `NAME` or `NAME*_input`.
fn sensors(device: &Path, name: &str) -> impl Iterator<Item = u32> {
    let files = sorted(&device.join("hwmon")).into_iter().flat_map(|folder| sorted(&folder));
    let wanted = files.filter(move |file| {
        let file = file.file_name().unwrap_or_default().to_string_lossy();
        file == name || file.starts_with(name) && file.ends_with("_input")
    });
    wanted.filter_map(|file| text(&file).parse().ok())
}

/// Returns the numbers of hardware errors, from files `ras/UNIT_err_count` with lines such as `ue: 0` and `ce: 0`.
fn errors(device: &Path) -> Vec<Errors> {
    let files = sorted(&device.join("ras"));
    let counted = files.iter().filter_map(|file| {
        let unit = file.file_name()?.to_str()?.strip_suffix("_err_count")?.to_owned();
        let counts = text(file);
        let count = |kind: &str| {
            let value = counts.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(':'));
            value?.trim().parse::<u64>().ok()
        };
        Some(Errors { unit, uncorrected: count("ue")?, corrected: count("ce")? })
    });
    counted.filter(|errors| errors.uncorrected + errors.corrected > 0).collect()
}

fn firmware(device: &Path) -> Vec<(String, String)> {
    let files = sorted(&device.join("fw_version"));
    files
        .iter()
        .filter_map(|file| {
            let part = file.file_name()?.to_str()?.strip_suffix("_fw_version")?.to_owned();
            let version = text(file);
            // The driver reports version zero for firmware that the GPU does not have.
            let none = version.trim_start_matches("0x").bytes().all(|b| b == b'0');
            (!none).then_some((part, version))
        })
        .collect()
}

/// Returns the GPU's marketing name from libdrm's table, whose lines are `device,\trevision,\tname`.
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

/// Returns advice about problems of the GPUs, the driver and the environment.
pub fn advice(root: &Path, gpus: &[Gpu], driver: &Driver, set: &[Variable]) -> Vec<String> {
    let mut advice = Vec::new();
    let variable = |name: &str| set.iter().find(|variable| variable.name == name);
    if let Some(Variable { name, value }) = variable("HSA_OVERRIDE_GFX_VERSION") {
        advice.push(format!(
            "{name}={value} runs code for another architecture on this GPU; unset it before you report a failure"
        ));
    }
    if driver.loaded && !root.join("sys/class/kfd/kfd/topology/nodes").exists() {
        advice.push(
            "the driver provides no GPU for compute: /sys/class/kfd is missing; the kernel may lack CONFIG_HSA_AMD"
                .to_owned(),
        );
    }
    let mut kinds: Vec<&str> = gpus.iter().map(|gpu| gpu.gfx.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let chosen = ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
    if kinds.len() > 1 && !chosen.iter().any(|name| variable(name).is_some()) {
        advice.push(format!(
            "{} are visible, and programs use the first; choose one with ROCR_VISIBLE_DEVICES",
            kinds.join(" and ")
        ));
    }
    for gpu in gpus {
        let at = if gpu.bdf.is_empty() { &gpu.gfx } else { &gpu.bdf };
        if gpu.gfx == "gfx unknown" && driver.loaded && kinds.len() < 2 {
            advice.push(format!("the driver lists {at} for display but not for compute"));
        }
        for errors in gpu.errors.iter().filter(|errors| errors.uncorrected > 0) {
            advice.push(format!(
                "the hardware of {at} counted uncorrected errors ({errors}); check the card before you trust its results"
            ));
        }
        // The link speed falls when the GPU is idle, but the link width does not.
        let width = |link: &str| link.rsplit_once('x').map(|(_, width)| width.to_owned());
        if let Some(link) = gpu.link.as_ref().filter(|link| width(&link.now) != width(&link.most)) {
            advice.push(format!(
                "the PCIe link of {at} is {} but supports {}; check its slot and riser",
                link.now, link.most
            ));
        }
        if let Some(used) = gpu.vram_used_bytes.filter(|used| *used > gpu.vram_bytes / 2) {
            let percent = used.saturating_mul(100) / gpu.vram_bytes.max(1);
            advice.push(format!(
                "{percent} % of the memory of {at} is already in use; trials that need memory will fail"
            ));
        }
    }
    advice
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests;
