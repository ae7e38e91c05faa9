//! Generates the source code of the HIP kernels that execute instructions, and the input of these kernels.

use std::fmt::Write;

use device::{Arch, WaitCounters};

use crate::{GROUP, ITEMS, Instruction, InstructionGroup};

/// Returns the number of input words of a work-item. The first and the second source operand have four registers each,
/// or eight in matrix instructions. The third one has four registers, or 32 in matrix instructions.
pub(crate) fn inputs(group: InstructionGroup) -> usize {
    if group == InstructionGroup::Matrix { 8 + 8 + 32 } else { 12 }
}

/// Returns the number of vector registers, from v40 on, that a work-item writes to the results. The contents of the
/// registers in [`SCALARS`] follow them.
pub(crate) fn vectors(group: InstructionGroup) -> usize {
    match group {
        InstructionGroup::Vector => 4,
        InstructionGroup::Matrix => 32,
        InstructionGroup::Scalar => 0,
    }
}

/// Scalar registers that are written to the results, in this order, after the vector registers.
pub(crate) const SCALARS: [&str; 9] =
    ["s40", "s41", "exec_lo", "exec_hi", "s44", "s45", "vcc_lo", "vcc_hi", "scc"];

pub(crate) fn results(group: InstructionGroup) -> usize {
    vectors(group) + SCALARS.len()
}

/// Returns the name of the register that contains result number `index`.
pub(crate) fn register(group: InstructionGroup, index: usize) -> String {
    match index.checked_sub(vectors(group)) {
        None => format!("v{}", 40 + index),
        Some(scalar) => SCALARS[scalar].to_owned(),
    }
}

/// Returns instructions that wait until all results are available. On some architectures, the code must contain such
/// waits (see "Manually inserted wait states" in the ISA guides). The waits are also long enough for matrix
/// instructions.
fn pause(arch: Arch) -> &'static str {
    match arch.facts().counters {
        WaitCounters::Gfx12 | WaitCounters::Gfx1250 => {
            "s_nop 7\\n s_nop 7\\n s_nop 7\\n s_wait_alu 0\\n "
        }
        WaitCounters::Gfx11 => "s_nop 7\\n s_nop 7\\n s_nop 7\\n s_waitcnt_depctr 0\\n ",
        WaitCounters::Gfx9 | WaitCounters::Gfx10 => "s_nop 7\\n s_nop 7\\n s_nop 7\\n ",
    }
}

/// Returns the source code of a kernel `probe(out, in)` that executes some instructions of one group.
pub(crate) fn kernel(arch: Arch, batch: &[Instruction], group: InstructionGroup) -> String {
    let (a, c) = if group == InstructionGroup::Matrix { (8, 32) } else { (4, 4) };
    let (c_first, result_last) =
        if group == InstructionGroup::Matrix { (80, 71) } else { (30, 43) };
    let mut text = format!(
        "typedef unsigned u4 __attribute__((ext_vector_type(4)));\n\
         typedef unsigned u8 __attribute__((ext_vector_type(8)));\n\
         typedef unsigned u32 __attribute__((ext_vector_type(32)));\n\
         extern \"C\" __global__ void __launch_bounds__({GROUP}) probe(unsigned *o, const unsigned *in) {{\n\
         unsigned i = blockIdx.x * {GROUP} + threadIdx.x;\n\
         u{a} a, b; u{c} c;\n"
    );
    for (name, count, first) in [("a", a, 0), ("b", a, a), ("c", c, 2 * a)] {
        let _ = writeln!(
            text,
            "for (int k = 0; k < {count}; k++) {name}[k] = in[({first} + k) * {ITEMS} + i];"
        );
    }
    for (name, from) in [("x", "a"), ("y", "b")] {
        let _ = writeln!(
            text,
            "unsigned long long {name} = (unsigned)__builtin_amdgcn_readfirstlane({from}[0]) | \
             (unsigned long long)(unsigned)__builtin_amdgcn_readfirstlane({from}[1]) << 32;"
        );
    }
    let wait = pause(arch);
    for (number, one) in batch.iter().enumerate() {
        let words: Vec<String> = one.words.iter().map(|word| format!("{word:#x}")).collect();
        let base = number * results(group);
        let (ends, again) = (10 + a - 1, 20 + a - 1);
        let _ = writeln!(
            text,
            "{{ u{c} d; u8 s; unsigned f; asm volatile(\
             \"s_mov_b64 s[50:51], exec\\n s_mov_b64 vcc, s[24:25]\\n s_not_b64 s[40:41], s[20:21]\\n \
             s_mov_b64 s[44:45], s[24:25]\\n s_bitcmp1_b32 s20, 0\\n {wait}\
             .long {}\\n {wait}\
             s_cselect_b32 s48, 1, 0\\n s_mov_b64 s[42:43], exec\\n s_mov_b64 exec, s[50:51]\\n \
             s_mov_b64 s[46:47], vcc\\n {wait}\" \
             : \"={{v[40:{result_last}]}}\"(d), \"={{s[40:47]}}\"(s), \"={{s48}}\"(f) \
             : \"{{v[10:{ends}]}}\"(a), \"{{v[20:{again}]}}\"(b), \"{{v[{c_first}:{}]}}\"(c), \"0\"(c), \
             \"{{s[20:21]}}\"(x), \"{{s[24:25]}}\"(y) : \"s50\", \"s51\", \"vcc\", \"scc\", \"memory\");",
            words.join(", "),
            c_first + c - 1,
        );
        for index in 0..results(group) {
            let value = match index.checked_sub(vectors(group)) {
                None => format!("d[{index}]"),
                Some(8) => "f".to_owned(),
                Some(scalar) => format!("s[{scalar}]"),
            };
            let _ = writeln!(text, "o[{} * {ITEMS} + i] = {value};", base + index);
        }
        text.push_str("}\n");
    }
    text.push_str("}\n");
    text
}

/// Returns the input words of all work-items: word 0 of every work-item, then word 1 of every work-item, and so on.
/// Each workgroup gets a different kind of values, for example integers or special values of f32.
pub(crate) fn values(group: InstructionGroup) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    let mut values = vec![0; inputs(group) * ITEMS];
    for word in 0..inputs(group) {
        for item in 0..ITEMS {
            let drawn = next();
            let pick = |list: &[u32]| list[next_of(drawn, list.len())];
            values[word * ITEMS + item] = match item / GROUP {
                0 => pick(&SINGLES),
                1 => pick(&HALVES) | pick_other(drawn, &HALVES) << 16,
                // Two consecutive words are a double, and this is its upper word.
                2 if word % 2 == 1 => pick(&DOUBLES),
                2 => [0, 1, u32::MAX, drawn][drawn as usize >> 30],
                3 => pick(&INTEGERS),
                // This workgroup and the next two get numbers of medium magnitude: f32, f16 and f64.
                4 => drawn & 0x80ff_ffff | (0x7a + (drawn >> 24 & 7)) << 23,
                5 => drawn & 0x83ff_83ff | 0x3800_3800,
                6 if word % 2 == 1 => drawn & 0x800f_ffff | 0x3fe0_0000,
                _ => drawn,
            };
        }
    }
    values
}

fn next_of(drawn: u32, count: usize) -> usize {
    drawn as usize % count
}

fn pick_other(drawn: u32, list: &[u32]) -> u32 {
    list[(drawn >> 16) as usize % list.len()]
}

/// Special values of f32. The next list contains those of f16. Both lists contain zeros, denormals, ones, the limits of
/// the range, infinities, and quiet and signalling NaNs.
const SINGLES: [u32; 16] = [
    0,
    0x8000_0000,
    1,
    0x807f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4b00_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_1234,
    0xffc0_0000,
    0x7f80_0001,
];
const HALVES: [u32; 16] = [
    0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0xbc00, 0x3800, 0x6401, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
    0x7e12, 0xfe00, 0x7c01,
];
/// Upper words of special values of f64: zeros, denormals, ones, the limits of the range, infinities and NaNs.
const DOUBLES: [u32; 16] = [
    0,
    0x8000_0000,
    0x0000_0001,
    0x800f_ffff,
    0x0010_0000,
    0x3ff0_0000,
    0xbff0_0000,
    0x3fe0_0000,
    0x4330_0000,
    0x7fef_ffff,
    0xffef_ffff,
    0x7ff0_0000,
    0xfff0_0000,
    0x7ff8_1234,
    0xfff8_0000,
    0x7ff0_0001,
];
const INTEGERS: [u32; 16] = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];
