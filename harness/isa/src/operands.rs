//! Reads and writes the operands of lane operations, and applies their modifiers.
//!
//! This code is not generic over the operation, because it would then be compiled about five hundred times. Only the
//! arithmetic, and the loop for operands without modifiers, are compiled separately for each operation.

use std::marker::PhantomData;

use crate::{
    control::Control,
    registers::{HALF, Half},
    source::{Source, Target},
    text::{Text, Unsupported},
    value::{Class, Type, Value, joined},
    wave::{Wave, flushed},
};

/// Results of an operation for half a wave (32 lanes). They have not been written to the destination yet.
pub(crate) struct Results<R> {
    pub(crate) words: [Half; 2],
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

    /// Writes the results to whole registers, starting at `row`.
    #[inline(always)]
    pub(crate) fn write_rows(&self, wave: &mut Wave, row: usize, half: usize, mask: u32) {
        for word in 0..R::WORDS {
            wave.blend(row + word, half, mask, &self.words[word]);
        }
    }
}

/// Source operands of an operation, with the modifiers that select the lanes that the operation writes.
pub(crate) struct Sources<const N: usize> {
    pub(crate) each: [Source; N],
    types: [&'static Type; N],
    control: Control,
}

impl<const N: usize> Sources<N> {
    /// Creates the source operands. `types` contains their types, and `at` their positions among the operands of the
    /// instruction.
    pub(crate) fn parse(
        text: &Text,
        types: [&'static Type; N],
        at: [usize; N],
    ) -> Result<Self, Unsupported> {
        let mut each = Vec::with_capacity(N);
        let mut control = Control::default();
        for (position, (of, index)) in types.iter().zip(at).enumerate() {
            let mut source = text.source(of, index, position)?;
            if position == 0 {
                control = text.control(&mut source)?;
            }
            each.push(source);
        }
        Ok(Sources { each: each.try_into().map_err(|_| Unsupported)?, types, control })
    }

    /// Returns true if the instruction can be executed without regard to modifiers: it writes all active lanes, and all
    /// its source operands are whole registers.
    pub(crate) fn is_plain(&self) -> bool {
        self.control.is_plain() && self.each.iter().all(Source::is_whole)
    }

    /// Returns true if [`is_plain`](Self::is_plain) returns true and no source operand overlaps the lane mask in the
    /// scalar registers from `first` on. The lane mask is written separately for each half of the wave, so an
    /// overlapping operand would change before the second half is executed.
    pub(crate) fn is_plain_beside(&self, first: u16) -> bool {
        self.is_plain() && !self.each.iter().any(|source| source.overlaps_mask(first))
    }

    #[inline(never)]
    pub(crate) fn begin(&self, wave: &mut Wave) -> Taken<N> {
        let mut taken = self.begin_all_rows(wave);
        taken.active &= self.control.rows();
        taken
    }

    /// Starts reading the source operands of all active lanes, including those that `row_mask` and `bank_mask` disable.
    /// Used for instructions whose result is a lane mask.
    #[inline(never)]
    pub(crate) fn begin_all_rows(&self, wave: &mut Wave) -> Taken<N> {
        let active = self.control.begin(wave, self.types[0].words);
        Taken { active, next: 0, half: 0, mask: 0, words: [[[0; HALF]; 2]; N] }
    }

    /// Removes the lanes that `row_mask` and `bank_mask` disable from the lanes that are written.
    #[inline(always)]
    pub(crate) fn keep_rows(&self, taken: &mut Taken<N>) {
        taken.mask &= (self.control.rows() >> (taken.half * HALF)) as u32;
    }

    /// Reads the source operands of the next half of the wave that has lanes to write. Returns false if no such half
    /// remains.
    #[inline(never)]
    pub(crate) fn take(&self, wave: &Wave, taken: &mut Taken<N>) -> bool {
        while taken.next < wave.halves() {
            taken.half = taken.next;
            taken.next += 1;
            taken.mask = (taken.active >> (taken.half * HALF)) as u32;
            if taken.mask != 0 {
                for ((source, of), words) in self.each.iter().zip(&self.types).zip(&mut taken.words)
                {
                    source.take(of, wave, taken.half, words);
                }
                return true;
            }
        }
        false
    }
}

/// Values of the source operands for half a wave.
pub(crate) struct Taken<const N: usize> {
    active: u64,
    next: usize,
    pub(crate) half: usize,
    pub(crate) mask: u32,
    words: [[Half; 2]; N],
}

impl<const N: usize> Taken<N> {
    #[inline(always)]
    pub(crate) fn value<T: Value>(&self, source: usize, lane: usize) -> T {
        let [low, high] = &self.words[source];
        T::from_bits(if T::WORDS == 2 { joined(low[lane], high[lane]) } else { low[lane].into() })
    }

    fn classes(&self, types: &[&'static Type; N], lane: usize) -> [Class; N] {
        std::array::from_fn(|source| {
            let [low, high] = &self.words[source];
            (types[source].class)(joined(low[lane], high[lane]))
        })
    }
}

pub(crate) struct Operands<const N: usize> {
    pub(crate) sources: Sources<N>,
    pub(crate) target: Target,
    result: &'static Type,
}

impl<const N: usize> Operands<N> {
    /// Creates the operands: sources of the given types from the operands at the positions `at`, and a destination of
    /// type `result` from the first operand. If `preserves` is true, a 16-bit result leaves the upper half of its
    /// register unchanged on GFX9 too (see [`Text::target`]).
    pub(crate) fn parse(
        text: &Text,
        types: [&'static Type; N],
        at: [usize; N],
        result: &'static Type,
        preserves: bool,
    ) -> Result<Self, Unsupported> {
        if text.lacks_clamp(result) {
            return Err(Unsupported);
        }
        let sources = Sources::parse(text, types, at)?;
        Ok(Operands { sources, target: text.target(result, 0, preserves)?, result })
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.sources.is_plain() && self.target.is_whole()
    }

    #[inline(never)]
    pub(crate) fn write(&self, wave: &mut Wave, taken: &Taken<N>, words: &mut [Half; 2]) {
        let (of, control) = (self.result, &self.sources.control);
        if of.single && wave.flushes_results() {
            words[0] = flushed(&words[0]);
        }
        if of.saturates && wave.saturates() {
            self.saturate(taken, words);
        }
        if of.sign != 0
            && let Some(factor) = control.scale
            && (control.always_scales || wave.scales_results(of.single))
        {
            (of.scaled)(words, factor, wave.saturates());
        }
        if of.sign != 0 && control.clamp {
            (of.clamped)(words, control.asks_dx10_clamp && wave.keeps_nans());
        }
        for (word, values) in words.iter().enumerate().take(of.words) {
            self.target.write(wave, taken.half, word, taken.mask, values);
        }
    }

    /// Applies `MODE.FP16_OVFL`: replaces infinities by the largest finite numbers, unless a source operand is infinite
    /// or a division by zero must stay infinite.
    #[cold]
    fn saturate(&self, taken: &Taken<N>, words: &mut [Half; 2]) {
        let Sources { types, control, .. } = &self.sources;
        for (lane, value) in words[0].iter_mut().enumerate() {
            let is_infinite = (self.result.class)(u64::from(*value)) == Class::Infinite;
            if is_infinite && !Class::makes_infinity(&taken.classes(types, lane), control.divides) {
                *value = (self.result.saturated)(u64::from(*value)) as u32;
            }
        }
    }
}
