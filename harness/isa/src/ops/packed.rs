//! Implements packed operations, whose operands are two halves of a register, or two registers, and which have two
//! results.

use std::marker::PhantomData;

use super::{
    extremes::{Extremes as _, Ordered as _, by_ieee},
    half::via,
};
use crate::{
    exec::{Binder, Lanes, bind_lanes},
    float16::F16,
    operation::{Table, accumulates, bits, copies, operations, rounded},
    registers::{HALF, Half},
    rounding::Rounds as _,
    source::{Buffer, Place, Source},
    text::{Base, Text, Unsupported},
    value::{Class, Type, Value},
    wave::{Wave, flushed},
};

/// A source operand of one of the two results.
struct Selected {
    source: Source,
    /// Number of the lowest bit of the selected half in the register.
    shift: u8,
    flip: u32,
}

impl Selected {
    fn new(
        of: &Type,
        text: &Text,
        index: usize,
        high: bool,
        negate: bool,
    ) -> Result<Self, Unsupported> {
        // Two 16-bit halves share a register. A 32-bit float has a register of its own.
        let mut source =
            if of.half { text.plain_source::<u32>(index)? } else { text.whole_source(of, index)? };
        if !of.half
            && matches!(
                text.operand(index)?.base,
                Base::Vector { count: 1, .. } | Base::Scalar { count: 1, .. }
            )
        {
            return Err(Unsupported);
        }
        let mut shift = if high && of.half { 16 } else { 0 };
        match (&mut source.place, &text.operand(index)?.base) {
            (place, Base::Constant(constant)) if of.half => {
                *place = Place::Constant(u64::from(of.packed(*constant) >> shift) & 0xffff);
                shift = 0;
            }
            // For 32-bit operations, the second result uses the next register. A constant is used for both results.
            (Place::Vector(first), _) | (Place::Scalar(first), _) if high && !of.half => {
                *first += 1
            }
            _ => {}
        }
        Ok(Selected { source, shift, flip: if negate { of.sign as u32 } else { 0 } })
    }
}

struct Operands<const N: usize> {
    of: &'static Type,
    /// Source operands for both results. The first index is the number of the result, the second one that of the source
    /// operand. Result 0 is the low half of the destination, or its first register.
    sources: [[Selected; N]; 2],
    row: usize,
    clamp: bool,
    asks_dx10_clamp: bool,
}

/// Values of the source operands for 32 lanes. The indices are those of [`Operands::sources`]. A 16-bit value is in the
/// low 16 bits of its word; the other bits have no meaning.
type Taken<const N: usize> = [[Half; N]; 2];

/// Returns the bits of a list such as `op_sel:[0,1]`, one for each source operand. A missing bit is `default`.
fn chosen<const N: usize>(text: &Text, name: &str, default: bool) -> [bool; N] {
    let list = text.list(name).unwrap_or_default();
    std::array::from_fn(|source| list.get(source).map_or(default, |&bit| bit == 1))
}

impl<const N: usize> Operands<N> {
    fn parse(of: &'static Type, text: &Text, at: [usize; N]) -> Result<Self, Unsupported> {
        if text.lacks_clamp(of) {
            return Err(Unsupported);
        }
        text.only(&["op_sel", "op_sel_hi", "neg_lo", "neg_hi", "clamp"])?;
        let half = |high: [bool; N], negate: [bool; N]| -> Result<[Selected; N], Unsupported> {
            let sources: Result<Vec<_>, _> =
                (0..N).map(|n| Selected::new(of, text, at[n], high[n], negate[n])).collect();
            sources?.try_into().map_err(|_| Unsupported)
        };
        let sources = [
            half(chosen(text, "op_sel", false), chosen(text, "neg_lo", false))?,
            half(chosen(text, "op_sel_hi", true), chosen(text, "neg_hi", false))?,
        ];
        Ok(Operands {
            of,
            sources,
            row: text.row(0, if of.half { 1 } else { 2 })?,
            clamp: text.has("clamp"),
            asks_dx10_clamp: text.asks_dx10_clamp(),
        })
    }

    #[inline(never)]
    fn take(&self, wave: &Wave, half: usize, taken: &mut Taken<N>) {
        for (from, words) in self.sources.iter().flatten().zip(taken.iter_mut().flatten()) {
            let mut buffer = Buffer::uninit();
            *words = *from.source.lanes(wave, half, 0, &mut buffer);
            if self.of.single && wave.flushes_sources() {
                *words = flushed(words);
            }
            for word in words {
                *word = (*word >> from.shift) ^ from.flip;
            }
        }
    }

    #[inline(never)]
    fn write(&self, wave: &mut Wave, half: usize, taken: &Taken<N>, mut results: [Half; 2]) {
        let (of, mask) = (self.of, wave.exec_half(half));
        for (words, taken) in results.iter_mut().zip(taken) {
            if of.saturates && wave.saturates() {
                saturate(of, words, taken);
            }
            if of.single && wave.flushes_results() {
                *words = flushed(words);
            }
            if self.clamp && of.sign != 0 {
                let mut both = [*words, [0; HALF]];
                (of.clamped)(&mut both, self.asks_dx10_clamp && wave.keeps_nans());
                *words = both[0];
            }
        }
        if of.half {
            let [mut low, high] = results;
            for (low, high) in low.iter_mut().zip(high) {
                *low = (*low & 0xffff) | high << 16;
            }
            wave.blend(self.row, half, mask, &low);
        } else {
            wave.blend(self.row, half, mask, &results[0]);
            wave.blend(self.row + 1, half, mask, &results[1]);
        }
    }
}

struct Packed<T, F, const N: usize> {
    operands: Operands<N>,
    f: F,
    of: PhantomData<fn(T)>,
}

impl<T: Value, F, const N: usize> Lanes for Packed<T, F, N>
where
    F: Fn([T; N]) -> T + Send + Sync + 'static,
{
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        for half in 0..wave.halves() {
            let mut taken = [[[0; HALF]; N]; 2];
            self.operands.take(wave, half, &mut taken);
            let mut results = [[0; HALF]; 2];
            for (words, taken) in results.iter_mut().zip(&taken) {
                for (lane, word) in words.iter_mut().enumerate() {
                    let value = |source: usize| T::from_bits(u64::from(taken[source][lane]));
                    *word = (self.f)(std::array::from_fn(value)).bits() as u32;
                }
            }
            self.operands.write(wave, half, &taken, results);
        }
    }
}

/// Applies `MODE.FP16_OVFL`: replaces infinities by the largest finite numbers, unless a source operand of the lane is
/// infinite.
#[cold]
fn saturate<const N: usize>(of: &Type, results: &mut Half, taken: &[Half; N]) {
    for (lane, result) in results.iter_mut().enumerate() {
        let classes: [Class; N] =
            std::array::from_fn(|source| (of.class)(u64::from(taken[source][lane])));
        if !Class::makes_infinity(&classes, false) {
            *result = (of.saturated)(u64::from(*result)) as u32;
        }
    }
}

fn two<T: Value>(f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static) -> Binder {
    Box::new(move |text| {
        let operands = Operands::parse(Type::of::<T>(), text, [1, 2])?;
        bind_lanes(Packed { operands, f: move |[a, b]: [T; 2]| f(a, b), of: PhantomData })
    })
}

fn three<T: Value>(
    third_is_target: bool,
    f: impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let at = [1, 2, if third_is_target { 0 } else { 3 }];
        let operands = Operands::parse(Type::of::<T>(), text, at)?;
        bind_lanes(Packed { operands, f: move |[a, b, c]: [T; 3]| f(a, b, c), of: PhantomData })
    })
}

/// Returns the implementation of `v_pk_mov_b32`. The low result is a dword of the first source operand, and the high
/// result is a dword of the second. `op_sel` selects the dwords.
fn moves() -> Binder {
    Box::new(|text| {
        let list = text.list("op_sel").unwrap_or_else(|| vec![0, 0]);
        let (a, b) = (text.plain_source::<u64>(1)?, text.plain_source::<u64>(2)?);
        let row = text.row(0, 2)?;
        let pick = |at: usize| usize::from(list.get(at) == Some(&1));
        let (first, second) = (pick(0), pick(1));
        crate::exec::on_wave(move |wave| {
            for lane in crate::wave::active(wave.exec()) {
                let (x, y) = (a.word(wave, lane, first), b.word(wave, lane, second));
                wave.set_lane(row, lane, x);
                wave.set_lane(row + 1, lane, y);
            }
        })
    })
}

pub(crate) fn register(table: &mut Table) {
    operations! { table;
        "v_pk_add_f16" => rounded!(Double, r => two(move |a: F16, b: F16| r.add(a, b)));
        "v_pk_mul_f16" => rounded!(Double, r => two(move |a: F16, b: F16| r.multiply(a, b)));
        "v_pk_min_f16" => by_ieee!(r => two(via(move |a, b| r.least(a, b))));
        "v_pk_max_f16" => by_ieee!(r => two(via(move |a, b| r.greatest(a, b))));
        "v_pk_min_num_f16" => two(via(|a, b| a.least_number(b)));
        "v_pk_max_num_f16" => two(via(|a, b| a.greatest_number(b)));
        "v_pk_minimum_f16" => two(via(|a, b| a.least_or_nan(b)));
        "v_pk_maximum_f16" => two(via(|a, b| a.greatest_or_nan(b)));
        "v_pk_minimum3_f16" => three(false, |a: F16, b: F16, c: F16| {
            let least = via(|a, b| a.least_or_nan(b));
            least(least(a, b), c)
        });
        "v_pk_maximum3_f16" => three(false, |a: F16, b: F16, c: F16| {
            let greatest = via(|a, b| a.greatest_or_nan(b));
            greatest(greatest(a, b), c)
        });
        "v_pk_fma_f16" => rounded!(Double, r => three(false, move |a: F16, b: F16, c: F16| r.fused(a, b, c)));
        "v_pk_fmac_f16" => accumulates(rounded!(Double, r => three(true, move |a: F16, b: F16, c: F16| r.fused(a, b, c))));
        "v_pk_add_u16" | "v_pk_add_i16" => two(|a: u16, b: u16| a.wrapping_add(b));
        "v_pk_add_u16 clamp" => two(|a: u16, b: u16| a.saturating_add(b));
        "v_pk_add_i16 clamp" => two(|a: i16, b: i16| a.saturating_add(b));
        "v_pk_sub_u16" | "v_pk_sub_i16" => two(|a: u16, b: u16| a.wrapping_sub(b));
        "v_pk_sub_u16 clamp" => two(|a: u16, b: u16| a.saturating_sub(b));
        "v_pk_sub_i16 clamp" => two(|a: i16, b: i16| a.saturating_sub(b));
        "v_pk_mul_lo_u16" => two(|a: u16, b: u16| a.wrapping_mul(b));
        "v_pk_mad_u16" | "v_pk_mad_i16" =>
            three(false, |a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c));
        "v_pk_mad_u16 clamp" => three(false, super::integer::mad_u16);
        "v_pk_mad_i16 clamp" => three(false, super::integer::mad_i16);
        "v_pk_min_u16" => two(|a: u16, b: u16| a.min(b));
        "v_pk_max_u16" => two(|a: u16, b: u16| a.max(b));
        "v_pk_min_i16" => two(|a: i16, b: i16| a.min(b));
        "v_pk_max_i16" => two(|a: i16, b: i16| a.max(b));
        "v_pk_lshlrev_b16" => bits(two(|shift: u16, a: u16| a << (shift & 15)));
        "v_pk_lshrrev_b16" => bits(two(|shift: u16, a: u16| a >> (shift & 15)));
        "v_pk_ashrrev_i16" => bits(two(|shift: i16, a: i16| a >> (shift & 15)));
        "v_pk_add_f32" => rounded!(Single, r => two(move |a: f32, b: f32| r.add(a, b)));
        "v_pk_mul_f32" => rounded!(Single, r => two(move |a: f32, b: f32| r.multiply(a, b)));
        "v_pk_fma_f32" => rounded!(Single, r => three(false, move |a: f32, b: f32, c: f32| r.fused(a, b, c)));
        "v_pk_mov_b32" => copies(moves());
    }
}
