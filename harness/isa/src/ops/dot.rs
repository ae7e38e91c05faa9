//! Dot products of the parts of two registers, added to a third.

use super::{Table, operations};
use crate::{
    exec::Binder,
    float16::{Bf16, F16},
    text::{Base, Constant, Text, Unsupported},
    value::Value,
    vector::{accumulate, ternary},
};

/// Part `index` of `bits` bits, extended.
#[inline(always)]
fn part(value: u32, index: u32, bits: u32, signed: bool) -> i64 {
    let top = value << (32 - bits * (index + 1));
    if signed { i64::from(top as i32 >> (32 - bits)) } else { i64::from(top >> (32 - bits)) }
}

/// The sum of the products of all parts.
#[inline(always)]
fn products(a: u32, b: u32, bits: u32, signed: (bool, bool)) -> i64 {
    (0..32 / bits).map(|i| part(a, i, bits, signed.0) * part(b, i, bits, signed.1)).sum()
}

/// `dst, a, b, c`, or with the destination as the addend where there are three operands.
fn dot<C: Value>(f: impl Fn(u32, u32, C) -> C + Copy + Send + Sync + 'static) -> Binder {
    Box::new(move |text| {
        // What an inline float stands for depends on the parts; no shipped kernel has one.
        let float = |operand: &crate::text::Operand| {
            matches!(operand.base, Base::Constant(Constant::Float(_)))
        };
        if text.operands.iter().take(3).any(float) {
            return Err(Unsupported);
        }
        if text.operands.len() == 3 { accumulate(f)(text) } else { ternary(f)(text) }
    })
}

/// Integer parts of a width; the plain form wraps, the one with `clamp` saturates.
fn add_integers(table: &mut Table, names: &[&str], bits: u32, signed: bool) {
    let wrap: std::sync::Arc<Binder> = std::sync::Arc::new(dot(move |a: u32, b: u32, c: u32| {
        c.wrapping_add(products(a, b, bits, (signed, signed)) as u32)
    }));
    let saturate: std::sync::Arc<Binder> =
        std::sync::Arc::new(dot(move |a: u32, b: u32, c: u32| {
            let sum = products(a, b, bits, (signed, signed));
            if signed { clamp_signed(sum, c) } else { (sum + i64::from(c)).min(0xffff_ffff) as u32 }
        }));
    for name in names {
        table.insert((*name).to_owned(), wrap.clone());
        table.insert(format!("{name} clamp"), saturate.clone());
    }
}

fn clamp_signed(sum: i64, c: u32) -> u32 {
    (sum + i64::from(c as i32)).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
}

/// `v_dot4_i32_iu8` and `v_dot8_i32_iu4`: `neg_lo` says which sources are signed.
fn mixed_signs(bits: u32) -> Binder {
    Box::new(move |text: &Text| {
        let list = text.list("neg_lo").unwrap_or_default();
        let signed = (list.first() == Some(&1), list.get(1) == Some(&1));
        let clamp = text.has("clamp");
        let mut bare = text.clone();
        bare.drop_modifier("neg_lo");
        bare.drop_modifier("clamp");
        dot(move |a: u32, b: u32, c: u32| {
            let sum = products(a, b, bits, signed);
            if clamp { clamp_signed(sum, c) } else { c.wrapping_add(sum as u32) }
        })(&bare)
    })
}

/// Source: the ISA guides' `V_DOT2_F32_F16`: the products are added to the addend one after the other.
#[inline(always)]
fn halves(a: u32, b: u32, c: f32, wide: fn(u16) -> f32) -> f32 {
    let low = wide(a as u16).mul_add(wide(b as u16), c);
    wide((a >> 16) as u16).mul_add(wide((b >> 16) as u16), low)
}

fn wide_f16(bits: u16) -> f32 {
    F16(bits).to_f32()
}

fn wide_bf16(bits: u16) -> f32 {
    Bf16(bits).to_f32()
}

pub(crate) fn register(table: &mut Table) {
    add_integers(table, &["v_dot2_i32_i16", "v_dot2c_i32_i16"], 16, true);
    add_integers(table, &["v_dot2_u32_u16"], 16, false);
    add_integers(table, &["v_dot4_i32_i8", "v_dot4c_i32_i8"], 8, true);
    add_integers(table, &["v_dot4_u32_u8"], 8, false);
    add_integers(table, &["v_dot8_i32_i4", "v_dot8c_i32_i4"], 4, true);
    add_integers(table, &["v_dot8_u32_u4"], 4, false);
    operations! { table;
        "v_dot4_i32_iu8" => mixed_signs(8);
        "v_dot8_i32_iu4" => mixed_signs(4);
        "v_dot2_f32_f16" | "v_dot2c_f32_f16" | "v_dot2acc_f32_f16" =>
            dot(|a: u32, b: u32, c: f32| halves(a, b, c, wide_f16));
        "v_dot2_f32_bf16" | "v_dot2c_f32_bf16" | "v_dot2acc_f32_bf16" =>
            dot(|a: u32, b: u32, c: f32| halves(a, b, c, wide_bf16));
        "v_dot2_f16_f16" => dot(|a: u32, b: u32, c: F16| {
            F16::from_f32(halves(a, b, c.to_f32(), wide_f16))
        });
        "v_dot2_bf16_bf16" => dot(|a: u32, b: u32, c: Bf16| {
            Bf16::from_f32(halves(a, b, c.to_f32(), wide_bf16))
        });
    }
}
