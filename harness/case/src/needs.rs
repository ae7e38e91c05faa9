//! Requirements of a case on stacks and devices.

use std::collections::HashSet;

use device::{Arch, Config};
use plan::{Library, VersionRange};

use crate::{
    case_keys::DEVICE_NEEDS,
    diagnostic::{nearest, suggest},
    hints,
    matrix::{Matrix, substituted},
    program,
    read::Reader,
    yaml::{self, Node},
};

/// Requirements of a case. If the machine does not meet all of them, the trials of the case are skipped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Libraries that the case needs in addition to HIP and hipRTC.
    pub libraries: Vec<Library>,
    /// Functions that the libraries of the stack must export.
    pub functions: Vec<String>,
    /// Range of ROCm versions on which the case runs; `None` means all versions.
    pub rocm: Option<VersionRange>,
    /// Architectures on which the case runs; an empty list means all.
    pub gfx: Vec<String>,
    /// Components, in addition to HIP, that the stack of a program case must contain, named as in `stack fetch --with`.
    pub groups: Vec<String>,
    /// True if no other trial may run on the GPU at the same time, because the trial measures a property of the whole
    /// GPU, for example free memory.
    pub alone: bool,
    /// True if the device must support arrays and textures.
    pub images: bool,
    /// Number of devices that the case needs; 0 means one.
    pub devices: u32,
    /// Device options, each with name and value, for example `large-bar` and `yes`. A value may name axes, for example
    /// `$bar`.
    pub device: Vec<(String, String)>,
    /// Number of processes that execute the whole plan at the same time; 0 means one.
    pub processes: u32,
}

pub(crate) const LIBRARIES: &[(&str, Library)] = &[
    ("hiprand", Library::Hiprand),
    ("hipblaslt", Library::Hipblaslt),
    ("rocblas", Library::Rocblas),
];

/// Returns true for a name that is allowed under `with` (a package group of the stack) but not under `library`.
fn is_only_a_group(name: &str) -> bool {
    program::GROUPS.contains(&name) && !LIBRARIES.iter().any(|(library, _)| *library == name)
}

const MAX_PROCESSES: u32 = 16;

pub(crate) fn read_needs(reader: &mut Reader, node: &Node, matrix: &Matrix) -> Needs {
    const KEYS: &[&str] = &[
        "library",
        "function",
        "rocm",
        "gfx",
        "with",
        "alone",
        "images",
        "devices",
        "device",
        "processes",
    ];
    let Some(fields) = reader.fields(node, "`needs`", KEYS) else {
        return Needs::default();
    };
    let mut flag = |key| fields.get(key).and_then(|n| reader.flag(n, &format!("`{key}`")));
    let (alone, images) = (flag("alone"), flag("images"));
    let libraries = fields
        .get("library")
        .map(|n| {
            let is_group =
                |n: &Node| matches!(&n.value, yaml::Value::Scalar(name) if is_only_a_group(name));
            if let Some(group) = reader.list(n).iter().find(|n| is_group(n)) {
                let help = "name it under `with`, as in `needs: {with: [torch]}`".to_owned();
                reader.mistake_with_help(
                    group.at,
                    "this is a package group of a stack, not a library",
                    Some(help),
                );
                return Vec::new();
            }
            reader.list(n).iter().filter_map(|n| reader.choice(n, "a library", LIBRARIES)).collect()
        })
        .unwrap_or_default();
    let mut count = |key, most| {
        let node = fields.get(key)?;
        let count = reader.number32(node, &format!("`{key}`"))?;
        if !(1..=most).contains(&count) {
            reader.mistake(node.at, format!("`{key}` must be 1 to {most}"));
        }
        Some(count)
    };
    let devices = count("devices", device::MAX_DEVICES);
    let processes = count("processes", MAX_PROCESSES);
    Needs {
        libraries,
        functions: fields
            .get("function")
            .map(|n| reader.texts(n, "`function`"))
            .unwrap_or_default(),
        rocm: fields.get("rocm").and_then(|n| read_versions(reader, n)),
        gfx: fields.get("gfx").map(|n| read_gfx(reader, n)).unwrap_or_default(),
        groups: fields.get("with").map(|n| program::read_groups(reader, n)).unwrap_or_default(),
        alone: alone.unwrap_or_default(),
        images: images.unwrap_or_default(),
        devices: devices.unwrap_or_default(),
        device: fields.get("device").map(|n| read_device(reader, n, matrix)).unwrap_or_default(),
        processes: processes.unwrap_or_default(),
    }
}

fn read_device(reader: &mut Reader, node: &Node, matrix: &Matrix) -> Vec<(String, String)> {
    let Some(fields) = reader.fields(node, "`device`", DEVICE_NEEDS) else { return Vec::new() };
    let trials = matrix.trials();
    let mut options = Vec::new();
    for name in DEVICE_NEEDS {
        let Some(node) = fields.get(name) else { continue };
        let Some(text) = reader.text(node, &format!("`{name}`")).map(str::to_owned) else {
            continue;
        };
        let mut reported = HashSet::new();
        for trial in &trials {
            let mistake = match substituted(&text, trial) {
                Ok(value) => {
                    (Config::default().set(&format!("{name}={value}")).is_err()).then(|| {
                        let right = if *name == "large-bar" {
                            "`yes` or `no`"
                        } else {
                            "a size such as `256M`"
                        };
                        (
                            format!("`{value}` is not a value of `{name}`"),
                            Some(format!("write {right}")),
                        )
                    })
                }
                Err(axis) if matrix.may_have(&axis) => None,
                Err(axis) => {
                    let help = suggest(&axis, trial.values.iter().map(|(axis, _)| &**axis));
                    Some((format!("the matrix has no axis `{axis}`"), help))
                }
            };
            if let Some((message, help)) = mistake
                && reported.insert(message.clone())
            {
                reader.mistake_with_help(node.at, message, help);
            }
        }
        options.push(((*name).to_owned(), text));
    }
    options
}

pub(crate) fn read_versions(reader: &mut Reader, node: &Node) -> Option<VersionRange> {
    let text = reader.text(node, "`rocm`")?;
    reader.versions(node.at, text)
}

/// Reads architectures by their LLVM names, without target features. Architectures that the emulated device does not
/// support are accepted, because a case may be about other hardware.
pub(crate) fn read_gfx(reader: &mut Reader, node: &Node) -> Vec<String> {
    let names = reader.texts(node, "`gfx`");
    for item in reader.list(node) {
        let yaml::Value::Scalar(name) = &item.value else { continue };
        if name.is_empty() || Arch::PROCESSORS.contains(&name.as_str()) {
            continue;
        }
        // A trial's architecture is only the processor, for example `gfx90a`. A name such as `gfx90a:xnack+` would
        // never match.
        let processor = name.split(':').next().unwrap_or(name).to_ascii_lowercase();
        if name.contains('*') || name.starts_with('!') {
            let help = "list the architectures, such as `[gfx1100, gfx1101]`".to_owned();
            let message = format!("`{name}` is a pattern, not an architecture");
            reader.mistake_with_help(item.at, message, Some(help));
            continue;
        }
        if let Some(help) = hints::forms::architecture(name) {
            let message = format!("`{name}` is not an architecture");
            reader.mistake_with_help(item.at, message, Some(help));
            continue;
        }
        let help = match nearest(&processor, Arch::PROCESSORS.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "architectures have LLVM's names, such as `gfx1151`".to_owned(),
        };
        reader.mistake_with_help(item.at, format!("`{name}` is not an architecture"), Some(help));
    }
    names
}
