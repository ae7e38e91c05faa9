//! Families of vector instructions that read or write lane masks: comparisons, selection, and sums with a carry.

use std::marker::PhantomData;

use crate::{
    exec::{Binder, Lanes, Plain, bind_plain},
    operation::{Operation, Passes},
    registers::HALF,
    source::{Buffer, Control, NO_WORDS, Source, Target},
    text::{Base, Text, Unsupported, register},
    value::Value,
    vector::{Results, refuse_integer_clamp},
    wave::{Wave, flushed, sign, sign_bits},
};

/// Where a comparison puts its lane mask.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Scalar(u16),
    Exec,
    Both(u16),
}

struct Compare<A, B, F> {
    a: Source,
    b: Source,
    control: Control,
    verdict: Verdict,
    f: F,
    types: PhantomData<fn(A, B)>,
}

impl<A: Value, B: Value, F> Lanes for Compare<A, B, F>
where
    F: Fn(A, B) -> bool + Send + Sync + 'static,
{
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let active = self.control.begin(wave, A::WORDS);
        let mut verdict = 0u64;
        for half in 0..wave.halves() {
            let mask = (active >> (half * HALF)) as u32;
            if mask == 0 {
                continue;
            }
            let (mut a0, mut a1) = (Buffer::uninit(), Buffer::uninit());
            let (mut b0, mut b1) = (Buffer::uninit(), Buffer::uninit());
            let a_low = self.a.lanes(wave, half, 0, &mut a0);
            let a_high =
                if A::WORDS == 2 { self.a.lanes(wave, half, 1, &mut a1) } else { &NO_WORDS };
            let b_low = self.b.lanes(wave, half, 0, &mut b0);
            let b_high =
                if B::WORDS == 2 { self.b.lanes(wave, half, 1, &mut b1) } else { &NO_WORDS };
            let (a_zeroed, b_zeroed);
            let (a_low, b_low) = if A::SINGLE && wave.flushes_sources() {
                a_zeroed = flushed(a_low);
                b_zeroed = if B::SINGLE { flushed(b_low) } else { *b_low };
                (&a_zeroed, &b_zeroed)
            } else {
                (a_low, b_low)
            };
            let mut holds = [0; HALF];
            for lane in 0..HALF {
                let (a, b) = (
                    self.a.value(a_low[lane], a_high[lane]),
                    self.b.value(b_low[lane], b_high[lane]),
                );
                holds[lane] = sign((self.f)(a, b));
            }
            verdict |= u64::from(sign_bits(&holds) & mask) << (half * HALF);
        }
        match self.verdict {
            Verdict::Scalar(first) => wave.set_mask(first, verdict),
            Verdict::Exec => wave.set_mask(register::EXEC, verdict),
            Verdict::Both(first) => {
                wave.set_mask(first, verdict);
                wave.set_mask(register::EXEC, verdict);
            }
        }
    }
}

impl<A: Value, B: Value, F> Plain for Compare<A, B, F>
where
    F: Fn(A, B) -> bool + Send + Sync + 'static,
{
    const SATURATES: bool = false;
    const FLUSHES: bool = A::SINGLE || B::SINGLE;

    fn is_plain(&self) -> bool {
        let written = match self.verdict {
            Verdict::Scalar(first) | Verdict::Both(first) => first,
            Verdict::Exec => register::EXEC,
        };
        let free = |source: &Source| {
            source.is_whole()
                && !source.overlaps_mask(written)
                && !source.overlaps_mask(register::EXEC)
        };
        self.control.is_plain() && free(&self.a) && free(&self.b)
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let mask = wave.exec_half(half);
        let mut verdict = 0;
        if mask != 0 {
            let (mut a0, mut a1) = (Buffer::uninit(), Buffer::uninit());
            let (mut b0, mut b1) = (Buffer::uninit(), Buffer::uninit());
            let a_low = self.a.whole(wave, half, 0, &mut a0);
            let b_low = self.b.whole(wave, half, 0, &mut b0);
            let a_high =
                if A::WORDS == 2 { self.a.whole(wave, half, 1, &mut a1) } else { &NO_WORDS };
            let b_high =
                if B::WORDS == 2 { self.b.whole(wave, half, 1, &mut b1) } else { &NO_WORDS };
            let mut holds = [0; HALF];
            for lane in 0..HALF {
                let (a, b) = (
                    self.a.value(a_low[lane], a_high[lane]),
                    self.b.value(b_low[lane], b_high[lane]),
                );
                holds[lane] = sign((self.f)(a, b));
            }
            verdict = sign_bits(&holds) & mask;
        }
        match self.verdict {
            Verdict::Scalar(first) => wave.set_half_mask(first, half, verdict),
            Verdict::Exec => wave.set_half_mask(register::EXEC, half, verdict),
            Verdict::Both(first) => {
                wave.set_half_mask(first, half, verdict);
                wave.set_half_mask(register::EXEC, half, verdict);
            }
        }
    }
}

/// `v_cmp dst, a, b`, and `v_cmpx`, which also or only writes EXEC.
pub(crate) fn compare<A: Value, B: Value>(
    f: impl Fn(A, B) -> bool + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let explicit = text.operands.len() == 3;
        let sources = if explicit { 1 } else { 0 };
        let writes_exec = text.mnemonic.starts_with("v_cmpx");
        let scalar = if explicit { text.scalar(0, 1)? } else { register::VCC };
        let verdict = match (writes_exec, text.is_gfx9()) {
            (false, _) => Verdict::Scalar(scalar),
            (true, true) => Verdict::Both(scalar),
            (true, false) => Verdict::Exec,
        };
        let mut a = text.source::<A>(sources, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Compare {
            a,
            b: text.source::<B>(sources + 1, 1)?,
            control,
            verdict,
            f,
            types: PhantomData,
        })
    })
}

/// A lane mask as a source: scalar registers or an inline constant.
#[derive(Clone, Copy)]
pub(crate) enum Mask {
    Scalar(u16),
    Constant(u64),
}

impl Mask {
    pub(crate) fn operand(text: &Text, index: usize) -> Result<Mask, Unsupported> {
        match &text.operand(index)?.base {
            Base::Scalar { first, .. } => Ok(Mask::Scalar(*first)),
            Base::Constant(constant) => Ok(Mask::Constant(i64::constant(*constant))),
            Base::Null => Ok(Mask::Constant(0)),
            _ => Err(Unsupported),
        }
    }

    #[inline(always)]
    pub(crate) fn read(self, wave: &Wave) -> u64 {
        match self {
            Mask::Scalar(first) => wave.mask(first),
            Mask::Constant(bits) => bits,
        }
    }

    #[inline(always)]
    fn read_half(self, wave: &Wave, half: usize) -> u32 {
        match self {
            Mask::Scalar(first) => wave.scalar[usize::from(first) + half],
            Mask::Constant(bits) => (bits >> (half * HALF)) as u32,
        }
    }
}

struct Select<T> {
    a: Source,
    b: Source,
    mask: Mask,
    target: Target,
    control: Control,
    of: PhantomData<fn(T)>,
}

impl<T: Value> Lanes for Select<T> {
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let active = self.control.begin(wave, T::WORDS);
        let choose = self.mask.read(wave);
        for half in 0..wave.halves() {
            let mask = (active >> (half * HALF)) as u32;
            let choose = (choose >> (half * HALF)) as u32;
            if mask == 0 {
                continue;
            }
            let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
            let a = self.a.lanes(wave, half, 0, &mut a0);
            let b = self.b.lanes(wave, half, 0, &mut b0);
            let mut results = Results::<T>::new();
            for lane in 0..HALF {
                let second = choose & (1 << lane) != 0;
                let (a, b) = (self.a.value::<T>(a[lane], 0), self.b.value::<T>(b[lane], 0));
                results.set(lane, T::from_bits(if second { b.bits() } else { a.bits() }));
            }
            results.write(wave, &self.control, &self.target, half, mask);
        }
    }
}

impl<T: Value> Plain for Select<T> {
    const SATURATES: bool = false;
    const FLUSHES: bool = false;

    fn is_plain(&self) -> bool {
        self.control.is_plain() && self.target.is_whole() && self.a.is_whole() && self.b.is_whole()
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let mask = wave.exec_half(half);
        let choose = self.mask.read_half(wave, half);
        let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
        let a = self.a.whole(wave, half, 0, &mut a0);
        let b = self.b.whole(wave, half, 0, &mut b0);
        let mut results = [0; HALF];
        for lane in 0..HALF {
            let second = sign(choose >> lane & 1 == 1);
            let (a, b) = (self.a.value::<T>(a[lane], 0), self.b.value::<T>(b[lane], 0));
            results[lane] = (b.bits() as u32 & second) | (a.bits() as u32 & !second);
        }
        wave.blend(usize::from(self.target.row), half, mask, &results);
    }
}

/// `v_cndmask dst, a, b[, mask]`: `b` where the mask is set. `T` is a float type, since the sources
/// take `neg` and `abs`.
pub(crate) fn select<T: Value>() -> Operation {
    let binder: Binder = Box::new(|text| {
        let mask = match text.operands.len() {
            3 => Mask::Scalar(register::VCC),
            _ => Mask::operand(text, 3)?,
        };
        let mut a = text.source::<T>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Select {
            a,
            b: text.source::<T>(2, 1)?,
            mask,
            target: text.target::<T>(0, false)?,
            control,
            of: PhantomData::<fn(T)>,
        })
    });
    Operation::from(binder).that(Passes::Selects)
}

struct Carry<F> {
    a: Source,
    b: Source,
    carry_in: Mask,
    carry_out: u16,
    target: Target,
    control: Control,
    f: F,
}

impl<F> Lanes for Carry<F>
where
    F: Fn(u32, u32, u32) -> (u32, bool) + Send + Sync + 'static,
{
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let active = self.control.begin(wave, 1);
        let carry_in = self.carry_in.read(wave);
        let mut carry_out = 0u64;
        for half in 0..wave.halves() {
            let mask = (active >> (half * HALF)) as u32;
            let carry = (carry_in >> (half * HALF)) as u32;
            if mask == 0 {
                continue;
            }
            let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
            let a = self.a.lanes(wave, half, 0, &mut a0);
            let b = self.b.lanes(wave, half, 0, &mut b0);
            let mut results = Results::<u32>::new();
            let mut overflows = [0; HALF];
            for lane in 0..HALF {
                let (a, b) = (self.a.value(a[lane], 0), self.b.value(b[lane], 0));
                let (result, overflow) = (self.f)(a, b, carry >> lane & 1);
                results.set(lane, result);
                overflows[lane] = sign(overflow);
            }
            carry_out |= u64::from(sign_bits(&overflows) & mask) << (half * HALF);
            results.write(wave, &self.control, &self.target, half, mask);
        }
        wave.set_mask(self.carry_out, carry_out);
    }
}

impl<F> Plain for Carry<F>
where
    F: Fn(u32, u32, u32) -> (u32, bool) + Send + Sync + 'static,
{
    const SATURATES: bool = false;
    const FLUSHES: bool = false;

    fn is_plain(&self) -> bool {
        let free = |source: &Source| source.is_whole() && !source.overlaps_mask(self.carry_out);
        self.control.is_plain() && self.target.is_whole() && free(&self.a) && free(&self.b)
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let mask = wave.exec_half(half);
        let carry = self.carry_in.read_half(wave, half);
        let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
        let a = self.a.whole(wave, half, 0, &mut a0);
        let b = self.b.whole(wave, half, 0, &mut b0);
        let (mut results, mut overflows) = ([0; HALF], [0; HALF]);
        for lane in 0..HALF {
            let (result, overflow) = (self.f)(a[lane], b[lane], carry >> lane & 1);
            results[lane] = result;
            overflows[lane] = sign(overflow);
        }
        wave.blend(usize::from(self.target.row), half, mask, &results);
        wave.set_half_mask(self.carry_out, half, sign_bits(&overflows) & mask);
    }
}

/// `op dst, carry_out, a, b[, carry_in]`
pub(crate) fn carry(
    f: impl Fn(u32, u32, u32) -> (u32, bool) + Copy + Send + Sync + 'static,
) -> Operation {
    let binder: Binder = Box::new(move |text| {
        let carry_in = match text.operands.len() {
            4 => Mask::Constant(0),
            _ => Mask::operand(text, 4)?,
        };
        refuse_integer_clamp::<u32>(text)?;
        let mut a = text.source::<u32>(2, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Carry {
            a,
            b: text.source::<u32>(3, 1)?,
            carry_in,
            carry_out: text.scalar(1, 1)?,
            target: text.target::<u32>(0, false)?,
            control,
            f,
        })
    });
    Operation::from(binder).that(Passes::Flags)
}
