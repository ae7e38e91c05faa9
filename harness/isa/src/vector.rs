//! Adaptors that turn functions on the values of one lane into vector instructions.

use std::marker::PhantomData;

use crate::{
    exec::{Binder, Lanes, Plain, bind_plain},
    operands::{Operands, Results},
    operation::{Operation, accumulates},
    registers::HALF,
    source::{Buffer, NO_WORDS},
    value::{Type, Value},
    wave::Wave,
};

/// Defines the operations with `$n` source operands: a struct, a loop over the lanes for instructions with modifiers,
/// and a loop for instructions without modifiers.
macro_rules! family {
    ($family:ident, $n:literal: $(($index:literal: $type:ident, $low:ident, $high:ident))+) => {
        struct $family<$($type,)+ R, F> {
            operands: Operands<$n>,
            f: F,
            types: PhantomData<fn($($type),+) -> R>,
        }

        impl<$($type: Value,)+ R: Value, F> Lanes for $family<$($type,)+ R, F>
        where
            F: Fn($($type),+) -> R + Send + Sync + 'static,
        {
            #[inline(always)]
            fn run(&self, wave: &mut Wave) {
                let sources = &self.operands.sources;
                let mut taken = sources.begin(wave);
                while sources.take(wave, &mut taken) {
                    let mut results = Results::<R>::new();
                    for lane in 0..HALF {
                        results.set(lane, (self.f)($(taken.value::<$type>($index, lane)),+));
                    }
                    self.operands.write(wave, &taken, &mut results.words);
                }
            }
        }

        impl<$($type: Value,)+ R: Value, F> Plain for $family<$($type,)+ R, F>
        where
            F: Fn($($type),+) -> R + Send + Sync + 'static,
        {
            const FLUSHES: bool = R::SINGLE $(|| $type::SINGLE)+;
            const SATURATES: bool = R::SATURATES;

            fn is_plain(&self) -> bool {
                self.operands.is_plain()
            }

            #[inline(always)]
            fn run_plain(&self, wave: &mut Wave, half: usize) {
                let mask = wave.exec_half(half);
                if mask == 0 {
                    return;
                }
                let sources = &self.operands.sources.each;
                $(
                    let (mut low, mut high) = (Buffer::uninit(), Buffer::uninit());
                    let $low = sources[$index].whole(wave, half, 0, &mut low);
                    let $high = if $type::WORDS == 2 {
                        sources[$index].whole(wave, half, 1, &mut high)
                    } else {
                        &NO_WORDS
                    };
                )+
                let mut results = Results::<R>::new();
                for lane in 0..HALF {
                    let value = (self.f)($(sources[$index].value($low[lane], $high[lane])),+);
                    results.set(lane, value);
                }
                results.write_rows(wave, usize::from(self.operands.target.row), half, mask);
            }
        }
    };
}

family!(Unary, 1: (0: A, a, a_high));
family!(Binary, 2: (0: A, a, a_high) (1: B, b, b_high));
family!(Ternary, 3: (0: A, a, a_high) (1: B, b, b_high) (2: C, c, c_high));

pub(crate) fn unary<A: Value, R: Value>(
    f: impl Fn(A) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let operands = Operands::parse(text, [Type::of::<A>()], [1], Type::of::<R>(), false)?;
        bind_plain(Unary { operands, f, types: PhantomData })
    })
}

pub(crate) fn binary<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    of_two(f, false)
}

/// Binds `op dst, a, b` with a 16-bit result. On all architectures, the instruction keeps the other half of the
/// destination.
pub(crate) fn keeping<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    of_two(f, true)
}

fn of_two<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
    preserves: bool,
) -> Binder {
    Box::new(move |text| {
        let types = [Type::of::<A>(), Type::of::<B>()];
        let operands = Operands::parse(text, types, [1, 2], Type::of::<R>(), preserves)?;
        bind_plain(Binary { operands, f, types: PhantomData })
    })
}

pub(crate) fn ternary<A: Value, B: Value, C: Value, R: Value>(
    f: impl Fn(A, B, C) -> R + Copy + Send + Sync + 'static,
) -> Binder {
    Box::new(move |text| {
        let types = [Type::of::<A>(), Type::of::<B>(), Type::of::<C>()];
        let preserves = !text.mnemonic.contains("_legacy_");
        let operands = Operands::parse(text, types, [1, 2, 3], Type::of::<R>(), preserves)?;
        bind_plain(Ternary { operands, f, types: PhantomData })
    })
}

/// Binds `op dst, a, b`, whose third source operand is the old value of the destination.
pub(crate) fn accumulate<A: Value, B: Value, R: Value>(
    f: impl Fn(A, B, R) -> R + Copy + Send + Sync + 'static,
) -> Operation {
    let binder: Binder = Box::new(move |text| {
        let types = [Type::of::<A>(), Type::of::<B>(), Type::of::<R>()];
        let operands = Operands::parse(text, types, [1, 2, 0], Type::of::<R>(), false)?;
        bind_plain(Ternary { operands, f, types: PhantomData })
    });
    accumulates(binder)
}
