//! Models of instructions for one lane. They implement the formulas of AMD's ISA guides.

use device::{Arch, LegacyMultiply, Microcode};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValueType {
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    PackedU16,
    PackedF16,
}

/// A constant operand, as an instruction's text contains it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Float(f64),
    Literal(u32),
}

impl ValueType {
    pub(crate) fn bits(self) -> u32 {
        match self {
            ValueType::U16 | ValueType::F16 => 16,
            ValueType::U64 | ValueType::F64 => 64,
            _ => 32,
        }
    }

    pub(crate) fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Returns a mask of the sign bit, which the modifier `neg` flips; 0 for types without this modifier.
    pub(crate) fn sign(self) -> u64 {
        if matches!(self, ValueType::F16 | ValueType::F32 | ValueType::F64) {
            1 << (self.bits() - 1)
        } else {
            0
        }
    }

    pub(crate) fn is_packed(self) -> bool {
        matches!(self, ValueType::PackedU16 | ValueType::PackedF16)
    }

    /// Returns true if the type has 16 bits and occupies half of a register.
    pub(crate) fn is_half(self) -> bool {
        matches!(self, ValueType::U16 | ValueType::F16)
    }

    pub(crate) fn constant(self, value: Value) -> u64 {
        match (value, self) {
            (Value::Integer(value), _) => value as u64 & self.mask(),
            (Value::Literal(value), _) => u64::from(value) & self.mask(),
            (Value::Float(value), ValueType::F64 | ValueType::U64) => value.to_bits(),
            (Value::Float(value), ValueType::F16 | ValueType::PackedF16 | ValueType::U16) => {
                to_f16(value)
            }
            (Value::Float(value), _) => u64::from((value as f32).to_bits()),
        }
    }

    /// Clamps a number to the range from 0 to 1. A NaN becomes 0.
    pub(crate) fn clamped(self, bits: u64) -> u64 {
        if self == ValueType::PackedF16 {
            return ValueType::F16.clamped(bits & 0xffff)
                | ValueType::F16.clamped(bits >> 16 & 0xffff) << 16;
        }
        match float(self, bits) {
            Some(value) if value.is_nan() || value <= 0.0 => 0,
            Some(value) if value >= 1.0 => from_float(self, 1.0),
            _ => bits,
        }
    }

    /// Returns true if this is a float type and both numbers are zero. The signs of the zeros may differ.
    pub(crate) fn are_zeros(self, a: u64, b: u64) -> bool {
        [a, b].iter().all(|bits| float(self, *bits) == Some(0.0))
    }

    /// Returns a quiet NaN for a signalling NaN. Returns any other number unchanged.
    pub(crate) fn without_signalling(self, bits: u64) -> u64 {
        let quiet = match self {
            ValueType::PackedF16 => {
                let half = |bits: u64| ValueType::F16.without_signalling(bits & 0xffff);
                return half(bits) | half(bits >> 16) << 16;
            }
            ValueType::F16 => 0x0200,
            ValueType::F32 => 0x0040_0000,
            ValueType::F64 => 0x0008_0000_0000_0000,
            _ => return bits,
        };
        if float(self, bits).is_some_and(f64::is_nan) {
            bits & self.mask() | quiet
        } else {
            bits & self.mask()
        }
    }
}

/// Returns the value of a binary16, binary32 or binary64 number; `None` for other types.
pub(crate) fn float(of: ValueType, bits: u64) -> Option<f64> {
    match of {
        ValueType::F16 => Some(from_f16(bits)),
        ValueType::F32 => Some(f64::from(f32::from_bits(bits as u32))),
        ValueType::F64 => Some(f64::from_bits(bits)),
        _ => None,
    }
}

fn from_float(of: ValueType, value: f64) -> u64 {
    match of {
        ValueType::F16 => to_f16(value),
        ValueType::F32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

/// Converts a binary16 number to f64, according to the definition of the format.
fn from_f16(bits: u64) -> f64 {
    let (exponent, fraction) = ((bits >> 10 & 31) as i32, (bits & 0x3ff) as f64);
    let magnitude = match (exponent, bits & 0x3ff) {
        (31, 0) => f64::INFINITY,
        (31, _) => f64::NAN,
        (0, _) => fraction * 2f64.powi(-24),
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// Returns the binary16 number nearest to a value, with ties to even. Finds this number by a binary search.
fn to_f16(value: f64) -> u64 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    let (mut below, mut above) = (0u64, 0x7c00u64);
    while above - below > 1 {
        let middle = (below + above) / 2;
        if from_f16(middle) <= magnitude { below = middle } else { above = middle }
    }
    // The code after that of the largest number is infinity, which counts as 65536 here.
    let next = if above == 0x7c00 { 65536.0 } else { from_f16(above) };
    let (down, up) = (magnitude - from_f16(below), next - magnitude);
    sign | if down < up || down == up && below % 2 == 0 { below } else { above }
}

/// Returns the product of two binary16 numbers plus a third one, with a single rounding. The exact sum is computed in
/// units of 2^-48.
fn fma_f16(a: u64, b: u64, c: u64) -> u64 {
    let (x, y, z) = (from_f16(a), from_f16(b), from_f16(c));
    if !(x.is_finite() && y.is_finite() && z.is_finite()) {
        return to_f16(x * y + z);
    }
    let units = |value: f64, unit: i32| (value * 2f64.powi(unit)) as i128;
    let sum = units(x, 24) * units(y, 24) + units(z, 48);
    if sum == 0 {
        return to_f16(x * y + z);
    }
    // The result is determined by the leading 40 bits of the sum and a sticky bit, which is set if any lower bit is not
    // zero.
    let excess = (128 - sum.unsigned_abs().leading_zeros()).saturating_sub(40);
    let kept = sum.unsigned_abs() >> excess;
    let lost = sum.unsigned_abs() & ((1u128 << excess) - 1) != 0;
    let magnitude = (kept as f64 + if lost { 0.5 } else { 0.0 }) * 2f64.powi(excess as i32 - 48);
    to_f16(if sum < 0 { -magnitude } else { magnitude })
}

/// A tested instruction: its name on the architecture, its operands, its formula and its properties.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub(crate) name: &'static str,
    pub(crate) sources: &'static [ValueType],
    pub(crate) result: ValueType,
    pub(crate) short: bool,
    pub(crate) clamps: bool,
    /// True if `op_sel` selects the halves of the source operands, as on GFX9 and GFX10. On GFX11, the text of each
    /// operand contains its half.
    pub(crate) op_sel: bool,
    pub(crate) model: fn([u64; 3]) -> u64,
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn single(value: f32) -> u64 {
    value.to_bits().into()
}

fn halves(f: impl Fn([u64; 3]) -> u64, [a, b, c]: [u64; 3]) -> u64 {
    let part =
        |shift: u32| f([a >> shift & 0xffff, b >> shift & 0xffff, c >> shift & 0xffff]) & 0xffff;
    part(0) | part(16) << 16
}

/// Returns a binary64 number multiplied by 2 to the power of `n`. A denormal result is rounded only once.
fn ldexp(bits: u64, n: i32) -> u64 {
    let value = d(bits);
    if value == 0.0 || !value.is_finite() {
        return bits;
    }
    let (sign, exponent) = (bits & 1 << 63, (bits >> 52 & 0x7ff) as i64);
    let fraction = bits & ((1 << 52) - 1);
    let significand = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    // The significand is normalised. `last` is the exponent of its last bit, relative to that of denormals, plus `n`.
    let up = i64::from(significand.leading_zeros()) - 11;
    let (significand, last) = (significand << up, exponent.max(1) - 1 - up + i64::from(n));
    let magnitude = match last {
        2046.. => 0x7ff << 52,
        0.. => ((last as u64) << 52) + significand,
        ..-54 => 0,
        _ => {
            let lost = (-last) as u32;
            let (kept, rest) = (significand >> lost, significand & ((1 << lost) - 1));
            let half = 1u64 << (lost - 1);
            kept + u64::from(rest > half || rest == half && kept % 2 == 1)
        }
    };
    sign | magnitude
}

fn signed16(value: u64) -> i64 {
    i64::from(value as i16)
}

fn difference(a: u64, b: u64) -> u64 {
    (0..4).map(|i| (a >> (8 * i) & 0xff).abs_diff(b >> (8 * i) & 0xff)).sum()
}

/// Returns the minimum or maximum, following IEEE 754-2008: a number takes precedence over a quiet NaN, and -0 is less
/// than +0.
fn extreme(of: ValueType, a: u64, b: u64, greatest: bool) -> u64 {
    let (Some(x), Some(y)) = (float(of, a), float(of, b)) else { return a };
    let first = match (x.is_nan(), y.is_nan()) {
        (true, false) => false,
        (_, true) => true,
        // Unlike `<`, `total_cmp` orders -0 before +0.
        _ => (x.total_cmp(&y).is_gt()) == greatest,
    };
    if first { a } else { b }
}

macro_rules! op {
    ($name:expr, $sources:expr, $result:expr, $model:expr) => {
        Op {
            name: $name,
            sources: $sources,
            result: $result,
            short: false,
            clamps: false,
            op_sel: false,
            model: $model,
        }
    };
}

fn short(op: Op) -> Op {
    Op { short: true, ..op }
}

fn op_sel(op: Op) -> Op {
    Op { op_sel: true, ..op }
}

fn clamps(op: Op) -> Op {
    Op { clamps: true, ..op }
}

pub(crate) fn ops(arch: Arch) -> Vec<Op> {
    use ValueType::*;
    let facts = arch.facts();
    let (gfx9, gfx11, gfx12) = match facts.microcode {
        Microcode::Gfx9 => (true, false, false),
        Microcode::Gfx10 => (false, false, false),
        Microcode::Gfx11 => (false, true, false),
        Microcode::Gfx12 | Microcode::Gfx1250 => (false, true, true),
    };
    let by =
        |condition: bool, yes: &'static str, no: &'static str| if condition { yes } else { no };
    let mut list = vec![
        op!("v_pk_add_u16", &[PackedU16; 2], PackedU16, |s| halves(|[a, b, _]| a + b, s)),
        op!("v_pk_sub_i16", &[PackedU16; 2], PackedU16, |s| halves(
            |[a, b, _]| a.wrapping_sub(b),
            s
        )),
        op!("v_pk_mul_lo_u16", &[PackedU16; 2], PackedU16, |s| halves(|[a, b, _]| a * b, s)),
        op!("v_pk_lshlrev_b16", &[PackedU16; 2], PackedU16, |s| halves(
            |[a, b, _]| b << (a & 15),
            s
        )),
        op!("v_pk_ashrrev_i16", &[PackedU16; 2], PackedU16, |s| {
            halves(|[a, b, _]| (signed16(b) >> (a & 15)) as u64, s)
        }),
        op!("v_pk_max_i16", &[PackedU16; 2], PackedU16, |s| {
            halves(|[a, b, _]| if signed16(a) > signed16(b) { a } else { b }, s)
        }),
        op!("v_pk_min_u16", &[PackedU16; 2], PackedU16, |s| halves(|[a, b, _]| a.min(b), s)),
        op!("v_pk_mad_u16", &[PackedU16; 3], PackedU16, |s| halves(|[a, b, c]| a * b + c, s)),
        clamps(op!("v_pk_add_f16", &[PackedF16; 2], PackedF16, |s| {
            halves(|[a, b, _]| to_f16(from_f16(a) + from_f16(b)), s)
        })),
        clamps(op!("v_pk_mul_f16", &[PackedF16; 2], PackedF16, |s| {
            halves(|[a, b, _]| to_f16(from_f16(a) * from_f16(b)), s)
        })),
        op!("v_pk_fma_f16", &[PackedF16; 3], PackedF16, |s| halves(
            |[a, b, c]| fma_f16(a, b, c),
            s
        )),
        op!(by(gfx12, "v_pk_min_num_f16", "v_pk_min_f16"), &[PackedF16; 2], PackedF16, |s| {
            halves(|[a, b, _]| extreme(F16, a, b, false), s)
        }),
        clamps(short(op!("v_add_f32", &[F32; 2], F32, |[a, b, _]| single(f(a) + f(b))))),
        clamps(short(op!("v_mul_f32", &[F32; 2], F32, |[a, b, _]| single(f(a) * f(b))))),
        clamps(op!("v_fma_f32", &[F32; 3], F32, |[a, b, c]| single(f(a).mul_add(f(b), f(c))))),
        short(op!(by(gfx12, "v_max_num_f32", "v_max_f32"), &[F32; 2], F32, |[a, b, _]| extreme(
            F32, a, b, true
        ))),
        op!("v_fma_f64", &[F64; 3], F64, |[a, b, c]| d(a).mul_add(d(b), d(c)).to_bits()),
        op!("v_ldexp_f64", &[F64, U32], F64, |[a, n, _]| ldexp(a, n as i32)),
        op!("v_perm_b32", &[U32; 3], U32, |[a, b, s]| {
            (0..4).fold(0, |result, i| {
                let byte = match s >> (8 * i) & 0xff {
                    n @ 0..=3 => b >> (8 * n) & 0xff,
                    n @ 4..=7 => a >> (8 * (n - 4)) & 0xff,
                    8 => (b >> 15 & 1) * 0xff,
                    9 => (b >> 31 & 1) * 0xff,
                    10 => (a >> 15 & 1) * 0xff,
                    11 => (a >> 31 & 1) * 0xff,
                    12 => 0,
                    _ => 0xff,
                };
                result | byte << (8 * i)
            })
        }),
        op!("v_bfe_u32", &[U32; 3], U32, |[a, o, w]| a >> (o & 31) & ((1 << (w & 31)) - 1)),
        op!("v_bfi_b32", &[U32; 3], U32, |[m, a, b]| m & a | !m & 0xffff_ffff & b),
        op!("v_sad_u8", &[U32; 3], U32, |[a, b, c]| difference(a, b) + c),
        op!("v_sad_hi_u8", &[U32; 3], U32, |[a, b, c]| (difference(a, b) << 16) + c),
        op!("v_lerp_u8", &[U32; 3], U32, |[a, b, c]| {
            (0..4).fold(0, |r, i| {
                let byte = |x: u64| x >> (8 * i) & 0xff;
                r | ((byte(a) + byte(b) + (byte(c) & 1)) / 2) << (8 * i)
            })
        }),
        op!("v_med3_i32", &[U32; 3], U32, |s| {
            let mut sorted = s.map(|bits| bits as i32);
            sorted.sort_unstable();
            sorted[1] as u32 as u64
        }),
        op!("v_cvt_pk_u8_f32", &[F32, U32, U32], U32, |[a, byte, c]| {
            let (value, at) = (f(a), 8 * (byte & 3));
            // The conversion rounds to nearest, ties to even, as in the default mode.
            let nearest = (0..256u64).min_by(|x, y| {
                let far = |n: u64| (f64::from(value.clamp(0.0, 255.0)) - n as f64).abs();
                far(*x).total_cmp(&far(*y)).then((x % 2).cmp(&(y % 2)))
            });
            let rounded = if value.is_nan() { 0 } else { nearest.unwrap_or(0) };
            c & !(0xff << at) | rounded << at
        }),
        op!("v_lshlrev_b64", &[U32, U64], U64, |[n, a, _]| a << (n & 63)),
        op!("v_mul_hi_u32", &[U32; 2], U32, |[a, b, _]| (a * b) >> 32),
        short(op!(by(gfx9, "v_add_u32", "v_add_nc_u32"), &[U32; 2], U32, |[a, b, _]| a + b)),
        short(op!("v_lshrrev_b32", &[U32; 2], U32, |[n, a, _]| a >> (n & 31))),
        short(op!("v_cvt_f32_u32", &[U32], F32, |[a, _, _]| single(a as f32))),
        short(op!("v_cvt_i32_f32", &[F32], U32, |[a, _, _]| {
            let value = f64::from(f(a)).trunc().clamp(-2_147_483_648.0, 2_147_483_647.0);
            if value.is_nan() { 0 } else { value as i64 as u64 & 0xffff_ffff }
        })),
    ];
    // The product of these instructions is zero if one factor is zero.
    let old = by(gfx11, "v_mul_dx9_zero_f32", "v_mul_legacy_f32");
    let legacy = match facts.legacy_multiply {
        LegacyMultiply::Absent => None,
        LegacyMultiply::Long => Some(false),
        LegacyMultiply::Short => Some(true),
    };
    if let Some(has_short) = legacy {
        let product = op!(old, &[F32; 2], F32, |[a, b, _]| match (f(a), f(b)) {
            (0.0, _) | (_, 0.0) => 0,
            (a, b) => single(a * b),
        });
        list.push(if has_short { short(product) } else { product });
    }
    if gfx9 && !facts.has_gfx940_instructions {
        list.push(op!("v_mad_legacy_f32", &[F32; 3], F32, |[a, b, c]| match (f(a), f(b)) {
            (0.0, _) | (_, 0.0) => single(0.0 + f(c)),
            (a, b) => single(a * b + f(c)),
        }));
    }
    if !gfx9 {
        list.push(op!("v_mullit_f32", &[F32; 3], F32, |[a, b, c]| {
            let dark = f(b) <= -f32::MAX || f(b).is_nan() || f(c).is_nan() || f(c) <= 0.0;
            match (f(a), f(b)) {
                _ if dark => single(-f32::MAX),
                (0.0, _) | (_, 0.0) => 0,
                (a, b) => single(a * b),
            }
        }));
    }
    list.push(op!("v_sad_u16", &[U32; 3], U32, |[a, b, c]| {
        (0..2).map(|i| (a >> (16 * i) & 0xffff).abs_diff(b >> (16 * i) & 0xffff)).sum::<u64>() + c
    }));
    list.push(op!("v_msad_u8", &[U32; 3], U32, |[a, b, c]| {
        let byte = |x: u64, i: u64| x >> (8 * i) & 0xff;
        let seen = (0..4).filter(|i| byte(b, *i) != 0);
        seen.map(|i| byte(a, i).abs_diff(byte(b, i))).sum::<u64>() + c
    }));
    if gfx9 {
        list.push(op!("v_mad_u32_u24", &[U32; 3], U32, |[a, b, c]| (a & 0xff_ffff)
            * (b & 0xff_ffff)
            + c));
    }
    list.push(clamps(short(op!("v_add_f16", &[F16; 2], F16, |[a, b, _]| to_f16(
        from_f16(a) + from_f16(b)
    )))));
    list.push(op_sel(op!("v_fma_f16", &[F16; 3], F16, |[a, b, c]| fma_f16(a, b, c))));
    list.push(op!(by(gfx9, "v_add_u16", "v_add_nc_u16"), &[U16; 2], U16, |[a, b, _]| a + b));
    if !gfx11 {
        list.push(op_sel(op!("v_mad_u32_u16", &[U16, U16, U32], U32, |[a, b, c]| a * b + c)));
    }
    // From GFX11 on, the shift is a 16-bit operand.
    let of: &[ValueType] = if gfx11 { &[U32, U32, U16] } else { &[U32; 3] };
    list.push(op!("v_alignbit_b32", of, U32, |[a, b, s]| (a << 32 | b) >> (s & 31) & 0xffff_ffff));
    list.push(op!("v_alignbyte_b32", of, U32, |[a, b, s]| {
        (a << 32 | b) >> (8 * (s & 3)) & 0xffff_ffff
    }));
    if gfx11 {
        list.push(op!(by(gfx12, "v_minmax_num_f32", "v_minmax_f32"), &[F32; 3], F32, |[
            a,
            b,
            c,
        ]| {
            extreme(F32, extreme(F32, a, b, false), c, true)
        }));
    }
    list
}
