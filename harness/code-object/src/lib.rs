//! Reads the descriptions of kernels in code objects, and finds the code objects in bundles.
//!
//! The formats are described in LLVM's AMDGPU usage guide ("Code Object V3 Metadata" and its successors) and in Clang's
//! offload bundler ("Bundled Binary File Layout"). Invalid input never causes a panic.

use std::collections::BTreeSet;

use object::{
    LittleEndian as LE, elf,
    read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _},
};
use serde::Deserialize;

/// Type of the ELF note that contains the metadata of the kernels, `NT_AMDGPU_METADATA`.
const METADATA: elf::NoteType = elf::NoteType(32);

/// First bytes of a bundle.
pub const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// First bytes of a compressed bundle.
pub const COMPRESSED: &[u8] = b"CCOB";

/// First bytes of a code object.
pub const ELF: &[u8] = b"\x7fELF";

/// Metadata of a code object: its target and its kernels.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// Target, for example `amdgcn-amd-amdhsa--gfx1151`. Empty in code objects of version 3.
    #[serde(rename = "amdhsa.target", default)]
    pub target: String,
    /// Kernels of the code object.
    #[serde(rename = "amdhsa.kernels", default)]
    pub kernels: Vec<CodeKernel>,
}

/// A kernel of a code object.
#[derive(Debug, Deserialize)]
pub struct CodeKernel {
    /// Name of the kernel, which is mangled unless it was declared `extern "C"`.
    #[serde(rename = ".name")]
    pub name: String,
    #[serde(rename = ".args", default)]
    args: Vec<CodeParameter>,
}

impl CodeKernel {
    /// Returns the parameters whose values the host program passes. Parameters that the compiler added are omitted; the
    /// HIP runtime passes their values.
    pub fn parameters(&self) -> impl Iterator<Item = &CodeParameter> {
        self.args.iter().filter(|parameter| !parameter.kind.starts_with("hidden_"))
    }
}

/// A parameter of a kernel.
#[derive(Clone, Debug, Deserialize)]
pub struct CodeParameter {
    /// Size in bytes.
    #[serde(rename = ".size")]
    pub size: u64,
    /// Offset of the parameter's value from the start of the kernel's arguments, in bytes.
    #[serde(rename = ".offset", default)]
    pub offset: u64,
    /// Kind, for example `global_buffer` or `by_value`.
    #[serde(rename = ".value_kind")]
    pub kind: String,
    /// Kind of the kernel's accesses through this pointer (`read_only`, `write_only` or `read_write`), as determined by
    /// the compiler; `None` if the metadata does not state it.
    #[serde(rename = ".actual_access", default)]
    pub access: Option<String>,
}

impl CodeParameter {
    /// Returns true if the parameter is a pointer.
    pub fn is_pointer(&self) -> bool {
        ["global_buffer", "dynamic_shared_pointer"].contains(&self.kind.as_str())
    }
}

/// An entry of a bundle.
#[derive(Debug, PartialEq)]
pub struct BundleEntry {
    /// Offset from the beginning of the bundle, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Target, for example `hipv4-amdgcn-amd-amdhsa--gfx1151`, or `host-x86_64-unknown-linux-gnu-`.
    pub target: String,
}

/// Returns the entries of a bundle; `None` if they cannot be read. The callback `read` receives an offset and a length
/// in bytes, and returns these bytes of the bundle.
pub fn entries(read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Vec<BundleEntry>> {
    let number = |at| Some(u64::from_le_bytes(read(at, 8)?.try_into().ok()?));
    let count = number(24)?;
    let (mut found, mut at) = (Vec::new(), 32_u64);
    for _ in 0..count.min(1 << 12) {
        let (offset, size, length) = (number(at)?, number(at + 8)?, number(at + 16)?);
        let target = (length < 4096).then(|| read(at + 24, length as usize))??;
        let target = String::from_utf8_lossy(&target).into_owned();
        found.push(BundleEntry { offset, size, target });
        at += 24 + length;
    }
    Some(found)
}

/// Returns the code objects of an uncompressed bundle, each with its target. If `code` is a code object itself, returns
/// only this one.
pub fn code_objects(code: &[u8]) -> Vec<(String, &[u8])> {
    let part = |offset: u64, size: u64| {
        let start = usize::try_from(offset).ok()?;
        code.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    };
    if !code.starts_with(BUNDLE) {
        let found = metadata(code);
        return found.map(|found| (found.target, code)).into_iter().collect();
    }
    let read = |offset: u64, length: usize| part(offset, length as u64).map(<[u8]>::to_vec);
    let all = entries(&read).unwrap_or_default().into_iter();
    let of_device = all.filter_map(|entry| Some((entry.target, part(entry.offset, entry.size)?)));
    of_device.filter(|(_, code)| code.starts_with(ELF)).collect()
}

/// Name of the ELF section of a program that contains its bundles.
const FAT_BINARY: &[u8] = b".hip_fatbin";

/// Alignment of the bundles in a program, in bytes. A program has one bundle for each of its source files.
const BUNDLE_ALIGNMENT: usize = 4096;

/// Returns the architectures for which a program contains code, sorted, for example `gfx90a`. Empty if the program
/// contains no code for GPUs, or if the architectures are unknown, because a bundle is compressed, cannot be read, or
/// has code for a group of architectures.
pub fn architectures_of_program(program: &[u8]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for part in fat_binary(program).unwrap_or_default().chunks(BUNDLE_ALIGNMENT) {
        if part.starts_with(COMPRESSED) {
            return Vec::new();
        }
        if !part.starts_with(BUNDLE) {
            continue;
        }
        let read = |offset: u64, length: usize| {
            let start = usize::try_from(offset).ok()?;
            part.get(start..start.checked_add(length)?).map(<[u8]>::to_vec)
        };
        let Some(all) = entries(&read) else { return Vec::new() };
        for entry in all.iter().filter(|entry| entry.size > 0 && !entry.target.starts_with("host"))
        {
            let name = architecture(&entry.target);
            if !name.starts_with("gfx") || name.ends_with("-generic") {
                return Vec::new();
            }
            found.insert(name.to_owned());
        }
    }
    found.into_iter().collect()
}

fn fat_binary(program: &[u8]) -> Option<&[u8]> {
    let header = elf::FileHeader64::<LE>::parse(program).ok()?;
    let sections = header.sections(LE, program).ok()?;
    let (_, section) = sections.section_by_name(LE, FAT_BINARY)?;
    section.data(LE, program).ok()
}

/// Returns the architecture of a target, for example `gfx90a` of `amdgcn-amd-amdhsa--gfx90a:xnack-`. The compiler of
/// Triton 3.9 names an environment, too: `amdgpu11.51-amd-amdhsa-unknown-gfx1151`.
pub fn architecture(target: &str) -> &str {
    let name = target.split(':').next().unwrap_or(target);
    match name.rfind("-gfx") {
        Some(at) => &name[at + 1..],
        None => name.rsplit("--").next().unwrap_or(name),
    }
}

/// Returns the kernels of a code object, or of all code objects in a bundle. The parameters of a kernel are the same on
/// all architectures, because the host passes the same arguments to all of them.
pub fn kernels(code: &[u8]) -> Vec<CodeKernel> {
    let all = code_objects(code).into_iter();
    all.filter_map(|(_, code)| metadata(code)).flat_map(|found| found.kernels).collect()
}

/// Returns the metadata of a code object; `None` if it cannot be read.
pub fn metadata(code: &[u8]) -> Option<Metadata> {
    let header = elf::FileHeader64::<LE>::parse(code).ok()?;
    for segment in header.program_headers(LE, code).ok()? {
        let Ok(Some(mut notes)) = segment.notes(LE, code) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"AMDGPU" && note.n_type(LE) == METADATA {
                return rmp_serde::from_slice(note.desc()).ok();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_bundle_are_found() {
        let mut bundle = BUNDLE.to_vec();
        let targets = ["host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"];
        bundle.extend(2_u64.to_le_bytes());
        for (target, size) in targets.iter().zip([0_u64, 4]) {
            for number in [200, size, target.len() as u64] {
                bundle.extend(number.to_le_bytes());
            }
            bundle.extend(target.as_bytes());
        }
        bundle.resize(200, 0);
        bundle.extend(ELF);
        assert_eq!(code_objects(&bundle), [(targets[1].to_owned(), ELF)]);
        assert_eq!(architecture(targets[1]), "gfx90a");
        for (target, expected) in [
            ("amdgpu11.51-amd-amdhsa-unknown-gfx1151", "gfx1151"),
            ("amdgcn-amd-amdhsa--gfx9-4-generic:xnack-", "gfx9-4-generic"),
            ("gfx90a", "gfx90a"),
            ("host-x86_64-unknown-linux--", ""),
        ] {
            assert_eq!(architecture(target), expected);
        }
        for length in 0..bundle.len() {
            let found = code_objects(&bundle[..length]);
            assert!(found.is_empty(), "{length}: {found:?}");
        }
    }

    /// Returns a bundle with one entry for each target. The number is the size of the entry in bytes.
    fn bundle(targets: &[(&str, u64)]) -> Vec<u8> {
        let mut bundle = BUNDLE.to_vec();
        bundle.extend((targets.len() as u64).to_le_bytes());
        for (target, size) in targets {
            for number in [4096, *size, target.len() as u64] {
                bundle.extend(number.to_le_bytes());
            }
            bundle.extend(target.as_bytes());
        }
        bundle.resize(BUNDLE_ALIGNMENT, 0);
        bundle
    }

    /// Returns an ELF file with three sections: an empty one, the bundles, and the names of the sections.
    fn program(bundles: &[Vec<u8>]) -> Vec<u8> {
        let (names, fat) = (b"\0.hip_fatbin\0.shstrtab\0", bundles.concat());
        let mut file = ELF.to_vec();
        file.extend([2, 1, 1]);
        file.resize(16, 0);
        for half in [2_u16, 62] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        let (at_names, at_fat) = (64, 64 + names.len() as u64);
        for word in [0, 0, at_fat + fat.len() as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 0, 64, 3, 2] {
            file.extend(half.to_le_bytes());
        }
        file.extend(names);
        file.extend(&fat);
        let sections =
            [(0_u32, 0_u32, 0, 0), (1, 1, at_fat, fat.len()), (13, 3, at_names, names.len())];
        for (name, kind, offset, size) in sections {
            file.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            for word in [0, 0, offset, size as u64, 0, 1, 0] {
                file.extend(word.to_le_bytes());
            }
        }
        file
    }

    #[test]
    fn architectures_of_a_program_are_those_of_all_its_bundles() {
        let host = ("host-x86_64-unknown-linux-gnu-", 0);
        let target = |name: &str| format!("hipv4-amdgcn-amd-amdhsa--{name}");
        let of = |names: &[&str]| {
            let targets: Vec<String> = names.iter().map(|name| target(name)).collect();
            let targets = targets.iter().map(|target| (target.as_str(), 8));
            bundle(&[host].into_iter().chain(targets).collect::<Vec<_>>())
        };
        let check = |bundles: &[Vec<u8>], expected: &[&str]| {
            assert_eq!(architectures_of_program(&program(bundles)), expected);
        };
        check(&[of(&["gfx90a:xnack-"]), of(&["gfx1151", "gfx90a"])], &["gfx1151", "gfx90a"]);
        check(&[bundle(&[host, (&target("gfx90a"), 0)])], &[]);
        check(&[of(&["gfx90a"]), of(&["gfx11-generic"])], &[]);
        check(&[of(&["gfx90a"]), COMPRESSED.to_vec()], &[]);
        check(&[], &[]);
        let whole = program(&[of(&["gfx90a"])]);
        for length in 0..whole.len() {
            assert!(architectures_of_program(&whole[..length]).is_empty(), "{length}");
        }
    }

    #[test]
    fn other_bytes_have_no_kernels() {
        for start in [&b"text"[..], ELF, BUNDLE, COMPRESSED] {
            let mut bytes = start.to_vec();
            bytes.resize(4096, 0xff);
            assert!(kernels(&bytes).is_empty(), "{start:?}");
        }
    }
}
