//! What the interpreter makes of code, by the way that it decodes it itself.

use std::{collections::BTreeSet, ops::Range};

use device::Arch;

use crate::program::{Decoded, decode, decoded};

/// An instruction of a piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the code.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// As the disassembler prints it.
    pub text: String,
    /// Whether the interpreter would execute it.
    pub executable: bool,
}

/// The instruction that `bytes` begin with, which lie at that address; nothing where that is none. No instruction is longer than
/// 32 bytes.
///
/// # Errors
/// Without a disassembler for the architecture: why.
pub fn instruction(arch: Arch, address: u64, bytes: &[u8]) -> Result<Option<Place>, String> {
    let window = &bytes[..bytes.len().min(crate::disassembler::LONGEST)];
    let decoded = decode(arch, arch.wave_size() as usize, address, window)?;
    Ok(decoded.map(|Decoded { text, site, exec, .. }| Place {
        offset: 0,
        size: site.size as usize,
        text,
        executable: exec.is_ok(),
    }))
}

/// The instructions of code, one behind the other; what is none is left out.
///
/// # Errors
/// Without a disassembler for the architecture: why.
pub fn listing(arch: Arch, code: &[u8]) -> Result<Vec<Place>, String> {
    let (mut places, mut offset) = (Vec::new(), 0);
    while offset + 4 <= code.len() {
        let found = instruction(arch, offset as u64, &code[offset..])?;
        let size = found.as_ref().map_or(4, |place| place.size);
        places.extend(found.map(|place| Place { offset, ..place }));
        offset += size;
    }
    Ok(places)
}

/// The opcodes of what waves have executed of code for an architecture that still lies in memory, each once.
///
/// # Safety
/// The range must be mapped and readable.
pub unsafe fn executed(arch: Arch, code: Range<u64>) -> BTreeSet<String> {
    let length = (code.end - code.start) as usize;
    let bytes = std::ptr::with_exposed_provenance::<u8>(code.start as usize);
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    let mut opcodes = BTreeSet::new();
    decoded(arch, code.start, bytes, |text| {
        // Two that are issued at once are two.
        let names = text.split(" :: ").filter_map(|one| one.split_whitespace().next());
        opcodes.extend(names.map(str::to_owned));
    });
    opcodes
}
