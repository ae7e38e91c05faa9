//! The 8-bit float formats.
//!
//! Sources: the OCP 8-bit floating point specification (GFX12), and for the formats without infinities and negative
//! zero (GFX940) the CDNA 3 ISA guide.

use device::{Arch, Generation};

/// One format of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Float8 {
    /// Bits of the exponent: 4 (`fp8`) or 5 (`bf8`).
    exponent: u32,
    /// One more than in OCP's formats, the code of negative zero is the only NaN, and there are no infinities.
    fnuz: bool,
}

/// What GFX12 makes of the NaNs of OCP's formats; the NaNs that it makes of those of binary32, 0xff and 0xfe, have their
/// sign set as well. Measured on a Radeon RX 9070 XT.
const MEASURED_NAN: f32 = f32::from_bits(0xffc0_0000);

impl Float8 {
    /// By `fp8` or `bf8` in the name of an instruction.
    pub(crate) fn named(name: &str, arch: Arch) -> Option<Float8> {
        let exponent = match name {
            "fp8" => 4,
            "bf8" => 5,
            _ => return None,
        };
        Some(Float8 { exponent, fnuz: arch.generation() == Generation::Cdna3 })
    }

    fn fraction(self) -> u32 {
        7 - self.exponent
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1 + i32::from(self.fnuz)
    }

    /// The code of the greatest finite number.
    fn greatest(self) -> u8 {
        match (self.fnuz, self.exponent) {
            (true, _) => 0x7f,
            (false, 4) => 0x7e,
            (false, _) => 0x7b,
        }
    }

    /// Exact.
    pub(crate) fn to_f32(self, bits: u8) -> f32 {
        let negative = bits & 0x80 != 0;
        let magnitude = bits & 0x7f;
        if self.fnuz && bits == 0x80 {
            return f32::NAN;
        }
        if !self.fnuz && magnitude > self.greatest() {
            // The only code between is that of infinity, which `fp8` has not.
            let infinite = self.exponent == 5 && magnitude == 0x7c;
            return match (infinite, negative) {
                (false, _) => MEASURED_NAN,
                (true, true) => f32::NEG_INFINITY,
                (true, false) => f32::INFINITY,
            };
        }
        let fraction = u32::from(magnitude) & ((1 << self.fraction()) - 1);
        let exponent = i32::from(magnitude >> self.fraction());
        let (significand, exponent) =
            if exponent == 0 { (fraction, 1) } else { (fraction | 1 << self.fraction(), exponent) };
        let scale = exponent - self.bias() - self.fraction() as i32;
        let value = significand as f32 * f32::from_bits(((scale + 127) as u32) << 23);
        if negative { -value } else { value }
    }

    /// Rounds to nearest, ties to even. What is too large becomes an infinity, or NaN where the format has none.
    pub(crate) fn round(self, value: f32) -> u8 {
        self.encode(value, f64::round_ties_even)
    }

    /// Rounds away from zero with a probability that is the fraction of a unit that is lost, by a random number: its upper
    /// bits, as many as the unit has in binary32, are added below the unit, and what is then below it is cut off.
    ///
    /// The ISA guides name these bits (`V_CVT_SR_FP8_F32`), but then round to nearest even what they call stochastic, which
    /// would change exact values half of the time.
    pub(crate) fn round_by_chance(self, value: f32, random: u32) -> u8 {
        let bits = 23 - self.fraction();
        let chance = f64::from(random >> (32 - bits)) / f64::from(1u32 << bits);
        self.encode(value, |units| (units + chance).floor())
    }

    /// The code of a value whose magnitude `to_integer` rounds, in units of its last place.
    fn encode(self, value: f32, to_integer: impl Fn(f64) -> f64) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        // What is too large is an infinity, or NaN where the format has none.
        let overflow = match (self.fnuz, self.exponent) {
            (true, _) => 0x80,
            (false, 5) => sign | 0x7c,
            (false, _) => sign | 0x7f,
        };
        if value.is_nan() {
            return match (self.fnuz, self.exponent) {
                (true, _) => 0x80,
                (false, 5) => 0xfe,
                (false, _) => 0xff,
            };
        }
        if value.is_infinite() {
            return overflow;
        }
        let magnitude = f64::from(value.abs());
        // The exponent of the unit in the last place at this magnitude, not below that of the denormals.
        let least = 1 - self.bias();
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
        let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
        let units = to_integer(magnitude * power(self.fraction() as i32 - exponent)) as u32;
        // A carry out of the significand goes to the exponent.
        let code = units + (((exponent - least) as u32) << self.fraction());
        if code > u32::from(self.greatest()) {
            return overflow;
        }
        let code = code as u8;
        if self.fnuz && code == 0 { 0 } else { sign | code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats() -> [Float8; 4] {
        let named = |name, arch| Float8::named(name, arch).expect("a format");
        [
            named("fp8", Arch::Gfx1201),
            named("bf8", Arch::Gfx1201),
            named("fp8", Arch::Gfx942),
            named("bf8", Arch::Gfx942),
        ]
    }

    #[test]
    fn every_code_survives_the_way_through_f32() {
        for format in formats() {
            for bits in 0..=u8::MAX {
                let value = format.to_f32(bits);
                let back = format.to_f32(format.round(value));
                assert!(value == back || value.is_nan() && back.is_nan(), "{format:?} {bits:#x}");
            }
        }
    }

    #[test]
    fn midpoints_round_to_even() {
        for format in formats() {
            for bits in 0..format.greatest() {
                let (low, high) = (format.to_f32(bits), format.to_f32(bits + 1));
                let middle = low + (high - low) / 2.0;
                assert_eq!(format.round(middle), bits + (bits & 1), "{format:?} {bits:#x}");
                let above = f32::from_bits(middle.to_bits() + 1);
                assert_eq!(format.round(above), bits + 1, "{format:?} {bits:#x}");
            }
        }
    }

    #[test]
    fn chance_rounds_by_what_is_lost() {
        for format in formats() {
            let bits = 23 - format.fraction();
            for code in 0..format.greatest() {
                let (low, high) = (format.to_f32(code), format.to_f32(code + 1));
                let random = |part: u32| part << (32 - bits) | 0x7ff;
                // Exact values stay, whatever the number.
                assert_eq!(format.round_by_chance(low, u32::MAX), code, "{format:?} {code:#x}");
                let quarter = low + (high - low) / 4.0;
                let up = format.round_by_chance(quarter, random(3 << (bits - 2)));
                let down = format.round_by_chance(quarter, random((3 << (bits - 2)) - 1));
                assert_eq!((down, up), (code, code + 1), "{format:?} {code:#x}");
                if code > 0 {
                    assert_eq!(format.round_by_chance(-quarter, 0), 0x80 | code);
                }
            }
        }
    }

    #[test]
    fn known_values() {
        let [fp8, bf8, fp8_fnuz, bf8_fnuz] = formats();
        assert_eq!((fp8.round(1.0), bf8.round(1.0)), (0x38, 0x3c));
        assert_eq!((fp8_fnuz.round(1.0), bf8_fnuz.round(1.0)), (0x40, 0x40));
        assert_eq!((fp8.to_f32(0x7e), bf8.to_f32(0x7b)), (448.0, 57344.0));
        assert_eq!((fp8_fnuz.to_f32(0x7f), bf8_fnuz.to_f32(0x7f)), (240.0, 57344.0));
        assert_eq!((fp8.round(1e9), bf8.round(-1e9)), (0x7f, 0xfc));
        assert_eq!((fp8_fnuz.round(-0.0), fp8_fnuz.round(f32::NAN)), (0, 0x80));
    }
}
