//! Families of vector instructions: a function of one lane becomes an operation on a wave.

use std::marker::PhantomData;

use crate::{
    exec::{Binder, Lanes, Plain, bind_plain},
    operation::{Operation, accumulates},
    registers::{HALF, Half},
    source::{Buffer, Control, NO_WORDS, Source, Target},
    text::{Text, Unsupported},
    value::{Class, Value},
    wave::{Wave, flushed},
};

/// The result of 32 lanes on its way to the destination.
pub(crate) struct Results<R> {
    words: [Half; 2],
    of: PhantomData<R>,
}

impl<R: Value> Results<R> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Results { words: [[0; HALF]; 2], of: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, lane: usize, value: R) {
        let bits = value.bits();
        self.words[0][lane] = bits as u32;
        if R::WORDS == 2 {
            self.words[1][lane] = (bits >> 32) as u32;
        }
    }

    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        wave: &mut Wave,
        control: &Control,
        target: &Target,
        half: usize,
        mask: u32,
    ) {
        if R::SIGN != 0 && (control.clamp || control.scale.is_some()) {
            self.modify(wave, control);
        }
        for word in 0..R::WORDS {
            target.write(wave, half, word, mask, &self.words[word]);
        }
    }

    /// Writes whole registers, from `row` on.
    #[inline(always)]
    pub(crate) fn write_rows(&self, wave: &mut Wave, row: usize, half: usize, mask: u32) {
        for word in 0..R::WORDS {
            wave.blend(row + word, half, mask, &self.words[word]);
        }
    }

    fn value(&self, lane: usize) -> R {
        let high = if R::WORDS == 2 { u64::from(self.words[1][lane]) << 32 } else { 0 };
        R::from_bits(u64::from(self.words[0][lane]) | high)
    }

    #[inline(never)]
    fn modify(&mut self, wave: &Wave, control: &Control) {
        let scales = control.always_scales || wave.scales_results(R::SINGLE);
        let saturates = wave.saturates();
        let keeps_nans = control.asks_dx10_clamp && wave.keeps_nans();
        for lane in 0..HALF {
            let mut value = self.value(lane);
            if let Some(factor) = control.scale.filter(|_| scales) {
                let overflows = saturates && value.class() != Class::Infinite;
                value = value.scaled(factor);
                value = if overflows { value.saturated() } else { value };
            }
            if control.clamp {
                value = value.clamped(keeps_nans);
            }
            self.set(lane, value);
        }
    }

    /// As MODE.FP16_OVFL asks: the greatest numbers for infinities that are none of an infinite source, nor of a division by
    /// zero where `divides`.
    #[cold]
    fn saturate<const N: usize>(&mut self, divides: bool, sources: impl Fn(usize) -> [Class; N]) {
        for lane in 0..HALF {
            let value = self.value(lane);
            if value.class() == Class::Infinite && !Class::makes_infinity(&sources(lane), divides) {
                self.set(lane, value.saturated());
            }
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
                    if R::SATURATES && wave.saturates() {
                        results.saturate(self.control.divides, |lane| {
                            [$(self.$source.value::<$type>($low[lane], $high[lane]).class()),+]
                        });
                    }
                    results.write(wave, &self.control, &self.target, half, mask);
                }
            }
        }
    };
}

/// How a family runs where nothing is modified: whole registers.
macro_rules! plain {
    ($family:ident $(($source:ident: $type:ident, $high:ident))+) => {
        impl<$($type: Value,)+ R: Value, F> Plain for $family<$($type,)+ R, F>
        where
            F: Fn($($type),+) -> R + Send + Sync + 'static,
        {
            const FLUSHES: bool = R::SINGLE $(|| $type::SINGLE)+;
            const SATURATES: bool = R::SATURATES;

            fn is_plain(&self) -> bool {
                self.control.is_plain()
                    && self.target.is_whole()
                    $(&& self.$source.is_whole())+
            }

            #[inline(always)]
            fn run_plain(&self, wave: &mut Wave, half: usize) {
                let mask = wave.exec_half(half);
                if mask == 0 {
                    return;
                }
                $(
                    let (mut low, mut high) = (Buffer::uninit(), Buffer::uninit());
                    let $source = self.$source.whole(wave, half, 0, &mut low);
                    let $high = if $type::WORDS == 2 {
                        self.$source.whole(wave, half, 1, &mut high)
                    } else {
                        &NO_WORDS
                    };
                )+
                let (mut low, mut high) = ([0; HALF], [0; HALF]);
                for lane in 0..HALF {
                    let value = (self.f)($(self.$source.value($source[lane], $high[lane])),+);
                    let bits = value.bits();
                    low[lane] = bits as u32;
                    if R::WORDS == 2 {
                        high[lane] = (bits >> 32) as u32;
                    }
                }
                let row = usize::from(self.target.row);
                wave.blend(row, half, mask, &low);
                if R::WORDS == 2 {
                    wave.blend(row + 1, half, mask, &high);
                }
            }
        }
    };
}

plain!(Unary(a: A, a_high));
plain!(Binary(a: A, a_high)(b: B, b_high));
plain!(Ternary(a: A, a_high)(b: B, b_high)(c: C, c_high));

family!(Unary(a: A, a_low, a_high));
family!(Binary(a: A, a_low, a_high) (b: B, b_low, b_high));
family!(Ternary(a: A, a_low, a_high) (b: B, b_low, b_high) (c: C, c_low, c_high));

/// Integer results saturate under `clamp` by operations of their own, named `... clamp`.
pub(crate) fn refuse_integer_clamp<R: Value>(text: &Text) -> Result<(), Unsupported> {
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
) -> Operation {
    let binder: Binder = Box::new(move |text| {
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
    });
    accumulates(binder)
}
