//! Source and destination operands of vector instructions, resolved when the instruction is decoded.

use std::mem::MaybeUninit;

use crate::{
    registers::{HALF, Half},
    text::{Base, Operand, Text, Unsupported, register},
    value::{Type, Value},
    wave::{Wave, flushed},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Vector(u16),
    Scalar(u16),
    Constant(u64),
    /// [`Wave::permuted`], which contains the result of a DPP permutation.
    Permuted,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) shift: u8,
    pub(crate) bits: u8,
    pub(crate) sign_extend: bool,
}

impl Part {
    pub(crate) const LOW: Part = Part { shift: 0, bits: 16, sign_extend: false };
    pub(crate) const HIGH: Part = Part { shift: 16, bits: 16, sign_extend: false };

    fn parse(name: &str) -> Result<Option<Part>, Unsupported> {
        let (shift, bits) = match name {
            "DWORD" => return Ok(None),
            "WORD_0" => (0, 16),
            "WORD_1" => (16, 16),
            "BYTE_0" => (0, 8),
            "BYTE_1" => (8, 8),
            "BYTE_2" => (16, 8),
            "BYTE_3" => (24, 8),
            _ => return Err(Unsupported),
        };
        Ok(Some(Part { shift, bits, sign_extend: false }))
    }

    pub(crate) fn of(self, value: u32) -> u32 {
        let top = value << (32 - self.shift - self.bits);
        let down = 32 - u32::from(self.bits);
        if self.sign_extend { ((top as i32) >> down) as u32 } else { top >> down }
    }
}

/// Buffer for 32 lanes of a source operand that is not a register. The buffer starts uninitialised, because clearing it
/// would cost as much as most instructions.
pub(crate) type Buffer = MaybeUninit<Half>;

/// Zeros, used in place of the second words of a source operand that has only one word per lane.
pub(crate) static NO_WORDS: Half = [0; HALF];

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) place: Place,
    part: Option<Part>,
    /// The modifiers `abs` and `neg` as masks: `keep` contains the bits that stay, and `flip` the bits that are
    /// inverted.
    keep: u64,
    flip: u64,
}

impl Source {
    #[inline(always)]
    pub(crate) fn value<T: Value>(&self, low: u32, high: u32) -> T {
        let mut bits = u64::from(low);
        if T::WORDS == 2 {
            bits |= u64::from(high) << 32;
        }
        if T::SIGN != 0 {
            bits = (bits & self.keep) ^ self.flip;
        }
        T::from_bits(bits)
    }

    /// Returns word number `word` of the operand for half a wave. If the operand is not a whole vector register, the
    /// words are written to `buffer`.
    #[inline(always)]
    pub(crate) fn lanes<'a>(
        &self,
        wave: &'a Wave,
        half: usize,
        word: usize,
        buffer: &'a mut Buffer,
    ) -> &'a Half {
        if let Some(part) = self.part {
            return self.parts(wave, half, part, buffer);
        }
        self.register(wave, half, word, buffer)
    }

    /// Reads the operand for half a wave and applies its modifiers. Also flushes denormals if MODE requires it for the
    /// type `of`.
    pub(crate) fn take(&self, of: &Type, wave: &Wave, half: usize, words: &mut [Half; 2]) {
        for (word, values) in words.iter_mut().enumerate().take(of.words) {
            let mut buffer = Buffer::uninit();
            *values = *self.lanes(wave, half, word, &mut buffer);
        }
        if of.single && wave.flushes_sources() {
            words[0] = flushed(&words[0]);
        }
        if of.sign == 0 {
            return;
        }
        let (top, shift) = (of.words - 1, 32 * (of.words - 1));
        let (keep, flip) = ((self.keep >> shift) as u32, (self.flip >> shift) as u32);
        for value in &mut words[top] {
            *value = (*value & keep) ^ flip;
        }
    }

    /// Returns true if the operand is read as whole words, false if it is a part of a register.
    pub(crate) fn is_whole(&self) -> bool {
        self.part.is_none()
    }

    /// Returns true if the operand contains a scalar register of the lane mask at `first`, so that writing half of the
    /// mask would change the operand.
    pub(crate) fn overlaps_mask(&self, first: u16) -> bool {
        matches!(self.place, Place::Scalar(index) if index < first + 2 && first < index + 2)
    }

    /// Returns word number `word` of the operand for half a wave. [`Source::is_whole`] must be true.
    #[inline(always)]
    pub(crate) fn whole<'a>(
        &self,
        wave: &'a Wave,
        half: usize,
        word: usize,
        buffer: &'a mut Buffer,
    ) -> &'a Half {
        self.register(wave, half, word, buffer)
    }

    #[inline(always)]
    fn register<'a>(
        &self,
        wave: &'a Wave,
        half: usize,
        word: usize,
        buffer: &'a mut Buffer,
    ) -> &'a Half {
        match self.place {
            Place::Vector(row) => &wave.vector[usize::from(row) + word][half],
            Place::Permuted => &wave.permuted[word][half],
            Place::Scalar(index) => buffer.write([wave.scalar[usize::from(index) + word]; HALF]),
            Place::Constant(bits) => buffer.write([(bits >> (32 * word)) as u32; HALF]),
        }
    }

    #[inline(never)]
    fn parts<'a>(&self, wave: &Wave, half: usize, part: Part, buffer: &'a mut Buffer) -> &'a Half {
        let lane = |lane| part.of(self.word(wave, half * HALF + lane, 0));
        buffer.write(std::array::from_fn(lane))
    }

    /// Returns one word of the operand in one lane, without modifiers.
    #[inline(always)]
    pub(crate) fn word(&self, wave: &Wave, lane: usize, word: usize) -> u32 {
        match self.place {
            Place::Vector(row) => wave.lane(usize::from(row) + word, lane),
            Place::Permuted => wave.permuted[word][lane / HALF][lane % HALF],
            Place::Scalar(index) => wave.scalar[usize::from(index) + word],
            Place::Constant(bits) => (bits >> (32 * word)) as u32,
        }
    }

    #[inline(always)]
    pub(crate) fn lane<T: Value>(&self, wave: &Wave, lane: usize) -> T {
        let mut low = self.word(wave, lane, 0);
        if let Some(part) = self.part {
            low = part.of(low);
        }
        let high = if T::WORDS == 2 { self.word(wave, lane, 1) } else { 0 };
        self.value(low, high)
    }

    /// Returns the value of an operand, which must be the same in all lanes.
    #[inline(always)]
    pub(crate) fn uniform<T: Value>(&self, wave: &Wave) -> T {
        self.lane(wave, 0)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) row: u16,
    part: Option<(Part, Unused)>,
}

/// Value that a destination register gets in the bits that the instruction does not write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unused {
    Zero,
    SignExtend,
    Preserve,
}

impl Target {
    pub(crate) fn is_whole(&self) -> bool {
        self.part.is_none()
    }

    #[inline(always)]
    pub(crate) fn write(
        &self,
        wave: &mut Wave,
        half: usize,
        word: usize,
        mask: u32,
        values: &Half,
    ) {
        if self.part.is_some() {
            self.write_part(wave, half, mask, values);
        } else {
            wave.blend(usize::from(self.row) + word, half, mask, values);
        }
    }

    #[inline(never)]
    fn write_part(&self, wave: &mut Wave, half: usize, mask: u32, values: &Half) {
        let Some((part, unused)) = self.part else { return };
        let row = usize::from(self.row);
        let field = (u32::MAX >> (32 - u32::from(part.bits))) << part.shift;
        let mut merged = wave.vector[row][half];
        for (target, value) in merged.iter_mut().zip(values) {
            let placed = (value << part.shift) & field;
            *target = match unused {
                Unused::Zero => placed,
                Unused::Preserve => placed | (*target & !field),
                Unused::SignExtend => {
                    let up = 32 - part.bits - part.shift;
                    let signed = ((placed << up) as i32 >> up) as u32;
                    signed & !((1u32 << part.shift) - 1)
                }
            };
        }
        wave.blend(row, half, mask, &merged);
    }
}

impl Text {
    fn is_upper(&self, of: &Type, operand: &Operand, bit: Option<u8>) -> Result<bool, Unsupported> {
        let high = operand.high || bit == Some(1);
        if high && !of.half { Err(Unsupported) } else { Ok(high) }
    }

    /// Returns the `op_sel` bit of the result, which is operand number `index`; `None` if the text contains no such
    /// bit. The bit follows the bits of the source operands. LLVM 17 prints one more bit, for the addend of
    /// `v_fmac_f16`.
    fn half_of_result(&self, index: usize) -> Option<u8> {
        let bits = self.list("op_sel").filter(|bits| bits.len() >= self.operands.len() - index);
        bits.and_then(|bits| bits.last().copied())
    }

    /// Returns operand `index` as a source operand of type `of`. `position` is the operand's number among the source
    /// operands. It selects the bit of `op_sel` and the SDWA selection that belong to the operand.
    pub(crate) fn source(
        &self,
        of: &Type,
        index: usize,
        position: usize,
    ) -> Result<Source, Unsupported> {
        let mut source = self.whole_source(of, index)?;
        let operand = self.operand(index)?;
        let register = !matches!(source.place, Place::Constant(_));
        let bit = match (index, position) {
            // If the instruction reads the old value of its result, the `op_sel` bit of the result applies to that
            // value too.
            (0, 1..) => self.half_of_result(index),
            _ => self.list("op_sel").and_then(|bits| bits.get(position).copied()),
        };
        let high = self.is_upper(of, operand, bit)?;
        if high && !register {
            // No guide specifies what the upper half of a constant is.
            return Err(Unsupported);
        }
        if of.half && register {
            source.part = Some(if high { Part::HIGH } else { Part::LOW });
        }
        let selection = ["src0_sel", "src1_sel"].get(position).and_then(|name| self.value(name));
        if let Some(selection) = selection
            && let Some(mut part) = Part::parse(selection)?
        {
            part.sign_extend = operand.sign_extend;
            source.part = Some(part);
        } else if operand.sign_extend {
            return Err(Unsupported);
        }
        // The low half of a register needs no extraction, because the value types ignore the upper bits.
        if source.part == Some(Part::LOW) && of.half {
            source.part = None;
        }
        Ok(source)
    }

    /// Returns operand `index` as a source operand that consists of whole registers.
    pub(crate) fn plain_source<T: Value>(&self, index: usize) -> Result<Source, Unsupported> {
        self.whole_source(Type::of::<T>(), index)
    }

    pub(crate) fn whole_source(&self, of: &Type, index: usize) -> Result<Source, Unsupported> {
        let operand = self.operand(index)?;
        if of.sign == 0 && (operand.negate || operand.absolute) {
            return Err(Unsupported);
        }
        Ok(Source {
            place: self.place_of(of, index)?,
            part: None,
            keep: if operand.absolute { !of.sign } else { u64::MAX },
            flip: if operand.negate { of.sign } else { 0 },
        })
    }

    pub(crate) fn place<T: Value>(&self, index: usize) -> Result<Place, Unsupported> {
        self.place_of(Type::of::<T>(), index)
    }

    fn place_of(&self, of: &Type, index: usize) -> Result<Place, Unsupported> {
        let wide = |count: u16| usize::from(count) >= of.words;
        match self.operand(index)?.base {
            Base::Vector { first, count } if wide(count) => Ok(Place::Vector(first)),
            Base::Scalar { first, count } if wide(count) => Ok(Place::Scalar(first)),
            Base::Constant(constant) => Ok(Place::Constant((of.constant)(constant))),
            Base::Bits(bits) if of.words == 2 => Ok(Place::Constant(bits)),
            // A 32-bit operation reads the upper half of an aperture.
            Base::Bits(bits) => Ok(Place::Constant(bits >> 32)),
            Base::Null => Ok(Place::Constant(0)),
            _ => Err(Unsupported),
        }
    }

    /// Returns operand `index` as the destination of a vector instruction with a result of type `of`. `preserves`
    /// matters for 16-bit results on GFX9: if it is true, the upper half of the register keeps its value. From GFX10
    /// on, the upper half always keeps its value (LLVM, `GCNSubtarget::zeroesHigh16BitsOfDest`).
    pub(crate) fn target(
        &self,
        of: &Type,
        index: usize,
        preserves: bool,
    ) -> Result<Target, Unsupported> {
        let operand = self.operand(index)?;
        let Base::Vector { first, count } = operand.base else { return Err(Unsupported) };
        if usize::from(count) < of.words {
            return Err(Unsupported);
        }
        let mut part = None;
        let high = self.is_upper(of, operand, self.half_of_result(index))?;
        if of.half {
            part = match (high, self.site.arch.facts().clears_upper_halves && !preserves) {
                (true, _) => Some((Part::HIGH, Unused::Preserve)),
                (false, true) => None,
                (false, false) => Some((Part::LOW, Unused::Preserve)),
            };
        }
        if let Some(selection) = self.value("dst_sel") {
            let unused = match self.value("dst_unused") {
                None | Some("UNUSED_PAD") => Unused::Zero,
                Some("UNUSED_SEXT") => Unused::SignExtend,
                Some("UNUSED_PRESERVE") => Unused::Preserve,
                Some(_) => return Err(Unsupported),
            };
            part = Part::parse(selection)?.map(|part| (part, unused));
        }
        Ok(Target { row: first, part })
    }

    /// Returns the number of the first vector register of an operand that consists of `words` whole registers.
    pub(crate) fn row(&self, index: usize, words: u16) -> Result<usize, Unsupported> {
        match self.operand(index)?.base {
            Base::Vector { first, count } if count >= words => Ok(usize::from(first)),
            _ => Err(Unsupported),
        }
    }

    /// Returns the number of the first scalar register of an operand that consists of `words` registers. For `null`,
    /// returns a register whose contents are never read.
    pub(crate) fn scalar(&self, index: usize, words: u16) -> Result<u16, Unsupported> {
        match self.operand(index)?.base {
            Base::Scalar { first, count } if count >= words => Ok(first),
            Base::Null => Ok(register::NULL),
            _ => Err(Unsupported),
        }
    }
}
