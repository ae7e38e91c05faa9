//! Packed operations: two halves of a register, or two registers, at once.

use std::marker::PhantomData;

use super::half::via;
use crate::{
    exec::{Binder, Lanes, bind_lanes},
    float16::F16,
    operation::{Table, accumulates, bits, copies, operations, rounded},
    registers::{HALF, Half},
    rounding::Rounds as _,
    source::{Buffer, Place, Source},
    text::{Base, Text, Unsupported},
    value::{Class, Value},
    wave::{Wave, flushed},
};

/// One source of one half of the result.
struct Selected {
    source: Source,
    /// Where in its register the half begins.
    shift: u8,
    /// The sign to flip.
    flip: u64,
}

impl Selected {
    fn new<T: Value>(
        text: &Text,
        index: usize,
        high: bool,
        negate: bool,
    ) -> Result<Self, Unsupported> {
        // Halves share a register of 32 bits; single floats have one each.
        let mut source =
            if T::HALF { text.plain_source::<u32>(index)? } else { text.plain_source::<T>(index)? };
        if !T::HALF
            && matches!(
                text.operand(index)?.base,
                Base::Vector { count: 1, .. } | Base::Scalar { count: 1, .. }
            )
        {
            return Err(Unsupported);
        }
        let mut shift = if high && T::HALF { 16 } else { 0 };
        match (&mut source.place, &text.operand(index)?.base) {
            (place, Base::Constant(constant)) if T::HALF => {
                *place = Place::Constant(u64::from(T::packed(*constant) >> shift) & 0xffff);
                shift = 0;
            }
            // A constant of a packed instruction of 32 bits is the same in both halves.
            (Place::Vector(first), _) | (Place::Scalar(first), _) if high && !T::HALF => {
                *first += 1
            }
            _ => {}
        }
        Ok(Selected { source, shift, flip: if negate { T::SIGN } else { 0 } })
    }
}

/// The operands of a packed instruction, for each half of the result.
struct Operands<T, const N: usize> {
    /// `[half][source]`
    sources: [[Selected; N]; 2],
    row: usize,
    clamp: bool,
    asks_dx10_clamp: bool,
    of: PhantomData<fn(T)>,
}

/// The bit of each source in a list such as `op_sel:[0,1]`.
fn chosen<const N: usize>(text: &Text, name: &str, default: bool) -> [bool; N] {
    let list = text.list(name).unwrap_or_default();
    std::array::from_fn(|source| list.get(source).map_or(default, |&bit| bit == 1))
}

fn operands<T: Value, const N: usize>(
    text: &Text,
    third_is_target: bool,
) -> Result<Operands<T, N>, Unsupported> {
    text.only(&["op_sel", "op_sel_hi", "neg_lo", "neg_hi", "clamp"])?;
    let half = |high: [bool; N], negate: [bool; N]| -> Result<[Selected; N], Unsupported> {
        let index = |source| if third_is_target && source == 2 { 0 } else { source + 1 };
        let sources: Result<Vec<_>, _> =
            (0..N).map(|n| Selected::new::<T>(text, index(n), high[n], negate[n])).collect();
        sources?.try_into().map_err(|_| Unsupported)
    };
    Ok(Operands {
        sources: [
            half(chosen(text, "op_sel", false), chosen(text, "neg_lo", false))?,
            half(chosen(text, "op_sel_hi", true), chosen(text, "neg_hi", false))?,
        ],
        row: text.row(0, if T::HALF { 1 } else { 2 })?,
        clamp: text.has("clamp"),
        asks_dx10_clamp: text.asks_dx10_clamp(),
        of: PhantomData,
    })
}

struct Packed<T, F, const N: usize> {
    operands: Operands<T, N>,
    f: F,
}

impl<T: Value, F, const N: usize> Lanes for Packed<T, F, N>
where
    F: Fn([T; N]) -> T + Send + Sync + 'static,
{
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let operands = &self.operands;
        for half in 0..wave.halves() {
            let mask = wave.exec_half(half);
            let mut results = [[0u32; HALF]; 2];
            for (sources, result) in operands.sources.iter().zip(&mut results) {
                let mut buffers = [[0; HALF]; N];
                for (from, buffer) in sources.iter().zip(&mut buffers) {
                    let mut scratch = Buffer::uninit();
                    let lanes = from.source.lanes(wave, half, 0, &mut scratch);
                    let zeroed;
                    let lanes = if T::SINGLE && wave.flushes_sources() {
                        zeroed = flushed(lanes);
                        &zeroed
                    } else {
                        lanes
                    };
                    for lane in 0..HALF {
                        buffer[lane] = lanes[lane] >> from.shift;
                    }
                }
                for (lane, result) in result.iter_mut().enumerate() {
                    let values = std::array::from_fn(|source| {
                        let bits = u64::from(buffers[source][lane]);
                        T::from_bits(bits ^ sources[source].flip)
                    });
                    let value = (self.f)(values);
                    *result = value.bits() as u32;
                }
                if T::SATURATES && wave.saturates() {
                    saturate::<T, N>(result, &buffers, sources);
                }
                if T::SINGLE && wave.flushes_results() {
                    *result = flushed(result);
                }
                if operands.clamp && T::SIGN != 0 {
                    let keeps_nans = operands.asks_dx10_clamp && wave.keeps_nans();
                    for lane in result.iter_mut() {
                        *lane = T::from_bits(u64::from(*lane)).clamped(keeps_nans).bits() as u32;
                    }
                }
            }
            if T::HALF {
                let [mut low, high] = results;
                for (low, high) in low.iter_mut().zip(high) {
                    *low = (*low & 0xffff) | high << 16;
                }
                wave.blend(operands.row, half, mask, &low);
            } else {
                wave.blend(operands.row, half, mask, &results[0]);
                wave.blend(operands.row + 1, half, mask, &results[1]);
            }
        }
    }
}

/// As MODE.FP16_OVFL asks: the greatest numbers for infinities that are none of an infinite source.
#[cold]
fn saturate<T: Value, const N: usize>(
    results: &mut Half,
    buffers: &[Half; N],
    sources: &[Selected; N],
) {
    for (lane, result) in results.iter_mut().enumerate() {
        let classes: [Class; N] = std::array::from_fn(|source| {
            T::from_bits(u64::from(buffers[source][lane]) ^ sources[source].flip).class()
        });
        if !Class::makes_infinity(&classes, false) {
            *result = T::from_bits(u64::from(*result)).saturated().bits() as u32;
        }
    }
}

fn refuse_integer_clamp<T: Value>(text: &Text) -> Result<(), Unsupported> {
    let bare = T::SIGN == 0 && text.has("clamp") && !text.mnemonic.ends_with(" clamp");
    if bare { Err(Unsupported) } else { Ok(()) }
}

fn two<T: Value>(f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static) -> Binder {
    Box::new(move |text| {
        refuse_integer_clamp::<T>(text)?;
        bind_lanes(Packed {
            operands: operands::<T, 2>(text, false)?,
            f: move |[a, b]: [T; 2]| f(a, b),
        })
    })
}

fn three<T: Value>(
    third_is_target: bool,
    f: impl Fn(T, T, T) -> T + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        refuse_integer_clamp::<T>(text)?;
        bind_lanes(Packed {
            operands: operands::<T, 3>(text, third_is_target)?,
            f: move |[a, b, c]: [T; 3]| f(a, b, c),
        })
    })
}

/// `v_pk_mov_b32`: `op_sel` picks the word of the first source for the low result, and of the second
/// source for the high one.
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
        "v_pk_min_f16" | "v_pk_min_num_f16" => two(via(super::float::min_f32));
        "v_pk_max_f16" | "v_pk_max_num_f16" => two(via(super::float::max_f32));
        "v_pk_minimum_f16" => two(via(super::float::minimum_f32));
        "v_pk_maximum_f16" => two(via(super::float::maximum_f32));
        "v_pk_minimum3_f16" => three(false, |a: F16, b: F16, c: F16| {
            let least = via(super::float::minimum_f32);
            least(least(a, b), c)
        });
        "v_pk_maximum3_f16" => three(false, |a: F16, b: F16, c: F16| {
            let greatest = via(super::float::maximum_f32);
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
