//! Implements vector float arithmetic in single and double precision.

use device::Arch;

use crate::{
    operation::{Table, by_arch, operations, rounded},
    ops::extremes::{Extremes as _, OfNumbers, Ordered as _, by_ieee},
    rounding::{Float, Rounds, exponent},
    value::flushed,
    vector::{accumulate, binary, ternary, unary},
};

/// Major axis of a direction, which selects the face of a cube map (the ISA guides, `V_CUBEID_F32`).
enum Axis {
    X,
    Y,
    Z,
}

impl Axis {
    fn major(x: f32, y: f32, z: f32) -> Axis {
        let (x, y, z) = (x.abs(), y.abs(), z.abs());
        match (z >= x && z >= y, y >= x) {
            (true, _) => Axis::Z,
            (false, true) => Axis::Y,
            (false, false) => Axis::X,
        }
    }
}

/// Returns the product of a legacy multiplication. The product is zero if one factor is zero, even if the other factor
/// is infinite or a NaN.
#[inline(always)]
fn legacy(r: impl Rounds, a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { r.multiply(a, b) }
}

#[inline(always)]
fn legacy_fused(r: impl Rounds, a: f32, b: f32, c: f32) -> f32 {
    if a == 0.0 || b == 0.0 { c } else { r.fused(a, b, c) }
}

/// Returns `a * b + c`, where both the product and the sum are rounded.
#[inline(always)]
pub(super) fn mad<T: Float>(r: impl Rounds, a: T, b: T, c: T) -> T {
    r.add(r.multiply(a, b), c)
}

/// Returns `x - floor(x)`. If this would round to one, returns the largest number below one.
#[inline(always)]
fn fraction_f32(r: impl Rounds, x: f32) -> f32 {
    if x.is_finite() { r.add(x, -x.floor()).min(1f32.next_down()) } else { f32::NAN }
}

#[inline(always)]
fn fraction_f64(r: impl Rounds, x: f64) -> f64 {
    if x.is_finite() { r.add(x, -x.floor()).min(1f64.next_down()) } else { f64::NAN }
}

/// Implements `V_MULLIT_F32` of the ISA guides, a product for lighting computations. The result is the lowest finite
/// number if the second factor is the lowest finite number, minus infinity or a NaN, or if the third operand is zero,
/// negative or a NaN.
fn light(r: impl Rounds, a: f32, b: f32, c: f32) -> f32 {
    if b == -f32::MAX || b == f32::NEG_INFINITY || b.is_nan() || c <= 0.0 || c.is_nan() {
        -f32::MAX
    } else {
        legacy(r, a, b)
    }
}

/// Returns `f`, the sine or the cosine, of an angle in revolutions.
fn turns(x: f32, f: fn(f64) -> f64) -> f32 {
    let x = f64::from(x);
    // `rest` is at most half a revolution. A small `x` stays unchanged, including its sign.
    let rest = x - x.round_ties_even();
    if x.is_finite() { f(rest * std::f64::consts::TAU) as f32 } else { f32::NAN }
}

pub(crate) fn sin(x: f32) -> f32 {
    // The result is exact at multiples of a quarter revolution.
    let quarter = x * 4.0;
    if quarter.is_finite() && quarter == quarter.trunc() && quarter % 2.0 == 0.0 {
        return 0.0f32.copysign(x);
    }
    turns(x, f64::sin)
}

pub(crate) fn cos(x: f32) -> f32 {
    let quarter = x * 4.0;
    if quarter.is_finite() && quarter == quarter.trunc() && quarter % 2.0 != 0.0 {
        return 0.0;
    }
    turns(x, f64::cos)
}

/// Wraps `f`, the sine or cosine, for an architecture. GFX9 accepts only arguments in [-256, 256] (LLVM,
/// `ConstantFolding.cpp`). For other arguments the result is `beyond`, the value of `f` at 0 (CLRX's documentation of
/// GCN, where the range is smaller).
pub(super) fn in_range(
    arch: Arch,
    f: fn(f32) -> f32,
    beyond: f32,
) -> impl Fn(f32) -> f32 + Copy + Send + Sync {
    let limit = arch.facts().largest_angle;
    move |x| if x.is_finite() && x.abs() > limit { beyond } else { f(x) }
}

/// Splits a number into significand and exponent. The significand is in [0.5, 1).
pub(crate) fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, bias) = if x.abs() < f64::MIN_POSITIVE { (x * exponent(64), 64) } else { (x, 0) };
    let biased = (x.to_bits() >> 52 & 0x7ff) as i32;
    let significand = f64::from_bits(x.to_bits() & !(0x7ff << 52) | 1022 << 52);
    (significand, biased - 1022 - bias)
}

/// Wraps a function so that it flushes denormal operands and results, whatever MODE is: "1ULP accuracy, denormals are
/// flushed" (the ISA guides on exponentials, logarithms, reciprocals and roots).
pub(super) fn flushing(f: impl Fn(f32) -> f32 + Copy) -> impl Fn(f32) -> f32 + Copy {
    move |a| flushed(f(flushed(a)))
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_add_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.add(a, b)));
        "v_sub_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.subtract(a, b)));
        "v_subrev_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.subtract(b, a)));
        "v_mul_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| r.multiply(a, b)));
        "v_mul_legacy_f32" | "v_mul_dx9_zero_f32" => rounded!(Single, r => binary(move |a: f32, b: f32| legacy(r, a, b)));
        "v_min_f32" => by_ieee!(r => binary(move |a: f32, b: f32| r.least(a, b)));
        "v_max_f32" => by_ieee!(r => binary(move |a: f32, b: f32| r.greatest(a, b)));
        "v_min_num_f32" => binary(|a: f32, b: f32| a.least_number(b));
        "v_max_num_f32" => binary(|a: f32, b: f32| a.greatest_number(b));
        "v_min3_f32" => by_ieee!(r => ternary(move |a: f32, b: f32, c: f32| r.least(r.least(a, b), c)));
        "v_min3_num_f32" => ternary(|a: f32, b: f32, c: f32| OfNumbers.least(OfNumbers.least(a, b), c));
        "v_max3_f32" => by_ieee!(r => ternary(move |a: f32, b: f32, c: f32| r.greatest(r.greatest(a, b), c)));
        "v_max3_num_f32" => ternary(|a: f32, b: f32, c: f32| OfNumbers.greatest(OfNumbers.greatest(a, b), c));
        "v_maxmin_f32" => by_ieee!(r => ternary(move |a: f32, b: f32, c: f32| r.least(r.greatest(a, b), c)));
        "v_maxmin_num_f32" => ternary(|a: f32, b: f32, c: f32| OfNumbers.least(OfNumbers.greatest(a, b), c));
        "v_minmax_f32" => by_ieee!(r => ternary(move |a: f32, b: f32, c: f32| r.greatest(r.least(a, b), c)));
        "v_minmax_num_f32" => ternary(|a: f32, b: f32, c: f32| OfNumbers.greatest(OfNumbers.least(a, b), c));
        "v_minimum_f32" => binary(|a: f32, b: f32| a.least_or_nan(b));
        "v_maximum_f32" => binary(|a: f32, b: f32| a.greatest_or_nan(b));
        "v_minimum3_f32" => ternary(|a: f32, b: f32, c: f32| a.least_or_nan(b).least_or_nan(c));
        "v_maximum3_f32" => ternary(|a: f32, b: f32, c: f32| a.greatest_or_nan(b).greatest_or_nan(c));
        "v_maximumminimum_f32" => ternary(|a: f32, b: f32, c: f32| a.greatest_or_nan(b).least_or_nan(c));
        "v_minimummaximum_f32" => ternary(|a: f32, b: f32, c: f32| a.least_or_nan(b).greatest_or_nan(c));
        "v_cubeid_f32" => ternary(|x: f32, y: f32, z: f32| {
            let (face, major) = match Axis::major(x, y, z) {
                Axis::X => (0.0f32, x),
                Axis::Y => (2.0, y),
                Axis::Z => (4.0, z),
            };
            if major < 0.0 { face + 1.0 } else { face }
        });
        "v_cubesc_f32" => ternary(|x: f32, y: f32, z: f32| match Axis::major(x, y, z) {
            Axis::X => if x < 0.0 { z } else { -z },
            Axis::Y => x,
            Axis::Z => if z < 0.0 { -x } else { x },
        });
        "v_cubetc_f32" => ternary(|x: f32, y: f32, z: f32| match Axis::major(x, y, z) {
            Axis::Y => if y < 0.0 { -z } else { z },
            Axis::X | Axis::Z => -y,
        });
        "v_cubema_f32" => ternary(|x: f32, y: f32, z: f32| match Axis::major(x, y, z) {
            Axis::X => 2.0 * x,
            Axis::Y => 2.0 * y,
            Axis::Z => 2.0 * z,
        });
        "v_med3_f32" => by_ieee!(r => ternary(move |a: f32, b: f32, c: f32| r.median(a, b, c)));
        "v_med3_num_f32" => ternary(|a: f32, b: f32, c: f32| OfNumbers.median(a, b, c));
        "v_fma_f32" | "v_fmaak_f32" | "v_fmamk_f32" =>
            rounded!(Single, r => ternary(move |a: f32, b: f32, c: f32| r.fused(a, b, c)));
        "v_fmac_f32" => rounded!(Single, r => accumulate(move |a: f32, b: f32, c: f32| r.fused(a, b, c)));
        "v_mad_f32" | "v_madak_f32" | "v_madmk_f32" =>
            rounded!(Single, r => ternary(move |a: f32, b: f32, c: f32| mad(r, a, b, c)));
        "v_mac_f32" => rounded!(Single, r => accumulate(move |a: f32, b: f32, c: f32| mad(r, a, b, c)));
        "v_fma_legacy_f32" | "v_fma_dx9_zero_f32" =>
            rounded!(Single, r => ternary(move |a: f32, b: f32, c: f32| legacy_fused(r, a, b, c)));
        "v_fmac_legacy_f32" | "v_fmac_dx9_zero_f32" =>
            rounded!(Single, r => accumulate(move |a: f32, b: f32, c: f32| legacy_fused(r, a, b, c)));
        "v_mad_legacy_f32" =>
            rounded!(Single, r => ternary(move |a: f32, b: f32, c: f32| r.add(legacy(r, a, b), c)));
        "v_mac_legacy_f32" =>
            rounded!(Single, r => accumulate(move |a: f32, b: f32, c: f32| r.add(legacy(r, a, b), c)));
        "v_mullit_f32" => rounded!(Single, r => ternary(move |a: f32, b: f32, c: f32| light(r, a, b, c)));
        "v_rcp_f32" | "v_rcp_iflag_f32" => unary(flushing(|a| 1.0 / a));
        "v_rsq_f32" => unary(flushing(|a| (1.0 / f64::from(a).sqrt()) as f32));
        "v_sqrt_f32" => unary(flushing(|a| a.sqrt()));
        "v_exp_f32" => unary(flushing(|a| f64::from(a).exp2() as f32));
        "v_log_f32" => unary(flushing(|a| f64::from(a).log2() as f32));
        "v_exp_legacy_f32" => unary(flushing(|a| f64::from(a).exp2() as f32));
        "v_log_legacy_f32" => unary(flushing(|a| f64::from(a).log2() as f32));
        "v_sin_f32" => by_arch(|arch| unary(in_range(arch, sin, 0.0)));
        "v_cos_f32" => by_arch(|arch| unary(in_range(arch, cos, 1.0)));
        "v_fract_f32" => rounded!(Single, r => unary(move |a: f32| fraction_f32(r, a)));
        "v_floor_f32" => unary(|a: f32| a.floor());
        "v_ceil_f32" => unary(|a: f32| a.ceil());
        "v_trunc_f32" => unary(|a: f32| a.trunc());
        "v_rndne_f32" => unary(|a: f32| a.round_ties_even());
        "v_ldexp_f32" => rounded!(Single, r => binary(move |a: f32, n: i32| r.scale(a, n)));
        "v_frexp_mant_f32" => unary(|a: f32| frexp(f64::from(a)).0 as f32);
        "v_frexp_exp_i32_f32" => unary(|a: f32| frexp(f64::from(a)).1);

        "v_add_f64" => rounded!(Double, r => binary(move |a: f64, b: f64| r.add(a, b)));
        "v_mul_f64" => rounded!(Double, r => binary(move |a: f64, b: f64| r.multiply(a, b)));
        "v_min_f64" => by_ieee!(r => binary(move |a: f64, b: f64| r.least(a, b)));
        "v_max_f64" => by_ieee!(r => binary(move |a: f64, b: f64| r.greatest(a, b)));
        "v_min_num_f64" => binary(|a: f64, b: f64| a.least_number(b));
        "v_max_num_f64" => binary(|a: f64, b: f64| a.greatest_number(b));
        "v_minimum_f64" => binary(|a: f64, b: f64| a.least_or_nan(b));
        "v_maximum_f64" => binary(|a: f64, b: f64| a.greatest_or_nan(b));
        "v_fma_f64" => rounded!(Double, r => ternary(move |a: f64, b: f64, c: f64| r.fused(a, b, c)));
        "v_fmac_f64" => rounded!(Double, r => accumulate(move |a: f64, b: f64, c: f64| r.fused(a, b, c)));
        "v_rcp_f64" => unary(|a: f64| 1.0 / a);
        "v_rsq_f64" => unary(|a: f64| 1.0 / a.sqrt());
        "v_sqrt_f64" => unary(|a: f64| a.sqrt());
        "v_fract_f64" => rounded!(Double, r => unary(move |a: f64| fraction_f64(r, a)));
        "v_floor_f64" => unary(|a: f64| a.floor());
        "v_ceil_f64" => unary(|a: f64| a.ceil());
        "v_trunc_f64" => unary(|a: f64| a.trunc());
        "v_rndne_f64" => unary(|a: f64| a.round_ties_even());
        "v_ldexp_f64" => rounded!(Double, r => binary(move |a: f64, n: i32| r.scale(a, n)));
        "v_frexp_mant_f64" => unary(|a: f64| frexp(a).0);
        "v_frexp_exp_i32_f64" => unary(|a: f64| frexp(a).1);
    }
}
