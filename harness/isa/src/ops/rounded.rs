//! Operations in the rounding modes other than to nearest even.
//!
//! What is not here rounds in one way of its own, or not at all: the approximations (reciprocals, roots, powers,
//! logarithms, sines), which are given as accurate to a bit or so in every mode, products of matrices, dot products,
//! atomics, and conversions that name their rounding.

use std::sync::LazyLock;

use super::{
    Table,
    convert::put_byte,
    half::{Destination, mixed},
    operations, packed,
    special::fused,
};
use crate::{
    exec::{Binder, Bound},
    float16::F16,
    rounding::{Float, Rounding},
    scalar,
    text::Text,
    value::Value,
    vector::{accumulate, binary, ternary, unary},
};

/// The bits of MODE by which a wave leaves the ordinary way, see [`bind`].
pub(crate) const ROUND: u32 = 0xf;

/// For each mode; then for results of 32 bits, by MODE\[1:0\], and of 16 and 64 bits, by MODE\[3:2\].
static TABLES: LazyLock<[[Table; 2]; 3]> = LazyLock::new(|| {
    Rounding::ALL.map(|rounding| {
        let (mut single, mut other) = (Table::new(), Table::new());
        register_single(&mut single, rounding);
        register_half(&mut other, rounding);
        register_double(&mut other, rounding);
        [single, other]
    })
});

fn binder(text: &Text, mode: u32) -> Option<&'static Binder> {
    [mode & 3, mode >> 2 & 3].into_iter().enumerate().find_map(|(field, rounding)| {
        let tables = TABLES.get((rounding as usize).checked_sub(1)?)?;
        tables[field].get(&text.mnemonic).map(AsRef::as_ref)
    })
}

/// Whether the instruction is another one in that MODE.
pub(crate) fn is_rounded(text: &Text, mode: u32) -> bool {
    binder(text, mode).is_some()
}

/// The instruction as it is in that MODE; `None` if it is the same as ever.
pub(crate) fn bind(text: &Text, mode: u32) -> Option<Bound> {
    binder(text, mode).map(|binder| binder(text))
}

/// Sum, difference and reversed difference.
fn add<T: Value + Float>(r: Rounding) -> impl Fn(T, T) -> T + Copy + Send + Sync + 'static {
    move |a, b| r.add(a, b)
}

fn subtract<T: Value + Float>(r: Rounding) -> impl Fn(T, T) -> T + Copy + Send + Sync + 'static {
    move |a, b| r.add(a, T::from_bits(b.bits() ^ T::SIGN))
}

fn multiply<T: Value + Float>(r: Rounding) -> impl Fn(T, T) -> T + Copy + Send + Sync + 'static {
    move |a, b| r.multiply(a, b)
}

fn fma<T: Value + Float>(r: Rounding) -> impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static {
    move |a, b, c| r.multiply_add(a, b, c, 0)
}

/// Rounds twice, as `v_mad` does.
fn mad<T: Value + Float>(r: Rounding) -> impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static {
    move |a, b, c| r.add(r.multiply(a, b), c)
}

fn reversed<T: Value>(f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static) -> Binder {
    binary(move |a: T, b: T| f(b, a))
}

fn register_single(table: &mut Table, r: Rounding) {
    type F = f32;
    operations! { table;
        "v_add_f32" => binary(add::<F>(r));
        "v_sub_f32" => binary(subtract::<F>(r));
        "v_subrev_f32" => reversed(subtract::<F>(r));
        "v_mul_f32" => binary(multiply::<F>(r));
        "v_mul_legacy_f32" | "v_mul_dx9_zero_f32" =>
            binary(move |a: F, b: F| if a == 0.0 || b == 0.0 { 0.0 } else { r.multiply(a, b) });
        "v_fma_f32" | "v_fmaak_f32" | "v_fmamk_f32" => ternary(fma::<F>(r));
        "v_fmac_f32" => accumulate(fma::<F>(r));
        "v_fma_legacy_f32" | "v_fma_dx9_zero_f32" => ternary(move |a: F, b: F, c: F| {
            if a == 0.0 || b == 0.0 { c } else { r.multiply_add(a, b, c, 0) }
        });
        "v_fmac_legacy_f32" | "v_fmac_dx9_zero_f32" => accumulate(move |a: F, b: F, c: F| {
            if a == 0.0 || b == 0.0 { c } else { r.multiply_add(a, b, c, 0) }
        });
        "v_mad_f32" | "v_madak_f32" | "v_madmk_f32" => ternary(mad::<F>(r));
        "v_mac_f32" => accumulate(mad::<F>(r));
        "v_div_fmas_f32" =>
            fused(fma::<F>(r), move |a, b, c| r.multiply_add(a, b, c, if c.abs() >= 2.0 { 64 } else { -64 }));
        "v_fract_f32" => unary(move |a: F| match a.is_finite() {
            true => r.add(a, -a.floor()).min(1f32.next_down()),
            false => F::NAN,
        });
        "v_ldexp_f32" => binary(move |a: F, n: i32| -> F { r.scale(a, n) });
        "v_cvt_f32_i32" => unary(move |a: i32| -> F { r.convert(f64::from(a)) });
        "v_cvt_f32_u32" => unary(move |a: u32| -> F { r.convert(f64::from(a)) });
        "v_cvt_pk_u8_f32" =>
            ternary(move |a: F, byte: u32, c: u32| put_byte(r.to_integer(a), byte, c));
        "v_pk_add_f32" => packed::two(add::<F>(r));
        "v_pk_mul_f32" => packed::two(multiply::<F>(r));
        "v_pk_fma_f32" => packed::three(false, fma::<F>(r));
        "v_fma_mix_f32" | "v_mad_mix_f32" => mixed(Destination::Whole, fma::<F>(r));
        "s_add_f32" => scalar::binary(add::<F>(r));
        "s_sub_f32" => scalar::binary(subtract::<F>(r));
        "s_mul_f32" => scalar::binary(multiply::<F>(r));
        "s_fmac_f32" => scalar::ternary(0, fma::<F>(r));
        "s_fmaak_f32" | "s_fmamk_f32" => scalar::ternary(3, fma::<F>(r));
        "s_cvt_f32_i32" => scalar::unary(move |a: i32| -> F { r.convert(f64::from(a)) });
        "s_cvt_f32_u32" => scalar::unary(move |a: u32| -> F { r.convert(f64::from(a)) });
    }
}

fn register_half(table: &mut Table, r: Rounding) {
    let mix = move |a: f32, b: f32, c: f32| -> F16 { r.multiply_add(a, b, c, 0) };
    operations! { table;
        "v_add_f16" => binary(add::<F16>(r));
        "v_sub_f16" => binary(subtract::<F16>(r));
        "v_subrev_f16" => reversed(subtract::<F16>(r));
        "v_mul_f16" => binary(multiply::<F16>(r));
        "v_fma_f16" | "v_fma_legacy_f16" | "v_fmaak_f16" | "v_fmamk_f16" => ternary(fma::<F16>(r));
        "v_fmac_f16" => accumulate(fma::<F16>(r));
        "v_mad_f16" | "v_mad_legacy_f16" => ternary(mad::<F16>(r));
        "v_mac_f16" => accumulate(mad::<F16>(r));
        "v_fract_f16" => unary(move |a: F16| {
            let a = a.to_f32();
            let fraction: F16 = r.convert(f64::from(a) - f64::from(a.floor()));
            match a.is_finite() {
                true => F16::from_f32(fraction.to_f32().min(F16(0x3bff).to_f32())),
                false => F16(0x7e00),
            }
        });
        "v_ldexp_f16" => binary(move |a: F16, n: i16| -> F16 { r.scale(a, n.into()) });
        "v_cvt_f16_f32" => unary(move |a: f32| -> F16 { r.convert(a) });
        "v_cvt_f16_u16" => unary(move |a: u16| -> F16 { r.convert(f64::from(a)) });
        "v_cvt_f16_i16" => unary(move |a: i16| -> F16 { r.convert(f64::from(a)) });
        "v_pk_add_f16" => packed::two(add::<F16>(r));
        "v_pk_mul_f16" => packed::two(multiply::<F16>(r));
        "v_pk_fma_f16" => packed::three(false, fma::<F16>(r));
        "v_pk_fmac_f16" => packed::three(true, fma::<F16>(r));
        "v_fma_mixlo_f16" | "v_mad_mixlo_f16" => mixed(Destination::Low, mix);
        "v_fma_mixhi_f16" | "v_mad_mixhi_f16" => mixed(Destination::High, mix);
        "s_add_f16" => scalar::binary(add::<F16>(r));
        "s_sub_f16" => scalar::binary(subtract::<F16>(r));
        "s_mul_f16" => scalar::binary(multiply::<F16>(r));
        "s_fmac_f16" => scalar::ternary(0, fma::<F16>(r));
        "s_cvt_f16_f32" => scalar::unary(move |a: f32| -> F16 { r.convert(a) });
    }
}

fn register_double(table: &mut Table, r: Rounding) {
    type F = f64;
    operations! { table;
        "v_add_f64" => binary(add::<F>(r));
        "v_mul_f64" => binary(multiply::<F>(r));
        "v_fma_f64" => ternary(fma::<F>(r));
        "v_fmac_f64" => accumulate(fma::<F>(r));
        "v_div_fmas_f64" =>
            fused(fma::<F>(r), move |a, b, c| r.multiply_add(a, b, c, if c.abs() >= 2.0 { 128 } else { -128 }));
        "v_fract_f64" => unary(move |a: F| match a.is_finite() {
            true => r.add(a, -a.floor()).min(1f64.next_down()),
            false => F::NAN,
        });
        "v_ldexp_f64" => binary(move |a: F, n: i32| -> F { r.scale(a, n) });
        // By the field of its source (LLVM, `SIModeRegister`).
        "v_cvt_f32_f64" => unary(move |a: F| -> f32 { r.convert(a) });
    }
}
