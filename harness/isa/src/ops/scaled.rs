//! Conversions to and from 4-bit, 6-bit and 8-bit formats with a scale that is a power of two: `v_cvt_scalef32_...` of
//! GFX950.
//!
//! Source: the CDNA 4 ISA guide, "VOP3A & VOP3B Instructions" and "Converts with Scale". The guide does not specify how
//! NaNs and infinities are converted, or which bits of the random number are used. In these points, this module follows
//! HIP's host implementation in `amd_hip_ocp_host.hpp`.

use super::integer::next_random;
use crate::{
    exec::{Bound, on_wave},
    float16::{Bf16, F16, round_to_odd},
    small_float::SmallFloat,
    source::{Place, Source},
    text::{Base, Text, Unsupported},
    value::{Type, Value},
    wave::{Wave, active},
};

/// The 16-bit or 32-bit format that is converted to or from a smaller format.
#[derive(Clone, Copy, PartialEq)]
enum Wide {
    F32,
    F16,
    Bf16,
}

impl Wide {
    fn named(name: &str) -> Option<Wide> {
        match name {
            "f32" => Some(Wide::F32),
            "f16" => Some(Wide::F16),
            "bf16" => Some(Wide::Bf16),
            _ => None,
        }
    }

    fn bits(self) -> usize {
        if self == Wide::F32 { 32 } else { 16 }
    }

    fn fraction(self) -> u32 {
        match self {
            Wide::F32 => 23,
            Wide::F16 => 10,
            Wide::Bf16 => 7,
        }
    }

    /// Converts a number to f64 without rounding. In these instructions, MODE may flush 32-bit denormals, but not
    /// 16-bit ones.
    fn read(self, wave: &Wave, bits: u32) -> f64 {
        match self {
            Wide::F32 => {
                let value = f32::from_bits(bits);
                let zero = wave.flushes_sources() && value.is_subnormal();
                f64::from(if zero { 0f32.copysign(value) } else { value })
            }
            Wide::F16 => F16(bits as u16).to_f32().into(),
            Wide::Bf16 => Bf16(bits as u16).to_f32().into(),
        }
    }

    fn round(self, value: f64, saturates: bool) -> u32 {
        match self {
            Wide::F32 => (value as f32).to_bits(),
            // Scaling by a power of two cannot overflow in binary64.
            Wide::F16 if saturates => {
                F16::from_f64(value).saturated_unless(value.is_infinite()).0.into()
            }
            Wide::F16 => F16::from_f64(value).0.into(),
            Wide::Bf16 => Bf16::from_f32(round_to_odd(value)).0.into(),
        }
    }
}

/// Number of values that an instruction converts, and their layout in registers.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    One,
    /// Two values. Values of 32 bits are in one source operand each, or both in the first one if the second one is a
    /// random number.
    Pair,
    /// 32 values, each in a register of its own.
    Many,
    /// 32 values from two source operands. The first operand contains the values with even numbers, the second those
    /// with odd numbers.
    TwoByTurns,
}

impl Shape {
    fn numbers(self) -> usize {
        match self {
            Shape::One => 1,
            Shape::Pair => 2,
            Shape::Many | Shape::TwoByTurns => 32,
        }
    }
}

const MAX_WORDS: usize = 32;

/// Parts of an instruction's name, for example `v_cvt_scalef32_sr_pk_fp8_f32`.
struct Name<'a> {
    by_chance: bool,
    shape: Shape,
    to: &'a str,
    from: &'a str,
}

fn name(mnemonic: &str) -> Option<Name<'_>> {
    let rest = mnemonic.strip_prefix("v_cvt_scalef32_")?;
    let (by_chance, rest) = rest.strip_prefix("sr_").map_or((false, rest), |rest| (true, rest));
    let shapes = [("pk_", Shape::Pair), ("pk32_", Shape::Many), ("2xpk16_", Shape::TwoByTurns)];
    let shape = shapes.iter().find_map(|(start, shape)| Some((*shape, rest.strip_prefix(start)?)));
    let (shape, rest) = shape.unwrap_or((Shape::One, rest));
    let (to, from) = rest.split_once('_')?;
    Some(Name { by_chance, shape, to, from })
}

/// Returns the four bits of OPSEL. For an instruction with two source operands and a result that has fewer than four
/// selectable parts, LLVM prints only three bits. The last of them is then the fourth bit of OPSEL.
fn op_sel(text: &Text) -> Result<[bool; 4], Unsupported> {
    let set = |bit: u8| bit == 1;
    match text.list("op_sel").as_deref() {
        None => Ok([false; 4]),
        Some(&[first, second, last]) => Ok([set(first), set(second), false, set(last)]),
        Some(&[first, second, third, last]) => Ok([first, second, third, last].map(set)),
        Some(_) => Err(Unsupported),
    }
}

/// Returns the bit position, in a register, of the part that two bits of OPSEL select. The part has `bits` bits.
fn chosen(bits: usize, [low, high]: [bool; 2]) -> Result<usize, Unsupported> {
    match (bits, low, high) {
        (8, ..) => Ok(8 * (usize::from(low) + 2 * usize::from(high))),
        (16, _, false) => Ok(16 * usize::from(low)),
        (32, false, false) => Ok(0),
        _ => Err(Unsupported),
    }
}

/// Direction of the scaling: multiplication or division.
#[derive(Clone, Copy, PartialEq)]
enum ScaleDirection {
    Multiply,
    Divide,
}

/// Scales a number by the exponent of the binary32 number `bits`. If this is the exponent of infinities and NaNs, the
/// result is a NaN with the sign of `value`.
fn scaled(value: f64, way: ScaleDirection, bits: u32) -> f64 {
    match (bits >> 23 & 0xff, way) {
        (0xff, _) => f64::NAN.copysign(value),
        (exponent, ScaleDirection::Multiply) => {
            value * crate::rounding::exponent(exponent as i32 - 127)
        }
        (exponent, ScaleDirection::Divide) => {
            value / crate::rounding::exponent(exponent as i32 - 127)
        }
    }
}

pub(super) fn bind(text: &Text) -> Bound {
    if !text.site.arch.facts().has_gfx950_instructions {
        return Err(Unsupported);
    }
    text.only(&["op_sel"])?;
    let name = name(&text.mnemonic).ok_or(Unsupported)?;
    match (Wide::named(name.to), Wide::named(name.from)) {
        (Some(to), None) => widen(text, &name, to),
        (None, Some(from)) => narrow(text, &name, from),
        _ => Err(Unsupported),
    }
}

fn small(text: &Text, name: &str) -> Result<SmallFloat, Unsupported> {
    SmallFloat::with_a_scale(name, text.site.arch).ok_or(Unsupported)
}

/// A source operand that consists of one or several dwords.
struct Words {
    source: Source,
    count: usize,
}

impl Words {
    /// Parses a source operand without sign modifiers. The operand consists of several registers, of one register, or
    /// of a constant.
    fn bare(text: &Text, index: usize, count: usize) -> Result<Words, Unsupported> {
        if count > 1 {
            text.row(index, count as u16)?;
        }
        Ok(Words { source: text.plain_source::<u32>(index)?, count })
    }

    /// Parses a source operand with values of type `of`, which determines the bits of a constant. A single 32-bit
    /// number may have a sign modifier.
    fn parse(text: &Text, index: usize, count: usize, of: Wide) -> Result<Words, Unsupported> {
        let mut words = Words::bare(text, index, count);
        if of == Wide::F32 && count == 1 {
            words = text.plain_source::<f32>(index).map(|source| Words { source, count });
        }
        let mut words = words?;
        if let Base::Constant(constant) = text.operand(index)?.base {
            words.source.place = Place::Constant(match of {
                Wide::F32 => f32::constant(constant),
                Wide::F16 => Type::of::<F16>().packed(constant).into(),
                Wide::Bf16 => Type::of::<Bf16>().packed(constant).into(),
            });
        }
        Ok(words)
    }

    fn read(&self, wave: &Wave, lane: usize, words: &mut [u32; MAX_WORDS]) {
        if self.count == 1 {
            words[0] = self.source.lane::<f32>(wave, lane).to_bits();
            return;
        }
        for (at, word) in words.iter_mut().enumerate().take(self.count) {
            *word = self.source.word(wave, lane, at);
        }
    }
}

/// Returns `bits` bits from bit position `at` of the words. The field may span two words.
fn field(words: &[u32; MAX_WORDS], at: usize, bits: usize) -> u32 {
    let (word, shift) = (at / 32, at % 32);
    let high = if shift + bits > 32 { u64::from(words[word + 1]) << 32 } else { 0 };
    let all = (high | u64::from(words[word])) >> shift;
    (all & ((1 << bits) - 1)) as u32
}

/// Writes `bits` bits at bit position `at` of the words. The field may span two words. Its bits must be zero before.
fn put(words: &mut [u32; MAX_WORDS], at: usize, bits: usize, value: u32) {
    let (word, shift) = (at / 32, at % 32);
    words[word] |= value << shift;
    if shift + bits > 32 {
        words[word + 1] |= value >> (32 - shift);
    }
}

/// Writes a result of `bits` bits to one lane, starting at register `row`. A result that is smaller than a register is
/// written to bit position `at`, and the other bits of the register are kept.
fn write(
    wave: &mut Wave,
    row: usize,
    lane: usize,
    words: &[u32; MAX_WORDS],
    bits: usize,
    at: usize,
) {
    if bits >= 32 {
        for (word, value) in words.iter().enumerate().take(bits / 32) {
            wave.set_lane(row + word, lane, *value);
        }
        return;
    }
    let field = ((1u32 << bits) - 1) << at;
    let kept = wave.lane(row, lane) & !field;
    wave.set_lane(row, lane, kept | words[0] << at & field);
}

/// Returns the implementation of a conversion `dst, src, scale` from a small format to `to`.
fn widen(text: &Text, name: &Name<'_>, to: Wide) -> Bound {
    let from = small(text, name.from)?;
    let (numbers, bits) = (name.shape.numbers(), from.bits() as usize);
    let select = op_sel(text)?;
    // OPSEL[1:0] selects a part of the source operand if the operand is smaller than a register. OPSEL[3] selects the
    // half of the destination for a 16-bit result.
    let at = chosen((numbers * bits).min(32), [select[0], select[1]])?;
    let result = numbers * to.bits();
    let to_at = chosen(result.min(32), [select[3], select[2]])?;
    let source = Words::bare(text, 1, (numbers * bits).div_ceil(32))?;
    let scale = text.plain_source::<f32>(2)?;
    let row = text.row(0, result.div_ceil(32) as u16)?;
    on_wave(move |wave| {
        let saturates = wave.saturates();
        for lane in active(wave.exec()) {
            let (mut words, mut results) = ([0; MAX_WORDS], [0; MAX_WORDS]);
            source.read(wave, lane, &mut words);
            let scale = scale.word(wave, lane, 0);
            for number in 0..numbers {
                let code = field(&words, at + number * bits, bits) as u8;
                let value = scaled(from.to_f32(code).into(), ScaleDirection::Multiply, scale);
                let value = to.round(value, saturates);
                put(&mut results, number * to.bits(), to.bits(), value);
            }
            write(wave, row, lane, &results, result, to_at);
        }
    })
}

/// Returns the implementation of a conversion `dst, src, [src or random,] scale` from `from` to a small format.
fn narrow(text: &Text, name: &Name<'_>, from: Wide) -> Bound {
    let to = small(text, name.to)?;
    let (numbers, bits) = (name.shape.numbers(), to.bits() as usize);
    let select = op_sel(text)?;
    if select[0] || select[1] {
        return Err(Unsupported);
    }
    let result = numbers * bits;
    // OPSEL[3] selects the half of the destination for a 16-bit result. OPSEL[3:2] selects the byte for an 8-bit
    // result.
    let choice = if result == 16 { [select[3], select[2]] } else { [select[2], select[3]] };
    let at = chosen(result.min(32), choice)?;
    // True if the numbers are distributed over two source operands.
    let two = name.shape == Shape::TwoByTurns
        || name.shape == Shape::Pair && from == Wide::F32 && !name.by_chance;
    let words = (numbers * from.bits()).div_ceil(if two { 64 } else { 32 });
    let first = Words::parse(text, 1, words, from)?;
    let second = if two { Some(Words::parse(text, 2, words, from)?) } else { None };
    let random = if name.by_chance { Some(text.plain_source::<u32>(2)?) } else { None };
    let more = usize::from(two || name.by_chance);
    let scale = text.plain_source::<f32>(2 + more)?;
    let row = text.row(0, result.div_ceil(32) as u16)?;
    on_wave(move |wave| {
        let to = to.saturating(wave.saturates());
        for lane in active(wave.exec()) {
            let (mut a, mut b, mut results) = ([0; MAX_WORDS], [0; MAX_WORDS], [0; MAX_WORDS]);
            first.read(wave, lane, &mut a);
            if let Some(second) = &second {
                second.read(wave, lane, &mut b);
            }
            let mut chance = random.as_ref().map(|random| random.word(wave, lane, 0));
            let scale = scale.word(wave, lane, 0);
            for number in 0..numbers {
                let bits_of_source = match (two, number % 2) {
                    (false, _) => field(&a, number * from.bits(), from.bits()),
                    (true, 0) => field(&a, number / 2 * from.bits(), from.bits()),
                    (true, _) => field(&b, number / 2 * from.bits(), from.bits()),
                };
                let value = scaled(from.read(wave, bits_of_source), ScaleDirection::Divide, scale);
                let code = match chance {
                    None => to.round(value),
                    Some(random) => to.round_by_chance(value, random, from.fraction()),
                };
                chance = chance.map(next_random);
                put(&mut results, number * bits, bits, code.into());
            }
            write(wave, row, lane, &results, result, at);
        }
    })
}
