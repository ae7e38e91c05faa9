//! Adaptors that turn functions on plain values into scalar instructions: they read the operands, write the result and
//! set SCC.

use crate::{
    exec::{Binder, on_wave},
    operation::{DataFlow, Operation},
    source::Source,
    text::{Text, Unsupported},
    value::{Class, Value, flushed_where},
    wave::Wave,
};

fn write<R: Value>(wave: &mut Wave, target: u16, value: R) {
    let bits = value.bits();
    wave.scalar[usize::from(target)] = bits as u32;
    if R::WORDS == 2 {
        wave.scalar[usize::from(target) + 1] = (bits >> 32) as u32;
    }
}

/// Applies `MODE.FP16_OVFL`: replaces an infinity by the largest finite number, unless a source operand is infinite.
/// Unlike for vector instructions, infinities of divisions need not be kept, because scalar divisions do not exist.
#[inline(always)]
fn saturated<R: Value, const N: usize>(
    wave: &Wave,
    result: R,
    sources: impl Fn() -> [Class; N],
) -> R {
    let keeps = !R::SATURATES || !wave.saturates() || Class::makes_infinity(&sources(), false);
    if keeps { result } else { result.saturated() }
}

#[inline(always)]
fn take<T: Value>(wave: &Wave, source: &Source) -> T {
    flushed_where(wave.flushes_sources(), source.uniform(wave))
}

fn target<R: Value>(text: &Text, index: usize) -> Result<u16, Unsupported> {
    text.scalar(index, R::WORDS as u16)
}

fn source<T: Value>(text: &Text, index: usize) -> Result<Source, Unsupported> {
    text.only(&[])?;
    text.plain_source::<T>(index)
}

/// Binds `op dst, a`, which does not change SCC.
pub(crate) fn unary<A: Value, R: Value>(
    f: impl Fn(A) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, a) = (target::<R>(text, 0)?, source::<A>(text, 1)?);
        on_wave(move |wave| {
            let a: A = take(wave, &a);
            let result = flushed_where(wave.flushes_results(), f(a));
            write(wave, d, saturated(wave, result, || [a.class()]));
        })
    })
}

/// Binds `op dst, a`, which sets SCC to 1 if the result is non-zero, and to 0 otherwise.
pub(crate) fn unary_nz<A: Value, R: Value>(
    f: impl Fn(A) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, a) = (target::<R>(text, 0)?, source::<A>(text, 1)?);
        on_wave(move |wave| {
            let result = f(a.uniform(wave));
            write(wave, d, result);
            wave.set_scc(result.bits() != 0);
        })
    })
}

/// Binds `op dst, a, b`, which does not change SCC.
pub(crate) fn binary<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, a, b) = (target::<R>(text, 0)?, source::<A>(text, 1)?, source::<B>(text, 2)?);
        on_wave(move |wave| {
            let a: A = take(wave, &a);
            let b: B = take(wave, &b);
            let result = flushed_where(wave.flushes_results(), f(a, b));
            write(wave, d, saturated(wave, result, || [a.class(), b.class()]));
        })
    })
}

/// Binds `op dst, a, b`, which sets SCC to 1 if the result is non-zero, and to 0 otherwise.
pub(crate) fn binary_nz<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, a, b) = (target::<R>(text, 0)?, source::<A>(text, 1)?, source::<B>(text, 2)?);
        on_wave(move |wave| {
            let result = f(a.uniform(wave), b.uniform(wave));
            write(wave, d, result);
            wave.set_scc(result.bits() != 0);
        })
    })
}

/// Binds `op dst, a, b`. `f` receives the operands and the old SCC, and returns the result and the new SCC.
pub(crate) fn binary_scc<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B, bool) -> (R, bool) + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, a, b) = (target::<R>(text, 0)?, source::<A>(text, 1)?, source::<B>(text, 2)?);
        on_wave(move |wave| {
            let (result, scc) = f(a.uniform(wave), b.uniform(wave), wave.scc());
            write(wave, d, result);
            wave.set_scc(scc);
        })
    })
}

/// Binds `op dst, a, b, c`. `third` is the position of operand `c`. For an instruction that adds to its destination,
/// this is 0.
pub(crate) fn ternary<A: Value, B: Value, C: Value, R: Value>(
    third: usize,
    f: impl Fn(A, B, C) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, a, b) = (target::<R>(text, 0)?, source::<A>(text, 1)?, source::<B>(text, 2)?);
        let c = source::<C>(text, third)?;
        on_wave(move |wave| {
            let a: A = take(wave, &a);
            let b: B = take(wave, &b);
            let c: C = take(wave, &c);
            let result = flushed_where(wave.flushes_results(), f(a, b, c));
            write(wave, d, saturated(wave, result, || [a.class(), b.class(), c.class()]));
        })
    })
}

/// Binds `op a, b`, which sets SCC to the result of the comparison.
pub(crate) fn compare<A: Value, B: Value>(
    f: impl Fn(A, B) -> bool + Copy + Send + Sync + 'static,
) -> Operation {
    let binder: Binder = Box::new(move |text| {
        let (a, b) = (source::<A>(text, 0)?, source::<B>(text, 1)?);
        on_wave(move |wave| {
            let verdict = f(take(wave, &a), take(wave, &b));
            wave.set_scc(verdict);
        })
    });
    Operation::from(binder).with_flow(DataFlow::Condition)
}

/// Binds `op dst, imm16`. `f` receives the old value of the destination, and the immediate without sign extension. It
/// returns the result, and the new SCC if the instruction writes SCC.
pub(crate) fn with_immediate(
    f: impl Fn(u32, u16) -> (u32, Option<bool>) + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (d, immediate) = (target::<u32>(text, 0)?, text.site.immediate);
        on_wave(move |wave| {
            let (result, scc) = f(wave.scalar[usize::from(d)], immediate);
            write(wave, d, result);
            if let Some(scc) = scc {
                wave.set_scc(scc);
            }
        })
    })
}

/// Binds `op a, imm16`, which sets SCC to the result of the comparison.
pub(crate) fn compare_immediate(
    f: impl Fn(u32, u16) -> bool + Copy + Send + Sync + 'static,
) -> Operation {
    let binder: Binder = Box::new(move |text| {
        let (a, immediate) = (target::<u32>(text, 0)?, text.site.immediate);
        on_wave(move |wave| {
            let verdict = f(wave.scalar[usize::from(a)], immediate);
            wave.set_scc(verdict);
        })
    });
    Operation::from(binder).with_flow(DataFlow::Condition)
}

/// Binds `op dst, a`, which combines `a` with EXEC, writes the result to EXEC, and saves the old EXEC in `dst` (or the
/// result, if `keeps_result` is true). `T` determines the width of the mask, 32 or 64 bits, whatever the number of
/// lanes of the wave is.
pub(crate) fn save_exec<T: Value>(
    f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
    keeps_result: bool,
) -> Operation {
    let binder: Binder = Box::new(move |text| {
        let (d, a) = (target::<T>(text, 0)?, source::<T>(text, 1)?);
        on_wave(move |wave| {
            let exec = T::from_bits(wave.pair(crate::text::register::EXEC));
            let result = f(a.uniform(wave), exec);
            write(wave, d, if keeps_result { result } else { exec });
            write(wave, crate::text::register::EXEC, result);
            wave.set_scc(result.bits() != 0);
        })
    });
    Operation::from(binder).with_flow(DataFlow::Masks)
}
