//! Tests scalar instructions in the encodings SOP1, SOP2, SOPC and SOPK. Source: "Microcode Formats" of the ISA guides.

use std::{collections::HashMap, rc::Rc};

use super::{
    claim::Claim,
    encodings::{FIRST, LITERAL},
    relations::constants,
};
use crate::models::ValueType;

/// Parts of the names of instructions that are not tested, because they branch, wait, or change how later instructions
/// are executed.
const APART: [&str; 14] = [
    "setpc", "swappc", "rfe", "call", "cbranch", "barrier", "sendmsg", "sleep", "gpr_idx",
    "movrel", "setreg", "set_vgpr", "alloc", "getpc",
];
const SOURCES: [u32; 2] = [FIRST + 2, FIRST + 4];

/// Returns the encoded instructions with every opcode of SOP1, SOP2 and SOPC. The result is s8, and the source operands
/// are s10 and s12.
pub(super) fn words() -> impl Iterator<Item = u32> {
    let [a, b] = SOURCES;
    let sop1 = (0..256).map(move |opcode| 0x17d << 23 | FIRST << 16 | opcode << 8 | a);
    // Larger opcodes of SOP2 belong to other encodings.
    let sop2 = (0..96).map(move |opcode| 2 << 30 | opcode << 23 | FIRST << 16 | b << 8 | a);
    let sopc = (0..128).map(move |opcode| 0x17e << 23 | opcode << 16 | b << 8 | a);
    sop1.chain(sop2).chain(sopc)
}

pub(super) fn of(plain: u32, text: &str) -> Vec<Claim> {
    let name = text.split_whitespace().next().unwrap_or_default();
    if APART.iter().any(|part| name.contains(part)) {
        return Vec::new();
    }
    let mut claims = Vec::new();
    let is_sop1 = plain >> 23 == 0x17d;
    let is_sopc = plain >> 23 == 0x17e;
    let sources = if is_sop1 { &SOURCES[..1] } else { &SOURCES };
    for (source, register) in sources.iter().enumerate() {
        let row = (register - FIRST) as usize;
        let with = |operand: u32| plain & !(0xff << (8 * source)) | operand << (8 * source);
        let of = type_of(name, source).into_iter();
        for (operand, literal, bits) in of.flat_map(|of| constants(of, name.ends_with("i64"))) {
            let mut words = vec![with(operand)];
            words.extend((operand == LITERAL).then_some(literal));
            for condition in [false, true] {
                let mut claim = Claim::new("a scalar's constant", words.clone(), vec![plain]);
                claim.condition = condition;
                claim.set_before(move |state| {
                    (state.scalars[row], state.scalars[row + 1]) =
                        (bits as u32, (bits >> 32) as u32);
                });
                claims.push(claim);
            }
        }
        if is_sopc {
            continue;
        }
        let words = plain & !(0x7f << 16) | register << 16;
        let mut claim =
            Claim::new("a scalar result register that is also a source", vec![words], vec![plain]);
        let copy = move |scalars: &mut [u32]| scalars.copy_within(row..row + 2, 0);
        claim.set_before(move |state| copy(&mut state.scalars));
        claim.set_after(move |given, this, _| {
            copy(&mut this.scalars);
            this.scalars[row..row + 2].copy_from_slice(&given.scalars[row..row + 2]);
        });
        claims.push(claim);
    }
    claims
}

pub(super) type Known = HashMap<String, u32>;

const SOPK: u32 = 0xb << 28;
const IMMEDIATES: [u16; 8] = [0, 1, 0x1234, 0x7fff, 0x8000, 0x9abc, 0xfff0, 0xffff];

/// Returns the encoded instructions with every opcode of SOPK. They read s8, write it, or do both.
pub(super) fn with_immediates() -> impl Iterator<Item = u32> {
    (0..32).map(|opcode| SOPK | opcode << 23 | FIRST << 16)
}

/// Returns claims that the 16-bit constant in an instruction has the same effect as the register s10 that contains the
/// constant, extended to 32 bits.
pub(super) fn of_immediates(word: u32, text: &str, known: &Known) -> Vec<Claim> {
    let name = text.split_whitespace().next().unwrap_or_default();
    let Some(like) = without_k(name).and_then(|name| known.get(&name)) else { return Vec::new() };
    // The first of the two operands is s8. s_mov_b32 and s_cmov_b32 have only one operand.
    let like = match like >> 23 == 0x17d {
        true => *like,
        false => like & !0xffff | SOURCES[0] << 8 | FIRST,
    };
    let row = (SOURCES[0] - FIRST) as usize;
    let mut claims = Vec::new();
    for immediate in IMMEDIATES {
        let number = match name.ends_with("u32") {
            true => u32::from(immediate),
            false => i32::from(immediate as i16) as u32,
        };
        // Values of s8 with which the instruction runs: the constant, its neighbours, a number that differs from the
        // constant only above bit 15, and numbers for which a sum overflows.
        let near = [number, number.wrapping_sub(1), number.wrapping_add(1), number ^ 1 << 20];
        for (there, condition) in near
            .into_iter()
            .chain([u32::from(immediate), i32::MAX as u32, i32::MIN as u32])
            .flat_map(|there| [(there, false), (there, true)])
        {
            let words = vec![word | u32::from(immediate)];
            let mut claim = Claim::new("a constant of 16 bits", words, vec![like]);
            claim.condition = condition;
            claim.given = Rc::new(move |state| state.scalars[0] = there);
            claim.set_before(move |state| state.scalars[row] = number);
            claims.push(claim);
        }
    }
    claims
}

/// Returns the name of the instruction that does the same as `name`, but reads a register in place of the constant;
/// `None` if no such instruction is known.
fn without_k(name: &str) -> Option<String> {
    match name {
        "s_movk_i32" => Some("s_mov_b32".to_owned()),
        "s_cmovk_i32" => Some("s_cmov_b32".to_owned()),
        "s_addk_i32" | "s_addk_co_i32" | "s_mulk_i32" => Some(name.replace("k_", "_")),
        _ => name.starts_with("s_cmpk_").then(|| name.replace("s_cmpk_", "s_cmp_")),
    }
}

/// Returns the type of a source operand, which the end of the instruction's name shows; `None` if the name does not
/// show it.
fn type_of(name: &str, source: usize) -> Option<ValueType> {
    // This operand is a count, a shift count, or the number of a bit.
    let counts = ["s_lshl_b64", "s_lshr_b64", "s_ashr_i64", "s_bfe_", "s_bitcmp"];
    if source == 1 && counts.iter().any(|start| name.starts_with(start))
        || ["s_bfm_b64", "s_bitset", "s_bitreplicate"].iter().any(|start| name.starts_with(start))
    {
        return Some(ValueType::U32);
    }
    // No guide specifies the upper half of a float constant in this instruction.
    if name == "s_cvt_hi_f32_f16" {
        return None;
    }
    let last = name.rsplit('_').find(|part| part.len() == 3 && part[1..].parse::<u32>().is_ok())?;
    Some(match last {
        "f16" => ValueType::F16,
        "f32" => ValueType::F32,
        "b64" | "i64" | "u64" => ValueType::U64,
        "b32" | "i32" | "u32" => ValueType::U32,
        // These operands are halves of a 32-bit register.
        "b16" | "i16" => ValueType::U32,
        _ => return None,
    })
}
