//! Lists the instructions of a piece of code as the interpreter decodes them.

use std::{collections::BTreeSet, ops::Range};

use device::Arch;

use crate::program::{Decoded, decode, decoded};

/// An instruction in a piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedInstruction {
    /// Offset from the start of the code, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Text of the instruction, as the disassembler prints it.
    pub text: String,
    /// True if the interpreter can execute the instruction.
    pub executable: bool,
}

/// Decodes the instruction at the start of `bytes`; `None` if the bytes are not an instruction. `address` is the device
/// address of `bytes`. An instruction has at most 32 bytes.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub fn instruction(
    arch: Arch,
    address: u64,
    bytes: &[u8],
) -> Result<Option<ListedInstruction>, String> {
    let window = &bytes[..bytes.len().min(crate::disassembler::MAX_INSTRUCTION_BYTES)];
    let decoded = decode(arch, arch.wave_size() as usize, address, window)?;
    Ok(decoded.map(|Decoded { text, site, exec, .. }| ListedInstruction {
        offset: 0,
        size: site.size as usize,
        text,
        executable: exec.is_ok(),
    }))
}

/// Decodes consecutive instructions. Bytes that are not an instruction are skipped.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub fn listing(arch: Arch, code: &[u8]) -> Result<Vec<ListedInstruction>, String> {
    let (mut places, mut offset) = (Vec::new(), 0);
    while offset + 4 <= code.len() {
        let found = instruction(arch, offset as u64, &code[offset..])?;
        let size = found.as_ref().map_or(4, |place| place.size);
        places.extend(found.map(|place| ListedInstruction { offset, ..place }));
        offset += size;
    }
    Ok(places)
}

/// Returns the mnemonics of all instructions in an address range that waves have executed, each mnemonic once. The code
/// must still be in memory.
///
/// # Safety
/// The range must be mapped and readable.
pub unsafe fn executed(arch: Arch, code: Range<u64>) -> BTreeSet<String> {
    let length = (code.end - code.start) as usize;
    let bytes = std::ptr::with_exposed_provenance::<u8>(code.start as usize);
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    let mut opcodes = BTreeSet::new();
    decoded(arch, code.start, bytes, |text| {
        // A dual-issue pair is printed as `a :: b`. Both instructions are included.
        let names = text.split(" :: ").filter_map(|one| one.split_whitespace().next());
        opcodes.extend(names.map(str::to_owned));
    });
    opcodes
}
