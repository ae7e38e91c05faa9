//! Formats of matrix elements, and their arithmetic.

use crate::{
    float16::{Bf16, F16},
    registers::Half,
    small_float::SmallFloat,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Input {
    F64,
    F32,
    /// Float with reduced precision: a binary32 whose 13 lowest significand bits are ignored.
    Xf32,
    F16,
    Bf16,
    Fp8(SmallFloat),
    Int8 {
        signed: bool,
    },
    Int4 {
        signed: bool,
    },
}

impl Input {
    pub(super) fn bits(self) -> usize {
        match self {
            Input::F64 => 64,
            Input::F32 | Input::Xf32 => 32,
            Input::F16 | Input::Bf16 => 16,
            Input::Fp8(_) | Input::Int8 { .. } => 8,
            Input::Int4 { .. } => 4,
        }
    }
}

/// Type of the elements of C and D, in which products are added.
pub(super) trait Accumulator: Copy + Send + Sync + 'static {
    const ZERO: Self;
    const WORDS: usize;
    fn from_words(low: u32, high: u32) -> Self;
    fn words(self) -> [u32; 2];
    /// Reads element number `index` of a lane. `words` are the registers of the operand.
    fn element(input: Input, words: &[&Half], index: usize, lane: usize) -> Self;
    fn multiply_add(self, a: Self, b: Self) -> Self;
    /// Returns the saturated sum, for the modifier `clamp`. Only instructions on integers have this modifier.
    fn saturating_add(self, other: Self) -> Self;
    fn negated(self) -> Self;
}

impl Accumulator for f32 {
    const ZERO: f32 = 0.0;
    const WORDS: usize = 1;
    #[inline(always)]
    fn from_words(low: u32, _: u32) -> f32 {
        f32::from_bits(low)
    }
    #[inline(always)]
    fn words(self) -> [u32; 2] {
        [self.to_bits(), 0]
    }
    #[inline(always)]
    fn element(input: Input, words: &[&Half], index: usize, lane: usize) -> f32 {
        let half = |index: usize| (words[index / 2][lane] >> (16 * (index % 2))) as u16;
        match input {
            Input::F16 => F16(half(index)).to_f32(),
            Input::Bf16 => Bf16(half(index)).to_f32(),
            Input::Fp8(format) => {
                format.to_f32((words[index / 4][lane] >> (8 * (index % 4))) as u8)
            }
            Input::Xf32 => f32::from_bits(words[index][lane] & !0x1fff),
            _ => f32::from_bits(words[index][lane]),
        }
    }
    #[inline(always)]
    fn multiply_add(self, a: f32, b: f32) -> f32 {
        a.mul_add(b, self)
    }
    fn saturating_add(self, other: f32) -> f32 {
        self + other
    }
    #[inline(always)]
    fn negated(self) -> f32 {
        -self
    }
}

impl Accumulator for f64 {
    const ZERO: f64 = 0.0;
    const WORDS: usize = 2;
    #[inline(always)]
    fn from_words(low: u32, high: u32) -> f64 {
        f64::from_bits(u64::from(low) | u64::from(high) << 32)
    }
    #[inline(always)]
    fn words(self) -> [u32; 2] {
        [self.to_bits() as u32, (self.to_bits() >> 32) as u32]
    }
    #[inline(always)]
    fn element(_: Input, words: &[&Half], index: usize, lane: usize) -> f64 {
        f64::from_words(words[2 * index][lane], words[2 * index + 1][lane])
    }
    #[inline(always)]
    fn multiply_add(self, a: f64, b: f64) -> f64 {
        a.mul_add(b, self)
    }
    fn saturating_add(self, other: f64) -> f64 {
        self + other
    }
    #[inline(always)]
    fn negated(self) -> f64 {
        -self
    }
}

impl Accumulator for i32 {
    const ZERO: i32 = 0;
    const WORDS: usize = 1;
    #[inline(always)]
    fn from_words(low: u32, _: u32) -> i32 {
        low as i32
    }
    #[inline(always)]
    fn words(self) -> [u32; 2] {
        [self as u32, 0]
    }
    #[inline(always)]
    fn element(input: Input, words: &[&Half], index: usize, lane: usize) -> i32 {
        let (per_word, signed) = match input {
            Input::Int4 { signed } => (8, signed),
            Input::Int8 { signed } => (4, signed),
            _ => (4, true),
        };
        let bits = 32 / per_word;
        let top = words[index / per_word][lane] << (32 - bits * (index % per_word + 1));
        if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
    }
    #[inline(always)]
    fn multiply_add(self, a: i32, b: i32) -> i32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    fn saturating_add(self, other: i32) -> i32 {
        i32::saturating_add(self, other)
    }
    #[inline(always)]
    fn negated(self) -> i32 {
        self.wrapping_neg()
    }
}

/// Rounds an intermediate sum to binary16.
pub(super) fn in_half<T: Accumulator>(sum: T, round: fn(f32) -> F16) -> T {
    T::from_words(round(f32::from_bits(sum.words()[0])).to_f32().to_bits(), 0)
}
