//! Implements scalar float arithmetic (GFX11.5 and later), and the scalar forms of the transcendental functions
//! (GFX12).

use super::{
    extremes::{Extremes as _, Ordered as _, by_ieee},
    float::flushing,
    half::via,
};
use crate::{
    exec::Binder,
    float16::F16,
    operation::{Operation, Table, accumulates, operations, rounded},
    rounding::Rounds as _,
    scalar::{binary, compare, ternary, unary},
};

/// Adds the comparisons of one type to the table. `number` converts an operand to f32.
macro_rules! comparisons {
    ($table:ident, $($name:literal $type:ident $number:expr;)+) => {
        $(
            let mut add = |condition: &str, operation: Operation| {
                crate::operation::add($table, &format!("s_cmp_{condition}_{}", $name), std::sync::Arc::new(operation));
            };
            add("lt", compare(|a: $type, b: $type| $number(a) < $number(b)));
            add("le", compare(|a: $type, b: $type| $number(a) <= $number(b)));
            add("gt", compare(|a: $type, b: $type| $number(a) > $number(b)));
            add("ge", compare(|a: $type, b: $type| $number(a) >= $number(b)));
            add("eq", compare(|a: $type, b: $type| $number(a) == $number(b)));
            add("neq", compare(|a: $type, b: $type| $number(a) != $number(b)));
            add("lg", compare(|a: $type, b: $type| {
                $number(a) < $number(b) || $number(a) > $number(b)
            }));
            add("nlg", compare(|a: $type, b: $type| {
                !($number(a) < $number(b) || $number(a) > $number(b))
            }));
            add("nlt", compare(|a: $type, b: $type| !($number(a) < $number(b))));
            add("nle", compare(|a: $type, b: $type| !($number(a) <= $number(b))));
            add("ngt", compare(|a: $type, b: $type| !($number(a) > $number(b))));
            add("nge", compare(|a: $type, b: $type| !($number(a) >= $number(b))));
            add("o", compare(|a: $type, b: $type| !$number(a).is_nan() && !$number(b).is_nan()));
            add("u", compare(|a: $type, b: $type| $number(a).is_nan() || $number(b).is_nan()));
        )+
    };
}

fn single(a: f32) -> f32 {
    a
}

fn half(f: impl Fn(f32) -> f32 + Copy + Send + Sync + 'static) -> Binder {
    unary(move |a: F16| F16::from_f32(f(a.to_f32())))
}

fn halves(f: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Binder {
    binary(move |a: F16, b: F16| via(f)(a, b))
}

#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "`nlt` holds for unordered operands")]
pub(crate) fn register(table: &mut Table) {
    comparisons! { table,
        "f32" f32 single;
        "f16" F16 F16::to_f32;
    }
    operations! { table;
        "s_add_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.add(a, b)));
        "s_sub_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.subtract(a, b)));
        "s_mul_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.multiply(a, b)));
        "s_min_f32" => by_ieee!(r => binary(move |a: f32, b: f32| r.least(a, b)));
        "s_max_f32" => by_ieee!(r => binary(move |a: f32, b: f32| r.greatest(a, b)));
        "s_min_num_f32" => binary(|a: f32, b: f32| a.least_number(b));
        "s_max_num_f32" => binary(|a: f32, b: f32| a.greatest_number(b));
        "s_minimum_f32" => binary(|a: f32, b: f32| a.least_or_nan(b));
        "s_maximum_f32" => binary(|a: f32, b: f32| a.greatest_or_nan(b));
        "s_fmac_f32" => accumulates(rounded!(Single, r => ternary(0, move |a: f32, b: f32, c: f32| r.fused(a, b, c))));
        "s_fmaak_f32" | "s_fmamk_f32" => rounded!(Single, r => ternary(3, move |a: f32, b: f32, c: f32| r.fused(a, b, c)));
        "s_ceil_f32" => unary(|a: f32| a.ceil());
        "s_floor_f32" => unary(|a: f32| a.floor());
        "s_trunc_f32" => unary(|a: f32| a.trunc());
        "s_rndne_f32" => unary(|a: f32| a.round_ties_even());
        "s_cvt_f32_i32" => rounded!(Single, r => unary(move |a: i32| -> f32 { r.convert(f64::from(a)) }));
        "s_cvt_f32_u32" => rounded!(Single, r => unary(move |a: u32| -> f32 { r.convert(f64::from(a)) }));
        "s_cvt_i32_f32" => unary(|a: f32| a as i32);
        "s_cvt_u32_f32" => unary(|a: f32| a as u32);
        "s_cvt_f16_f32" => rounded!(Double, r => unary(move |a: f32| -> F16 { r.convert(a) }));
        "s_cvt_f32_f16" => unary(F16::to_f32);
        "s_cvt_hi_f32_f16" => unary(|a: u32| F16((a >> 16) as u16).to_f32());
        "s_cvt_pk_rtz_f16_f32" => binary(|a: f32, b: f32| {
            u32::from(F16::truncate_f32(a).0) | u32::from(F16::truncate_f32(b).0) << 16
        });
        "s_add_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.add(a, b)));
        "s_sub_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.subtract(a, b)));
        "s_mul_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.multiply(a, b)));
        "s_min_f16" => by_ieee!(r => halves(move |a, b| r.least(a, b)));
        "s_max_f16" => by_ieee!(r => halves(move |a, b| r.greatest(a, b)));
        "s_min_num_f16" => halves(|a, b| a.least_number(b));
        "s_max_num_f16" => halves(|a, b| a.greatest_number(b));
        "s_minimum_f16" => halves(|a, b| a.least_or_nan(b));
        "s_maximum_f16" => halves(|a, b| a.greatest_or_nan(b));
        "s_fmac_f16" => accumulates(rounded!(Double, r => ternary(0, move |a: F16, b: F16, c: F16| r.fused(a, b, c))));
        "s_ceil_f16" => half(f32::ceil);
        "s_floor_f16" => half(f32::floor);
        "s_trunc_f16" => half(f32::trunc);
        "s_rndne_f16" => half(f32::round_ties_even);
        "v_s_rcp_f32" => unary(flushing(|a| 1.0 / a));
        "v_s_sqrt_f32" => unary(flushing(|a| a.sqrt()));
        "v_s_rsq_f32" => unary(flushing(|a| (1.0 / f64::from(a).sqrt()) as f32));
        "v_s_exp_f32" => unary(flushing(|a| f64::from(a).exp2() as f32));
        "v_s_log_f32" => unary(flushing(|a| f64::from(a).log2() as f32));
    }
}
