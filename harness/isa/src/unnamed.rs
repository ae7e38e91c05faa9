//! Disassembles instructions that the stack's disassembler does not know, although the compiler of the stack or a newer
//! one emits them.
//!
//! From GFX11 on, a 16-bit operand may be the upper half of a register. 32-bit encodings mark it with the highest bit
//! of the register number. LLVM prints such operands from release 20 on (`+real-true16`). Earlier releases reject the
//! instruction, because without upper halves a 16-bit operand cannot be above v127. This module clears the bit,
//! disassembles the result, and appends the suffix for the half to the register, as newer releases do: `v5.h`.
//!
//! VOP3 and VOP3P have three source operand fields, and hardware ignores the fields that an instruction does not use.
//! Before release 22, LLVM wrote zeros to unused fields. Since then it writes the constant 0 (0x80), which older
//! disassemblers reject. This module restores the zeros.
//!
//! Source for the encodings: the RDNA 3 and RDNA 4 ISA guides, "VOP1", "VOP2", "VOPC", "DPP16", "DPP8" and "VOP3".

use device::Arch;

use crate::disassembler::disassemble;

/// Text of an instruction, and its size in bytes; `None` if the bytes are not an instruction. The error is the reason
/// why no disassembler for the architecture is available.
pub type Named = Result<Option<(String, u64)>, String>;

/// Opcodes and names of the VOP1 instructions that GFX11 added for 16-bit operands in either half of a register
/// (true16). Their operands are encoded like those of `v_not_b16` (`MODEL`).
const BY_HALVES: [(u32, &str); 2] = [(28, "v_mov_b16"), (102, "v_swap_b16")];
const MODEL: (u32, &str) = (105, "v_not_b16");
/// Number that is added to a VOP1 opcode to form the opcode of the instruction in VOP3.
const VOP1_IN_VOP3: u32 = 0x180;

/// Values of a source operand field that mean: the second dword contains the first source operand and its DPP control.
const DPP: [u32; 3] = [0xe9, 0xea, 0xfa];

/// Encoding of a 32-bit instruction.
#[derive(Clone, Copy, PartialEq)]
pub enum Encoding {
    /// An instruction with one source operand.
    Vop1,
    /// An instruction with two source operands.
    Vop2,
    /// A comparison.
    Vopc,
    /// Another encoding.
    Other,
}

/// Returns the encoding of an instruction from its first dword.
pub fn encoding(word: u32) -> Encoding {
    match word >> 25 {
        0x3f => Encoding::Vop1,
        0x3e => Encoding::Vopc,
        0..0x3e => Encoding::Vop2,
        _ => Encoding::Other,
    }
}

#[derive(Clone, Copy)]
struct Field {
    /// Highest bit of the field, counted from the lowest bit of the first dword.
    bit: u32,
    /// Position of the operand in the text. It is counted from the end if a lane mask may precede the operand,
    /// otherwise from the start.
    operand: Place,
}

#[derive(Clone, Copy)]
enum Place {
    First(usize),
    Last(usize),
}

fn upper(words: [u32; 2]) -> Vec<Field> {
    let kind = encoding(words[0]);
    let source = words[0] & 0x1ff;
    let (first, second) = match kind {
        Encoding::Vopc => (Place::Last(1), Place::Last(0)),
        _ => (Place::First(1), Place::First(2)),
    };
    let mut fields = Vec::new();
    if DPP.contains(&source) {
        fields.push(Field { bit: 32 + 7, operand: first });
    } else if source >= 0x100 {
        fields.push(Field { bit: 7, operand: first });
    }
    if kind != Encoding::Vop1 {
        fields.push(Field { bit: 16, operand: second });
    }
    if kind != Encoding::Vopc {
        fields.push(Field { bit: 24, operand: Place::First(0) });
    }
    let all = u64::from(words[0]) | u64::from(words[1]) << 32;
    fields.retain(|field| all >> field.bit & 1 == 1);
    if kind == Encoding::Other { Vec::new() } else { fields }
}

/// Appends `.h` to the register of the operand at `place`.
fn mark(text: &str, place: Place) -> Option<String> {
    let (mnemonic, rest) = text.split_once(char::is_whitespace)?;
    let mut operands: Vec<String> = rest.split(", ").map(str::to_owned).collect();
    let index = match place {
        Place::First(index) => index,
        Place::Last(index) => operands.len().checked_sub(index + 1)?,
    };
    let operand = operands.get_mut(index)?;
    let start = operand.find('v')?;
    let digits = operand[start + 1..].find(|c: char| !c.is_ascii_digit());
    let end = digits.map_or(operand.len(), |digits| start + 1 + digits);
    operand.insert_str(end, ".h");
    Some(format!("{mnemonic} {}", operands.join(", ")))
}

/// Replaces the opcode of an instruction in [`BY_HALVES`] by that of `v_not_b16`. Returns the changed dword and the
/// name of the original instruction. Returns `None` for any other instruction.
fn remodelled(word: u32) -> Option<(u32, &'static str)> {
    let name = |opcode: u32| BY_HALVES.iter().find(|known| known.0 == opcode).map(|known| known.1);
    if encoding(word) == Encoding::Vop1 {
        let name = name(word >> 9 & 0xff)?;
        return Some((word & !(0xff << 9) | MODEL.0 << 9, name));
    }
    if word >> 26 == 0x35 {
        let name = name((word >> 16 & 0x3ff).checked_sub(VOP1_IN_VOP3)?)?;
        return Some((word & !(0x3ff << 16) | (VOP1_IN_VOP3 + MODEL.0) << 16, name));
    }
    None
}

/// Disassembles an instruction that the stack's disassembler rejects. To do so, changes the instruction to one that the
/// disassembler knows, and then corrects the text.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub(crate) fn name(arch: Arch, address: u64, bytes: &[u8]) -> Named {
    let facts = arch.facts();
    let vop3 = if facts.microcode.is_gfx9() { 0x34 } else { 0x35 };
    let by_stack = |bytes: &[u8]| disassemble(arch, address, bytes);
    let with_zeros = |bytes: &[u8]| without_sources(vop3, bytes, &by_stack);
    if !facts.selects_halves {
        return with_zeros(bytes);
    }
    name_by(bytes, &|bytes| match by_stack(bytes)? {
        None => with_zeros(bytes),
        named => Ok(named),
    })
}

/// Disassembles a VOP3 or VOP3P instruction whose third source operand, and possibly the second one too, is unused and
/// contains the constant 0. `vop3` is the value of the highest six bits of a VOP3 instruction. Returns `None` for any
/// other instruction.
pub fn without_sources(vop3: u32, bytes: &[u8], disassemble: &dyn Fn(&[u8]) -> Named) -> Named {
    const SOURCE: u64 = 0x1ff;
    const ZERO: u64 = 0x80;
    let Some(Ok(dwords)) = bytes.get(..8).map(<[u8; 8]>::try_from) else { return Ok(None) };
    let all = u64::from_le_bytes(dwords);
    // On GFX9, VOP3P starts with the same bits as VOP3.
    let packed = vop3 == 0x35 && all as u32 >> 23 == 0x198;
    if all as u32 >> 26 != vop3 && !packed {
        return Ok(None);
    }
    let named = |all: u64| {
        let mut changed = bytes.to_vec();
        changed[..8].copy_from_slice(&all.to_le_bytes());
        disassemble(&changed)
    };
    let (third, second) = (32 + 18, 32 + 9);
    for lacking in [&[third][..], &[third, second]] {
        if lacking.iter().any(|bit| all >> bit & SOURCE != ZERO) {
            break;
        }
        let bare = lacking.iter().fold(all, |all, bit| all & !(SOURCE << bit));
        let Some(text) = named(bare)? else { continue };
        // The field is unused if the disassembler rejects another register number in it, or prints the same text.
        let mut with_register = lacking.iter().map(|bit| named(bare | 1 << bit));
        if with_register.all(|other| other.is_ok_and(|other| other.is_none_or(|it| it == text))) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Disassembles an instruction that uses upper halves of registers. The function `disassemble` need not support upper
/// halves.
pub fn name_by(bytes: &[u8], disassemble: &dyn Fn(&[u8]) -> Named) -> Named {
    let Some(Ok(dwords)) = bytes.get(..8).map(<[u8; 8]>::try_from) else { return Ok(None) };
    let all = u64::from_le_bytes(dwords);
    let with = |all: u64| {
        let mut changed = bytes.to_vec();
        changed[..8].copy_from_slice(&all.to_le_bytes());
        changed
    };
    let (all, name) = match remodelled(all as u32) {
        Some((word, name)) => (all >> 32 << 32 | u64::from(word), Some(name)),
        None => (all, None),
    };
    let renamed = |text: String| match name {
        Some(name) => text.replacen(MODEL.1, name, 1),
        None => text,
    };
    let fields = upper([all as u32, (all >> 32) as u32]);
    // The bit may also belong to the number of a 32-bit operand above v127. Therefore the bits of as few fields as
    // possible are cleared.
    let mut sets: Vec<u32> = (0..1 << fields.len()).collect();
    sets.sort_by_key(|set: &u32| set.count_ones());
    for set in sets {
        let chosen = || (0..).zip(&fields).filter(|(index, _)| set >> index & 1 == 1);
        let bare = chosen().fold(all, |all, (_, field)| all & !(1 << field.bit));
        let Some((text, size)) = disassemble(&with(bare))? else { continue };
        let marked = chosen().try_fold(text, |text, (_, field)| mark(&text, field.operand));
        return Ok(marked.map(|text| (renamed(text), size)));
    }
    Ok(None)
}
