//! Reads the descriptions of kernels in code objects, and finds the code objects in bundles.
//!
//! The formats are described in LLVM's AMDGPU usage guide ("Code Object V3 Metadata" and its successors) and in Clang's
//! offload bundler ("Bundled Binary File Layout"). Invalid input never causes a panic.

use object::{
    LittleEndian as LE, elf,
    read::elf::{FileHeader as _, ProgramHeader as _},
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
    /// Kind of the kernel's accesses through this pointer (`read_only`, `write_only` or `read_write`), as determined
    /// by the compiler.
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

/// Returns the architecture of a target, for example `gfx90a` of `amdgcn-amd-amdhsa--gfx90a:xnack-`.
pub fn architecture(target: &str) -> &str {
    let name = target.rsplit("--").next().unwrap_or(target);
    name.split(':').next().unwrap_or(name)
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
        for length in 0..bundle.len() {
            let found = code_objects(&bundle[..length]);
            assert!(found.is_empty(), "{length}: {found:?}");
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
