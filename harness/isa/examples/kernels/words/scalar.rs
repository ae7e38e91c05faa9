//! Scalar instructions: SOP1, SOP2 and SOPC. Source: "Microcode Formats" of the ISA guides.

use super::{claim::Claim, encodings::LITERAL, relations::constants, slot::FIRST};
use crate::models::Of;

/// They jump, wait, or change how the instructions behind them are executed.
const APART: [&str; 14] = [
    "setpc", "swappc", "rfe", "call", "cbranch", "barrier", "sendmsg", "sleep", "gpr_idx",
    "movrel", "setreg", "set_vgpr", "alloc", "getpc",
];
/// The registers of the sources.
const SOURCES: [u32; 2] = [FIRST + 2, FIRST + 4];

/// All opcodes: s8 is the result, s10 and s12 are the sources.
pub(super) fn words() -> impl Iterator<Item = u32> {
    let [a, b] = SOURCES;
    let sop1 = (0..256).map(move |opcode| 0x17d << 23 | FIRST << 16 | opcode << 8 | a);
    // What is left over stands for the others.
    let sop2 = (0..96).map(move |opcode| 2 << 30 | opcode << 23 | FIRST << 16 | b << 8 | a);
    let sopc = (0..128).map(move |opcode| 0x17e << 23 | opcode << 16 | b << 8 | a);
    sop1.chain(sop2).chain(sopc)
}

/// All claims about an opcode.
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
        let mut claim = Claim::new("a scalar result over a source", vec![words], vec![plain]);
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

/// What a source is, by the types at the end of the name.
fn type_of(name: &str, source: usize) -> Option<Of> {
    // How many bits, how far to shift, or which bit.
    let counts = ["s_lshl_b64", "s_lshr_b64", "s_ashr_i64", "s_bfe_", "s_bitcmp"];
    if source == 1 && counts.iter().any(|start| name.starts_with(start))
        || ["s_bfm_b64", "s_bitset", "s_bitreplicate"].iter().any(|start| name.starts_with(start))
    {
        return Some(Of::U32);
    }
    // Of what the upper half of a float constant is no guide says.
    if name == "s_cvt_hi_f32_f16" {
        return None;
    }
    let last = name.rsplit('_').find(|part| part.len() == 3 && part[1..].parse::<u32>().is_ok())?;
    Some(match last {
        "f16" => Of::F16,
        "f32" => Of::F32,
        "b64" | "i64" | "u64" => Of::U64,
        "b32" | "i32" | "u32" => Of::U32,
        // Halves of a register of 32 bits.
        "b16" | "i16" => Of::U32,
        _ => return None,
    })
}
