//! Tests VOPD, which combines two instructions of VOP1 and VOP2. Source: "VOPD" of the RDNA 3 and 4 ISA guides.

use std::collections::HashMap;

use super::{
    claim::Claim,
    encodings::FIRST,
    encodings::{Encoding, MANDATORY, VECTOR},
};

const X_OPCODES: u32 = 16;
const Y_OPCODES: u32 = 32;
/// Encoded plain forms of instructions, by the name without the suffix of the encoding.
pub(super) type Known = HashMap<String, (Encoding, Vec<u32>)>;

/// Returns the encoded pairs of all opcodes. The first instruction (X) reads v10 and v12 and writes v8. The second one
/// (Y) reads v13 and the old value of v8, and writes v9. If an instruction has only one source operand, for example a
/// move, the unused field contains zero.
pub(super) fn words() -> impl Iterator<Item = Vec<u32>> {
    let pair = |of_x: u32, of_y: u32, second_of_x: u32, second_of_y: u32| {
        vec![
            0x32 << 26 | of_x << 22 | of_y << 17 | second_of_x << 9 | (VECTOR + FIRST + 2),
            FIRST << 24 | (FIRST + 1) >> 1 << 17 | second_of_y << 9 | (VECTOR + FIRST),
        ]
    };
    let opcodes = (0..X_OPCODES).flat_map(|of_x| (0..Y_OPCODES).map(move |of_y| (of_x, of_y)));
    opcodes.flat_map(move |(x, y)| {
        let seconds = [(FIRST + 4, FIRST + 5), (0, FIRST + 5), (FIRST + 4, 0), (0, 0)];
        seconds.into_iter().flat_map(move |(of_x, of_y)| {
            let words = pair(x, y, of_x, of_y);
            [words.clone(), [words, vec![MANDATORY]].concat()]
        })
    })
}

/// Returns true if the text contains the operands that the words encode. Words with other values in unused fields,
/// which LLVM disassembles too, are rejected.
pub(super) fn has_its_sources(text: &str) -> bool {
    let moves = |half: &str| half.contains("v_dual_mov_b32");
    let second = |half: &str, register: &str| half.split([',', ' ']).any(|word| word == register);
    text.split_once(" :: ")
        .is_some_and(|(x, y)| (moves(x) || second(x, "v12")) && (moves(y) || second(y, "v13")))
}

/// Returns a claim that the pair has the same effect as its two instructions in sequence. In this sequence Y comes
/// first, because X overwrites an operand of Y.
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
        plain.extend(half.contains("0x41234567").then_some(MANDATORY));
        Some(plain)
    };
    let first = alone(y, [FIRST + 1, FIRST, FIRST + 5])?;
    let second = alone(x, [FIRST, FIRST + 2, FIRST + 4])?;
    let mut claim = Claim::new("two instructions in one (VOPD)", words, [first, second].concat());
    (claim.without, claim.in_turn) = (None, true);
    Some(claim)
}
