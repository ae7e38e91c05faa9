//! VOPD: two instructions of VOP1 and VOP2 in one. Source: "VOPD" of the RDNA 3 and 4 ISA guides.

use std::collections::HashMap;

use super::{
    claim::Claim,
    encodings::{Encoding, VECTOR},
    slot::FIRST,
};

const X_OPCODES: u32 = 16;
const Y_OPCODES: u32 = 32;
/// Behind the words of those that have a constant of 32 bits.
const LITERAL: u32 = 0xc123_4567;

/// The plain words of an instruction, by the name without how long it is.
pub(super) type Known = HashMap<String, (Encoding, Vec<u32>)>;

/// All pairs of opcodes. X has v10 and v12 for sources and writes v8; Y has v8, as it was before, and v13, and writes v9.
pub(super) fn words() -> impl Iterator<Item = Vec<u32>> {
    let (x, y) = ([FIRST, FIRST + 2, FIRST + 4], [FIRST + 1, FIRST, FIRST + 5]);
    let pair = move |(of_x, of_y): (u32, u32)| {
        vec![
            0x32 << 26 | of_x << 22 | of_y << 17 | x[2] << 9 | (VECTOR + x[1]),
            x[0] << 24 | y[0] >> 1 << 17 | y[2] << 9 | (VECTOR + y[1]),
        ]
    };
    let opcodes = (0..X_OPCODES).flat_map(|of_x| (0..Y_OPCODES).map(move |of_y| (of_x, of_y)));
    opcodes.flat_map(move |opcodes| {
        let words = pair(opcodes);
        [words.clone(), [words, vec![LITERAL]].concat()]
    })
}

/// The two do what they do one behind the other: Y first, whose source X overwrites.
pub(super) fn of(words: Vec<u32>, text: &str, known: &Known) -> Option<Claim> {
    let (x, y) = text.split_once(" :: ")?;
    let alone = |half: &str, registers: [u32; 3]| {
        let name = half.split_whitespace().next()?.replace("v_dual_", "v_");
        let (encoding, plain) = known.get(&name)?;
        let mut plain = encoding.with_result(plain, registers[0])?;
        for (source, register) in registers[1..].iter().enumerate() {
            plain = encoding.with_source(&plain, source, VECTOR + register).unwrap_or(plain);
        }
        plain.truncate(1);
        plain.extend(half.contains("0xc1234567").then_some(LITERAL));
        Some(plain)
    };
    let first = alone(y, [FIRST + 1, FIRST, FIRST + 5])?;
    let second = alone(x, [FIRST, FIRST + 2, FIRST + 4])?;
    let mut claim = Claim::new("two in one", words, [first, second].concat());
    (claim.without, claim.in_turn) = (None, true);
    Some(claim)
}
