//! Finds the bits of an instruction that the disassembler's text omits.
//!
//! The interpreter executes the text. Therefore each set bit must affect the text: if the bit is cleared, the
//! disassembler must print another text or reject the instruction. A bit that does not affect the text is handled in
//! one of three ways. The interpreter knows the bit and reads it from the encoding (`op_sel` of VOP3, the pattern of
//! `ds_swizzle_b32`). Or hardware is known to ignore the bit. Otherwise the interpreter rejects the instruction.
//!
//! Source for the encodings: "Microcode Formats" of AMD's guides to the ISAs of Vega, CDNA 1 to 3 and RDNA 1 to 4.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write,
    ops::Range,
    sync::{LazyLock, Mutex, PoisonError},
};

use device::Arch;

use crate::{
    disassembler::MAX_INSTRUCTION_BYTES,
    ops,
    text::{Base, Site, Text},
    unnamed::Named,
};

/// Number of a bit in an instruction: 0 is the lowest bit of the first dword.
pub(crate) type Bit = usize;

/// For each bit of an instruction, true if the bit is known to affect the text. All instructions with the same
/// [`shape`] and [`mode`] share these values.
type VisibleBits = [bool; 8 * MAX_INSTRUCTION_BYTES];

/// Cached values of [`VisibleBits`] by architecture, [`shape`] and [`mode`]. The disassembler's output does not change
/// within a process.
type ByShape = HashMap<(Arch, String, u32), VisibleBits>;
static SHOWN: LazyLock<Mutex<ByShape>> = LazyLock::new(Mutex::default);

/// Bits of the first dword that select the encoding. They always affect the text.
const ENCODING_BITS: Range<Bit> = 26..32;
/// Lowest bits of the three source operand fields in the second dword of VOP3 and VOP3P.
const SOURCES: [Bit; 3] = [32, 32 + 9, 32 + 18];
/// Number that encodes the constant 0 in a source operand field. Since release 22, LLVM writes this number to unused
/// fields.
const ZERO: u64 = 0x80;
const EXEC_LO: u32 = 0x7e;
/// `op_sel` of VOP3: one bit for each source operand, then one for the result.
const OP_SEL: [Bit; 4] = [11, 12, 13, 14];
/// Offset field of DS, which contains the pattern of `ds_swizzle_b32`. LLVM prints `1` for a bit of the `or` mask,
/// whatever the `and` mask contains, so several patterns have the same text.
const PATTERN: Range<Bit> = 0..16;
const HALVES: [&str; 4] = ["f16", "i16", "u16", "b16"];
/// `op_sel_hi` of VOP3P, from the first source operand to the third. The text omits the field if all its bits are set.
const OP_SEL_HI: [Bit; 3] = [32 + 27, 32 + 28, 14];
/// Prefixes of VOP3P operations whose source operands are not pairs of 16-bit halves.
const NO_PAIRS: [&str; 6] = ["v_dot4", "v_dot8", "v_wmma_", "v_swmmac_", "v_mfma_", "v_smfmac_"];

/// Encoding of an instruction of two dwords or more.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Vop3,
    Vop3p,
    Other,
}

fn encoding(arch: Arch, word: u32) -> Encoding {
    let gfx9 = arch.facts().microcode.is_gfx9();
    match word >> 23 {
        // The fields of matrix instructions differ from those of VOP3P.
        0x1a7 if gfx9 && word >> 16 & 0x7f < 0x40 => Encoding::Vop3p,
        0x1a0..0x1a7 if gfx9 => Encoding::Vop3,
        0x198 if !gfx9 => Encoding::Vop3p,
        0x1a8..0x1b0 if !gfx9 => Encoding::Vop3,
        _ => Encoding::Other,
    }
}

/// Adds to `text` those bits of the instruction that the disassembler omits but the interpreter knows, for example
/// `op_sel`. Returns the completed text, and the numbers of the bits that it still omits although hardware may read
/// them. `name` disassembles other bytes at the same address.
///
/// # Errors
/// Returns the reason why no disassembler for the architecture is available.
pub fn completed(
    site: &Site,
    bytes: &[u8],
    text: String,
    name: &dyn Fn(&[u8]) -> Named,
) -> Result<(String, Vec<Bit>), String> {
    let mnemonic = text.split_whitespace().next().unwrap_or_default();
    if ops::has_no_effect(mnemonic) {
        return Ok((text, Vec::new()));
    }
    let mut lost = hidden(site, bytes, &text, name)?;
    lost.retain(|bit| !is_unread(site, bytes, &text, *bit));
    if mnemonic == "ds_swizzle_b32" && lost.iter().any(|bit| PATTERN.contains(bit)) {
        lost.retain(|bit| !PATTERN.contains(bit));
        let (registers, offset) = text.split_once(" offset:").unwrap_or((&text, ""));
        let behind = offset.split_once(')').map_or("", |(_, behind)| behind);
        let pattern = word(bytes, 0) & 0xffff;
        let text = format!("{registers} offset:{pattern:#x}{behind}");
        return Ok((text, lost.into_iter().collect()));
    }
    match op_sel(site, bytes, &text, &lost) {
        Some((bits, taken)) => {
            lost.retain(|bit| !taken.contains(bit));
            Ok((format!("{text} op_sel:[{}]", bits.join(",")), lost.into_iter().collect()))
        }
        None => Ok((text, lost.into_iter().collect())),
    }
}

/// Returns the numbers of the bits that do not affect the text: if such a bit is inverted, the disassembler prints the
/// same text. Only set bits are tested, and in VOP3P also cleared bits of `op_sel_hi`.
fn hidden(
    site: &Site,
    bytes: &[u8],
    text: &str,
    name: &dyn Fn(&[u8]) -> Named,
) -> Result<BTreeSet<Bit>, String> {
    let size = (site.size as usize).min(bytes.len()).min(MAX_INSTRUCTION_BYTES);
    let key = (site.arch, shape(text), mode(site.arch, word(bytes, 0)));
    let lock = || SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut shown = lock().get(&key).copied().unwrap_or([false; 8 * MAX_INSTRUCTION_BYTES]);
    let packed = encoding(site.arch, word(bytes, 0)) == Encoding::Vop3p;
    let (mut hidden, mut learned) = (BTreeSet::new(), false);
    for bit in 0..8 * size {
        if shown[bit]
            || ENCODING_BITS.contains(&bit)
            || !(is_set(bytes, bit) || packed && OP_SEL_HI.contains(&bit))
        {
            continue;
        }
        let mut other = bytes.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        match name(&other)? {
            Some((same, length)) if same == text && length == site.size => {
                hidden.insert(bit);
            }
            _ => (shown[bit], learned) = (true, true),
        }
    }
    if learned {
        lock()
            .entry(key)
            .and_modify(|known| {
                known.iter_mut().zip(shown).for_each(|(known, shown)| *known |= shown);
            })
            .or_insert(shown);
    }
    Ok(hidden)
}

/// Returns the bits of the first dword that determine which other bits the disassembler reads. In scalar memory
/// instructions on GFX9, these bits determine whether the offset is a number and whether a register is added. In VOP3,
/// they are `abs` and `op_sel`.
fn mode(arch: Arch, first: u32) -> u32 {
    match encoding(arch, first) {
        Encoding::Vop3 => first & 0x7f << 8,
        _ if first >> 26 == 0x30 => first & (1 << 14 | 1 << 17),
        _ => 0,
    }
}

/// Returns the text without its numbers. In instructions with the same shape, the same bits affect the text.
fn shape(text: &str) -> String {
    let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut shape = format!("{mnemonic} ");
    let mut letters = rest.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            shape.push(letter);
        } else if letter == '0' && letters.next_if_eq(&'x').is_some() {
            shape.push('x');
            while letters.next_if(char::is_ascii_hexdigit).is_some() {}
        }
    }
    shape
}

/// Returns the fields of a memory instruction that the operation may leave unused. Most of them are register fields.
/// For example, a load has no data register, and a buffer access without an index has no address register. If the text
/// names no register for such a field, the operation does not use the field.
fn unused_registers(arch: Arch, first: u32) -> &'static [Range<Bit>] {
    const ADDRESS: &[Range<Bit>] = std::slice::from_ref(&(32..40));
    let gfx12 = arch.facts().microcode.is_gfx12();
    match first >> 26 {
        0x36 => &[40..48, 48..56, 56..64],
        0x37 if !gfx12 => &[40..48, 56..64],
        0x38 | 0x3a if !gfx12 => ADDRESS,
        // LLVM sets the format field in all buffer instructions. Hardware reads it only in typed ones.
        0x31 if gfx12 => &[55..62, 64..72],
        0x3b if gfx12 => &[32..40, 55..63, 64..72],
        _ => &[],
    }
}

/// Returns true if hardware is known to ignore a bit that does not affect the text.
fn is_unread(site: &Site, bytes: &[u8], text: &str, bit: Bit) -> bool {
    let encoding = encoding(site.arch, word(bytes, 0));
    if unused_registers(site.arch, word(bytes, 0)).iter().any(|field| field.contains(&bit)) {
        return true;
    }
    // These instructions have the encoding of packed operations, but their source operand is a single register.
    if text.starts_with("v_accvgpr_") && OP_SEL_HI.contains(&bit) {
        return true;
    }
    // Since RDNA, `v_cmpx` writes only EXEC. LLVM stores the number of EXEC in the result field, but does not print
    // EXEC.
    let result = word(bytes, 0) & 0xff;
    if encoding == Encoding::Vop3
        && !site.arch.facts().cmpx_writes_scalar
        && text.starts_with("v_cmpx_")
        && result == EXEC_LO
        && bit < 8
    {
        return true;
    }
    // Returns true if `bit` belongs to the source operand field that starts at bit `first`, and the instruction does
    // not have this operand.
    let absent = |first: Bit| {
        let all = u64::from(word(bytes, 0)) | u64::from(word(bytes, 4)) << 32;
        (first..first + 9).contains(&bit) && all >> first & 0x1ff == ZERO
    };
    if encoding != Encoding::Other && SOURCES.into_iter().any(absent) {
        return true;
    }
    // These bits have no meaning if the source operand is not a pair of halves or does not exist.
    if encoding == Encoding::Vop3p && OP_SEL_HI.contains(&bit) {
        let third = bit == OP_SEL_HI[2];
        let pairs = Text::parse(text, site).map_or(0, |text| text.operands.len());
        return NO_PAIRS.iter().any(|start| text.starts_with(start)) || third && pairs == 3;
    }
    // A 16-bit operand uses only the lower half of the constant that follows the instruction.
    let last = site.size as usize - 4;
    let behind_operands = match encoding {
        Encoding::Other => last == 4 && word(bytes, 0) >> 30 != 3,
        Encoding::Vop3 | Encoding::Vop3p => last == 8,
    };
    behind_operands
        && bit >= 8 * last + 16
        && text.split([' ', ',']).any(|part| part == format!("{:#x}", word(bytes, last) & 0xffff))
}

/// Returns the values of the `op_sel` bits for the source operands and the result, as text, and the numbers of these
/// bits. Returns `None` if the text has not lost any bit of `op_sel`.
fn op_sel(
    site: &Site,
    bytes: &[u8],
    text: &str,
    lost: &BTreeSet<Bit>,
) -> Option<(Vec<&'static str>, Vec<Bit>)> {
    if encoding(site.arch, word(bytes, 0)) != Encoding::Vop3
        || !site.arch.facts().selects_halves
        || !OP_SEL.iter().any(|bit| lost.contains(bit))
    {
        return None;
    }
    let parsed = Text::parse(text, site).ok()?;
    // Operations on whole registers ignore `op_sel`.
    let has_halves = HALVES.iter().any(|of| parsed.mnemonic.contains(of));
    if parsed.has("op_sel") || !has_halves {
        return None;
    }
    let compares = parsed.mnemonic.starts_with("v_cmp");
    let gives = matches!(parsed.operands.first()?.base, Base::Vector { .. }) && !compares;
    // The third source operand of `v_cndmask` is a lane mask without halves, so its bit remains lost.
    let masks = parsed.mnemonic.starts_with("v_cndmask_");
    let sources = if compares { 2 } else { parsed.operands.len() - usize::from(gives) };
    let fields = OP_SEL[..sources.min(3)].iter().chain(gives.then_some(&OP_SEL[3])).copied();
    let is_taken = |bit: &Bit| !(masks && *bit == OP_SEL[2]);
    let digit = |bit| if is_taken(&bit) && is_set(bytes, bit) { "1" } else { "0" };
    Some((fields.clone().map(digit).collect(), fields.filter(is_taken).collect()))
}

/// Returns the error message for an instruction that the interpreter rejects because the disassembler's text omits the
/// bits `lost`.
pub fn refusal(text: &str, bytes: &[u8], size: u64, lost: &[Bit]) -> String {
    let mut told = format!("{text}, encoded as");
    for at in (0..size as usize).step_by(4) {
        // Writing to a String cannot fail.
        let _ = write!(told, " {:08x}", word(bytes, at));
    }
    let bits: Vec<String> = lost.iter().map(Bit::to_string).collect();
    let noun = if bits.len() == 1 { "bit" } else { "bits" };
    let _ = write!(told, ", of which the disassembler leaves out {noun} {}", bits.join(", "));
    told
}

fn is_set(bytes: &[u8], bit: Bit) -> bool {
    bytes[bit / 8] >> (bit % 8) & 1 == 1
}

/// Returns the dword at a byte offset; 0 past the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| word.try_into().map_or(0, u32::from_le_bytes))
}
