//! The float formats of 8 bits and less.
//!
//! Sources: the OCP 8-bit floating point specification (GFX12, GFX950), for the formats without infinities and negative
//! zero (GFX942) the CDNA 3 ISA guide, and for those of 4 and 6 bits the CDNA 4 ISA guide, "BF8 / FP8 and Smaller
//! Formats and Conversions".

use device::{Arch, Generation};

/// What the codes of a format mean that are no ordinary numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// One more in the bias than in OCP's formats, the code of negative zero is the only NaN, and there are no
    /// infinities.
    Fnuz,
    /// As OCP says; whether NaNs keep their sign on their way in and out.
    Ocp { signed_nans: bool },
    /// All codes are numbers.
    Finite,
}

/// One format of 4, 6 or 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFloat {
    /// Bits of the exponent.
    exponent: u32,
    /// Bits of the fraction.
    pub fraction: u32,
    rules: Rules,
    /// What is too large becomes the greatest number, as MODE.FP16_OVFL asks of formats of 8 bits.
    saturates: bool,
}

/// What GFX12 makes of the NaNs of OCP's formats; the NaNs that it makes of those of binary32, 0xff and 0xfe, have
/// their sign set as well. Measured on a Radeon RX 9070 XT.
const MEASURED_NAN: f32 = f32::from_bits(0xffc0_0000);

impl SmallFloat {
    /// By `fp8` or `bf8` in the name of an instruction.
    pub(crate) fn named(name: &str, arch: Arch) -> Option<SmallFloat> {
        let (exponent, fraction) = match name {
            "fp8" => (4, 3),
            "bf8" => (5, 2),
            _ => return None,
        };
        let rules = match arch.generation() {
            Generation::Cdna3 => Rules::Fnuz,
            // `amd_hip_ocp_host.hpp` of HIP, which says it computes as GFX950 does.
            Generation::Cdna4 => Rules::Ocp { signed_nans: true },
            _ => Rules::Ocp { signed_nans: false },
        };
        Some(SmallFloat { exponent, fraction, rules, saturates: false })
    }

    /// The same with the formats that GFX950 added: `fp6`, `bf6` and `fp4`.
    pub fn with_a_scale(name: &str, arch: Arch) -> Option<SmallFloat> {
        let (exponent, fraction) = match name {
            "fp6" => (2, 3),
            "bf6" => (3, 2),
            "fp4" => (2, 1),
            _ => return SmallFloat::named(name, arch),
        };
        Some(SmallFloat { exponent, fraction, rules: Rules::Finite, saturates: false })
    }

    /// The same format with MODE.FP16_OVFL set or not.
    pub(crate) fn saturating(self, saturates: bool) -> SmallFloat {
        SmallFloat { saturates, ..self }
    }

    /// Bits of a number.
    pub(crate) fn bits(self) -> u32 {
        1 + self.exponent + self.fraction
    }

    /// The bit of the sign.
    pub fn sign(self) -> u8 {
        1 << (self.exponent + self.fraction)
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1 + i32::from(self.rules == Rules::Fnuz)
    }

    /// The exponent of the least number that is no denormal.
    pub(crate) fn least_exponent(self) -> i32 {
        1 - self.bias()
    }

    /// The code of the greatest finite number.
    pub fn greatest(self) -> u8 {
        match (self.rules, self.exponent) {
            (Rules::Fnuz | Rules::Finite, _) => self.sign() - 1,
            (Rules::Ocp { .. }, 4) => 0x7e,
            (Rules::Ocp { .. }, _) => 0x7b,
        }
    }

    /// Exact. Bits above those of a number do not count.
    pub fn to_f32(self, bits: u8) -> f32 {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        if self.rules == Rules::Fnuz && negative && magnitude == 0 {
            return f32::NAN;
        }
        if let Rules::Ocp { signed_nans } = self.rules
            && magnitude > self.greatest()
        {
            // The only code between is that of infinity, which `fp8` has not.
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

    /// Rounds to nearest, ties to even. What is too large becomes an infinity, NaN where the format has none, or the
    /// greatest number where it has neither.
    pub fn round(self, value: f64) -> u8 {
        self.encode(value, f64::round_ties_even)
    }

    /// Rounds away from zero with a probability that is the fraction of a unit that is lost, by a random number: its
    /// upper bits, as many as the unit has in a source with a fraction of `of` bits, are added below the unit, and what
    /// is then below it is cut off.
    ///
    /// The ISA guides name these bits (`V_CVT_SR_FP8_F32`), but then round to nearest even what they call stochastic,
    /// which would change exact values half of the time. For all formats, `from_float_sr` in HIP's
    /// `amd_hip_ocp_host.hpp` has them.
    pub fn round_by_chance(self, value: f64, random: u32, of: u32) -> u8 {
        let bits = of - self.fraction;
        let chance = f64::from(random >> (32 - bits)) / f64::from(1u32 << bits);
        self.encode(value, |units| (units + chance).floor())
    }

    /// The code of a NaN.
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

    /// The code of a value whose magnitude `to_integer` rounds, in units of its last place.
    fn encode(self, value: f64, to_integer: impl Fn(f64) -> f64) -> u8 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        // "CVT_*FP8_F32 and CVT*_BF8_F32 FP16_OVFL rule" of the ISA guides, by which infinities are too large as well.
        // What GFX12 makes of them does not hang on the bit, as others measured on a Radeon RX 9070 XT, against its guide.
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
        // The exponent of the unit in the last place at this magnitude, not below that of the denormals.
        let least = 1 - self.bias();
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
        let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
        let units = to_integer(magnitude * power(self.fraction as i32 - exponent)) as u32;
        // A carry out of the significand goes to the exponent.
        let code = units + (((exponent - least) as u32) << self.fraction);
        if code > u32::from(self.greatest()) {
            return overflow;
        }
        let code = code as u8;
        if self.rules == Rules::Fnuz && code == 0 { 0 } else { sign | code }
    }
}
