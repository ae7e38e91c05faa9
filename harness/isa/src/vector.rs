//! Families of vector instructions: a function of one lane becomes an operation on a wave.

use std::marker::PhantomData;

use crate::{
    exec::{Binder, Lanes, Plain, bind_lanes, bind_plain},
    source::{Buffer, Control, NO_WORDS, Source, Target},
    text::{Base, Text, Unsupported, register},
    value::Value,
    wave::{HALF, Half, Wave, flushed},
};

/// The result of 32 lanes on its way to the destination.
struct Results<R> {
    words: [Half; 2],
    of: PhantomData<R>,
}

impl<R: Value> Results<R> {
    #[inline(always)]
    fn new() -> Self {
        Results { words: [[0; HALF]; 2], of: PhantomData }
    }

    #[inline(always)]
    fn set(&mut self, lane: usize, value: R) {
        let bits = value.bits();
        self.words[0][lane] = bits as u32;
        if R::WORDS == 2 {
            self.words[1][lane] = (bits >> 32) as u32;
        }
    }

    #[inline(always)]
    fn write(
        &mut self,
        wave: &mut Wave,
        control: &Control,
        target: &Target,
        half: usize,
        mask: u32,
    ) {
        if R::SIGN != 0 && (control.clamp || control.scale.is_some()) {
            self.modify(control);
        }
        for word in 0..R::WORDS {
            target.write(wave, half, word, mask, &self.words[word]);
        }
    }

    #[inline(never)]
    fn modify(&mut self, control: &Control) {
        for lane in 0..HALF {
            let high = if R::WORDS == 2 { u64::from(self.words[1][lane]) << 32 } else { 0 };
            let mut value = R::from_bits(u64::from(self.words[0][lane]) | high);
            if let Some(factor) = control.scale {
                value = value.scaled(factor);
            }
            if control.clamp {
                value = value.clamped();
            }
            self.set(lane, value);
        }
    }
}

/// Defines a family: its struct, its loop, and the function that makes a binder of it.
macro_rules! family {
    ($family:ident $(($source:ident: $type:ident, $low:ident, $high:ident))+) => {
        struct $family<$($type,)+ R, F> {
            $($source: Source,)+
            target: Target,
            control: Control,
            f: F,
            types: PhantomData<fn($($type),+) -> R>,
        }

        impl<$($type: Value,)+ R: Value, F> Lanes for $family<$($type,)+ R, F>
        where
            F: Fn($($type),+) -> R + Send + Sync + 'static,
        {
            #[inline(always)]
            fn run(&self, wave: &mut Wave) {
                let active = self.control.begin(wave, A::WORDS);
                for half in 0..wave.halves() {
                    let mask = (active >> (half * HALF)) as u32;
                    if mask == 0 {
                        continue;
                    }
                    let mut results = Results::<R>::new();
                    $(let (mut $low, mut $high) = (Buffer::uninit(), Buffer::uninit());)+
                    $(
                        let $low = self.$source.lanes(wave, half, 0, &mut $low);
                        let zeroed;
                        let $low = if $type::SINGLE && wave.flushes_sources() {
                            zeroed = flushed($low);
                            &zeroed
                        } else {
                            $low
                        };
                        let $high = if $type::WORDS == 2 {
                            self.$source.lanes(wave, half, 1, &mut $high)
                        } else {
                            &NO_WORDS
                        };
                    )+
                    for lane in 0..HALF {
                        let value = (self.f)($(self.$source.value($low[lane], $high[lane])),+);
                        results.set(lane, value);
                    }
                    if R::SINGLE && wave.flushes_results() {
                        results.words[0] = flushed(&results.words[0]);
                    }
                    results.write(wave, &self.control, &self.target, half, mask);
                }
            }
        }
    };
}

/// How a family runs where nothing is modified: 32-bit words, whole registers.
macro_rules! plain {
    ($family:ident $(($source:ident: $type:ident))+) => {
        impl<$($type: Value,)+ R: Value, F> Plain for $family<$($type,)+ R, F>
        where
            F: Fn($($type),+) -> R + Send + Sync + 'static,
        {
            const FLUSHES: bool = R::SINGLE $(|| $type::SINGLE)+;

            fn is_plain(&self) -> bool {
                self.control.is_plain()
                    && self.target.is_whole()
                    && R::WORDS == 1
                    $(&& $type::WORDS == 1 && self.$source.is_whole())+
            }

            #[inline(always)]
            fn run_plain(&self, wave: &mut Wave, half: usize) {
                let mask = wave.exec_half(half);
                if mask == 0 {
                    return;
                }
                $(
                    let mut buffer = Buffer::uninit();
                    let $source = self.$source.whole(wave, half, &mut buffer);
                )+
                let mut results = [0; HALF];
                for lane in 0..HALF {
                    let value = (self.f)($(self.$source.value($source[lane], 0)),+);
                    results[lane] = value.bits() as u32;
                }
                wave.blend(usize::from(self.target.row), half, mask, &results);
            }
        }
    };
}

plain!(Unary(a: A));
plain!(Binary(a: A)(b: B));
plain!(Ternary(a: A)(b: B)(c: C));

family!(Unary(a: A, a_low, a_high));
family!(Binary(a: A, a_low, a_high) (b: B, b_low, b_high));
family!(Ternary(a: A, a_low, a_high) (b: B, b_low, b_high) (c: C, c_low, c_high));

/// Integer results saturate under `clamp` by operations of their own, named `... clamp`.
fn refuse_integer_clamp<R: Value>(text: &Text) -> Result<(), Unsupported> {
    let bare = R::SIGN == 0 && text.has("clamp") && !text.mnemonic.ends_with(" clamp");
    if bare { Err(Unsupported) } else { Ok(()) }
}

/// `op dst, a`
pub(crate) fn unary<A: Value, R: Value>(
    f: impl Fn(A) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        refuse_integer_clamp::<R>(text)?;
        let mut a = text.source::<A>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Unary { a, target: text.target::<R>(0, false)?, control, f, types: PhantomData })
    })
}

/// `op dst, a, b`
pub(crate) fn binary<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        refuse_integer_clamp::<R>(text)?;
        let mut a = text.source::<A>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Binary {
            a,
            b: text.source::<B>(2, 1)?,
            target: text.target::<R>(0, false)?,
            control,
            f,
            types: PhantomData,
        })
    })
}

/// `op dst, a, b` with a 16-bit result that leaves the other half of the destination alone on every generation.
pub(crate) fn keeping<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let mut a = text.source::<A>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Binary {
            a,
            b: text.source::<B>(2, 1)?,
            target: text.target::<R>(0, true)?,
            control,
            f,
            types: PhantomData,
        })
    })
}

/// `op dst, a, b, c`
pub(crate) fn ternary<A: Value, B: Value, C: Value, R: Value>(
    f: impl Fn(A, B, C) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        refuse_integer_clamp::<R>(text)?;
        let mut a = text.source::<A>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Ternary {
            a,
            b: text.source::<B>(2, 1)?,
            c: text.source::<C>(3, 2)?,
            target: text.target::<R>(0, !text.mnemonic.contains("_legacy_"))?,
            control,
            f,
            types: PhantomData,
        })
    })
}

/// `op dst, a, b` where the old destination is the third source.
pub(crate) fn accumulate<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B, R) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let mut a = text.source::<A>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_plain(Ternary {
            a,
            b: text.source::<B>(2, 1)?,
            c: text.source::<R>(0, 2)?,
            target: text.target::<R>(0, false)?,
            control,
            f,
            types: PhantomData,
        })
    })
}

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
            let mut bits = 0u32;
            for lane in 0..HALF {
                let holds = (self.f)(
                    self.a.value(a_low[lane], a_high[lane]),
                    self.b.value(b_low[lane], b_high[lane]),
                );
                bits |= u32::from(holds) << lane;
            }
            verdict |= u64::from(bits & mask) << (half * HALF);
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
        bind_lanes(Compare {
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

/// `v_cndmask dst, a, b[, mask]`: `b` where the mask is set. `T` is a float type, since the sources
/// take `neg` and `abs`.
pub(crate) fn select<T: Value>() -> Binder {
    Box::new(|text| {
        let mask = match text.operands.len() {
            3 => Mask::Scalar(register::VCC),
            _ => Mask::operand(text, 3)?,
        };
        let mut a = text.source::<T>(1, 0)?;
        let control = text.control(&mut a)?;
        bind_lanes(Select {
            a,
            b: text.source::<T>(2, 1)?,
            mask,
            target: text.target::<T>(0, false)?,
            control,
            of: PhantomData::<fn(T)>,
        })
    })
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
            let mut bits = 0u32;
            for lane in 0..HALF {
                let (a, b) = (self.a.value(a[lane], 0), self.b.value(b[lane], 0));
                let (result, overflow) = (self.f)(a, b, carry >> lane & 1);
                results.set(lane, result);
                bits |= u32::from(overflow) << lane;
            }
            carry_out |= u64::from(bits & mask) << (half * HALF);
            results.write(wave, &self.control, &self.target, half, mask);
        }
        wave.set_mask(self.carry_out, carry_out);
    }
}

/// `op dst, carry_out, a, b[, carry_in]`
pub(crate) fn carry(
    f: impl Fn(u32, u32, u32) -> (u32, bool) + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let carry_in = match text.operands.len() {
            4 => Mask::Constant(0),
            _ => Mask::operand(text, 4)?,
        };
        refuse_integer_clamp::<u32>(text)?;
        let mut a = text.source::<u32>(2, 0)?;
        let control = text.control(&mut a)?;
        bind_lanes(Carry {
            a,
            b: text.source::<u32>(3, 1)?,
            carry_in,
            carry_out: text.scalar(1, 1)?,
            target: text.target::<u32>(0, false)?,
            control,
            f,
        })
    })
}
