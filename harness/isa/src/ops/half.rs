//! Implements vector float arithmetic in half precision, and instructions with mixed precision.

use super::{
    extremes::{Extremes as _, OfNumbers, Ordered as _, by_ieee},
    float::{cos, frexp, in_range, mad, sin},
};
use crate::{
    exec::{Binder, on_wave},
    float16::F16,
    operation::{Operation, Table, by_arch, operations, rounded},
    registers::HALF,
    rounding::Rounds,
    source::{Part, Place},
    text::{Base, Text, Unsupported},
    value::{Type, Value, flushed_where},
    vector::{accumulate, binary, ternary, unary},
    wave::active,
};

/// Returns an f16 operation that computes exactly in f32 and then converts the result. A signalling NaN stays
/// signalling.
pub(crate) fn via(
    f: impl Fn(f32, f32) -> f32 + Copy + Send + Sync,
) -> impl Fn(F16, F16) -> F16 + Copy + Send + Sync {
    move |a, b| F16::from_f32(f(a.unquieted(), b.unquieted()))
}

fn one(f: impl Fn(f32) -> f32 + Copy + Send + Sync + 'static) -> Binder {
    unary(move |a: F16| F16::from_f32(f(a.to_f32())))
}

fn two(f: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Binder {
    binary(move |a: F16, b: F16| via(f)(a, b))
}

fn three(f: impl Fn(f32, f32, f32) -> f32 + Copy + Send + Sync + 'static) -> Binder {
    ternary(move |a: F16, b: F16, c: F16| {
        F16::from_f32(f(a.unquieted(), b.unquieted(), c.unquieted()))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Destination {
    Whole,
    Low,
    High,
}

/// Implements `v_fma_mix`. For each source operand, `op_sel_hi` determines whether it is an f16 in half of the
/// register, and `op_sel` selects the half. If MODE flushes f32 denormals in source operands, those of f16 operands are
/// flushed too. This was measured on gfx90a and gfx950 (llvm-project#205101).
fn mixed<R: Value>(
    destination: Destination,
    f: impl Fn(f32, f32, f32) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text: &Text| {
        text.only(&["op_sel", "op_sel_hi", "clamp"])?;
        let select = text.list("op_sel").unwrap_or_default();
        let is_half = text.list("op_sel_hi").unwrap_or_default();
        let bit = |list: &[u8], at: usize| list.get(at).copied() == Some(1);
        let mut sources = Vec::new();
        for position in 0..3 {
            let operand = text.operand(position + 1)?;
            let half = bit(&is_half, position);
            // `neg` and `abs` apply to the value after the conversion to f32.
            let mut bare = text.clone();
            bare.operands[position + 1].negate = false;
            bare.operands[position + 1].absolute = false;
            let mut source = bare.plain_source::<f32>(position + 1)?;
            if let (true, Base::Constant(constant)) = (half, &operand.base) {
                source.place = Place::Constant(Type::of::<F16>().packed(*constant).into());
            }
            let part = if bit(&select, position) { Part::HIGH } else { Part::LOW };
            sources.push((source, half, part, operand.negate, operand.absolute));
        }
        let row = text.row(0, 1)?;
        let (clamp, asks_dx10_clamp) = (text.has("clamp"), text.asks_dx10_clamp());
        let [a, b, c]: [_; 3] = sources.try_into().map_err(|_| Unsupported)?;
        on_wave(move |wave| {
            let keeps_nans = asks_dx10_clamp && wave.keeps_nans();
            let saturates = R::SATURATES && wave.saturates();
            let flushes = wave.flushes_sources();
            for lane in active(wave.exec()) {
                let value = |(source, half, part, negate, absolute): &(
                    crate::source::Source,
                    bool,
                    Part,
                    bool,
                    bool,
                )| {
                    let bits = source.word(wave, lane, 0);
                    let value = if *half {
                        let half = F16(part.of(bits) as u16);
                        if flushes { half.without_denormals() } else { half }.to_f32()
                    } else {
                        flushed_where(flushes, f32::from_bits(bits))
                    };
                    let value = if *absolute { value.abs() } else { value };
                    if *negate { -value } else { value }
                };
                let (a, b, c) = (value(&a), value(&b), value(&c));
                let old = wave.lane(row, lane);
                let mut result = flushed_where(wave.flushes_results(), f(a, b, c));
                if saturates && [a, b, c].iter().all(|source| !source.is_infinite()) {
                    result = result.saturated();
                }
                let bits = (if clamp { result.clamped(keeps_nans) } else { result }).bits() as u32;
                let new = match destination {
                    Destination::Whole => bits,
                    Destination::Low => (old & 0xffff_0000) | bits,
                    Destination::High => (old & 0xffff) | bits << 16,
                };
                wave.vector[row][lane / HALF][lane % HALF] = new;
            }
        })
    })
}

/// Returns the implementation of `v_fma_mixlo_f16` or `v_fma_mixhi_f16`. The result is rounded to f32, to nearest even
/// in every MODE, and then to f16. LLVM relies on these two roundings (llvm-project#219723).
fn mixed_half(destination: Destination) -> Operation {
    rounded!(Double, r => mixed(destination, move |a: f32, b: f32, c: f32| -> F16 { r.convert(a.mul_add(b, c)) }))
}

/// Returns `x - floor(x)`. If this would round to one, returns the largest number below one.
fn fraction(r: impl Rounds, x: F16) -> F16 {
    let x = x.to_f32();
    let fraction: F16 = r.convert(x - x.floor());
    if x.is_finite() {
        F16::from_f32(fraction.to_f32().min(F16(0x3bff).to_f32()))
    } else {
        F16(0x7e00)
    }
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_add_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.add(a, b)));
        "v_sub_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.subtract(a, b)));
        "v_subrev_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.subtract(b, a)));
        "v_mul_f16" => rounded!(Double, r => binary(move |a: F16, b: F16| r.multiply(a, b)));
        "v_min_f16" => by_ieee!(r => two(move |a, b| r.least(a, b)));
        "v_max_f16" => by_ieee!(r => two(move |a, b| r.greatest(a, b)));
        "v_min_num_f16" => two(|a, b| a.least_number(b));
        "v_max_num_f16" => two(|a, b| a.greatest_number(b));
        "v_min3_f16" => by_ieee!(r => three(move |a, b, c| r.least(r.least(a, b), c)));
        "v_min3_num_f16" => three(|a, b, c| OfNumbers.least(OfNumbers.least(a, b), c));
        "v_max3_f16" => by_ieee!(r => three(move |a, b, c| r.greatest(r.greatest(a, b), c)));
        "v_max3_num_f16" => three(|a, b, c| OfNumbers.greatest(OfNumbers.greatest(a, b), c));
        "v_maxmin_f16" => by_ieee!(r => three(move |a, b, c| r.least(r.greatest(a, b), c)));
        "v_maxmin_num_f16" => three(|a, b, c| OfNumbers.least(OfNumbers.greatest(a, b), c));
        "v_minmax_f16" => by_ieee!(r => three(move |a, b, c| r.greatest(r.least(a, b), c)));
        "v_minmax_num_f16" => three(|a, b, c| OfNumbers.greatest(OfNumbers.least(a, b), c));
        "v_minimum_f16" => two(|a, b| a.least_or_nan(b));
        "v_maximum_f16" => two(|a, b| a.greatest_or_nan(b));
        "v_minimum3_f16" => three(|a, b, c| a.least_or_nan(b).least_or_nan(c));
        "v_maximum3_f16" => three(|a, b, c| a.greatest_or_nan(b).greatest_or_nan(c));
        "v_maximumminimum_f16" => three(|a, b, c| a.greatest_or_nan(b).least_or_nan(c));
        "v_minimummaximum_f16" => three(|a, b, c| a.least_or_nan(b).greatest_or_nan(c));
        "v_frexp_mant_f16" => one(|a| frexp(f64::from(a)).0 as f32);
        "v_frexp_exp_i16_f16" => unary(|a: F16| frexp(f64::from(a.to_f32())).1 as i16);
        "v_sin_f16" => by_arch(|arch| one(in_range(arch, sin, 0.0)));
        "v_cos_f16" => by_arch(|arch| one(in_range(arch, cos, 1.0)));
        "v_med3_f16" => by_ieee!(r => three(move |a, b, c| r.median(a, b, c)));
        "v_med3_num_f16" => three(|a, b, c| OfNumbers.median(a, b, c));
        "v_fma_f16" | "v_fma_legacy_f16" | "v_fmaak_f16" | "v_fmamk_f16" =>
            rounded!(Double, r => ternary(move |a: F16, b: F16, c: F16| r.fused(a, b, c)));
        "v_fmac_f16" => rounded!(Double, r => accumulate(move |a: F16, b: F16, c: F16| r.fused(a, b, c)));
        "v_mad_f16" | "v_mad_legacy_f16" =>
            rounded!(Double, r => ternary(move |a: F16, b: F16, c: F16| mad(r, a, b, c)));
        "v_mac_f16" => rounded!(Double, r => accumulate(move |a: F16, b: F16, c: F16| mad(r, a, b, c)));
        "v_rcp_f16" => one(|a| 1.0 / a);
        "v_rsq_f16" => unary(|a: F16| F16::from_f64(1.0 / f64::from(a.to_f32()).sqrt()));
        "v_sqrt_f16" => one(f32::sqrt);
        "v_exp_f16" => unary(|a: F16| F16::from_f64(f64::from(a.to_f32()).exp2()));
        "v_log_f16" => unary(|a: F16| F16::from_f64(f64::from(a.to_f32()).log2()));
        "v_floor_f16" => one(f32::floor);
        "v_ceil_f16" => one(f32::ceil);
        "v_trunc_f16" => one(f32::trunc);
        "v_rndne_f16" => one(f32::round_ties_even);
        "v_fract_f16" => rounded!(Double, r => unary(move |a: F16| fraction(r, a)));
        "v_ldexp_f16" => rounded!(Double, r => binary(move |a: F16, n: i16| r.scale(a, n.into())));
        "v_fma_mix_f32" | "v_mad_mix_f32" =>
            rounded!(Single, r => mixed(Destination::Whole, move |a: f32, b: f32, c: f32| r.fused(a, b, c)));
        "v_fma_mixlo_f16" | "v_mad_mixlo_f16" => mixed_half(Destination::Low);
        "v_fma_mixhi_f16" | "v_mad_mixhi_f16" => mixed_half(Destination::High);
    }
}
