//! Implements the instructions that convert between number formats.

use device::Arch;

use crate::{
    exec::{Binder, on_wave},
    float16::{Bf16, F16},
    operation::{Operation, Table, by_arch, by_overflow, operations, rounded},
    rounding::{Field, Rounds as _},
    small_float::SmallFloat,
    text::{Text, Unsupported},
    vector::{binary, keeping, ternary, unary},
    wave::active,
};

/// Converts a float to a signed normalised 16-bit integer: clamps, scales, and rounds to nearest even.
fn signed_normal(a: f32) -> u32 {
    if a.is_nan() {
        0
    } else {
        (a.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i32 as u32 & 0xffff
    }
}

fn unsigned_normal(a: f32) -> u32 {
    if a.is_nan() { 0 } else { (a.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u32 }
}

/// Returns a conversion to an integer that rounds down. On GFX12 a NaN becomes the largest integer, or the smallest one
/// if its sign is set. Measured on a Radeon RX 9070 XT.
fn to_i32(arch: Arch, f: impl Fn(f32) -> i32 + Copy + Send + Sync + 'static) -> Binder {
    if !arch.facts().floors_nan_to_extremes {
        return unary(f);
    }
    unary(move |a: f32| match (a.is_nan(), a.is_sign_negative()) {
        (false, _) => f(a),
        (true, false) => i32::MAX,
        (true, true) => i32::MIN,
    })
}

/// Implements `v_cvt_pk_u8_f32`: replaces byte number `byte` of `c` by `rounded`, which has already been rounded as
/// MODE requires.
fn put_byte(rounded: f32, byte: u32, c: u32) -> u32 {
    let shift = 8 * (byte & 3);
    (c & !(0xff << shift)) | u32::from(rounded as u8) << shift
}

fn byte_select(text: &Text) -> Result<u32, Unsupported> {
    u32::try_from(text.number("byte_sel")?).ok().filter(|byte| *byte < 4).ok_or(Unsupported)
}

/// Returns the implementation of `v_cvt_f32_fp8`, or `v_cvt_pk_f32_fp8` if `pair` is true. SDWA, `byte_sel` or `op_sel`
/// selects the part of the source operand that is converted.
fn from_float8(name: &'static str, pair: bool) -> Binder {
    Box::new(move |text| {
        let format = SmallFloat::named(name, text.site.arch).ok_or(Unsupported)?;
        let mut bare = text.clone();
        let byte = byte_select(text)?;
        let high = text.list("op_sel").is_some_and(|bits| bits.first() == Some(&1));
        bare.drop_modifier("byte_sel");
        if pair {
            bare.drop_modifier("op_sel");
        } else if high {
            return Err(Unsupported);
        }
        let wide = move |a: u32, byte: u32| format.to_f32((a >> (8 * byte)) as u8);
        if pair {
            let first = if high { 2 } else { 0 };
            unary(move |a: u32| {
                let bits = |byte| u64::from(wide(a, byte).to_bits());
                bits(first) | bits(first + 1) << 32
            })(&bare)
        } else {
            unary(move |a: u32| wide(a, byte))(&bare)
        }
    })
}

/// Returns the implementation of `v_cvt_pk_fp8_f32`, which writes two results to one half of the destination and keeps
/// the other half.
fn to_float8(name: &'static str) -> Operation {
    by_overflow(|saturates| to_float8_where(name, saturates))
}

fn to_float8_where(name: &'static str, saturates: bool) -> Binder {
    Box::new(move |text| {
        let format = SmallFloat::named(name, text.site.arch).ok_or(Unsupported)?;
        let format = format.saturating(saturates);
        let convert = move |a: f32, b: f32| {
            u16::from(format.round(a.into())) | u16::from(format.round(b.into())) << 8
        };
        keeping(convert)(text)
    })
}

/// Returns the implementation of `v_cvt_sr_fp8_f32`, which writes one byte of the destination and keeps the others.
/// `op_sel` (GFX9) or `byte_sel` (GFX12) selects the byte.
fn to_float8_by_chance(name: &'static str) -> Binder {
    Box::new(move |text| {
        let format = SmallFloat::named(name, text.site.arch).ok_or(Unsupported)?;
        text.only(&["op_sel", "byte_sel"])?;
        let select = text.list("op_sel").unwrap_or_default();
        let bit = |index: usize| u32::from(select.get(index) == Some(&1));
        if bit(0) + bit(1) != 0 {
            return Err(Unsupported);
        }
        let byte = byte_select(text)?.max(bit(2) + 2 * bit(3));
        let (row, value) = (text.row(0, 1)?, text.plain_source::<f32>(1)?);
        let chance = text.plain_source::<u32>(2)?;
        on_wave(move |wave| {
            let format = format.saturating(wave.saturates());
            for lane in active(wave.exec()) {
                let value = f64::from(value.lane::<f32>(wave, lane));
                let code = format.round_by_chance(value, chance.lane(wave, lane), 23);
                let kept = wave.lane(row, lane) & !(0xff << (8 * byte));
                wave.set_lane(row, lane, kept | u32::from(code) << (8 * byte));
            }
        })
    })
}

pub(crate) fn register(table: &mut Table) {
    // Rust's `as` from float to integer behaves like hardware: it truncates, saturates, and converts NaN to zero.
    operations! { table;
        "v_cvt_f32_fp8" => from_float8("fp8", false);
        "v_cvt_f32_bf8" => from_float8("bf8", false);
        "v_cvt_pk_f32_fp8" => from_float8("fp8", true);
        "v_cvt_pk_f32_bf8" => from_float8("bf8", true);
        "v_cvt_sr_fp8_f32" => to_float8_by_chance("fp8");
        "v_cvt_sr_bf8_f32" => to_float8_by_chance("bf8");
        "v_cvt_pk_fp8_f32" => to_float8("fp8");
        "v_cvt_pk_bf8_f32" => to_float8("bf8");
        "v_cvt_f32_i32" => rounded!(Single, r => unary(move |a: i32| -> f32 { r.convert(f64::from(a)) }));
        "v_cvt_f32_u32" => rounded!(Single, r => unary(move |a: u32| -> f32 { r.convert(f64::from(a)) }));
        "v_cvt_i32_f32" => unary(|a: f32| a as i32);
        "v_cvt_u32_f32" => unary(|a: f32| a as u32);
        "v_cvt_rpi_i32_f32" | "v_cvt_nearest_i32_f32" =>
            by_arch(|arch| to_i32(arch, |a| (f64::from(a) + 0.5).floor() as i32));
        "v_cvt_flr_i32_f32" | "v_cvt_floor_i32_f32" => by_arch(|arch| to_i32(arch, |a| a.floor() as i32));
        "v_cvt_f64_f32" => unary(|a: f32| f64::from(a));
        // The rounding field of the source type applies (LLVM, `SIModeRegister`).
        "v_cvt_f32_f64" => rounded!(Double, r => unary(move |a: f64| -> f32 { r.convert(a) }));
        "v_cvt_f64_i32" => unary(|a: i32| f64::from(a));
        "v_cvt_f64_u32" => unary(|a: u32| f64::from(a));
        "v_cvt_i32_f64" => unary(|a: f64| a as i32);
        "v_cvt_u32_f64" => unary(|a: f64| a as u32);
        "v_cvt_f32_ubyte0" => unary(|a: u32| (a & 0xff) as f32);
        "v_cvt_f32_ubyte1" => unary(|a: u32| (a >> 8 & 0xff) as f32);
        "v_cvt_f32_ubyte2" => unary(|a: u32| (a >> 16 & 0xff) as f32);
        "v_cvt_f32_ubyte3" => unary(|a: u32| (a >> 24) as f32);
        "v_cvt_f16_f32" => Operation::rounded(Field::Double, unary(F16::from_f32), |r| unary(move |a: f32| -> F16 { r.convert(a) }));
        "v_cvt_f32_f16" => unary(F16::to_f32);
        "v_cvt_f32_bf16" => unary(Bf16::to_f32);
        "v_cvt_f16_u16" => rounded!(Double, r => unary(move |a: u16| -> F16 { r.convert(f64::from(a)) }));
        "v_cvt_f16_i16" => rounded!(Double, r => unary(move |a: i16| -> F16 { r.convert(f64::from(a)) }));
        "v_cvt_u16_f16" => unary(|a: F16| a.to_f32() as u16);
        "v_cvt_i16_f16" => unary(|a: F16| a.to_f32() as i16);
        "v_cvt_u32_u16" => unary(|a: u16| u32::from(a));
        "v_cvt_i32_i16" => unary(|a: i16| i32::from(a));
        "v_cvt_pkrtz_f16_f32" | "v_cvt_pk_rtz_f16_f32" => binary(|a: f32, b: f32| {
            u32::from(F16::truncate_f32(a).0) | u32::from(F16::truncate_f32(b).0) << 16
        });
        "v_cvt_pk_f16_f32" => by_overflow(|saturates| {
            let round = F16::rounding(saturates);
            binary(move |a: f32, b: f32| u32::from(round(a).0) | u32::from(round(b).0) << 16)
        });
        "v_cvt_pk_bf16_f32" => binary(|a: f32, b: f32| {
            u32::from(Bf16::from_f32(a).0) | u32::from(Bf16::from_f32(b).0) << 16
        });
        "v_cvt_pk_u16_u32" => binary(|a: u32, b: u32| a.min(0xffff) | b.min(0xffff) << 16);
        "v_cvt_pk_i16_i32" => binary(|a: i32, b: i32| {
            (a.clamp(-32768, 32767) as u32 & 0xffff) | (b.clamp(-32768, 32767) as u32) << 16
        });
        "v_cvt_pknorm_i16_f32" | "v_cvt_pk_norm_i16_f32" =>
            binary(|a: f32, b: f32| signed_normal(a) | signed_normal(b) << 16);
        "v_cvt_pknorm_u16_f32" | "v_cvt_pk_norm_u16_f32" =>
            binary(|a: f32, b: f32| unsigned_normal(a) | unsigned_normal(b) << 16);
        "v_cvt_pknorm_i16_f16" | "v_cvt_pk_norm_i16_f16" =>
            binary(|a: F16, b: F16| signed_normal(a.to_f32()) | signed_normal(b.to_f32()) << 16);
        "v_cvt_pknorm_u16_f16" | "v_cvt_pk_norm_u16_f16" =>
            binary(|a: F16, b: F16| unsigned_normal(a.to_f32()) | unsigned_normal(b.to_f32()) << 16);
        "v_cvt_norm_i16_f16" => unary(|a: F16| signed_normal(a.to_f32()) as u16);
        "v_cvt_norm_u16_f16" => unary(|a: F16| unsigned_normal(a.to_f32()) as u16);
        "v_cvt_pk_i16_f32" => binary(|a: f32, b: f32| {
            u32::from(a as i16 as u16) | u32::from(b as i16 as u16) << 16
        });
        "v_cvt_pk_u16_f32" => binary(|a: f32, b: f32| u32::from(a as u16) | u32::from(b as u16) << 16);
        // The source operand is a signed 4-bit integer, in units of 1/16.
        "v_cvt_off_f32_i4" => unary(|a: u32| ((a << 28) as i32 >> 28) as f32 / 16.0);
        "v_cvt_pk_u8_f32" =>
            rounded!(Single, r => ternary(move |a: f32, byte: u32, c: u32| put_byte(r.to_integer(a), byte, c)));
    }
}
