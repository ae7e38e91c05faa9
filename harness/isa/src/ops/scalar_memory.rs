//! Implements scalar loads, and on GFX9 also scalar stores and atomics.

use super::{atomic::Atomic, memory::Location};
use crate::{
    exec::{Bound, on_machine},
    source::Place,
    text::{Base, Text, Unsupported},
    wave::Wave,
};

#[derive(Clone, Copy)]
enum Width {
    Words(u16),
    Bytes { count: u8, signed: bool },
}

fn width(suffix: &str) -> Option<Width> {
    Some(match suffix {
        "dword" | "b32" => Width::Words(1),
        "dwordx2" | "b64" => Width::Words(2),
        "dwordx3" | "b96" => Width::Words(3),
        "dwordx4" | "b128" => Width::Words(4),
        "dwordx8" | "b256" => Width::Words(8),
        "dwordx16" | "b512" => Width::Words(16),
        "u8" => Width::Bytes { count: 1, signed: false },
        "i8" => Width::Bytes { count: 1, signed: true },
        "u16" => Width::Bytes { count: 2, signed: false },
        "i16" => Width::Bytes { count: 2, signed: true },
        _ => return None,
    })
}

/// Returns the number of bytes of a scalar load or store with this suffix, and whether the instruction ignores the two
/// lowest bits of its address. Returns `None` if the suffix is unknown.
pub(crate) fn bytes(suffix: &str) -> Option<(u64, bool)> {
    Some(match width(suffix)? {
        Width::Words(words) => (u64::from(words) * 4, true),
        Width::Bytes { count, .. } => (count.into(), false),
    })
}

/// Parses the offset operand: a constant, a register, or the sum of both. Returns the constant, and the number of the
/// register if there is one.
fn offset(text: &Text, index: usize) -> Result<(i64, Option<u16>), Unsupported> {
    let mut constant = text.number("offset")?;
    let register = match &text.operand(index)?.base {
        Base::Constant(_) => {
            let Place::Constant(bits) = text.place::<i64>(index)? else {
                return Err(Unsupported);
            };
            constant += i64::from(i32::try_from(bits as i64).map_err(|_| Unsupported)?);
            None
        }
        Base::Null | Base::Off => None,
        _ => Some(text.scalar(index, 1)?),
    };
    Ok((constant, register))
}

#[derive(Clone, Copy)]
pub(crate) struct Address {
    base: u16,
    constant: i64,
    register: Option<u16>,
    is_buffer: bool,
    /// True if the instruction accesses dwords, and so ignores the two lowest bits of the address.
    aligned: bool,
    /// True if hardware clears the two lowest bits of base, register and constant separately, before it adds the three
    /// values. The guides specify this for all architectures, but from GFX11 on compilers must align the three values
    /// themselves (llvm-project#216269).
    apart: bool,
}

impl Address {
    pub(crate) fn parse(
        text: &Text,
        is_buffer: bool,
        aligned: bool,
    ) -> Result<Address, Unsupported> {
        let base = text.scalar(1, if is_buffer { 4 } else { 2 })?;
        let (constant, register) = offset(text, 2)?;
        Ok(Address {
            base,
            constant,
            register,
            is_buffer,
            aligned,
            apart: aligned && text.site.arch.facts().aligns_offset_parts,
        })
    }

    fn offset(self, wave: &Wave) -> i64 {
        let part = |part: i64| if self.apart { part & !3 } else { part };
        part(self.register.map_or(0, |r| i64::from(wave.scalar[usize::from(r)])))
            + part(self.constant)
    }

    /// Returns the address at which the instruction accesses `bytes` bytes; `None` if one of them is outside of the
    /// buffer.
    pub(crate) fn of(self, wave: &Wave, bytes: u64) -> Option<u64> {
        let (mut base, offset) = (wave.pair(self.base), self.offset(wave));
        if self.is_buffer {
            base &= 0xffff_ffff_ffff;
            if !in_buffer(wave, self.base, offset, bytes) {
                return None;
            }
        }
        let base = if self.apart { base & !3 } else { base };
        let address = base.wrapping_add_signed(offset);
        Some(if self.aligned { address & !3 } else { address })
    }
}

/// Returns true if `bytes` bytes at `offset` are inside of the buffer. A negative offset is outside.
fn in_buffer(wave: &Wave, descriptor: u16, offset: i64, bytes: u64) -> bool {
    let (stride, records) = super::buffer::extent(wave, descriptor);
    let size = if stride == 0 { records } else { records * stride };
    u64::try_from(offset).is_ok_and(|offset| offset + bytes <= size)
}

fn store(text: &Text, suffix: &str) -> Bound {
    let Some(Width::Words(words)) = width(suffix) else { return Err(Unsupported) };
    text.only(&["glc", "offset"])?;
    let (data, base) = (text.scalar(0, words)?, text.scalar(1, 2)?);
    let (constant, register) = offset(text, 2)?;
    on_machine(move |wave, machine| {
        let offset = register.map_or(0, |r| i64::from(wave.scalar[usize::from(r)])) + constant;
        let address = wave.pair(base).wrapping_add_signed(offset) & !3;
        machine.memory(address, u64::from(words) * 4, true)?;
        for word in 0..words {
            let bytes = wave.scalar[usize::from(data + word)].to_le_bytes();
            machine.write(address + u64::from(word) * 4, bytes)?;
        }
        Ok(())
    })
}

/// Returns the implementation of `s_atomic_add data, base, offset` or a similar instruction. With `glc`, the
/// instruction writes the old value to `data`.
fn atomic(text: &Text, name: &str) -> Bound {
    text.only(&["glc", "offset"])?;
    let atomic = Atomic::parse(name).ok_or(Unsupported)?;
    let (words, data_words) = (atomic.words(), atomic.data_words());
    let (data, base) = (text.scalar(0, data_words)?, text.scalar(1, 2)?);
    let (constant, register) = offset(text, 2)?;
    let returns = text.has("glc");
    on_machine(move |wave, machine| {
        let offset = register.map_or(0, |r| i64::from(wave.scalar[usize::from(r)])) + constant;
        let address = wave.pair(base).wrapping_add_signed(offset);
        let bits = |wave: &Wave, first: u16| match words {
            1 => u64::from(wave.scalar[usize::from(first)]),
            _ => wave.pair(first),
        };
        let value = bits(wave, data);
        let compare = if data_words > words { bits(wave, data + words) } else { 0 };
        let old = atomic.apply(wave, machine, Location::Global(address), value, compare)?;
        if returns {
            wave.scalar[usize::from(data)] = old as u32;
            if words == 2 {
                wave.scalar[usize::from(data) + 1] = (old >> 32) as u32;
            }
        }
        Ok(())
    })
}

pub(crate) fn bind(text: &Text) -> Bound {
    if let Some(suffix) = text.mnemonic.strip_prefix("s_store_") {
        return store(text, suffix);
    }
    if let Some(name) = text.mnemonic.strip_prefix("s_atomic_") {
        return atomic(text, name);
    }
    let (suffix, is_buffer) = if let Some(suffix) = text.mnemonic.strip_prefix("s_buffer_load_") {
        (suffix, true)
    } else {
        (text.mnemonic.strip_prefix("s_load_").ok_or(Unsupported)?, false)
    };
    let width = width(suffix).ok_or(Unsupported)?;
    if is_buffer {
        super::buffer::is_of_gfx9(text)?;
    }
    text.only(&["glc", "dlc", "offset", "scope", "th", "nv"])?;
    let (words, bytes) = match width {
        Width::Words(words) => (words, u64::from(words) * 4),
        Width::Bytes { count, .. } => (1, count.into()),
    };
    let target = text.scalar(0, words)?;
    let address = Address::parse(text, is_buffer, matches!(width, Width::Words(_)))?;
    on_machine(move |wave, machine| {
        let Some(address) = address.of(wave, bytes) else {
            for word in 0..words {
                wave.scalar[usize::from(target + word)] = 0;
            }
            return Ok(());
        };
        match width {
            Width::Words(words) => {
                machine.memory(address, u64::from(words) * 4, false)?;
                for word in 0..words {
                    let bytes = machine.read::<4>(address + u64::from(word) * 4)?;
                    wave.scalar[usize::from(target + word)] = u32::from_le_bytes(bytes);
                }
            }
            Width::Bytes { count: 1, signed } => {
                let [byte] = machine.read::<1>(address)?;
                wave.scalar[usize::from(target)] =
                    if signed { i32::from(byte as i8) as u32 } else { u32::from(byte) };
            }
            Width::Bytes { signed, .. } => {
                let word = u16::from_le_bytes(machine.read::<2>(address)?);
                wave.scalar[usize::from(target)] =
                    if signed { i32::from(word as i16) as u32 } else { u32::from(word) };
            }
        }
        Ok(())
    })
}
