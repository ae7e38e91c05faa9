//! Tests matrix instructions against their plain form: with a constant as C, with accumulator registers, with broadcast
//! blocks and lanes, and with inactive lanes. Source: "Matrix Arithmetic Instructions" of the guides to CDNA 1 to 4,
//! and "Wave Matrix" of the guides to RDNA 3 and 4.
//!
//! Matrix instructions need more registers than the test kernel ([`Slot`]) sets. Therefore other instructions load
//! these registers from memory before the instruction and store them afterwards.

use std::rc::Rc;

use device::{Arch, Microcode};

use super::{
    Table,
    claim::Claim,
    encodings::FIRST,
    memory::Around,
    slot::{Slot, State},
};

/// Numbers of the first registers of A, B and C. D occupies the registers of C.
const A: u32 = 16;
const B: u32 = 24;
const C: u32 = 32;
/// Bytes of memory for each lane: space for v16 to v47.
const LANE: usize = 128;
const VECTOR: u32 = 256;
const EXEC_LO: u32 = 126;
const ALL: u32 = 193;

/// Claims, each with a flag. The flag is true if the instructions of the claim themselves store the result to memory,
/// and false if the test must add instructions that store it.
type Claims = Vec<(Claim, bool)>;

/// Properties of a matrix instruction that its text shows.
struct Shape {
    results: usize,
    /// Number of rows in a block of D.
    rows: usize,
    is_mfma: bool,
    /// Name of the type of C and D.
    of: String,
}

fn shape(text: &str) -> Option<Shape> {
    let (name, operands) = text.split_once(' ')?;
    let (family, rest) = name.strip_prefix("v_")?.split_once('_')?;
    // In products of small floats, an encoding of one instruction may also be an encoding of another.
    if !["mfma", "wmma"].contains(&family) || name.contains("f8f6f4") {
        return None;
    }
    let mut operands = operands.split(", ");
    let results = count(operands.next()?)?;
    let (of, size) = rest.split_once('_')?;
    let rows = size.split('x').next()?.parse().ok()?;
    let fits = results <= 16 && operands.take(2).all(|text| count(text).is_some_and(|n| n <= 8));
    fits.then(|| Shape { results, rows, is_mfma: family == "mfma", of: of.to_owned() })
}

/// Returns the number of registers of a vector operand such as `v[16:19]` (4) or `v16` (1).
fn count(text: &str) -> Option<usize> {
    match text.strip_prefix("v[") {
        Some(range) => {
            let (first, last) = range.split_once(']')?.0.split_once(':')?;
            Some(last.parse::<usize>().ok()? + 1 - first.parse::<usize>().ok()?)
        }
        None => text.starts_with('v').then_some(1),
    }
}

fn words(arch: Arch, opcode: u32) -> Vec<u32> {
    let sources = (VECTOR + A) | (VECTOR + B) << 9 | (VECTOR + C) << 18;
    match arch.facts().microcode.is_gfx9() {
        true => vec![0x1a7 << 23 | opcode << 16 | C, sources],
        // `op_sel_hi` selects the upper halves of the source operands.
        false => vec![0x198 << 23 | opcode << 16 | 1 << 14 | C, sources | 3 << 27],
    }
}

pub(super) fn check(slot: &mut Slot, arch: Arch, table: &mut Table, around: &Around) {
    for opcode in 0..128 {
        let plain = words(arch, opcode);
        let Some(text) = slot.text(&plain) else { continue };
        let Some(mut shape) = shape(&text) else { continue };
        // The disassembler prints the registers for a wave of 32 lanes. In a wave of 64 lanes, there are half as many.
        if !shape.is_mfma && slot.lanes == 64 {
            shape.results /= 2;
        }
        let mut claims = Vec::new();
        constants(&plain, &shape, &mut claims);
        off(arch, &plain, &mut claims);
        if shape.is_mfma {
            accumulators(arch, &plain, &shape, around, &mut claims);
            broadcasts(&plain, &shape, &mut claims);
        }
        let address = slot.address();
        for (mut claim, ends_elsewhere) in claims {
            // First, v16 and the following registers are loaded, and then the value of C that the claim sets.
            claim.first = [around.load(A, 8), claim.first].concat();
            if !ends_elsewhere {
                claim.last.extend(around.store(C, 4));
            }
            claim.exec = u64::MAX;
            let given = claim.given.clone();
            claim.given = Rc::new(move |state| {
                small(state);
                addresses(state, address);
                given(state);
            });
            table.take(slot, claim);
        }
    }
}

fn addresses(state: &mut State, address: u64) {
    for (lane, registers) in state.lanes.iter_mut().enumerate() {
        let of_lane = address + (lane * LANE) as u64;
        (registers[6], registers[7]) = (of_lane as u32, (of_lane >> 32) as u32);
    }
}

/// Sets the source operands to small numbers, so that the sums of their products do not overflow in any float type.
fn small(state: &mut State) {
    for (at, word) in state.memory.iter_mut().enumerate() {
        *word = 0x3c00_3c00 ^ (at as u32 + 1).wrapping_mul(0x9e37_79b9) & 0x83ff_83ff;
    }
}

/// Returns the index of a dword in the field `memory` of a [`State`]: the dword from which a register of a lane is
/// loaded.
fn at(lane: usize, register: u32) -> usize {
    (lane * LANE) / 4 + (register - A) as usize
}

/// Fills `count` registers of each lane, starting with register `first`, with the two words alternately.
fn set(state: &mut State, first: u32, count: usize, words: [u32; 2]) {
    for lane in 0..state.lanes.len() {
        for register in 0..count {
            state.memory[at(lane, first + register as u32)] = words[register % 2];
        }
    }
}

/// Adds claims that a constant as C has the same effect as registers that contain its value.
fn constants(plain: &[u32], shape: &Shape, claims: &mut Claims) {
    let one = 1f64.to_bits();
    let constants: &[(u32, [u32; 2])] = match shape.of.as_str() {
        "f32" => &[(128, [0; 2]), (242, [1f32.to_bits(); 2]), (247, [(-4f32).to_bits(); 2])],
        "f64" => &[(128, [0; 2]), (242, [one as u32, (one >> 32) as u32])],
        "i32" => &[(128, [0; 2]), (129, [1; 2]), (193, [u32::MAX; 2])],
        _ => return,
    };
    for (operand, words) in constants {
        let mut form = plain.to_vec();
        form[1] = form[1] & !(0x1ff << 18) | operand << 18;
        let mut claim = Claim::new("a constant for a matrix instruction", form, plain.to_vec());
        let (count, words) = (shape.results, *words);
        claim.set_before(move |state| set(state, C, count, words));
        // All memory except D must keep its contents.
        claim.set_after(move |given, _, like| restore(given, like, count));
        claims.push((claim, false));
    }
}

/// Copies the initial contents of memory to the expected state `like`, except the contents of D, which has `results`
/// registers.
fn restore(given: &State, like: &mut State, results: usize) {
    for lane in 0..like.lanes.len() {
        let kept = at(lane, A)..at(lane, C);
        like.memory[kept.clone()].copy_from_slice(&given.memory[kept]);
        let kept = at(lane, C) + results..at(lane, C) + 16;
        like.memory[kept.clone()].copy_from_slice(&given.memory[kept]);
    }
}

/// Adds the claim that inactive lanes take part too, because the instruction ignores EXEC.
fn off(arch: Arch, plain: &[u32], claims: &mut Claims) {
    let wide = arch.wave_size() == 64;
    // In waves of 32 lanes, the upper half of EXEC has no effect.
    let exec = |from| mov(arch, wide, EXEC_LO, from);
    let mut claim = Claim::new(
        "a matrix instruction and inactive lanes",
        plain.to_vec(),
        [vec![exec(ALL)], plain.to_vec()].concat(),
    );
    (claim.without, claim.in_turn) = (None, true);
    claim.first = vec![exec(FIRST)];
    claim.last = vec![exec(ALL)];
    claims.push((claim, false));
}

fn mov(arch: Arch, wide: bool, to: u32, from: u32) -> u32 {
    let first = match arch.facts().microcode {
        Microcode::Gfx10 => 3,
        Microcode::Gfx9 | Microcode::Gfx11 | Microcode::Gfx12 | Microcode::Gfx1250 => 0,
    };
    let opcode = first + u32::from(wide);
    0x17d << 23 | to << 16 | opcode << 8 | from
}

/// Adds claims that accumulator registers can be source operands and results. GFX908 is excluded, because its loads
/// cannot write to accumulators.
fn accumulators(arch: Arch, plain: &[u32], shape: &Shape, around: &Around, claims: &mut Claims) {
    if !arch.facts().has_gfx90a_instructions {
        return;
    }
    // Either A or B is in accumulators. The vector registers with the same numbers as these accumulators contain the
    // other matrix.
    for (source, register, other) in [(0, A, B), (1, B, A)] {
        let (mut form, mut like) = (plain.to_vec(), plain.to_vec());
        form[1] |= 1 << (27 + source);
        like[1] = like[1] & !(0x1ff << (9 * source)) | (VECTOR + other) << (9 * source);
        let mut claim = Claim::new("accumulators as sources", form, like);
        claim.told = "a";
        claim.first = around.load_accumulators(register, 2, 4 * (other - A));
        claims.push((claim, false));
    }
    let mut form = plain.to_vec();
    form[0] |= 1 << 15;
    // v_accvgpr_write_b32 a32, v32, and so on.
    let copy = |n: u32| [0xd3d9_4000 | (C + n), 0x1800_0000 | (VECTOR + C + n)];
    let copies = (0..shape.results as u32).flat_map(copy);
    let like: Vec<u32> = plain.iter().copied().chain(copies).collect();
    let mut claim = Claim::new("accumulators as the destination", form, like);
    (claim.without, claim.in_turn) = (None, true);
    claim.first = around.load_accumulators(C, 4, 4 * (C - A));
    claim.last = around.store_accumulators(C, 4);
    claims.push((claim, true));
}

/// Adds claims that broadcast blocks of A and permuted lanes of B have the same effect as registers with
/// correspondingly permuted contents.
fn broadcasts(plain: &[u32], shape: &Shape, claims: &mut Claims) {
    if shape.of == "f64" {
        return;
    }
    let mut claim = |bits: [u32; 2], register: u32, from: Box<dyn Fn(usize) -> usize>| {
        let form = plain.iter().zip(bits).map(|(word, bits)| word | bits).collect();
        let mut claim =
            Claim::new("blocks and lanes of a matrix instruction", form, plain.to_vec());
        claim.set_before(move |state| {
            let old = state.memory.clone();
            for (lane, register) in
                (0..64).flat_map(|lane| (register..register + 8).map(move |r| (lane, r)))
            {
                state.memory[at(lane, register)] = old[at(from(lane), register)];
            }
        });
        let results = shape.results;
        claim.set_after(move |given, _, like| restore(given, like, results));
        claims.push((claim, false));
    };
    let rows = shape.rows;
    let blocks = shape.results * 64 / (rows * rows);
    // Blocks can be broadcast if each lane contains one row of A, because different blocks are then in different lanes.
    if blocks * rows == 64 {
        for size in 1..=blocks.ilog2() {
            for which in [0, 1, (1 << size) - 1] {
                let of = move |lane: usize| {
                    let block = (lane / rows) & !((1 << size) - 1) | which as usize;
                    block * rows + lane % rows
                };
                claim([size << 8 | which << 11, 0], A, Box::new(of));
            }
        }
    }
    for pattern in 1..8usize {
        let of = move |lane: usize| match pattern {
            1 => lane & 31,
            2 => 32 | lane & 31,
            3 => (lane + 16) & 63,
            _ => ((pattern - 4) * 16) | lane & 15,
        };
        claim([0, (pattern as u32) << 29], B, Box::new(of));
    }
}
