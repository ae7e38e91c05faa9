//! Floating-point formats of 8 bits and fewer.
//!
//! Sources: the OCP 8-bit floating point specification for GFX12 and GFX950; the CDNA 3 ISA guide for the formats of
//! GFX942, which have neither infinities nor a negative zero; the CDNA 4 ISA guide, "BF8 / FP8 and Smaller Formats and
//! Conversions", for 4-bit and 6-bit formats.

use device::{Arch, Float8};

/// Rules for the special codes of a format, which represent NaNs, infinities and negative zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// The exponent bias is one more than in OCP's formats. The code of negative zero is the only NaN, and infinities
    /// do not exist.
    Fnuz,
    /// The rules of OCP's formats. `signed_nans` is true if NaNs keep their sign in conversions.
    Ocp { signed_nans: bool },
    /// All codes are finite numbers.
    Finite,
}

/// A 4-bit, 6-bit or 8-bit float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFloat {
    exponent: u32,
    /// Number of fraction bits.
    pub fraction: u32,
    rules: Rules,
    /// True if numbers that are too large become the largest finite number. `MODE.FP16_OVFL` selects this for 8-bit
    /// formats.
    saturates: bool,
}

/// Result of the conversion of a NaN from an OCP format to f32 on GFX12. In the other direction, a NaN becomes 0xff or
/// 0xfe, depending on the format; the sign bit is set there too. Measured on a Radeon RX 9070 XT.
const MEASURED_NAN: f32 = f32::from_bits(0xffc0_0000);

impl SmallFloat {
    pub(crate) fn named(name: &str, arch: Arch) -> Option<SmallFloat> {
        let (exponent, fraction) = match name {
            "fp8" => (4, 3),
            "bf8" => (5, 2),
            _ => return None,
        };
        let rules = match arch.facts().float8 {
            Float8::Absent => return None,
            Float8::Fnuz => Rules::Fnuz,
            Float8::Ocp => Rules::Ocp { signed_nans: false },
            Float8::OcpSignedNans => Rules::Ocp { signed_nans: true },
        };
        Some(SmallFloat { exponent, fraction, rules, saturates: false })
    }

    /// Returns the format with this name on the architecture. Unlike `named`, this function also accepts `fp6`, `bf6`
    /// and `fp4`, which GFX950 added.
    pub fn with_a_scale(name: &str, arch: Arch) -> Option<SmallFloat> {
        let (exponent, fraction) = match name {
            "fp6" => (2, 3),
            "bf6" => (3, 2),
            "fp4" => (2, 1),
            _ => return SmallFloat::named(name, arch),
        };
        Some(SmallFloat { exponent, fraction, rules: Rules::Finite, saturates: false })
    }

    /// Returns the format with saturation on or off (`MODE.FP16_OVFL`).
    pub(crate) fn saturating(self, saturates: bool) -> SmallFloat {
        SmallFloat { saturates, ..self }
    }

    pub(crate) fn bits(self) -> u32 {
        1 + self.exponent + self.fraction
    }

    /// Returns a mask of the sign bit.
    pub fn sign(self) -> u8 {
        1 << (self.exponent + self.fraction)
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1 + i32::from(self.rules == Rules::Fnuz)
    }

    pub(crate) fn least_exponent(self) -> i32 {
        1 - self.bias()
    }

    /// Returns the code of the largest finite number.
    pub fn greatest(self) -> u8 {
        match (self.rules, self.exponent) {
            (Rules::Fnuz | Rules::Finite, _) => self.sign() - 1,
            (Rules::Ocp { .. }, 4) => 0x7e,
            (Rules::Ocp { .. }, _) => 0x7b,
        }
    }

    /// Converts the number to f32 without rounding. Ignores the upper bits of `bits` if the format has fewer than eight
    /// bits.
    pub fn to_f32(self, bits: u8) -> f32 {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        if self.rules == Rules::Fnuz && negative && magnitude == 0 {
            return f32::NAN;
        }
        if let Rules::Ocp { signed_nans } = self.rules
            && magnitude > self.greatest()
        {
            // Infinity is the only code between the largest finite number and the NaNs. `fp8` has no infinity.
            let infinite = self.exponent == 5 && magnitude == 0x7c;
            return match (infinite, negative) {
                (false, _) if signed_nans => f32::NAN.copysign(if negative { -1.0 } else { 1.0 }),
                (false, _) => MEASURED_NAN,
                (true, true) => f32::NEG_INFINITY,
                (true, false) => f32::INFINITY,
            };
        }
        let fraction = u32::from(magnitude) & ((1 << self.fraction) - 1);
        let exponent = i32::from(magnitude >> self.fraction);
        let (significand, exponent) =
            if exponent == 0 { (fraction, 1) } else { (fraction | 1 << self.fraction, exponent) };
        let scale = exponent - self.bias() - self.fraction as i32;
        let value = significand as f32 * f32::from_bits(((scale + 127) as u32) << 23);
        if negative { -value } else { value }
    }

    /// Rounds to nearest, ties to even. A number that is too large becomes infinity. If the format has no infinity, the
    /// number becomes NaN, and if the format has no NaN either, the number becomes the largest number.
    pub fn round(self, value: f64) -> u8 {
        self.encode(value, f64::round_ties_even)
    }

    /// Rounds stochastically: rounds away from zero with a probability equal to the lost fraction of a unit in the last
    /// place. To do so, places the upper bits of `random` below the unit, adds them, and truncates the sum. The number
    /// of these bits is the difference between `of`, the number of fraction bits of the source format, and the number
    /// of fraction bits of this format.
    ///
    /// The ISA guides name these bits (`V_CVT_SR_FP8_F32`), but then describe rounding to nearest even, which would
    /// change exact values half of the time. `from_float_sr` in HIP's `amd_hip_ocp_host.hpp` uses the upper bits for
    /// all formats.
    pub fn round_by_chance(self, value: f64, random: u32, of: u32) -> u8 {
        let bits = of - self.fraction;
        let chance = f64::from(random >> (32 - bits)) / f64::from(1u32 << bits);
        self.encode(value, |units| (units + chance).floor())
    }

    fn nan(self, sign: u8) -> u8 {
        match (self.rules, self.exponent) {
            (Rules::Fnuz, _) => 0x80,
            (Rules::Ocp { signed_nans: true }, 5) => sign | 0x7e,
            (Rules::Ocp { signed_nans: false }, 5) => 0xfe,
            (Rules::Ocp { signed_nans: true }, _) => sign | 0x7f,
            (Rules::Ocp { signed_nans: false }, _) => 0xff,
            (Rules::Finite, _) => sign | self.greatest(),
        }
    }

    /// Returns the code of a value. `to_integer` rounds the magnitude, which it receives in units of the last place.
    fn encode(self, value: f64, to_integer: impl Fn(f64) -> f64) -> u8 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        // The ISA guides treat infinities like numbers that are too large ("CVT_*FP8_F32 and CVT*_BF8_F32 FP16_OVFL
        // rule"). On GFX12, in contradiction to the guide, the result for an infinity does not depend on FP16_OVFL,
        // according to measurements by others on a Radeon RX 9070 XT.
        let keeps_infinity = value.is_infinite() && self.rules == Rules::Ocp { signed_nans: false };
        let overflow = match (self.rules, self.exponent) {
            _ if self.saturates && !keeps_infinity => sign | self.greatest(),
            (Rules::Fnuz, _) => 0x80,
            (Rules::Ocp { .. }, 5) => sign | 0x7c,
            (Rules::Ocp { .. }, _) => sign | 0x7f,
            (Rules::Finite, _) => sign | self.greatest(),
        };
        if value.is_nan() {
            return self.nan(sign);
        }
        if value.is_infinite() {
            return overflow;
        }
        let magnitude = value.abs();
        // Exponent of the unit in the last place. For all denormals, this is the smallest exponent.
        let least = 1 - self.bias();
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
        let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
        let units = to_integer(magnitude * power(self.fraction as i32 - exponent)) as u32;
        // A carry out of the significand increments the exponent.
        let code = units + (((exponent - least) as u32) << self.fraction);
        if code > u32::from(self.greatest()) {
            return overflow;
        }
        let code = code as u8;
        if self.rules == Rules::Fnuz && code == 0 { 0 } else { sign | code }
    }
}
