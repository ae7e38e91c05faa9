//! Typed numbers, which are written in cases and passed to kernels.

use std::{fmt, str::FromStr};

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::choice::{Choice, choices};

/// Types of numeric kernel parameters. Cases write them in lower case, for example `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variant names are self-explanatory")]
pub enum ScalarType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

choices! {
    ScalarType {
        I8 "i8"
        U8 "u8"
        I16 "i16"
        U16 "u16"
        I32 "i32"
        U32 "u32"
        I64 "i64"
        U64 "u64"
        F16 "f16"
        Bf16 "bf16"
        F32 "f32"
        F64 "f64"
    }
}

impl ScalarType {
    /// Returns the size of a number of this type, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            ScalarType::I8 | ScalarType::U8 => 1,
            ScalarType::I16 | ScalarType::U16 | ScalarType::F16 | ScalarType::Bf16 => 2,
            ScalarType::I32 | ScalarType::U32 | ScalarType::F32 => 4,
            ScalarType::I64 | ScalarType::U64 | ScalarType::F64 => 8,
        }
    }

    /// Returns true for floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 | ScalarType::F64)
    }

    /// Returns true if the type can represent negative numbers.
    pub const fn is_signed(self) -> bool {
        !matches!(self, ScalarType::U8 | ScalarType::U16 | ScalarType::U32 | ScalarType::U64)
    }

    /// Returns the name of the type in C++.
    pub const fn cpp(self) -> &'static str {
        match self {
            ScalarType::I8 => "int8_t",
            ScalarType::U8 => "uint8_t",
            ScalarType::I16 => "int16_t",
            ScalarType::U16 => "uint16_t",
            ScalarType::I32 => "int32_t",
            ScalarType::U32 => "uint32_t",
            ScalarType::I64 => "int64_t",
            ScalarType::U64 => "uint64_t",
            ScalarType::F16 => "_Float16",
            ScalarType::Bf16 => "__bf16",
            ScalarType::F32 => "float",
            ScalarType::F64 => "double",
        }
    }
}

/// A number with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ScalarText", into = "ScalarText")]
pub struct Scalar {
    /// Type of the number.
    pub ty: ScalarType,
    /// Bits of the number; unused high bits are zero.
    pub bits: u64,
}

/// Serialised form of a [`Scalar`]. The number is stored as text, because JSON numbers have no infinities, and many
/// JSON readers round 64-bit integers.
#[derive(Serialize, Deserialize)]
struct ScalarText {
    #[serde(rename = "type")]
    ty: ScalarType,
    value: String,
}

impl From<Scalar> for ScalarText {
    fn from(scalar: Scalar) -> ScalarText {
        ScalarText { ty: scalar.ty, value: scalar.to_string() }
    }
}

impl TryFrom<ScalarText> for Scalar {
    type Error = String;

    fn try_from(text: ScalarText) -> Result<Scalar, String> {
        Scalar::parse(text.ty, &text.value)
    }
}

impl Scalar {
    /// Returns a number of type `unsigned int`.
    pub fn u32(value: u32) -> Scalar {
        Scalar { ty: ScalarType::U32, bits: value.into() }
    }

    /// Returns a number of type `float`.
    pub fn f32(value: f32) -> Scalar {
        Scalar { ty: ScalarType::F32, bits: value.to_bits().into() }
    }

    /// Parses a number of the given type. Integers may have a sign or be written as `0x...`. Floats have Rust's syntax,
    /// including `inf` and `nan`, and may have the suffix `f`.
    ///
    /// # Errors
    /// Returns a message if the text is not a number of this type.
    pub fn parse(ty: ScalarType, text: &str) -> Result<Scalar, String> {
        let text = text.trim();
        let wrong = |what: &str| format!("`{text}` is {what} for the type {}", ty.word());
        if ty.is_float() {
            let text = text.strip_suffix('f').filter(|t| t.parse::<f64>().is_ok()).unwrap_or(text);
            let value: f64 = text.parse().map_err(|_| wrong("not a number"))?;
            let bits = match ty {
                // The text is parsed directly as `f32`, because parsing it as `f64` first would round twice.
                ScalarType::F32 => text.parse::<f32>().unwrap_or(f32::NAN).to_bits().into(),
                _ => nearest(ty, value),
            };
            let scalar = Scalar { ty, bits };
            let lost = text.contains(|c: char| c.is_ascii_digit()) && !scalar.as_f64().is_finite();
            return if lost { Err(wrong("too large")) } else { Ok(scalar) };
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let magnitude = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => u64::from_str(digits),
        };
        let magnitude = i128::from(magnitude.map_err(|_| wrong("not a whole number"))?);
        let value = if negative { -magnitude } else { magnitude };
        let width = 8 * ty.bytes() as u32;
        let (least, most) = match ty.is_signed() {
            true => (-(1_i128 << (width - 1)), (1_i128 << (width - 1)) - 1),
            false => (0, (1_i128 << width) - 1),
        };
        if !(least..=most).contains(&value) {
            return Err(wrong("too large or too small"));
        }
        Ok(Scalar::from_integer(ty, value))
    }

    /// Returns an integer of type `ty` with the low bits of `value`.
    pub(crate) fn from_integer(ty: ScalarType, value: i128) -> Scalar {
        let mask = u64::MAX >> (64 - 8 * ty.bytes() as u32);
        Scalar { ty, bits: value as u64 & mask }
    }

    pub(crate) fn as_integer(self) -> i128 {
        let unused = 64 - 8 * self.ty.bytes() as u32;
        match self.ty.is_signed() {
            true => ((self.bits << unused).cast_signed() >> unused).into(),
            false => self.bits.into(),
        }
    }

    /// Returns the number as `f64`, rounded if `f64` cannot represent it exactly.
    pub fn as_f64(self) -> f64 {
        match self.ty {
            ScalarType::F16 => f16::from_bits(self.bits as u16).to_f64(),
            ScalarType::Bf16 => bf16::from_bits(self.bits as u16).to_f64(),
            ScalarType::F32 => f32::from_bits(self.bits as u32).into(),
            ScalarType::F64 => f64::from_bits(self.bits),
            _ => self.as_integer() as f64,
        }
    }

    /// Returns true if the number is greater than or equal to `least`, which has the same type. Returns false for a
    /// NaN.
    pub fn is_at_least(self, least: Scalar) -> bool {
        match self.ty.is_float() {
            true => self.as_f64() >= least.as_f64(),
            false => self.as_integer() >= least.as_integer(),
        }
    }

    /// Returns the least of the numbers of type `ty` that `bytes` contains, with its index; `None` if `bytes` is
    /// shorter than one number. A NaN counts as less than any number.
    pub fn min_element(ty: ScalarType, bytes: &[u8]) -> Option<(usize, Scalar)> {
        let elements = bytes.chunks_exact(ty.bytes()).map(|chunk| {
            let mut raw = [0; 8];
            raw[..chunk.len()].copy_from_slice(chunk);
            Scalar { ty, bits: u64::from_le_bytes(raw) }
        });
        elements.enumerate().reduce(|least, next| match next.1.is_at_least(least.1) {
            true => least,
            false if least.1.is_nan() => least,
            false => next,
        })
    }

    fn is_nan(self) -> bool {
        self.ty.is_float() && self.as_f64().is_nan()
    }

    /// Returns the bytes of the number, in the order in which they are stored in memory (little-endian).
    pub fn to_bytes(self) -> Vec<u8> {
        self.bits.to_le_bytes()[..self.ty.bytes()].to_vec()
    }

    /// Reads a number of type `ty` from the first bytes of a slice; `None` if the slice is too short.
    pub(crate) fn from_bytes(ty: ScalarType, bytes: &[u8]) -> Option<Scalar> {
        let mut all = [0; 8];
        all.get_mut(..ty.bytes())?.copy_from_slice(bytes.get(..ty.bytes())?);
        Some(Scalar { ty, bits: u64::from_le_bytes(all) })
    }
}

/// Returns the bits of the float of the given type that is nearest to `value`. A tie is rounded to the float whose last
/// bit is even (IEEE 754-2019, 4.3.1).
pub(crate) fn nearest(ty: ScalarType, value: f64) -> u64 {
    let fraction: i32 = match ty {
        ScalarType::F16 => 10,
        ScalarType::Bf16 => 7,
        ScalarType::F32 => return (value as f32).to_bits().into(),
        _ => return value.to_bits(),
    };
    let bias = if ty == ScalarType::F16 { 15 } else { 127 };
    let (sign, infinity) = (value.to_bits() >> 63 << 15, (2 * bias as u64 + 1) << fraction);
    if value.is_nan() {
        let payload = value.to_bits() << 12 >> (64 - fraction);
        return sign | infinity | 1 << (fraction - 1) | payload;
    }
    if value.is_infinite() {
        return sign | infinity;
    }
    // The number is expressed in units of the last place. The multiplication is exact, because it changes only the
    // exponent.
    let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(1 - bias);
    let units = value.abs() * 2_f64.powi(fraction - exponent);
    let units = units.round_ties_even() as u64;
    let bits = (((exponent + bias) as u64 - 1) << fraction) + units;
    sign | bits.min(infinity)
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty {
            // `f16` and `f32` print the shortest text that parses as the same number.
            ScalarType::F16 => write!(f, "{}", f16::from_bits(self.bits as u16)),
            ScalarType::Bf16 => write!(f, "{}", bf16::from_bits(self.bits as u16)),
            ScalarType::F32 => write!(f, "{}", f32::from_bits(self.bits as u32)),
            ScalarType::F64 => write!(f, "{}", f64::from_bits(self.bits)),
            _ => write!(f, "{}", self.as_integer()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ty: ScalarType, text: &str, bits: Option<u64>) {
        assert_eq!(Scalar::parse(ty, text).ok().map(|scalar| scalar.bits), bits, "{ty:?} {text}");
    }

    #[test]
    fn finds_the_least_element() {
        let least = |ty, texts: &[&str]| {
            let numbers = texts.iter().map(|text| Scalar::parse(ty, text).expect("a number"));
            let bytes: Vec<u8> = numbers.flat_map(Scalar::to_bytes).collect();
            Scalar::min_element(ty, &bytes).map(|(at, least)| format!("{least} at {at}"))
        };
        assert_eq!(least(ScalarType::I16, &["3", "-2", "-2", "7"]).as_deref(), Some("-2 at 1"));
        assert_eq!(least(ScalarType::U16, &["3", "65535", "2"]).as_deref(), Some("2 at 2"));
        assert_eq!(least(ScalarType::F32, &["1", "-0.5", "0"]).as_deref(), Some("-0.5 at 1"));
        let nan = least(ScalarType::F64, &["1", "nan", "-inf", "nan"]);
        assert_eq!(nan.as_deref(), Some("NaN at 1"));
        assert_eq!(least(ScalarType::U64, &[]), None);
    }

    #[test]
    fn parses_numbers_within_the_range_of_their_type() {
        check(ScalarType::I8, "-128", Some(0x80));
        check(ScalarType::I8, "128", None);
        check(ScalarType::I8, "-129", None);
        check(ScalarType::I16, "-32769", None);
        check(ScalarType::I32, "2147483648", None);
        check(ScalarType::U16, "65536", None);
        check(ScalarType::U8, "255", Some(255));
        check(ScalarType::U8, "-1", None);
        check(ScalarType::I16, "-2", Some(0xfffe));
        check(ScalarType::U64, "18446744073709551615", Some(u64::MAX));
        check(ScalarType::I64, "-9223372036854775808", Some(1 << 63));
        check(ScalarType::I64, "9223372036854775808", None);
        check(ScalarType::U32, "0xffffffff", Some(0xffff_ffff));
        check(ScalarType::F32, "1.5f", Some(0x3fc0_0000));
        check(ScalarType::F32, "-inf", Some(0xff80_0000));
        check(ScalarType::F32, "1e39", None);
        check(ScalarType::F16, "65504", Some(0x7bff));
        check(ScalarType::F16, "70000", None);
        check(ScalarType::Bf16, "1", Some(0x3f80));
        check(ScalarType::F64, "0.1", Some(0.1_f64.to_bits()));
        check(ScalarType::F32, "one", None);
        check(ScalarType::U32, "1.5", None);
    }

    #[test]
    fn scalars_survive_serialisation() {
        for (_, ty) in ScalarType::ALL {
            let every =
                [0, 1, 0x7f, 0x80, 0x3f80, 0x3c01, 0x7bff, 0x3f80_0001, 0x3ff0_0000_0000_0001_u64];
            for bits in every.map(|bits| bits & (u64::MAX >> (64 - 8 * ty.bytes() as u32))) {
                let scalar = Scalar { ty: *ty, bits };
                let json = serde_json::to_string(&scalar).expect("it is written");
                assert_eq!(serde_json::from_str::<Scalar>(&json).expect(&json), scalar, "{json}");
                assert_eq!(Scalar::from_bytes(*ty, &scalar.to_bytes()), Some(scalar));
            }
        }
    }

    /// Tests all numbers of the type, the midpoints between adjacent numbers, and the `f64` neighbours of all of these.
    #[test]
    fn rounds_to_nearest_small_float() {
        for (ty, infinity) in [(ScalarType::F16, 0x7c00_u64), (ScalarType::Bf16, 0x7f80)] {
            let value = |bits| Scalar { ty, bits }.as_f64();
            for bits in 0..infinity - 1 {
                let (low, high) = (value(bits), value(bits + 1));
                let middle = low + (high - low) / 2.0;
                let even = bits + bits % 2;
                for (number, nearest_bits) in [
                    (low, bits),
                    (low.next_up(), bits),
                    (middle.next_down(), bits),
                    (middle, even),
                    (middle.next_up(), bits + 1),
                    (high.next_down(), bits + 1),
                ] {
                    assert_eq!(nearest(ty, number), nearest_bits, "{ty:?} {number:e}");
                    assert_eq!(nearest(ty, -number), nearest_bits | 0x8000, "{ty:?} -{number:e}");
                }
            }
            // A number that exceeds the largest one by at least half a unit in the last place is rounded to infinity.
            let (before, last) = (value(infinity - 2), value(infinity - 1));
            let half = last + (last - before) / 2.0;
            assert_eq!(nearest(ty, half.next_down()), infinity - 1);
            for number in [half, f64::MAX, f64::INFINITY] {
                assert_eq!(nearest(ty, number), infinity);
                assert_eq!(nearest(ty, -number), infinity | 0x8000);
            }
            assert!(value(nearest(ty, f64::NAN)).is_nan());
        }
        check(ScalarType::F16, "1.000488281250001", Some(0x3c01));
        check(ScalarType::F64, "1e309", None);
        check(ScalarType::F32, "1e400f", None);
        check(ScalarType::F32, "-inf", Some(0xff80_0000));
    }
}
