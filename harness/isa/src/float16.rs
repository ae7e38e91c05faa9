//! 16-bit float formats, for which Rust has no types.

/// Bits of an IEEE binary16 number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F16(pub u16);

/// Bits of a bfloat16 number, the upper half of an IEEE binary32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bf16(pub u16);

impl F16 {
    /// Converts the number to f32 without rounding.
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let sign = (bits & 0x8000) << 16;
        let magnitude = bits & 0x7fff;
        if magnitude >= 0x7c00 {
            // The number is an infinity or a NaN. A signalling NaN becomes quiet.
            let quiet = if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
            return f32::from_bits(sign | 0x7f80_0000 | ((magnitude & 0x3ff) << 13) | quiet);
        }
        // A multiplication by 2^112 is exact, corrects the exponent and normalises denormals.
        let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
        f32::from_bits(scaled.to_bits() | sign)
    }

    /// Returns a zero of the same sign for a denormal, otherwise the unchanged number.
    pub(crate) fn without_denormals(self) -> F16 {
        F16(if self.0 & 0x7c00 == 0 { self.0 & 0x8000 } else { self.0 })
    }

    /// Converts the number to f32 without rounding. A signalling NaN stays signalling.
    pub(crate) fn unquieted(self) -> f32 {
        let quiet = self.to_f32();
        let signalling = self.0 & 0x7fff > 0x7c00 && self.0 & 0x0200 == 0;
        if signalling { f32::from_bits(quiet.to_bits() & !0x0040_0000) } else { quiet }
    }

    /// Returns a quiet NaN for a signalling NaN, otherwise the unchanged number.
    pub(crate) fn quiet(self) -> F16 {
        F16(if self.0 & 0x7fff > 0x7c00 { self.0 | 0x0200 } else { self.0 })
    }

    /// Converts an f32 and rounds it to nearest, ties to even.
    pub fn from_f32(value: f32) -> F16 {
        let bits = value.to_bits();
        let sign = ((bits >> 16) & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        let rounded = if magnitude > 0x7f80_0000 {
            0x7e00 | ((magnitude >> 13) & 0x3ff) as u16
        } else if magnitude >= 0x4780_0000 {
            0x7c00
        } else if magnitude < 0x3880_0000 {
            // The addition aligns the unit in the last place with that of an f16 denormal.
            let aligned = f32::from_bits(magnitude) + 0.5;
            (aligned.to_bits() - 0.5f32.to_bits()) as u16
        } else {
            let even = (magnitude >> 13) & 1;
            ((magnitude - 0x3800_0000 + 0xfff + even) >> 13) as u16
        };
        F16(rounded | sign)
    }

    /// Rounds like [`F16::from_f32`] under `MODE.FP16_OVFL`: numbers that are too large become the largest finite
    /// number, and infinities stay infinite.
    pub(crate) fn saturating_from_f32(value: f32) -> F16 {
        F16::saturated_unless(F16::from_f32(value), value.is_infinite())
    }

    pub(crate) fn rounding(saturates: bool) -> fn(f32) -> F16 {
        if saturates { F16::saturating_from_f32 } else { F16::from_f32 }
    }

    /// Replaces an infinity by the largest finite number of the same sign, unless `is_true` is set, which means that
    /// the exact result is infinite. Returns every other number unchanged.
    pub(crate) fn saturated_unless(self, is_true: bool) -> F16 {
        F16(if self.0 & 0x7fff == 0x7c00 && !is_true { self.0 - 1 } else { self.0 })
    }

    /// Converts an f32 and rounds it toward zero, like `v_cvt_pkrtz_f16_f32`.
    pub fn truncate_f32(value: f32) -> F16 {
        let nearest = F16::from_f32(value);
        if value.is_finite() && nearest.to_f32().abs() > value.abs() {
            F16(nearest.0 - 1)
        } else {
            nearest
        }
    }

    /// Converts an f64 and rounds it once, to nearest, ties to even.
    pub fn from_f64(value: f64) -> F16 {
        F16::from_f32(round_to_odd(value))
    }

    /// Returns `self * b + c` with a single rounding.
    pub fn mul_add(self, b: F16, c: F16) -> F16 {
        // The product of two 11-bit significands is exact in f64. Rounding the sum to odd makes the final rounding
        // correct.
        let product = f64::from(self.to_f32()) * f64::from(b.to_f32());
        F16::from_f64(add_to_odd(product, f64::from(c.to_f32())))
    }
}

impl Bf16 {
    /// Converts the number to f32 without rounding.
    pub(crate) fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Converts an f32 and rounds it to nearest, ties to even.
    pub fn from_f32(value: f32) -> Bf16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        Bf16(((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
    }
}

/// Returns the f32 next to `value` toward zero, with the last bit set if the conversion is inexact (rounding to odd).
/// If the result is rounded again, to a format that is at least two bits narrower, this gives the same number as
/// rounding `value` once (Boldo, Melquiond).
pub(crate) fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if nearest.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let bits = nearest.to_bits();
    let toward_zero = if f64::from(nearest).abs() > value.abs() { bits - 1 } else { bits };
    f32::from_bits(toward_zero | 1)
}

pub(crate) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's TwoSum: `error` is exactly the rounding error of the addition.
    let virtual_b = sum - a;
    let error = (a - (sum - virtual_b)) + (b - virtual_b);
    let bits = sum.to_bits();
    if error == 0.0 || bits & 1 == 1 {
        return sum;
    }
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { bits | 1 } else { bits - 1 })
}
