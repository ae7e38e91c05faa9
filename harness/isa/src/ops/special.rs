//! Instructions for the steps of a correctly rounded division, and for one step of an argument reduction.

use std::marker::PhantomData;

use super::extremes::Ordered as _;
use crate::{
    exec::{Binder, Lanes, bind_lanes},
    float16::{F16, add_to_odd},
    masks::Mask,
    operands::Results,
    operation::{DataFlow, Operation, Table, operations},
    registers::{HALF, Half},
    rounding::{Field, Rounds as _, exponent, scale_f32, scale_f64},
    source::{Buffer, NO_WORDS, Source},
    text::{Text, register},
    value::{NeverSaturatedF16, Value, flushed_where},
    vector::ternary,
    wave::{Wave, active, flushed, sign, sign_bits},
};

/// Properties of a float format on which the steps of a division depend.
trait Division: Value {
    fn exponent(self) -> i32;
    fn is_zero(self) -> bool;
    fn scale(self, n: i32) -> Self;
    /// If the exponents of numerator and denominator differ by at least this number, they count as far apart.
    const FAR_APART: i32;
    const SCALE: i32;
    /// Largest exponent with which a numerator counts as small.
    const SMALL: i32;
    /// Smallest exponent with which a denominator counts as large. The reciprocal of a large denominator may be
    /// denormal.
    const GREAT: i32;
    const NAN: Self;
    /// Position and mask of the exponent in the highest word of a number.
    const EXPONENT: (u32, u32);
}

impl Division for f32 {
    fn exponent(self) -> i32 {
        (self.to_bits() >> 23 & 0xff) as i32
    }
    fn is_zero(self) -> bool {
        self == 0.0
    }
    fn scale(self, n: i32) -> Self {
        scale_f32(self, n)
    }
    const FAR_APART: i32 = 96;
    const SCALE: i32 = 64;
    const SMALL: i32 = 24;
    const GREAT: i32 = 253;
    const NAN: f32 = -f32::NAN;
    const EXPONENT: (u32, u32) = (23, 0xff);
}

impl Division for f64 {
    fn exponent(self) -> i32 {
        (self.to_bits() >> 52 & 0x7ff) as i32
    }
    fn is_zero(self) -> bool {
        self == 0.0
    }
    fn scale(self, n: i32) -> Self {
        scale_f64(self, n)
    }
    const FAR_APART: i32 = 768;
    const SCALE: i32 = 128;
    const SMALL: i32 = 53;
    const GREAT: i32 = 2045;
    const NAN: f64 = -f64::NAN;
    const EXPONENT: (u32, u32) = (20, 0x7ff);
}

/// Implements `v_div_scale`: scales the numerator or the denominator so that the steps of the division neither overflow
/// nor lose bits. `value` is the number to scale; it equals the numerator or the denominator. If the returned flag is
/// set, `v_div_fmas` undoes the scaling.
///
/// Source: AMD's emulator rocjitsu (`division.h`), whose rules "were checked on physical gfx1100/gfx1201": only
/// exponents matter. The ISA guides differ from these rules: they require scaling for denormal quotients, and do not
/// set the flag for zeros.
fn div_scale<T: Division>(value: T, denominator: T, numerator: T) -> (T, bool) {
    let (d, n) = (denominator.exponent(), numerator.exponent());
    let is_denominator = value.bits() == denominator.bits();
    let (power, flag) = if n - d >= T::FAR_APART {
        (if is_denominator { T::SCALE } else { 0 }, true)
    } else if d == 0 {
        (T::SCALE, false)
    } else if d >= T::GREAT {
        let flag = d - n >= T::FAR_APART;
        (if flag && !is_denominator { 0 } else { -T::SCALE }, flag)
    } else if d - n >= T::FAR_APART {
        (if is_denominator { 0 } else { T::SCALE }, true)
    } else if n <= T::SMALL {
        (T::SCALE, false)
    } else {
        (0, false)
    };
    let no_number = denominator.is_zero() || numerator.is_zero();
    (if no_number { T::NAN } else { value.scale(power) }, flag)
}

/// Returns true if the exponents show that [`div_scale`] leaves the value unchanged, which is the case for nearly all
/// quotients. The arguments are the highest words of denominator and numerator.
#[inline(always)]
fn scales_nothing<T: Division>(denominator: u32, numerator: u32) -> bool {
    let (shift, bits) = T::EXPONENT;
    let [d, n] = [denominator, numerator].map(|word| (word >> shift & bits) as i32);
    let ordinary = (d > 0) & (d < T::GREAT) & (n > T::SMALL) & (n < bits as i32);
    ordinary & (n - d < T::FAR_APART) & (d - n < T::FAR_APART)
}

struct Scale<T> {
    /// Operands: the value to scale, the denominator and the numerator.
    sources: [Source; 3],
    row: usize,
    flags: u16,
    of: PhantomData<fn(T)>,
}

impl<T: Division> Scale<T> {
    /// Executes the instruction for half a wave if no active lane needs scaling. Otherwise does nothing and returns
    /// false.
    #[inline(always)]
    fn copy(&self, wave: &mut Wave, half: usize) -> bool {
        let mask = wave.exec_half(half);
        let top = T::WORDS - 1;
        let (mut d, mut n) = (Buffer::uninit(), Buffer::uninit());
        let denominator = self.sources[1].lanes(wave, half, top, &mut d);
        let numerator = self.sources[2].lanes(wave, half, top, &mut n);
        let mut scales = [0; HALF];
        for lane in 0..HALF {
            scales[lane] = sign(!scales_nothing::<T>(denominator[lane], numerator[lane]));
        }
        if sign_bits(&scales) & mask != 0 {
            return false;
        }
        let (mut low, mut high) = (Buffer::uninit(), Buffer::uninit());
        let low = self.sources[0].lanes(wave, half, 0, &mut low);
        let high =
            if top == 1 { self.sources[0].lanes(wave, half, 1, &mut high) } else { &NO_WORDS };
        let mut results = Results::<T>::new();
        for lane in 0..HALF {
            results.set(lane, self.sources[0].value(low[lane], high[lane]));
        }
        results.write_rows(wave, self.row, half, mask);
        true
    }
}

impl<T: Division> Lanes for Scale<T> {
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let mut set = 0u64;
        for half in 0..wave.halves() {
            if self.copy(wave, half) {
                continue;
            }
            for lane in active(u64::from(wave.exec_half(half)) << (half * HALF)) {
                let flushes = wave.flushes_sources();
                let [value, denominator, numerator] = [0, 1, 2]
                    .map(|i| flushed_where(flushes, self.sources[i].lane::<T>(wave, lane)));
                let (result, flag) = div_scale(value, denominator, numerator);
                write_lane(wave, self.row, lane, flushed_where(wave.flushes_results(), result));
                set |= u64::from(flag) << lane;
            }
        }
        wave.set_mask(self.flags, set);
    }
}

fn write_lane<T: Value>(wave: &mut Wave, row: usize, lane: usize, value: T) {
    let bits = value.bits();
    wave.set_lane(row, lane, bits as u32);
    if T::WORDS == 2 {
        wave.set_lane(row + 1, lane, (bits >> 32) as u32);
    }
}

/// Returns the implementation of `v_div_scale dst, flag, value, denominator, numerator`.
fn scale<T: Division>() -> Binder {
    Box::new(|text: &Text| {
        text.only(&[])?;
        bind_lanes(Scale {
            sources: [
                text.plain_source::<T>(2)?,
                text.plain_source::<T>(3)?,
                text.plain_source::<T>(4)?,
            ],
            row: text.row(0, T::WORDS as u16)?,
            flags: text.scalar(1, 1)?,
            of: PhantomData::<fn(T)>,
        })
    })
}

/// Returns `a * b + c`, multiplied by the power of two that undoes the scaling, with a single rounding.
fn fused_scaled_f32(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let sum = add_to_odd(product, f64::from(c));
    let back = if c.abs() >= 2.0 { 64 } else { -64 };
    (sum * exponent(back)) as f32
}

fn fused_scaled_f64(a: f64, b: f64, c: f64) -> f64 {
    let back = if c.abs() >= 2.0 { 128 } else { -128 };
    scale_f64(a.mul_add(b, c), back)
}

struct Fused<T, P, S> {
    sources: [Source; 3],
    row: usize,
    plain: P,
    scaled: S,
    of: PhantomData<fn(T)>,
}

impl<T, P, S> Lanes for Fused<T, P, S>
where
    T: Value,
    P: Fn(T, T, T) -> T + Send + Sync + 'static,
    S: Fn(T, T, T) -> T + Send + Sync + 'static,
{
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let flags = Mask::Scalar(register::VCC).read(wave) & wave.exec();
        for half in 0..wave.halves() {
            let mask = wave.exec_half(half);
            let mut buffers = [(); 3].map(|()| (Buffer::uninit(), Buffer::uninit()));
            let [x, y, z] = &mut buffers;
            let [a, b, c] = [(0, x), (1, y), (2, z)].map(|(i, (low, high))| {
                let low = self.sources[i].lanes(wave, half, 0, low);
                if T::WORDS == 2 {
                    (low, self.sources[i].lanes(wave, half, 1, high))
                } else {
                    (low, &NO_WORDS)
                }
            });
            let value = |i: usize, (low, high): (&Half, &Half), lane: usize| {
                self.sources[i].value::<T>(low[lane], high[lane])
            };
            let mut results = Results::<T>::new();
            for lane in 0..HALF {
                results.set(
                    lane,
                    (self.plain)(value(0, a, lane), value(1, b, lane), value(2, c, lane)),
                );
            }
            for lane in active(flags >> (half * HALF) & u64::from(u32::MAX)) {
                results.set(
                    lane,
                    (self.scaled)(value(0, a, lane), value(1, b, lane), value(2, c, lane)),
                );
            }
            // Source: "Input denormals are not flushed but output flushing is allowed" (the CDNA 4 ISA guide).
            if T::SINGLE && wave.flushes_results() {
                results.words[0] = flushed(&results.words[0]);
            }
            results.write_rows(wave, self.row, half, mask);
        }
    }
}

/// Returns the implementation of `v_div_fmas dst, a, b, c`: a fused multiply-add that undoes the scaling in lanes whose
/// VCC bit is set.
fn fused<T: Value>(
    plain: impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static,
    scaled: impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text: &Text| {
        text.only(&[])?;
        bind_lanes(Fused {
            sources: [
                text.plain_source::<T>(1)?,
                text.plain_source::<T>(2)?,
                text.plain_source::<T>(3)?,
            ],
            row: text.row(0, T::WORDS as u16)?,
            plain,
            scaled,
            of: PhantomData::<fn(T)>,
        })
    })
}

macro_rules! div_fixup {
    ($name:ident, $type:ty, $quiet:expr, least $least:expr) => {
        /// Implements `v_div_fixup`: returns the quotient with the right sign, or the result of a special case of
        /// `numerator / denominator`.
        fn $name(quotient: $type, denominator: $type, numerator: $type) -> $type {
            let negative = numerator.is_sign_negative() != denominator.is_sign_negative();
            let signed = |x: $type| if negative { -x } else { x };
            let quiet = |x: $type| <$type>::from_bits(x.to_bits() | $quiet);
            if numerator.is_nan() {
                quiet(numerator)
            } else if denominator.is_nan() {
                quiet(denominator)
            } else if (numerator == 0.0 && denominator == 0.0)
                || (numerator.is_infinite() && denominator.is_infinite())
            {
                -<$type>::NAN
            } else if denominator == 0.0 || numerator.is_infinite() {
                signed(<$type>::INFINITY)
            } else if denominator.is_infinite() || numerator == 0.0 {
                signed(0.0)
            } else if Division::exponent(numerator) - Division::exponent(denominator) < $least {
                signed(0.0)
            } else if quotient.is_nan() {
                // With ordinary operands, the quotient is a NaN only if an earlier step has overflowed.
                signed(<$type>::INFINITY)
            } else {
                signed(quotient.abs())
            }
        }
    };
}

div_fixup!(fixup_f32, f32, 0x0040_0000, least - 150);
div_fixup!(fixup_f64, f64, 0x0008_0000_0000_0000, least - 1075);

/// Bits of 2/pi after the binary point, for `v_trig_preop_f64`: 1201 bits in 64-bit words, the most significant word
/// first.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
];

/// Implements `v_trig_preop_f64`: returns 53 bits of 2/pi, multiplied by their place value. `a` and `segment` select
/// the bits. If `a` is a NaN, returns it as a quiet NaN. If the bits are past the 37th dword of the table, returns 0.
///
/// Source: the ISA guides, and for the limit LLVM, `AMDGPUInstCombineIntrinsic.cpp`: "Return 0 for outbound segment
/// (hardware behavior)".
fn trig_preop(a: f64, segment: u32) -> f64 {
    if a.is_nan() {
        return a.quiet();
    }
    let exponent = (a.to_bits() >> 52 & 0x7ff) as i32;
    let mut shift = (segment & 31) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    if shift / 32 + 2 >= 37 {
        return 0.0;
    }
    let bit = |index: i32| {
        let index = index as usize;
        TWO_OVER_PI.get(index / 64).map_or(0, |word| word >> (63 - index % 64) & 1)
    };
    let bits = (0..53).fold(0u64, |bits, i| bits << 1 | bit(shift + i));
    let mut scale = -53 - shift;
    if exponent >= 1968 {
        scale += 128;
    }
    scale_f64(bits as f64, scale)
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_div_scale_f32" => Operation::from(scale::<f32>()).with_flow(DataFlow::Flags);
        "v_div_scale_f64" => Operation::from(scale::<f64>()).with_flow(DataFlow::Flags);
        "v_div_fmas_f32" => Operation::rounded(
            Field::Single,
            fused(|a: f32, b: f32, c: f32| a.mul_add(b, c), fused_scaled_f32),
            |r| fused(move |a: f32, b, c| r.fused(a, b, c), move |a, b, c| r.fused_scaled(a, b, c, if c.abs() >= 2.0 { 64 } else { -64 })),
        );
        "v_div_fmas_f64" => Operation::rounded(
            Field::Double,
            fused(|a: f64, b: f64, c: f64| a.mul_add(b, c), fused_scaled_f64),
            |r| fused(move |a: f64, b, c| r.fused(a, b, c), move |a, b, c| r.fused_scaled(a, b, c, if c.abs() >= 2.0 { 128 } else { -128 })),
        );
        "v_div_fixup_f32" => ternary(fixup_f32);
        "v_div_fixup_f64" => ternary(fixup_f64);
        // `MODE.FP16_OVFL` does not apply, because infinite results are quotients by zero or come from earlier steps.
        "v_div_fixup_f16" | "v_div_fixup_legacy_f16" => ternary(|q: F16, d: F16, n: F16| {
            NeverSaturatedF16(F16::from_f32(fixup_f32(q.to_f32(), d.to_f32(), n.to_f32())))
        });
        "v_trig_preop_f64" => crate::vector::binary(trig_preop);
    }
}
