//! Implements float arithmetic in each rounding mode.
//!
//! [`Nearest`] uses the host's arithmetic, which rounds to nearest even. Nearly all kernels use this mode. [`Rounding`]
//! implements the other modes: it computes exact results in integers and rounds them once.

use crate::float16::F16;

/// A rounding mode other than round to nearest even: a value of `MODE.FP_ROUND` other than 0. Source: the ISA guides,
/// "Mode register".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Upward,
    Downward,
    TowardZero,
}

impl Rounding {
    /// Parses a rounding field of MODE; `None` for 0, which means round to nearest even.
    pub(crate) fn from_mode_bits(field: u32) -> Option<Rounding> {
        match field & 3 {
            0 => None,
            1 => Some(Rounding::Upward),
            2 => Some(Rounding::Downward),
            _ => Some(Rounding::TowardZero),
        }
    }

    fn is_away(self, negative: bool) -> bool {
        match self {
            Rounding::Upward => !negative,
            Rounding::Downward => negative,
            Rounding::TowardZero => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// MODE\[1:0\]: rounding of 32-bit results.
    Single,
    /// MODE\[3:2\]: rounding of 16-bit and 64-bit results.
    Double,
}

impl Field {
    pub(crate) const ALL: u32 = 0xf;

    /// Returns the rounding mode that this field of `mode` selects; `None` means round to nearest even.
    pub(crate) fn of(self, mode: u32) -> Option<Rounding> {
        Rounding::from_mode_bits(match self {
            Field::Single => mode,
            Field::Double => mode >> 2,
        })
    }
}

/// A rounding mode, which may be round to nearest even. Operations are generic over the rounding mode.
pub(crate) trait Rounds: Copy + Send + Sync + 'static {
    fn add<T: Float>(self, a: T, b: T) -> T;
    fn subtract<T: Float>(self, a: T, b: T) -> T;
    fn multiply<T: Float>(self, a: T, b: T) -> T;
    fn fused<T: Float>(self, a: T, b: T, c: T) -> T;
    fn scale<T: Float>(self, value: T, power: i32) -> T;
    fn convert<S: Float, T: Float>(self, value: S) -> T;
    fn to_integer(self, value: f32) -> f32;
}

#[derive(Clone, Copy)]
pub(crate) struct Nearest;

impl Rounds for Nearest {
    #[inline(always)]
    fn add<T: Float>(self, a: T, b: T) -> T {
        a.plus(b)
    }
    #[inline(always)]
    fn subtract<T: Float>(self, a: T, b: T) -> T {
        a.minus(b)
    }
    #[inline(always)]
    fn multiply<T: Float>(self, a: T, b: T) -> T {
        a.times(b)
    }
    #[inline(always)]
    fn fused<T: Float>(self, a: T, b: T, c: T) -> T {
        a.times_plus(b, c)
    }
    #[inline(always)]
    fn scale<T: Float>(self, value: T, power: i32) -> T {
        value.scaled(power)
    }
    #[inline(always)]
    fn convert<S: Float, T: Float>(self, value: S) -> T {
        T::nearest(value.wide())
    }
    #[inline(always)]
    fn to_integer(self, value: f32) -> f32 {
        value.round_ties_even()
    }
}

/// A float format that results are rounded to.
pub(crate) trait Float: Copy {
    /// Number of bits of the significand, including the hidden one.
    const PRECISION: i32;
    const MIN_EXPONENT: i32;
    const INFINITY: u128;
    fn from_code(negative: bool, code: u64) -> Self;
    fn wide(self) -> f64;
    fn special(value: f64) -> Self;
    fn negated(self) -> Self;
    // The methods below round to nearest even. They use the host's arithmetic.
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn times_plus(self, factor: Self, addend: Self) -> Self;
    fn scaled(self, power: i32) -> Self;
    fn nearest(value: f64) -> Self;
}

/// Implements the arithmetic for a type with the operations of the host.
macro_rules! of_the_host {
    ($scale:ident) => {
        fn negated(self) -> Self {
            -self
        }
        #[inline(always)]
        fn plus(self, other: Self) -> Self {
            self + other
        }
        #[inline(always)]
        fn minus(self, other: Self) -> Self {
            self - other
        }
        #[inline(always)]
        fn times(self, other: Self) -> Self {
            self * other
        }
        #[inline(always)]
        fn times_plus(self, factor: Self, addend: Self) -> Self {
            self.mul_add(factor, addend)
        }
        #[inline(always)]
        fn scaled(self, power: i32) -> Self {
            $scale(self, power)
        }
        #[inline(always)]
        fn nearest(value: f64) -> Self {
            value as Self
        }
    };
}

impl Float for f64 {
    const PRECISION: i32 = 53;
    const MIN_EXPONENT: i32 = -1074;
    const INFINITY: u128 = 0x7ff << 52;
    fn from_code(negative: bool, code: u64) -> f64 {
        f64::from_bits(code | u64::from(negative) << 63)
    }
    fn wide(self) -> f64 {
        self
    }
    fn special(value: f64) -> f64 {
        value
    }
    of_the_host!(scale_f64);
}

impl Float for f32 {
    const PRECISION: i32 = 24;
    const MIN_EXPONENT: i32 = -149;
    const INFINITY: u128 = 0xff << 23;
    fn from_code(negative: bool, code: u64) -> f32 {
        f32::from_bits(code as u32 | u32::from(negative) << 31)
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn special(value: f64) -> f32 {
        value as f32
    }
    of_the_host!(scale_f32);
}

impl Float for F16 {
    const PRECISION: i32 = 11;
    const MIN_EXPONENT: i32 = -24;
    const INFINITY: u128 = 0x1f << 10;
    fn from_code(negative: bool, code: u64) -> F16 {
        F16(code as u16 | u16::from(negative) << 15)
    }
    fn wide(self) -> f64 {
        self.to_f32().into()
    }
    fn special(value: f64) -> F16 {
        F16::from_f32(value as f32)
    }
    fn negated(self) -> F16 {
        F16(self.0 ^ 0x8000)
    }
    // f32 has more than twice the digits of f16. Therefore rounding first to f32 and then to f16 gives the same result
    // as rounding once.
    #[inline(always)]
    fn plus(self, other: F16) -> F16 {
        F16::from_f32(self.to_f32() + other.to_f32())
    }
    #[inline(always)]
    fn minus(self, other: F16) -> F16 {
        F16::from_f32(self.to_f32() - other.to_f32())
    }
    #[inline(always)]
    fn times(self, other: F16) -> F16 {
        F16::from_f32(self.to_f32() * other.to_f32())
    }
    #[inline(always)]
    fn times_plus(self, factor: F16, addend: F16) -> F16 {
        self.mul_add(factor, addend)
    }
    fn scaled(self, power: i32) -> F16 {
        F16::from_f64(f64::from(self.to_f32()) * exponent(power.clamp(-100, 100)))
    }
    fn nearest(value: f64) -> F16 {
        F16::from_f64(value)
    }
}

pub(crate) fn scale_f32(x: f32, n: i32) -> f32 {
    // An f32 times 2^-800..=2^800 is exact in f64, so only the conversion to f32 rounds. With larger or smaller powers,
    // the result is zero or infinity anyway.
    (f64::from(x) * exponent(n.clamp(-800, 800))) as f32
}

pub(crate) fn scale_f64(x: f64, n: i32) -> f64 {
    // An infinity times a factor that has underflowed to zero would be a NaN.
    if !x.is_finite() {
        return if x.is_nan() { x + x } else { x };
    }
    let n = n.clamp(-2200, 2200);
    if n < -1022 {
        // All intermediate results stay normal, so only the last multiplication rounds.
        let (normal, rest) = (x * exponent(-1022 + 53), n + 1022 - 53);
        return match rest {
            ..-1022 => normal * exponent(-600) * exponent(rest + 600),
            _ => normal * exponent(rest),
        };
    }
    if n > 1023 {
        let rest = n - 1023;
        return if rest > 1023 {
            x * exponent(1023) * exponent(1023) * exponent((rest - 1023).min(1023))
        } else {
            x * exponent(1023) * exponent(rest)
        };
    }
    x * exponent(n)
}

/// Returns 2^n. `n` must be the exponent of a normal number.
pub(crate) fn exponent(n: i32) -> f64 {
    f64::from_bits(((i64::from(n) + 1023) as u64) << 52)
}

/// A finite number with the value `significand * 2^exponent`, and its sign. Zero has a sign too.
#[derive(Clone, Copy, Debug)]
struct Exact {
    negative: bool,
    /// Significand, which has at most 106 bits after a multiplication.
    significand: u128,
    exponent: i32,
}

impl Exact {
    /// Converts a number; `None` for an infinity or a NaN.
    fn from_f64(value: f64) -> Option<Exact> {
        let (fraction, biased) = (value.to_bits() & ((1 << 52) - 1), value.to_bits() >> 52 & 0x7ff);
        let (significand, exponent) = match biased {
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, biased as i32 - 1075),
        };
        let negative = value.is_sign_negative();
        value.is_finite().then_some(Exact { negative, significand: significand.into(), exponent })
    }

    fn times(self, other: Exact) -> Exact {
        Exact {
            negative: self.negative != other.negative,
            significand: self.significand * other.significand,
            exponent: self.exponent + other.exponent,
        }
    }

    /// Returns the same number with a shifted significand, whose highest bit is at a fixed position. This leaves room
    /// for the carry of an addition.
    fn normalised(self) -> Exact {
        let shift = self.significand.leading_zeros() as i32 - 2;
        Exact { significand: self.significand << shift, exponent: self.exponent - shift, ..self }
    }

    /// Returns the sum. The last bit of the sum is set if lower bits were lost. This does not affect rounding, because
    /// the operands end with 20 zeros, so that the lost bits are far below the precision of any format. `rounding`
    /// determines the sign of a zero that results from cancellation.
    fn plus(self, other: Exact, rounding: Rounding) -> Exact {
        let cancelled =
            Exact { negative: rounding == Rounding::Downward, significand: 0, exponent: 0 };
        match (self.significand, other.significand) {
            (0, 0) if self.negative == other.negative => return self,
            (0, 0) => return cancelled,
            (0, _) => return other,
            (_, 0) => return self,
            _ => {}
        }
        let (a, b) = (self.normalised(), other.normalised());
        let (a, b) = match (a.exponent, a.significand) >= (b.exponent, b.significand) {
            true => (a, b),
            false => (b, a),
        };
        let below = (a.exponent - b.exponent) as u32;
        let aligned = match below {
            0..128 => b.significand >> below | u128::from(b.significand.trailing_zeros() < below),
            _ => 1,
        };
        if a.negative == b.negative {
            return Exact { significand: a.significand + aligned, ..a };
        }
        match a.significand - aligned {
            0 => cancelled,
            significand => Exact { significand, ..a },
        }
    }

    fn scaled(self, power: i32) -> Exact {
        Exact { exponent: self.exponent + power.clamp(-5000, 5000), ..self }
    }

    fn rounded<T: Float>(self, rounding: Rounding) -> T {
        let bits = 128 - self.significand.leading_zeros() as i32;
        // Exponent of the last bit of the result.
        let unit = (self.exponent + bits - T::PRECISION).max(T::MIN_EXPONENT);
        let is_away = rounding.is_away(self.negative);
        let units = match unit - self.exponent {
            shift @ ..=0 => self.significand.checked_shl(shift.unsigned_abs()).unwrap_or(0),
            shift => {
                let below = shift as u32;
                let inexact = self.significand.trailing_zeros() < below && self.significand != 0;
                self.significand.checked_shr(below).unwrap_or(0) + u128::from(inexact && is_away)
            }
        };
        if units == 0 {
            return T::from_code(self.negative, 0);
        }
        // A carry out of the significand increments the exponent.
        let code = units + (((unit - T::MIN_EXPONENT) as u128) << (T::PRECISION - 1));
        let overflow = if is_away { T::INFINITY } else { T::INFINITY - 1 };
        let code = if code < T::INFINITY { code } else { overflow };
        T::from_code(self.negative, code as u64)
    }
}

impl Rounds for Rounding {
    fn add<T: Float>(self, a: T, b: T) -> T {
        match (Exact::from_f64(a.wide()), Exact::from_f64(b.wide())) {
            (Some(a), Some(b)) => a.plus(b, self).rounded(self),
            _ => T::special(a.wide() + b.wide()),
        }
    }

    fn subtract<T: Float>(self, a: T, b: T) -> T {
        // A NaN keeps its sign.
        if b.wide().is_nan() {
            return T::special(a.wide() - b.wide());
        }
        self.add(a, b.negated())
    }

    fn multiply<T: Float>(self, a: T, b: T) -> T {
        match (Exact::from_f64(a.wide()), Exact::from_f64(b.wide())) {
            (Some(a), Some(b)) => a.times(b).rounded(self),
            _ => T::special(a.wide() * b.wide()),
        }
    }

    fn fused<T: Float>(self, a: T, b: T, c: T) -> T {
        self.fused_scaled(a, b, c, 0)
    }

    fn scale<T: Float>(self, value: T, power: i32) -> T {
        self.scaled(value, power)
    }

    fn convert<S: Float, T: Float>(self, value: S) -> T {
        self.scaled(value, 0)
    }

    fn to_integer(self, value: f32) -> f32 {
        match self {
            Rounding::Upward => value.ceil(),
            Rounding::Downward => value.floor(),
            Rounding::TowardZero => value.trunc(),
        }
    }
}

impl Rounding {
    /// Returns `(a * b + c) * 2^power` with a single rounding. The format of the operands may be wider than that of the
    /// result.
    pub(crate) fn fused_scaled<S: Float, T: Float>(self, a: S, b: S, c: S, power: i32) -> T {
        let (a, b, c) = (a.wide(), b.wide(), c.wide());
        match (Exact::from_f64(a), Exact::from_f64(b), Exact::from_f64(c)) {
            (Some(a), Some(b), Some(c)) => a.times(b).plus(c, self).scaled(power).rounded(self),
            // If the factors are finite but their product is infinite in binary64, the product has overflowed.
            (Some(_), Some(_), None) => T::special(c),
            _ => T::special(a.mul_add(b, c)),
        }
    }

    fn scaled<S: Float, T: Float>(self, value: S, power: i32) -> T {
        let value = value.wide();
        Exact::from_f64(value).map_or(T::special(value), |exact| exact.scaled(power).rounded(self))
    }
}
