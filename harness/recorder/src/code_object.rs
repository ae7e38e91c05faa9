//! Finds code objects and the parameters of their kernels in memory of the program.
//!
//! The formats are described in LLVM's AMDGPU usage guide ("Code Object V3 Metadata" and its successors) and in Clang's
//! offload bundler ("Bundled Binary File Layout").

use std::collections::HashMap;

use object::{
    LittleEndian as LE, elf,
    read::elf::{FileHeader as _, ProgramHeader as _},
};
use serde::Deserialize;

use crate::memory;

/// Type of the note with the metadata, `NT_AMDGPU_METADATA`.
const METADATA: elf::NoteType = elf::NoteType(32);

const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED: &[u8] = b"CCOB";
const ELF: &[u8] = b"\x7fELF";

/// Largest code that is read, in bytes.
const LARGEST: u64 = 512 << 20;

/// Kernels by name, each with its parameters.
pub(crate) type Kernels = HashMap<String, Vec<Parameter>>;

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels", default)]
    kernels: Vec<Kernel>,
}

#[derive(Deserialize)]
struct Kernel {
    #[serde(rename = ".name")]
    name: String,
    #[serde(rename = ".args", default)]
    args: Vec<Parameter>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Parameter {
    #[serde(rename = ".size")]
    pub(crate) size: u64,
    #[serde(rename = ".offset", default)]
    pub(crate) offset: u64,
    #[serde(rename = ".value_kind")]
    pub(crate) kind: String,
}

/// Reads the code at an address, whose size the caller of HIP does not pass: an ELF file or a bundle of them.
pub(crate) fn at(address: u64) -> Option<Vec<u8>> {
    let length = match memory::bytes(address, 24)? {
        start if start.starts_with(ELF) => {
            let number = |offset, bytes| memory::number(address + offset, bytes);
            // `e_shoff`, `e_shentsize` and `e_shnum`: linkers write the table of sections last.
            number(0x28, 8)?.checked_add(number(0x3a, 2)?.checked_mul(number(0x3c, 2)?)?)?
        }
        start if start == BUNDLE => {
            let mut end = 0;
            for (offset, size, _) in entries(address)? {
                end = offset.checked_add(size)?.max(end);
            }
            end
        }
        // The total size follows the magic number, the version and the method (version 2: 32 bits, version 3: 64).
        start if start.starts_with(COMPRESSED) => match start[4] {
            2 => memory::number(address + 8, 4)?,
            3 => memory::number(address + 8, 8)?,
            _ => return None,
        },
        _ => return None,
    };
    (length <= LARGEST).then(|| memory::bytes(address, length as usize)).flatten()
}

/// Returns the offset, size and target of each entry of the bundle at an address.
fn entries(address: u64) -> Option<Vec<(u64, u64, String)>> {
    let count = memory::number(address + 24, 8)?;
    let (mut found, mut at) = (Vec::new(), address + 32);
    for _ in 0..count.min(1 << 12) {
        let [offset, size, length] =
            [0, 8, 16].map(|field| memory::number(at + field, 8).unwrap_or(u64::MAX));
        let name = (length < 4096).then(|| memory::bytes(at + 24, length as usize))??;
        found.push((offset, size, String::from_utf8_lossy(&name).into_owned()));
        at += 24 + length;
    }
    Some(found)
}

/// Returns the kernels of a code object, or of all code objects in a bundle. The parameters of a kernel are the same on
/// all architectures, because the host passes the same arguments.
pub(crate) fn kernels(code: &[u8]) -> Kernels {
    if code.starts_with(BUNDLE) {
        let entries = entries(code.as_ptr() as u64).unwrap_or_default();
        let parts = entries.iter().filter_map(|(offset, size, _)| {
            let start = usize::try_from(*offset).ok()?;
            code.get(start..start.checked_add(usize::try_from(*size).ok()?)?)
        });
        return parts.flat_map(kernels).collect();
    }
    let all = metadata(code).map_or_else(Vec::new, |metadata| metadata.kernels);
    let shown = |args: Vec<Parameter>| {
        args.into_iter().filter(|parameter| !parameter.kind.starts_with("hidden_")).collect()
    };
    all.into_iter().map(|kernel| (kernel.name, shown(kernel.args))).collect()
}

fn metadata(code: &[u8]) -> Option<Metadata> {
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
    fn other_memory_is_not_code() {
        for start in [&b"text"[..], ELF, BUNDLE, COMPRESSED] {
            let mut bytes = start.to_vec();
            bytes.resize(4096, 0xff);
            assert!(at(bytes.as_ptr() as u64).is_none(), "{start:?}");
            assert!(kernels(&bytes).is_empty());
        }
        assert!(at(8).is_none());
    }
}
