//! Works around bugs of LLVM's disassembler: instruction words that it prints wrongly, or that make it crash. The test
//! `bits` of the crate isa-verify found these bugs.

use std::borrow::Cow;

use device::Arch;

/// VOP3 opcodes of `v_cvt_pk_fp8_f32` and `v_cvt_pk_bf8_f32` on GFX12, whose `quad_perm` LLVM 22 misprints: `[1,0,3,0]`
/// instead of `[1,0,3,2]`.
const MISPRINTED: [u32; 2] = [0x369, 0x36a];
/// Value of a source operand field that means: the third dword contains the first source operand and the DPP16 control.
const DPP16: u32 = 0xfa;
const SDWA: u32 = 0xf9;
const LITERAL: u32 = 0xff;
/// VOP3 opcode of `v_readlane_b32` on GFX9. The result of the instruction is a scalar register.
const READLANE: u32 = 0x289;
const VECTOR: u32 = 0x100;
/// Encoding of `quad_perm:[0,1,2,3]`, which LLVM prints correctly.
const IN_ORDER: u8 = 0b11_10_01_00;

/// Returns true if LLVM crashes when it disassembles these bytes. LLVM crashes at reserved values, at literals in
/// operands that cannot be literals, and at a trailing 16-bit constant that is 0xff.
pub fn kills(arch: Arch, bytes: &[u8]) -> bool {
    let Some([first, second]) = dwords(bytes) else { return false };
    let facts = arch.facts();
    let gfx9 = facts.microcode.is_gfx9();
    let is_literal = |operand: u32, at: u32| operand >> at & 0x1ff == LITERAL;
    let opcode = first >> 16 & 0x3ff;
    match first >> 26 {
        // SDWA selects a byte or a half of each operand, and of the result. The result of a comparison is a lane mask,
        // of which no part is selected.
        0..0x20 if facts.has_sdwa && first & 0x1ff == SDWA => {
            let part = |at: u32| second >> at & 7 == 7;
            let result = first >> 25 != 0x3e && (part(8) || second >> 11 & 3 == 3);
            result || part(16) || part(24)
        }
        // `v_madmk_f16`, `v_madak_f16`, `v_fmamk_f16` and `v_fmaak_f16`.
        0x12 if gfx9 => second == LITERAL,
        0x1b | 0x1c if !gfx9 => matches!(first >> 25, 0x37 | 0x38) && second == LITERAL,
        // `s_barrier_signal` and similar instructions.
        0x2f => {
            let opcode = first >> 8 & 0xff;
            let scalar = facts.microcode.is_gfx12() && first >> 23 == 0x17d;
            scalar && (0x4e..=0x52).contains(&opcode) && first & 0xff == LITERAL
        }
        // VOP3, with and without a scalar result.
        0x34 if gfx9 => {
            [0, 9, 18].iter().any(|at| is_literal(second, *at))
                || (opcode < 0x100 || opcode == READLANE) && first & 0xff == LITERAL
                // Scaled conversions of 32 values from scalar registers.
                || facts.has_gfx950_instructions
                    && matches!(opcode, 0x256 | 0x257 | 0x260..=0x263)
                    && second & 0x1ff < VECTOR
        }
        // Buffer instructions.
        0x38 | 0x3a if gfx9 => second >> 24 == LITERAL,
        _ => false,
    }
}

/// Returns the bytes that the disassembler must receive in place of `bytes`, and a function that corrects the text that
/// it prints for them.
pub fn instead(arch: Arch, bytes: &[u8]) -> (Cow<'_, [u8]>, impl Fn(&str) -> String + use<>) {
    let control = misprinted(arch, bytes);
    let shown = match control {
        Some(_) => {
            let mut shown = bytes.to_vec();
            shown[9] = IN_ORDER;
            Cow::Owned(shown)
        }
        None => Cow::Borrowed(bytes),
    };
    let right = move |text: &str| match control {
        Some(control) => {
            let [a, b, c, d] = [0, 2, 4, 6].map(|bit| control >> bit & 3);
            text.replace("quad_perm:[0,1,2,3]", &format!("quad_perm:[{a},{b},{c},{d}]"))
        }
        None => text.to_owned(),
    };
    (shown, right)
}

/// Corrects the DPP8 lanes in the text of an instruction, using the instruction's last dword. If a VOP1 instruction has
/// a float source and its lanes from the fourth on are 0, LLVM prints `dpp8:[0,0,0,0,0,0,0,0]` in place of
/// `dpp8:[0,0,2,0,0,0,0,0]`.
pub fn with_lanes(text: String, bytes: &[u8], size: u64) -> String {
    const NAME: &str = "dpp8:[";
    let last = (size as usize).checked_sub(4).and_then(|at| bytes.get(at..at + 4));
    let Some(last) = last.and_then(|dword| dword.try_into().ok()) else { return text };
    let Some(start) = text.find(NAME).map(|at| at + NAME.len()) else { return text };
    let Some(end) = text[start..].find(']').map(|length| start + length) else { return text };
    let lanes = u32::from_le_bytes(last);
    let lanes: Vec<String> = (0..8).map(|at| (lanes >> (8 + 3 * at) & 7).to_string()).collect();
    format!("{}{}{}", &text[..start], lanes.join(","), &text[end..])
}

/// Parts of the names of operations with a 32-bit constant, each with the position of the constant among the operands.
const WITH_CONSTANT: [(&str, usize); 4] =
    [("madmk_", 2), ("fmamk_", 2), ("madak_", 3), ("fmaak_", 3)];
/// Constants that LLVM mistakes for source operand numbers. For example, it prints 0x80 as 0.
const LIKE_OPERANDS: std::ops::RangeInclusive<u32> = 0x80..=0xff;

/// Corrects the constant in the text of an instruction or of a dual-issue pair, using the last dword. LLVM prints
/// `v_madak_f32 v0, v1, v2, 0x0` if the constant is 0x80.
pub fn with_constant(text: String, bytes: &[u8], size: u64) -> String {
    let last = (size as usize).checked_sub(4).and_then(|at| bytes.get(at..at + 4));
    let Some(last) = last.and_then(|dword| dword.try_into().ok()) else { return text };
    let constant = u32::from_le_bytes(last);
    let place = |one: &str| {
        let name = one.split_whitespace().next().unwrap_or_default();
        WITH_CONSTANT.iter().find(|(part, _)| name.contains(part)).map(|(_, place)| *place)
    };
    if !LIKE_OPERANDS.contains(&constant) || !text.split(" :: ").any(|one| place(one).is_some()) {
        return text;
    }
    let right = |one: &str| {
        let mut operands: Vec<String> = one.split(", ").map(str::to_owned).collect();
        if let Some(operand) = place(one).and_then(|place| operands.get_mut(place)) {
            *operand = format!("{constant:#x}");
        }
        operands.join(", ")
    };
    text.split(" :: ").map(right).collect::<Vec<_>>().join(" :: ")
}

fn misprinted(arch: Arch, bytes: &[u8]) -> Option<u8> {
    let [first, second] = dwords(bytes)?;
    let concerned = arch.facts().microcode.is_gfx12()
        && first >> 26 == 0x35
        && MISPRINTED.contains(&(first >> 16 & 0x3ff))
        && second & 0x1ff == DPP16;
    // Values of `DPP_CTRL` from 0x100 on are not a `quad_perm`.
    let control = bytes.get(9..11).filter(|control| control[1] & 1 == 0)?;
    concerned.then(|| control[0])
}

fn dwords(bytes: &[u8]) -> Option<[u32; 2]> {
    let (dwords, _) = bytes.as_chunks::<4>();
    Some([u32::from_le_bytes(*dwords.first()?), u32::from_le_bytes(*dwords.get(1)?)])
}
