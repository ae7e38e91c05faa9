//! Vector instructions that read or write lane masks: comparisons, selection, and additions with carry.

use std::marker::PhantomData;

use crate::{
    exec::{Binder, Lanes, Plain, bind_plain},
    operands::{Operands, Results, Sources},
    operation::{DataFlow, Operation},
    registers::HALF,
    source::{Buffer, NO_WORDS},
    text::{Base, Text, Unsupported, register},
    value::{Type, Value},
    wave::{Wave, sign, sign_bits},
};

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Scalar(u16),
    Exec,
    Both(u16),
}

struct Compare<A, B, F> {
    sources: Sources<2>,
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
        let mut taken = self.sources.begin(wave);
        let mut verdict = 0u64;
        while self.sources.take(wave, &mut taken) {
            let mut holds = [0; HALF];
            for (lane, holds) in holds.iter_mut().enumerate() {
                *holds = sign((self.f)(taken.value(0, lane), taken.value(1, lane)));
            }
            verdict |= u64::from(sign_bits(&holds) & taken.mask) << (taken.half * HALF);
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
        self.sources.is_plain_beside(written) && self.sources.is_plain_beside(register::EXEC)
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let mask = wave.exec_half(half);
        let mut verdict = 0;
        if mask != 0 {
            let [a, b] = &self.sources.each;
            let (mut a0, mut a1) = (Buffer::uninit(), Buffer::uninit());
            let (mut b0, mut b1) = (Buffer::uninit(), Buffer::uninit());
            let a_low = a.whole(wave, half, 0, &mut a0);
            let b_low = b.whole(wave, half, 0, &mut b0);
            let a_high = if A::WORDS == 2 { a.whole(wave, half, 1, &mut a1) } else { &NO_WORDS };
            let b_high = if B::WORDS == 2 { b.whole(wave, half, 1, &mut b1) } else { &NO_WORDS };
            let mut holds = [0; HALF];
            for lane in 0..HALF {
                let a = a.value(a_low[lane], a_high[lane]);
                let b = b.value(b_low[lane], b_high[lane]);
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

/// Binds the comparison `v_cmp dst, a, b` or `v_cmpx`. `v_cmpx` writes its result to EXEC, on some architectures in
/// addition to `dst`.
pub(crate) fn compare<A: Value, B: Value>(
    f: impl Fn(A, B) -> bool + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let (sources, verdict) = compared(text, [Type::of::<A>(), Type::of::<B>()])?;
        bind_plain(Compare { sources, verdict, f, types: PhantomData })
    })
}

fn compared(text: &Text, types: [&'static Type; 2]) -> Result<(Sources<2>, Verdict), Unsupported> {
    let explicit = text.operands.len() == 3;
    let first = if explicit { 1 } else { 0 };
    let writes_exec = text.mnemonic.starts_with("v_cmpx");
    let scalar = if explicit { text.scalar(0, 1)? } else { register::VCC };
    let verdict = match (writes_exec, text.site.arch.facts().cmpx_writes_scalar) {
        (false, _) => Verdict::Scalar(scalar),
        (true, true) => Verdict::Both(scalar),
        (true, false) => Verdict::Exec,
    };
    Ok((Sources::parse(text, types, [first, first + 1])?, verdict))
}

/// A lane mask that is a source operand: scalar registers or an inline constant.
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
    operands: Operands<2>,
    mask: Mask,
    of: PhantomData<fn(T)>,
}

impl<T: Value> Lanes for Select<T> {
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let choose = self.mask.read(wave);
        let sources = &self.operands.sources;
        let mut taken = sources.begin(wave);
        while sources.take(wave, &mut taken) {
            let choose = (choose >> (taken.half * HALF)) as u32;
            let mut results = Results::<T>::new();
            for lane in 0..HALF {
                let second = choose & (1 << lane) != 0;
                results.set(lane, taken.value(usize::from(second), lane));
            }
            self.operands.write(wave, &taken, &mut results.words);
        }
    }
}

impl<T: Value> Plain for Select<T> {
    const SATURATES: bool = false;
    const FLUSHES: bool = false;

    fn is_plain(&self) -> bool {
        self.operands.is_plain()
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let mask = wave.exec_half(half);
        let choose = self.mask.read_half(wave, half);
        let [a, b] = &self.operands.sources.each;
        let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
        let a_low = a.whole(wave, half, 0, &mut a0);
        let b_low = b.whole(wave, half, 0, &mut b0);
        let mut results = [0; HALF];
        for lane in 0..HALF {
            let second = sign(choose >> lane & 1 == 1);
            let (a, b) = (a.value::<T>(a_low[lane], 0), b.value::<T>(b_low[lane], 0));
            results[lane] = (b.bits() as u32 & second) | (a.bits() as u32 & !second);
        }
        wave.blend(usize::from(self.operands.target.row), half, mask, &results);
    }
}

/// Returns the operation `v_cndmask dst, a, b[, mask]`, which selects `b` in lanes whose mask bit is set. `T` is a
/// float type, because the source operands may have `neg` and `abs`.
pub(crate) fn select<T: Value>() -> Operation {
    let binder: Binder = Box::new(|text| {
        let mask = match text.operands.len() {
            3 => Mask::Scalar(register::VCC),
            _ => Mask::operand(text, 3)?,
        };
        let of = Type::moved::<T>();
        let operands = Operands::parse(text, [of; 2], [1, 2], of, false)?;
        bind_plain(Select { operands, mask, of: PhantomData::<fn(T)> })
    });
    Operation::from(binder).with_flow(DataFlow::Selects)
}

struct Carry<F> {
    operands: Operands<2>,
    carry_in: Mask,
    carry_out: u16,
    f: F,
}

impl<F> Lanes for Carry<F>
where
    F: Fn(u32, u32, u32) -> (u32, bool) + Send + Sync + 'static,
{
    #[inline(always)]
    fn run(&self, wave: &mut Wave) {
        let carry_in = self.carry_in.read(wave);
        let mut carry_out = 0u64;
        let sources = &self.operands.sources;
        // Row and bank masks do not apply to a lane mask. Source: "Row Mask Applies to the VGPR destination write only"
        // (the CDNA 4 ISA guide, "DPP"). AMD's emulator rocjitsu implements the same (`dpp_sdwa_ops.h`).
        let mut taken = sources.begin_all_rows(wave);
        while sources.take(wave, &mut taken) {
            let carry = (carry_in >> (taken.half * HALF)) as u32;
            let mut results = Results::<u32>::new();
            let mut overflows = [0; HALF];
            for (lane, overflows) in overflows.iter_mut().enumerate() {
                let (a, b) = (taken.value(0, lane), taken.value(1, lane));
                let (result, overflow) = (self.f)(a, b, carry >> lane & 1);
                results.set(lane, result);
                *overflows = sign(overflow);
            }
            carry_out |= u64::from(sign_bits(&overflows) & taken.mask) << (taken.half * HALF);
            sources.keep_rows(&mut taken);
            self.operands.write(wave, &taken, &mut results.words);
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
        self.operands.is_plain() && self.operands.sources.is_plain_beside(self.carry_out)
    }

    #[inline(always)]
    fn run_plain(&self, wave: &mut Wave, half: usize) {
        let mask = wave.exec_half(half);
        let carry = self.carry_in.read_half(wave, half);
        let [a, b] = &self.operands.sources.each;
        let (mut a0, mut b0) = (Buffer::uninit(), Buffer::uninit());
        let a = a.whole(wave, half, 0, &mut a0);
        let b = b.whole(wave, half, 0, &mut b0);
        let (mut results, mut overflows) = ([0; HALF], [0; HALF]);
        for lane in 0..HALF {
            let (result, overflow) = (self.f)(a[lane], b[lane], carry >> lane & 1);
            results[lane] = result;
            overflows[lane] = sign(overflow);
        }
        wave.blend(usize::from(self.operands.target.row), half, mask, &results);
        wave.set_half_mask(self.carry_out, half, sign_bits(&overflows) & mask);
    }
}

/// Returns the addition or subtraction `op dst, carry_out, a, b[, carry_in]`. `f` receives `a`, `b` and the carry (0 or
/// 1), and returns the result and the new carry.
pub(crate) fn carry(
    f: impl Fn(u32, u32, u32) -> (u32, bool) + Copy + Send + Sync + 'static,
) -> Operation {
    let binder: Binder = Box::new(move |text| {
        let carry_in = match text.operands.len() {
            4 => Mask::Constant(0),
            _ => Mask::operand(text, 4)?,
        };
        let of = Type::of::<u32>();
        let operands = Operands::parse(text, [of; 2], [2, 3], of, false)?;
        bind_plain(Carry { operands, carry_in, carry_out: text.scalar(1, 1)?, f })
    });
    Operation::from(binder).with_flow(DataFlow::Flags)
}
