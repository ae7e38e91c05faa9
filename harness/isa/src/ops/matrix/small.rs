//! Matrix products of 4-bit, 6-bit or 8-bit elements (GFX950). A and B may have different formats, and may have a scale
//! for every 32 elements along k.
//!
//! Source: the CDNA 4 ISA guide, "8-bit and Smaller Matrix Operations and Layouts" and "MFMA with Block Exponent
//! Scaling". Tables that were measured for the tests of composable_kernel (`scale_mapping_16x16x128.txt`) confirm that
//! the scale depends on an element's k and not on its lane. AMD has not published the order and rounding of the
//! additions. This module adds the products of a block in ascending order of k, then scales their sum and adds it to
//! the result, with a single rounding.

use crate::{
    exec::{Bound, Lanes, bind_lanes},
    float16::add_to_odd,
    registers::HALF,
    small_float::SmallFloat,
    source::Place,
    text::{Base, Text, Unsupported},
    value::Value,
    wave::Wave,
};

use super::registers;

/// Number of elements with a common scale.
const BLOCK: usize = 32;
/// Number of elements of A, which is also that of B: 16 by 128 or 32 by 64.
const ELEMENTS: usize = 2048;
/// Number of elements of A in each lane.
const VALUES: usize = ELEMENTS / 64;
/// Maximum number of elements of C and D in each lane: 16 by 16 or 32 by 32 elements in 64 lanes.
const MAX_RESULTS: usize = 16;

#[derive(Clone, Copy)]
struct Factor {
    row: usize,
    format: SmallFloat,
    scale: Scale,
}

/// Location of the scales of A or B, which are exponents.
#[derive(Clone, Copy)]
enum Scale {
    None,
    /// Each lane has its own scale, in byte `byte` of a register.
    Register {
        row: usize,
        byte: usize,
    },
    /// All blocks have the scale with this exponent.
    Same(u8),
}

/// An instruction that multiplies an N by K matrix with a K by N matrix.
struct Multiply<const N: usize> {
    a: Factor,
    b: Factor,
    c: Place,
    d: usize,
}

/// Returns the format of elements that the 3-bit field called `field` selects.
fn format(text: &Text, field: &str) -> Result<SmallFloat, Unsupported> {
    let names = ["fp8", "bf8", "fp6", "bf6", "fp4"];
    let index = usize::try_from(text.number(field)?).map_err(|_| Unsupported)?;
    let name = names.get(index).ok_or(Unsupported)?;
    SmallFloat::with_a_scale(name, text.site.arch).ok_or(Unsupported)
}

/// Parses the scale of A or B. The scale is in a register, of which two bits select a byte, or it is the exponent of an
/// inline float.
fn scale(text: &Text, source: usize) -> Result<Scale, Unsupported> {
    let bit = |name, default| {
        text.list(name).map_or(default, |list| list.get(source).copied() == Some(1))
    };
    let byte = usize::from(bit("op_sel", false)) + 2 * usize::from(bit("op_sel_hi", true));
    match &text.operand(4 + source)?.base {
        Base::Vector { first, count: 1 } => Ok(Scale::Register { row: usize::from(*first), byte }),
        Base::Constant(constant @ crate::text::Constant::Float(_)) => {
            Ok(Scale::Same((f32::constant(*constant) >> 23) as u8))
        }
        _ => Err(Unsupported),
    }
}

pub(super) fn bind(text: &Text, rest: &str) -> Bound {
    let (scaled, shape) = match rest.strip_prefix("scale_") {
        Some(shape) => (true, shape),
        None => (false, rest),
    };
    text.only(if scaled { &["cbsz", "blgp", "op_sel", "op_sel_hi"] } else { &["cbsz", "blgp"] })?;
    if text.operands.iter().any(|operand| operand.negate || operand.absolute) {
        return Err(Unsupported);
    }
    let factor = |source: usize, field: &str| -> Result<Factor, Unsupported> {
        let format = format(text, field)?;
        let (row, words) = registers(text, 1 + source)?;
        if words * 32 != VALUES * format.bits() as usize {
            return Err(Unsupported);
        }
        let scale = if scaled { scale(text, source)? } else { Scale::None };
        Ok(Factor { row, format, scale })
    };
    let (a, b) = (factor(0, "cbsz")?, factor(1, "blgp")?);
    match shape {
        "f32_16x16x128_f8f6f4" => multiply::<16>(text, a, b),
        "f32_32x32x64_f8f6f4" => multiply::<32>(text, a, b),
        _ => Err(Unsupported),
    }
}

fn multiply<const N: usize>(text: &Text, a: Factor, b: Factor) -> Bound {
    let (d, words) = registers(text, 0)?;
    let c = match &text.operand(3)?.base {
        Base::Vector { first, count } if usize::from(*count) == words => Place::Vector(*first),
        Base::Constant(constant) => Place::Constant(f32::constant(*constant)),
        _ => return Err(Unsupported),
    };
    if words != N * N / 64 {
        return Err(Unsupported);
    }
    bind_lanes(Multiply::<N> { a, b, c, d })
}

impl Factor {
    /// Returns the index k of element number `value` in the lanes of group number `group`. A group has N lanes.
    fn k(self, groups: usize, group: usize, value: usize) -> usize {
        // A lane has two runs of 16 consecutive 8-bit elements. In the order of k, the first runs of all groups come
        // before the second runs.
        match self.format.bits() {
            8 => 16 * (value / 16 * groups + group) + value % 16,
            _ => BLOCK * group + value,
        }
    }

    /// Reads all elements, in the order of k. N consecutive elements have the same k.
    fn load<const N: usize>(self, wave: &Wave) -> [f32; ELEMENTS] {
        let bits = self.format.bits() as usize;
        let numbers: [f32; 256] = std::array::from_fn(|code| self.format.to_f32(code as u8));
        let mut elements = [0.0; ELEMENTS];
        for lane in 0..64 {
            for value in 0..VALUES {
                let (word, shift) = (value * bits / 32, value * bits % 32);
                let low = u64::from(wave.lane(self.row + word, lane)) >> shift;
                // A 6-bit element may span two registers.
                let high = match shift + bits > 32 {
                    true => u64::from(wave.lane(self.row + word + 1, lane)) << (32 - shift),
                    false => 0,
                };
                let code = (low | high) as usize & ((1 << bits) - 1);
                elements[self.k(64 / N, lane / N, value) * N + lane % N] = numbers[code];
            }
        }
        elements
    }

    /// Returns the exponent, without bias, of the scale that applies to row or column `index` (of A or B) in block
    /// `block`. Returns `None` for a NaN.
    fn scale<const N: usize>(self, wave: &Wave, block: usize, index: usize) -> Option<i32> {
        let code = match self.scale {
            Scale::None => return Some(0),
            Scale::Same(code) => code,
            Scale::Register { row, byte } => {
                (wave.lane(row, index + N * block) >> (8 * byte)) as u8
            }
        };
        (code != u8::MAX).then(|| i32::from(code) - 127)
    }
}

/// Returns the number of the register and the number of the lane that contain an element of C or D.
fn place<const N: usize>(row: usize, column: usize) -> (usize, usize) {
    let groups = 64 / N;
    (4 * (row / (4 * groups)) + row % 4, column + N * (row / 4 % groups))
}

/// Adds the scaled sum of a block to `sum` with a single rounding.
fn add_scaled(sum: f32, block: f32, scale: Option<i32>) -> f32 {
    let factor = scale.map_or(f64::NAN, crate::rounding::exponent);
    add_to_odd(f64::from(block) * factor, f64::from(sum)) as f32
}

impl<const N: usize> Lanes for Multiply<N> {
    // All lanes take part, because the instruction ignores EXEC.
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let (a, b) = (self.a.load::<N>(wave), self.b.load::<N>(wave));
        // All results are computed before the first write, because D may overlap A, B or C.
        let mut results = [[0f32; 64]; MAX_RESULTS];
        for row in 0..N {
            let mut sums = [0f32; N];
            for (column, sum) in sums.iter_mut().enumerate() {
                let (register, lane) = place::<N>(row, column);
                *sum = match self.c {
                    Place::Vector(first) => {
                        f32::from_bits(wave.lane(usize::from(first) + register, lane))
                    }
                    Place::Constant(bits) => f32::from_bits(bits as u32),
                    _ => 0.0,
                };
            }
            for block in 0..ELEMENTS / N / BLOCK {
                let mut dots = [0f32; N];
                for k in block * BLOCK..(block + 1) * BLOCK {
                    let factor = a[k * N + row];
                    for (dot, element) in dots.iter_mut().zip(&b[k * N..][..N]) {
                        *dot = factor.mul_add(*element, *dot);
                    }
                }
                let of_a = self.a.scale::<N>(wave, block, row);
                for (column, sum) in sums.iter_mut().enumerate() {
                    let of_b = self.b.scale::<N>(wave, block, column);
                    let scale = of_a.zip(of_b).map(|(a, b)| a + b);
                    *sum = add_scaled(*sum, dots[column], scale);
                }
            }
            for (column, sum) in sums.into_iter().enumerate() {
                let (register, lane) = place::<N>(row, column);
                results[register][lane] = sum;
            }
        }
        for (register, lanes) in results.iter().enumerate().take(N * N / 64) {
            for half in 0..2 {
                let of_half = &lanes[half * HALF..][..HALF];
                let target = &mut wave.vector[self.d + register][half];
                target.iter_mut().zip(of_half).for_each(|(lane, value)| *lane = value.to_bits());
            }
        }
    }
}
