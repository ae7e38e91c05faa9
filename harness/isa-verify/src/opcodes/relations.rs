//! Relations between the forms of a vector instruction. Each relation holds for every instruction that has the form.

use device::Arch;

use super::{
    claim::{Claim, Plain, row, signed},
    encodings::{Encoding, FIRST, LITERAL, VECTOR, numbers_halves},
    lanes, parts, saturation,
    slot::State,
    types::{
        crosses_lanes, gives_float, has_second_result, is_small_float, is_wide, result_of, sign,
        type_of,
    },
};
use crate::models::{Value, ValueType, float};

/// Operand numbers of the lane masks VCC (`VCC`) and EXEC (`EXEC_LO`).
const VCC: u32 = 106;
const EXEC_LO: u32 = 126;

pub(super) fn of(arch: Arch, encoding: Encoding, words: &[u32], text: &str) -> Vec<Claim> {
    let name = text.split_whitespace().next().unwrap_or_default();
    let name = name.trim_end_matches("_e32").trim_end_matches("_e64");
    let mut plain = Plain { arch, encoding, words, name, claims: Vec::new() };
    if is_wide(name) {
        // These instructions use more registers than a slot sets (see `slot`). Other tests cover them.
        return plain.claims;
    }
    scalars(&mut plain);
    of_constants(&mut plain);
    results(&mut plain);
    // In instructions with a second result, the bits that would select halves contain the register of that result.
    if !has_second_result(name) {
        halves(&mut plain);
        signs(&mut plain);
    }
    saturation::claims(&mut plain);
    packed(&mut plain);
    packed_in_two(&mut plain);
    mixed(&mut plain);
    overlaps(&mut plain);
    lengths(&mut plain);
    if !crosses_lanes(name) {
        lanes::off(&mut plain);
        lanes::others(&mut plain);
        lanes::others_off(&mut plain);
        lanes::others_and_more(&mut plain);
        parts::parts(&mut plain);
    }
    plain.claims
}

fn vectors(plain: &Plain) -> impl Iterator<Item = usize> + use<> {
    let are = [0, 1, 2].map(|source| plain.encoding.has_vector(plain.words, source));
    (0..3).filter(move |source| are[*source])
}

/// Adds claims that a scalar operand has the same effect as a vector register with the same value in each lane.
fn scalars(plain: &mut Plain) {
    for source in vectors(plain) {
        let words = plain.encoding.with_source(plain.words, source, FIRST + row(source) as u32);
        plain.claim("a scalar source", words).before(move |state| {
            for at in row(source)..row(source) + 2 {
                let scalar = state.scalars[at];
                state.lanes.iter_mut().for_each(|lane| lane[at] = scalar);
            }
        });
    }
}

const CONSTANTS: [(u32, Value); 10] = [
    (128, Value::Integer(0)),
    (129, Value::Integer(1)),
    (192, Value::Integer(64)),
    (193, Value::Integer(-1)),
    (208, Value::Integer(-16)),
    (240, Value::Float(0.5)),
    (242, Value::Float(1.0)),
    (245, Value::Float(-2.0)),
    (247, Value::Float(-4.0)),
    (LITERAL, Value::Literal(0xc123_4567)),
];

/// Returns the constants that are tested for a type, each as operand number, literal, and bits of the value.
pub(super) fn constants(of: ValueType, signed: bool) -> impl Iterator<Item = (u32, u32, u64)> {
    // No guide specifies which value a float constant has in a 16-bit integer operand.
    let known =
        move |(_, value): &(u32, Value)| of != ValueType::U16 || !matches!(value, Value::Float(_));
    CONSTANTS.into_iter().filter(known).map(move |(operand, value)| match value {
        // The literal contains the upper 32 bits of the double. The lower 32 bits are zero.
        Value::Literal(literal) if of == ValueType::F64 => {
            (operand, literal, u64::from(literal) << 32)
        }
        // The literal is sign-extended to 64 bits.
        Value::Literal(literal) if of == ValueType::U64 && signed => {
            (operand, literal, literal as i32 as u64)
        }
        Value::Literal(literal) => (operand, literal, of.constant(value)),
        Value::Integer(integer) => (operand, 0, integer as u64),
        Value::Float(_) => (operand, 0, of.constant(value)),
    })
}

/// Adds claims that a constant operand has the same effect as a register with the value of the constant.
fn of_constants(plain: &mut Plain) {
    for source in vectors(plain) {
        let Some(of) = type_of(plain.name, source) else { continue };
        for (operand, literal, bits) in constants(of, plain.name.contains("i64")) {
            let mut words = plain.encoding.with_source(plain.words, source, operand);
            if let (Some(words), LITERAL) = (&mut words, operand) {
                words.push(literal);
            }
            plain.claim("a constant", words).before(move |state| {
                for lane in &mut state.lanes {
                    (lane[row(source)], lane[row(source) + 1]) = (bits as u32, (bits >> 32) as u32);
                }
            });
        }
    }
}

/// Adds claims that the upper half of a register has the same effect as the lower half of a register with exchanged
/// halves.
fn halves(plain: &mut Plain) {
    // The `op_sel` bits of these instructions have other meanings, or the instruction also writes to the source
    // operand.
    let apart = ["permlane", "v_swap"].iter().any(|part| plain.name.contains(part));
    if is_small_float(plain.name) || apart {
        return;
    }
    let swap = |row: usize| {
        move |state: &mut State| {
            state.lanes.iter_mut().for_each(|lane| lane[row] = lane[row].rotate_left(16));
        }
    };
    let (encoding, by_number) = (plain.encoding, numbers_halves(plain.arch));
    // For a 32-bit operand, the bit is a part of the register number. Therefore, the claim applies only if the text of
    // the instruction contains the half.
    let told = if encoding == Encoding::Vop3 { "" } else { ".h" };
    for source in 0..3 {
        let words = match encoding {
            Encoding::Vop3p => None,
            Encoding::Vop3 => Some(with_bits(plain.words, 0, 1 << (11 + source))),
            _ => {
                let register = VECTOR + FIRST + row(source) as u32 + 128;
                by_number.then(|| encoding.with_source(plain.words, source, register)).flatten()
            }
        };
        plain.claim("an upper half", words).told(told).before(swap(row(source)));
    }
    let words = match encoding {
        Encoding::Vop3p => None,
        Encoding::Vop3 => Some(with_bits(plain.words, 0, 1 << 14)),
        _ => by_number.then(|| encoding.with_result(plain.words, FIRST + 128)).flatten(),
    };
    let made = plain.claim("an upper half of the result", words).told(told).before(swap(0));
    made.after(|given, _, like| {
        for (old, new) in given.lanes.iter().zip(&mut like.lanes) {
            new[0] = new[0] << 16 | old[0] & 0xffff;
        }
    });
}

fn with_bits(words: &[u32], word: usize, bits: u32) -> Vec<u32> {
    let mut words = words.to_vec();
    words[word] |= bits;
    words
}

/// Adds claims that a sign modifier has the same effect as a changed sign bit in the source operand.
fn signs(plain: &mut Plain) {
    if plain.encoding != Encoding::Vop3 {
        return;
    }
    for source in 0..3 {
        let Some((at, bit)) = sign(plain.name, source) else { continue };
        for (negate, absolute) in [(true, false), (false, true), (true, true)] {
            let words = with_bits(plain.words, 1, u32::from(negate) << (29 + source));
            let words = with_bits(&words, 0, u32::from(absolute) << (8 + source));
            plain
                .claim("another sign modifier", Some(words))
                .before(signed(at, bit, negate, absolute));
        }
    }
}

/// Adds claims about clamped and scaled results. By default, kernels keep denormals, and then hardware ignores scaling,
/// except on GFX12.
fn results(plain: &mut Plain) {
    if plain.encoding != Encoding::Vop3 {
        return;
    }
    // If two operands of a sum are NaNs, the result is one of them, and the host's processor determines which one. In
    // `v_bitop3`, the sign modifier bits belong to the truth table.
    let apart = ["v_mad_", "v_bitop3_"].iter().any(|start| plain.name.starts_with(start));
    let scales = plain.arch.facts().scales_in_all_modes && gives_float(plain.name);
    for scale in if apart || scales { 0..0 } else { 1..4 } {
        let words = with_bits(plain.words, 1, scale << 27);
        plain.claim("a scaled result, with denormals", Some(words)).told("v8");
    }
    let Some(of) = result_of(plain.name) else { return };
    let words = with_bits(plain.words, 0, 1 << 15);
    plain.claim("a clamped result", Some(words)).after(move |given, this, like| {
        for lane in 0..like.lanes.len() {
            if given.exec >> lane & 1 == 0 {
                continue;
            }
            let row = &mut like.lanes[lane];
            let bits = u64::from(row[0]) | u64::from(row[1]) << 32;
            let others = bits & !of.mask();
            let clamped = of.clamped(bits & of.mask());
            let got = u64::from(this.lanes[lane][0]) | u64::from(this.lanes[lane][1]) << 32;
            // The guides do not specify the sign of a zero after `clamp`.
            let clamped = match of.are_zeros(got & of.mask(), clamped) {
                true => got & of.mask(),
                false => clamped,
            };
            (row[0], row[1]) = ((clamped | others) as u32, ((clamped | others) >> 32) as u32);
        }
    });
}

/// Sets the bits of a source operand in `op_sel` and `op_sel_hi`.
fn with_selection(words: &[u32], source: usize, low: bool, high: bool) -> Vec<u32> {
    let mut words = with_bits(words, 0, u32::from(low) << (11 + source));
    let (word, bit) = if source == 2 { (0, 14) } else { (1, 27 + source) };
    words[word] = words[word] & !(1 << bit) | u32::from(high) << bit;
    words
}

/// Adds claims about the selected halves and the sign modifiers of packed operands.
fn packed(plain: &mut Plain) {
    let is_packed = plain.name.starts_with("v_pk_") && plain.name.ends_with("16");
    let is_product = plain.name.starts_with("v_dot2");
    if plain.encoding != Encoding::Vop3p || !is_packed && !is_product {
        return;
    }
    // The addend of a dot product is a whole register, so no half of it can be selected.
    for source in 0..if is_product { 2 } else { 3 } {
        for (low, high) in [(true, true), (false, false), (true, false)] {
            let words = with_selection(plain.words, source, low, high);
            plain.claim("halves of a packed source", Some(words)).before(move |state| {
                for lane in &mut state.lanes {
                    let bits = lane[row(source)];
                    let half = |upper: bool| if upper { bits >> 16 } else { bits & 0xffff };
                    lane[row(source)] = half(low) | half(high) << 16;
                }
            });
        }
        if !plain.name.ends_with("f16") {
            continue;
        }
        for (low, high) in [(true, false), (false, true)] {
            let words = with_bits(plain.words, 1, u32::from(low) << (29 + source));
            let words = with_bits(&words, 0, u32::from(high) << (8 + source));
            let bits = u32::from(low) << 15 | u32::from(high) << 31;
            plain.claim("sign modifiers of a packed source", Some(words)).before(move |state| {
                state.lanes.iter_mut().for_each(|lane| lane[row(source)] ^= bits);
            });
        }
    }
}

/// Adds claims about packed 32-bit floats in register pairs. For each of the two results, the instruction may select
/// either register of an operand, and may negate the selected value.
fn packed_in_two(plain: &mut Plain) {
    if plain.encoding != Encoding::Vop3p
        || !["v_pk_fma_f32", "v_pk_mul_f32", "v_pk_add_f32"].contains(&plain.name)
    {
        return;
    }
    for source in vectors(plain) {
        for (low, high) in [(true, true), (false, false), (true, false)] {
            let words = with_selection(plain.words, source, low, high);
            plain.claim("one register of a pair", Some(words)).before(move |state| {
                for lane in &mut state.lanes {
                    let pair = [lane[row(source)], lane[row(source) + 1]];
                    lane[row(source)] = pair[usize::from(low)];
                    lane[row(source) + 1] = pair[usize::from(high)];
                }
            });
        }
        for (low, high) in [(true, false), (false, true)] {
            let words = with_bits(plain.words, 1, u32::from(low) << (29 + source));
            let words = with_bits(&words, 0, u32::from(high) << (8 + source));
            plain.claim("sign modifiers of a pair", Some(words)).before(move |state| {
                for lane in &mut state.lanes {
                    lane[row(source)] ^= u32::from(low) << 31;
                    lane[row(source) + 1] ^= u32::from(high) << 31;
                }
            });
        }
    }
}

/// Adds claims about the source operands of mixed-precision instructions: halves, which the instruction converts to 32
/// bits, and sign modifiers.
fn mixed(plain: &mut Plain) {
    let of_bf16 = plain.name.ends_with("bf16");
    if !["v_fma_mix", "v_mad_mix"].iter().any(|start| plain.name.starts_with(start)) || of_bf16 {
        return;
    }
    // In these instruction words, every source operand is a whole 32-bit register.
    let whole = (0..3)
        .fold(plain.words.to_vec(), |words, source| with_selection(&words, source, false, false));
    for source in 0..3 {
        for upper in [false, true] {
            let words = with_selection(&whole, source, upper, true);
            let made = plain.claim("a half of a mixed-precision source", Some(words));
            made.like(whole.clone()).before(move |state| {
                for lane in &mut state.lanes {
                    let half = lane[row(source)] >> if upper { 16 } else { 0 } & 0xffff;
                    lane[row(source)] = lengthened(half);
                }
            });
        }
        for (negate, absolute) in [(true, false), (false, true), (true, true)] {
            let words = with_bits(&whole, 1, u32::from(negate) << (29 + source));
            let words = with_bits(&words, 0, u32::from(absolute) << (8 + source));
            let made = plain
                .claim("a sign modifier of a mixed-precision source", Some(words))
                .like(whole.clone());
            made.before(signed(row(source), 1 << 31, negate, absolute));
        }
    }
}

fn lengthened(half: u32) -> u32 {
    match float(ValueType::F16, u64::from(half)) {
        Some(value) if !value.is_nan() => (value as f32).to_bits(),
        _ => (half & 0x8000) << 16 | 0x7f80_0000 | (half & 0x3ff) << 13,
    }
}

/// Adds claims that the result register may also be a source register.
fn overlaps(plain: &mut Plain) {
    // These instructions write to more than two registers or to a source operand.
    if ["_swap", "v_mqsad_u32"].iter().any(|part| plain.name.contains(part)) {
        return;
    }
    for source in 0..3 {
        let words = plain.encoding.with_result(plain.words, FIRST + row(source) as u32);
        let copy = move |state: &mut State| {
            let from = row(source);
            for lane in &mut state.lanes {
                lane.copy_within(from..from + 2, 0);
            }
            state.scalars.copy_within(from..from + 2, 0);
        };
        let made = plain.claim("a result register that is also a source", words).before(copy);
        made.after(move |given, this, _| {
            copy(this);
            let of = row(source)..row(source) + 2;
            for (lane, old) in this.lanes.iter_mut().zip(&given.lanes) {
                lane[of.clone()].copy_from_slice(&old[of.clone()]);
            }
            this.scalars[of.clone()].copy_from_slice(&given.scalars[of]);
        });
    }
}

/// Adds claims that the two-dword encoding of an instruction has the same effect as its short encoding, which uses vcc
/// implicitly.
fn lengths(plain: &mut Plain) {
    let Some(mut words) = plain.encoding.lengthened(plain.arch, plain.words) else { return };
    let name = plain.name;
    if plain.encoding == Encoding::Vopc {
        // A comparison that writes only exec encodes exec as its result in the long form.
        let writes_exec = name.starts_with("v_cmpx_") && !plain.arch.facts().cmpx_writes_scalar;
        words[0] = words[0] & !0xff | if writes_exec { EXEC_LO } else { VCC };
    }
    if name.contains("_co_") {
        words[0] |= VCC << 8;
    }
    let chosen = ["v_addc_", "v_subb", "v_cndmask"].iter().any(|start| name.starts_with(start));
    if chosen || name.contains("_co_ci_") {
        words[1] = words[1] & !(0x1ff << 18) | VCC << 18;
    }
    plain.claim("the long encoding", Some(words));
}
