//! Texel formats: how components are packed, and which numbers they represent.

use crate::float16::F16;
use device::Descriptors;

/// Kind of number that a component's bits represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numeric {
    /// Normalised number from 0 to 1.
    Unorm,
    /// Normalised number from -1 to 1.
    Snorm,
    /// Unsigned integer.
    Uint,
    /// Signed integer, in two's complement.
    Sint,
    /// IEEE binary16 or binary32.
    Float,
    /// Normalised number from 0 to 1 on the sRGB curve. Alpha is `Unorm`.
    Srgb,
}

/// Texel format. The first component is in the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of bits of each component; 0 if the format does not have the component.
    pub bits: [u8; 4],
    /// Kind of number that the components represent.
    pub numeric: Numeric,
}

/// A format, and the numbers that identify it in descriptors: data format and number format on GFX9, format on GFX10,
/// format on GFX11 and GFX12.
type Row = ([u8; 4], Numeric, (u32, u32), u32, u32);

const ROWS: [Row; 42] = {
    use Numeric::{Float, Sint, Snorm, Srgb, Uint, Unorm};
    [
        ([8, 0, 0, 0], Unorm, (1, 0), 1, 1),
        ([8, 0, 0, 0], Snorm, (1, 1), 2, 2),
        ([8, 0, 0, 0], Uint, (1, 4), 5, 5),
        ([8, 0, 0, 0], Sint, (1, 5), 6, 6),
        ([16, 0, 0, 0], Unorm, (2, 0), 7, 7),
        ([16, 0, 0, 0], Snorm, (2, 1), 8, 8),
        ([16, 0, 0, 0], Uint, (2, 4), 11, 11),
        ([16, 0, 0, 0], Sint, (2, 5), 12, 12),
        ([16, 0, 0, 0], Float, (2, 7), 13, 13),
        ([8, 8, 0, 0], Unorm, (3, 0), 14, 14),
        ([8, 8, 0, 0], Snorm, (3, 1), 15, 15),
        ([8, 8, 0, 0], Uint, (3, 4), 18, 18),
        ([8, 8, 0, 0], Sint, (3, 5), 19, 19),
        ([32, 0, 0, 0], Uint, (4, 4), 20, 20),
        ([32, 0, 0, 0], Sint, (4, 5), 21, 21),
        ([32, 0, 0, 0], Float, (4, 7), 22, 22),
        ([16, 16, 0, 0], Unorm, (5, 0), 23, 23),
        ([16, 16, 0, 0], Snorm, (5, 1), 24, 24),
        ([16, 16, 0, 0], Uint, (5, 4), 27, 27),
        ([16, 16, 0, 0], Sint, (5, 5), 28, 28),
        ([16, 16, 0, 0], Float, (5, 7), 29, 29),
        ([10, 10, 10, 2], Unorm, (9, 0), 50, 36),
        ([8, 8, 8, 8], Unorm, (10, 0), 56, 42),
        ([8, 8, 8, 8], Snorm, (10, 1), 57, 43),
        ([8, 8, 8, 8], Uint, (10, 4), 60, 46),
        ([8, 8, 8, 8], Sint, (10, 5), 61, 47),
        ([8, 8, 8, 8], Srgb, (10, 9), 130, 66),
        ([32, 32, 0, 0], Uint, (11, 4), 62, 48),
        ([32, 32, 0, 0], Sint, (11, 5), 63, 49),
        ([32, 32, 0, 0], Float, (11, 7), 64, 50),
        ([16, 16, 16, 16], Unorm, (12, 0), 65, 51),
        ([16, 16, 16, 16], Snorm, (12, 1), 66, 52),
        ([16, 16, 16, 16], Uint, (12, 4), 69, 55),
        ([16, 16, 16, 16], Sint, (12, 5), 70, 56),
        ([16, 16, 16, 16], Float, (12, 7), 71, 57),
        ([32, 32, 32, 32], Uint, (14, 4), 75, 61),
        ([32, 32, 32, 32], Sint, (14, 5), 76, 62),
        ([32, 32, 32, 32], Float, (14, 7), 77, 63),
        ([5, 6, 5, 0], Unorm, (16, 0), 133, 68),
        ([5, 5, 5, 1], Unorm, (17, 0), 134, 69),
        ([8, 0, 0, 0], Srgb, (1, 9), 128, 64),
        ([8, 8, 0, 0], Srgb, (3, 9), 129, 65),
    ]
};

impl Format {
    /// Returns the format with `components` components of `bits` bits each.
    pub fn of(components: usize, bits: u8, numeric: Numeric) -> Format {
        let bits = std::array::from_fn(|at| if at < components { bits } else { 0 });
        Format { bits, numeric }
    }

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.0 == self.bits && row.1 == self.numeric)
    }

    /// Returns true if hardware supports the format.
    pub fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// Returns the two numbers that identify the format in a descriptor: the data format and the number format. From
    /// GFX10 on, there is only one number, which is returned first. `None` if the architecture does not have the
    /// format.
    pub(super) fn numbers(self, family: Descriptors) -> Option<(u32, u32)> {
        let row = self.row()?;
        Some(match family {
            Descriptors::Gfx9 => row.2,
            Descriptors::Gfx10 => (row.3, 0),
            Descriptors::Gfx11 | Descriptors::Gfx12 => (row.4, 0),
            Descriptors::Gfx1250 => return None,
        })
    }

    pub(super) fn find(family: Descriptors, numbers: (u32, u32)) -> Option<Format> {
        let all = ROWS.iter().map(|row| Format { bits: row.0, numeric: row.1 });
        all.into_iter().find(|format| format.numbers(family) == Some(numbers))
    }

    /// Returns the size of a texel in bytes.
    pub fn bytes(self) -> usize {
        self.bits.iter().map(|bits| usize::from(*bits)).sum::<usize>() / 8
    }

    /// Returns true if the components are integers, so that registers contain integers instead of floats.
    pub fn is_integer(self) -> bool {
        matches!(self.numeric, Numeric::Uint | Numeric::Sint)
    }

    /// Converts a texel to register values. Each value is an integer or a binary32. Missing components are 0.
    pub fn decode(self, texel: [u8; 16]) -> [u32; 4] {
        let (all, mut low) = (u128::from_le_bytes(texel), 0);
        std::array::from_fn(|at| {
            let bits = u32::from(self.bits[at]);
            let value = (all >> low) as u32 & mask(bits);
            low += bits;
            if bits == 0 { 0 } else { self.component(at, value, bits) }
        })
    }

    fn component(self, at: usize, value: u32, bits: u32) -> u32 {
        let signed = ((value << (32 - bits)) as i32) >> (32 - bits);
        let most = mask(bits);
        match self.numeric {
            Numeric::Uint => value,
            Numeric::Sint => signed as u32,
            Numeric::Float if bits == 16 => F16(value as u16).to_f32().to_bits(),
            Numeric::Float => value,
            Numeric::Snorm => (signed as f32 / (most >> 1) as f32).max(-1.0).to_bits(),
            Numeric::Srgb if at < 3 => linear(f64::from(value) / f64::from(most)).to_bits(),
            Numeric::Unorm | Numeric::Srgb => (value as f32 / most as f32).to_bits(),
        }
    }

    /// Converts register values to a texel; `None` for formats that hardware cannot write.
    pub fn encode(self, components: [u32; 4]) -> Option<[u8; 16]> {
        let (mut all, mut low) = (0u128, 0);
        for (value, bits) in components.into_iter().zip(self.bits) {
            let bits = u32::from(bits);
            if bits == 0 {
                continue;
            }
            let (most, float) = (mask(bits), f32::from_bits(value));
            let stored = match self.numeric {
                Numeric::Srgb => return None,
                Numeric::Uint => value.min(most),
                Numeric::Sint => {
                    let high = (most >> 1) as i32;
                    (value as i32).clamp(-high - 1, high) as u32
                }
                Numeric::Float if bits == 16 => u32::from(F16::from_f32(float).0),
                Numeric::Float => value,
                Numeric::Unorm => scaled(float, 0.0, most) as u32,
                Numeric::Snorm => scaled(float, -1.0, most >> 1) as u32,
            };
            all |= u128::from(stored & most) << low;
            low += bits;
        }
        Some(all.to_le_bytes())
    }
}

fn mask(bits: u32) -> u32 {
    u32::MAX.checked_shr(32 - bits).unwrap_or(0)
}

/// Rounds `value` to a multiple of `1 / steps`, ties to even, and returns the number of steps. Values below `least`
/// become `least`, and a NaN becomes 0.
fn scaled(value: f32, least: f64, steps: u32) -> i64 {
    if value.is_nan() {
        return 0;
    }
    (f64::from(value).clamp(least, 1.0) * f64::from(steps)).round_ties_even() as i64
}

/// Converts a value of the sRGB curve to a linear one (IEC 61966-2-1).
fn linear(value: f64) -> f32 {
    (if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }) as f32
}
