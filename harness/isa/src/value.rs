//! Types of operands and results, and how they are read from registers and constants.

use crate::{
    float16::{Bf16, F16},
    registers::Half,
    text::Constant,
};

/// Type of one value in a lane or in scalar registers. A value occupies one or two 32-bit registers, or half a
/// register.
pub(crate) trait Value: Copy + Send + Sync + 'static {
    const WORDS: usize;
    /// True if the value has 16 bits and occupies half a register.
    const HALF: bool = false;
    /// True for 32-bit floats. MODE may flush their denormals.
    const SINGLE: bool = false;
    /// Mask of the sign bit of a float; 0 for integers, which have no `neg` and `abs` modifiers.
    const SIGN: u64 = 0;

    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    /// Returns the bits of an inline constant or a literal that is read as this type.
    fn constant(constant: Constant) -> u64;
    /// True if `MODE.FP16_OVFL` turns results of this type that are too large into the largest finite number.
    const SATURATES: bool = false;
    /// Returns the class of a source operand. The classes determine whether `MODE.FP16_OVFL` replaces an infinite
    /// result.
    fn class(self) -> Class {
        Class::Other
    }
    /// Replaces an infinity by the largest finite number of the same sign, if [`Value::SATURATES`] is true. Returns any
    /// other value unchanged.
    fn saturated(self) -> Self {
        self
    }
    /// Multiplies by the factor of the output modifiers. Zeros and denormals become +0, and denormal results become
    /// zeros of the same sign.
    fn scaled(self, _factor: f32) -> Self {
        self
    }
    /// Clamps to the range from 0 to 1. -0 becomes +0. A NaN becomes 0 unless `keeps_nans` is true.
    fn clamped(self, _keeps_nans: bool) -> Self {
        self
    }
}

/// Properties and functions of a [`Value`] type as data. Code that uses them is compiled once, and not once per
/// operation.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    pub(crate) words: usize,
    pub(crate) half: bool,
    pub(crate) single: bool,
    pub(crate) sign: u64,
    pub(crate) saturates: bool,
    pub(crate) constant: fn(Constant) -> u64,
    pub(crate) class: fn(u64) -> Class,
    pub(crate) saturated: fn(u64) -> u64,
    /// Applies [`Value::scaled`] to 32 lanes. If the last argument is true, also applies [`Value::saturated`] to the
    /// lanes that became infinite by the scaling.
    pub(crate) scaled: fn(&mut [Half; 2], f32, bool),
    pub(crate) clamped: fn(&mut [Half; 2], bool),
}

impl Type {
    pub(crate) fn of<T: Value>() -> &'static Type {
        const { &Type::new::<T>() }
    }

    const fn new<T: Value>() -> Type {
        Type {
            words: T::WORDS,
            half: T::HALF,
            single: T::SINGLE,
            sign: T::SIGN,
            saturates: T::SATURATES,
            constant: T::constant,
            class: |bits| T::from_bits(bits).class(),
            saturated: |bits| T::from_bits(bits).saturated().bits(),
            scaled: |words, factor, saturates| {
                change(words, |value: T| {
                    let overflows = saturates && value.class() != Class::Infinite;
                    let value = value.scaled(factor);
                    if overflows { value.saturated() } else { value }
                });
            },
            clamped: |words, keeps_nans| change(words, |value: T| value.clamped(keeps_nans)),
        }
    }

    /// Returns a constant operand of a packed 16-bit instruction as a word, of which `op_sel` and `op_sel_hi` select
    /// the halves. The upper half of an inline integer contains its sign. An inline float is a binary16 number in the
    /// lower half, or a whole binary32 number for integer instructions (LLVM, `getInlineEncodingV216` in
    /// AMDGPUBaseInfo.cpp).
    pub(crate) fn packed(&self, constant: Constant) -> u32 {
        match constant {
            Constant::Inline(value) => value as u32,
            Constant::Literal(value) => value as u32,
            Constant::Float(_) if self.sign == 0 => constant32(constant) as u32,
            Constant::Float(_) => (self.constant)(constant) as u32,
        }
    }

    /// Returns the type for values that are only moved. MODE does not affect them.
    pub(crate) fn moved<T: Value>() -> &'static Type {
        const { &Type { single: false, saturates: false, ..Type::new::<T>() } }
    }
}

#[inline(always)]
pub(crate) fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn change<T: Value>(words: &mut [Half; 2], f: impl Fn(T) -> T) {
    let [low, high] = words;
    for (low, high) in low.iter_mut().zip(high) {
        let bits = f(T::from_bits(joined(*low, *high))).bits();
        (*low, *high) = (bits as u32, (bits >> 32) as u32);
    }
}

/// Class of a source operand. The classes of all source operands determine whether `MODE.FP16_OVFL` replaces an
/// infinite result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Zero,
    Infinite,
    Other,
}

impl Class {
    fn from_f64(value: f64) -> Class {
        match value {
            0.0 => Class::Zero,
            _ if value.is_infinite() => Class::Infinite,
            _ => Class::Other,
        }
    }

    /// Returns true if an infinite result of these source operands is exact and not an overflow, so that it stays
    /// infinite under `MODE.FP16_OVFL` (the ISA guides). This is the case if an operand is infinite, and for a division
    /// by zero if `divides` is true. An operation with a single source operand that turns zero into infinity is a
    /// division or a logarithm.
    pub(crate) fn makes_infinity(sources: &[Class], divides: bool) -> bool {
        sources.contains(&Class::Infinite) || divides && sources == [Class::Zero]
    }
}

fn constant32(constant: Constant) -> u64 {
    match constant {
        Constant::Inline(value) => u64::from(value as u32),
        Constant::Literal(value) => u64::from(value as u32),
        Constant::Float(value) => u64::from((value as f32).to_bits()),
    }
}

/// Bits of 1/(2*pi). The disassembler may print fewer digits than the constant has, because this is the only inline
/// constant that is not exact in decimal.
const INVERSE_TWO_PI: u64 = 0x3fc4_5f30_6dc9_c882;

fn float64(value: f64) -> u64 {
    if (value - f64::from_bits(INVERSE_TWO_PI)).abs() < 1e-4 {
        INVERSE_TWO_PI
    } else {
        value.to_bits()
    }
}

macro_rules! integer {
    ($type:ty, words $words:expr, half $half:expr, $constant:expr) => {
        impl Value for $type {
            const WORDS: usize = $words;
            const HALF: bool = $half;
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $type
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                // The conversion uses the unsigned 32-bit or 64-bit type, so that the sign is not extended beyond the
                // type.
                integer_bits(self as i64 as u64, $words, $half)
            }
            fn constant(constant: Constant) -> u64 {
                $constant(constant)
            }
        }
    };
}

#[inline(always)]
fn integer_bits(bits: u64, words: usize, half: bool) -> u64 {
    match (words, half) {
        (1, true) => bits & 0xffff,
        (1, false) => bits & 0xffff_ffff,
        _ => bits,
    }
}

fn constant16(constant: Constant) -> u64 {
    match constant {
        Constant::Inline(value) => u64::from(value as u16),
        Constant::Literal(value) => u64::from(value as u16),
        Constant::Float(value) => u64::from(F16::from_f32(value as f32).0),
    }
}

integer!(u32, words 1, half false, constant32);
integer!(i32, words 1, half false, constant32);
integer!(u16, words 1, half true, constant16);
integer!(i16, words 1, half true, constant16);
integer!(u64, words 2, half false, |constant| match constant {
    Constant::Inline(value) => value as u64,
    Constant::Literal(value) => value,
    Constant::Float(value) => float64(value),
});
integer!(i64, words 2, half false, |constant| match constant {
    Constant::Inline(value) => value as u64,
    Constant::Literal(value) if value <= u64::from(u32::MAX) => i64::from(value as i32) as u64,
    Constant::Literal(value) => value,
    Constant::Float(value) => float64(value),
});

impl Value for f32 {
    const WORDS: usize = 1;
    const SINGLE: bool = true;
    const SIGN: u64 = 1 << 31;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn constant(constant: Constant) -> u64 {
        constant32(constant)
    }
    fn scaled(self, factor: f32) -> Self {
        let product = if self.abs() < f32::MIN_POSITIVE { 0.0 } else { self * factor };
        if product.abs() < f32::MIN_POSITIVE { 0f32.copysign(product) } else { product }
    }
    fn class(self) -> Class {
        Class::from_f64(self.into())
    }
    fn clamped(self, keeps_nans: bool) -> Self {
        match self.is_nan() {
            true if keeps_nans => self,
            true => 0.0,
            // Adding 0.0 turns -0 into +0.
            false => self.clamp(0.0, 1.0) + 0.0,
        }
    }
}

impl Value for f64 {
    const WORDS: usize = 2;
    const SIGN: u64 = 1 << 63;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn constant(constant: Constant) -> u64 {
        match constant {
            Constant::Inline(value) => value as u64,
            // A 32-bit literal is the high word of a 64-bit float.
            Constant::Literal(value) if value <= u64::from(u32::MAX) => value << 32,
            Constant::Literal(value) => value,
            Constant::Float(value) => float64(value),
        }
    }
    fn scaled(self, factor: f32) -> Self {
        let product = if self.abs() < f64::MIN_POSITIVE { 0.0 } else { self * f64::from(factor) };
        if product.abs() < f64::MIN_POSITIVE { 0f64.copysign(product) } else { product }
    }
    fn class(self) -> Class {
        Class::from_f64(self)
    }
    fn clamped(self, keeps_nans: bool) -> Self {
        match self.is_nan() {
            true if keeps_nans => self,
            true => 0.0,
            // Adding 0.0 turns -0 into +0.
            false => self.clamp(0.0, 1.0) + 0.0,
        }
    }
}

impl Value for F16 {
    const WORDS: usize = 1;
    const HALF: bool = true;
    const SIGN: u64 = 1 << 15;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        F16(bits as u16)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
    fn constant(constant: Constant) -> u64 {
        constant16(constant)
    }
    fn scaled(self, factor: f32) -> Self {
        if self.0 & 0x7c00 == 0 {
            return F16(0);
        }
        let product = F16::from_f32(self.to_f32() * factor);
        if product.0 & 0x7c00 == 0 { F16(product.0 & 0x8000) } else { product }
    }
    const SATURATES: bool = true;
    fn class(self) -> Class {
        self.to_f32().class()
    }
    fn saturated(self) -> Self {
        self.saturated_unless(false)
    }
    fn clamped(self, keeps_nans: bool) -> Self {
        F16::from_f32(self.to_f32().clamped(keeps_nans))
    }
}

impl Value for Bf16 {
    const WORDS: usize = 1;
    const HALF: bool = true;
    const SIGN: u64 = 1 << 15;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Bf16(bits as u16)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
    fn constant(constant: Constant) -> u64 {
        match constant {
            Constant::Float(value) => u64::from(Bf16::from_f32(value as f32).0),
            other => constant16(other),
        }
    }
    fn scaled(self, factor: f32) -> Self {
        if self.0 & 0x7f80 == 0 {
            return Bf16(0);
        }
        let product = Bf16::from_f32(self.to_f32() * factor);
        if product.0 & 0x7f80 == 0 { Bf16(product.0 & 0x8000) } else { product }
    }
    fn class(self) -> Class {
        self.to_f32().class()
    }
    fn clamped(self, keeps_nans: bool) -> Self {
        Bf16::from_f32(self.to_f32().clamped(keeps_nans))
    }
}

/// A binary32 source operand whose denormals are never flushed, whatever MODE says.
#[derive(Clone, Copy)]
pub(crate) struct UnflushedF32(pub(crate) f32);

impl Value for UnflushedF32 {
    const WORDS: usize = f32::WORDS;
    const SIGN: u64 = f32::SIGN;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        UnflushedF32(<f32 as Value>::from_bits(bits))
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0.bits()
    }
    fn constant(constant: Constant) -> u64 {
        f32::constant(constant)
    }
}

/// A binary16 result that `MODE.FP16_OVFL` does not affect.
#[derive(Clone, Copy)]
pub(crate) struct NeverSaturatedF16(pub(crate) F16);

impl Value for NeverSaturatedF16 {
    const WORDS: usize = F16::WORDS;
    const HALF: bool = F16::HALF;
    const SIGN: u64 = F16::SIGN;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        NeverSaturatedF16(F16::from_bits(bits))
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0.bits()
    }
    fn constant(constant: Constant) -> u64 {
        F16::constant(constant)
    }
    fn class(self) -> Class {
        self.0.class()
    }
    fn saturated(self) -> Self {
        NeverSaturatedF16(self.0.saturated())
    }
    fn scaled(self, factor: f32) -> Self {
        NeverSaturatedF16(self.0.scaled(factor))
    }
    fn clamped(self, keeps_nans: bool) -> Self {
        NeverSaturatedF16(self.0.clamped(keeps_nans))
    }
}

#[inline(always)]
pub(crate) fn flushed(a: f32) -> f32 {
    if a.abs() < f32::MIN_POSITIVE { 0f32.copysign(a) } else { a }
}

/// Flushes `value`, a source operand or result, if it is a denormal, `flushes` is set and `T` is a 32-bit float.
/// Returns any other value unchanged.
#[inline(always)]
pub(crate) fn flushed_where<T: Value>(flushes: bool, value: T) -> T {
    if !(T::SINGLE && flushes) {
        return value;
    }
    T::from_bits(flushed(f32::from_bits(value.bits() as u32)).to_bits().into())
}
