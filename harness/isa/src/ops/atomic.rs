//! Implements atomic operations on memory and on the LDS, one lane at a time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{
    extremes::{Extremes as _, OfIeee, Ordered as _},
    memory::Location,
};
use crate::{
    float16::{Bf16, F16},
    machine::Machine,
    text::Text,
    value::flushed_where,
    wave::{Step, Stop, Wave},
};

/// An atomic operation. It computes the new value from the old value, the operand and the comparison value.
#[derive(Clone, Copy)]
pub(crate) enum Atomic {
    Word(fn(u32, u32) -> u32),
    Double(fn(u64, u64) -> u64),
    CompareWord,
    CompareDouble,
    /// Compares floats and stores the operand if they are equal. Zeros of both signs are equal, and a NaN does not
    /// equal itself.
    CompareF32,
    CompareF64,
    /// Adds floats. In the LDS, MODE determines whether denormals are flushed (LLVM, pull request 89468; the RDNA 4 ISA
    /// guide). In memory, denormals are kept.
    AddF32,
}

impl Atomic {
    /// Parses the part of a mnemonic after `atomic_`, which differs between GPU generations; `None` if it is unknown.
    pub(crate) fn parse(name: &str) -> Option<Atomic> {
        use Atomic::{Double, Word};
        Some(match name {
            "swap" | "swap_b32" => Word(|_, b| b),
            "cmpswap" | "cmpswap_b32" => Atomic::CompareWord,
            "fcmpswap" | "cmpswap_f32" => Atomic::CompareF32,
            "fcmpswap_x2" | "cmpswap_f64" => Atomic::CompareF64,
            "add" | "add_u32" => Word(u32::wrapping_add),
            "sub" | "sub_u32" => Word(u32::wrapping_sub),
            "rsub_u32" => Word(|a, b| b.wrapping_sub(a)),
            "csub" | "csub_u32" | "sub_clamp_u32" => Word(u32::saturating_sub),
            "cond_sub_u32" => Word(|a, b| if a >= b { a - b } else { a }),
            "smin" | "min_i32" => Word(|a, b| (a as i32).min(b as i32) as u32),
            "smax" | "max_i32" => Word(|a, b| (a as i32).max(b as i32) as u32),
            "umin" | "min_u32" => Word(u32::min),
            "umax" | "max_u32" => Word(u32::max),
            "and" | "and_b32" => Word(|a, b| a & b),
            "or" | "or_b32" => Word(|a, b| a | b),
            "xor" | "xor_b32" => Word(|a, b| a ^ b),
            "inc" | "inc_u32" => Word(|a, b| if a >= b { 0 } else { a + 1 }),
            "dec" | "dec_u32" => Word(|a, b| if a == 0 || a > b { b } else { a - 1 }),
            "add_f32" => Atomic::AddF32,
            "fmin" | "min_f32" => Word(|a, b| single(a, b, |a, b| OfIeee.least(a, b))),
            "fmax" | "max_f32" => Word(|a, b| single(a, b, |a, b| OfIeee.greatest(a, b))),
            "min_num_f32" => Word(|a, b| single(a, b, f32::least_number)),
            "max_num_f32" => Word(|a, b| single(a, b, f32::greatest_number)),
            "pk_add_f16" => {
                Word(|a, b| pair(a, b, |a, b| F16::from_f32(F16(a).to_f32() + F16(b).to_f32()).0))
            }
            "pk_add_bf16" => Word(|a, b| {
                pair(a, b, |a, b| Bf16::from_f32(Bf16(a).to_f32() + Bf16(b).to_f32()).0)
            }),
            "swap_x2" | "swap_b64" => Double(|_, b| b),
            "cmpswap_x2" | "cmpswap_b64" => Atomic::CompareDouble,
            "add_x2" | "add_u64" => Double(u64::wrapping_add),
            "sub_x2" | "sub_u64" => Double(u64::wrapping_sub),
            "rsub_u64" => Double(|a, b| b.wrapping_sub(a)),
            "smin_x2" | "min_i64" => Double(|a, b| (a as i64).min(b as i64) as u64),
            "smax_x2" | "max_i64" => Double(|a, b| (a as i64).max(b as i64) as u64),
            "umin_x2" | "min_u64" => Double(u64::min),
            "umax_x2" | "max_u64" => Double(u64::max),
            "and_x2" | "and_b64" => Double(|a, b| a & b),
            "or_x2" | "or_b64" => Double(|a, b| a | b),
            "xor_x2" | "xor_b64" => Double(|a, b| a ^ b),
            "inc_x2" | "inc_u64" => Double(|a, b| if a >= b { 0 } else { a + 1 }),
            "dec_x2" | "dec_u64" => Double(|a, b| if a == 0 || a > b { b } else { a - 1 }),
            "add_f64" => Double(|a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits()),
            "min_f64" | "fmin_x2" => Double(|a, b| double(a, b, |a, b| OfIeee.least(a, b))),
            "max_f64" | "fmax_x2" => Double(|a, b| double(a, b, |a, b| OfIeee.greatest(a, b))),
            "min_num_f64" => Double(|a, b| double(a, b, f64::least_number)),
            "max_num_f64" => Double(|a, b| double(a, b, f64::greatest_number)),
            _ => return None,
        })
    }

    pub(crate) fn words(self) -> u16 {
        match self {
            Atomic::Word(_) | Atomic::CompareWord | Atomic::CompareF32 | Atomic::AddF32 => 1,
            Atomic::Double(_) | Atomic::CompareDouble | Atomic::CompareF64 => 2,
        }
    }

    /// Returns the number of registers of the operand, including the comparison value of a compare-and-swap.
    pub(crate) fn data_words(self) -> u16 {
        match self {
            Atomic::Word(_) | Atomic::AddF32 => 1,
            Atomic::Double(_) | Atomic::CompareWord | Atomic::CompareF32 => 2,
            Atomic::CompareDouble | Atomic::CompareF64 => 4,
        }
    }

    pub(crate) fn run(
        self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        lane: usize,
        at: Location,
        data: usize,
        target: Option<usize>,
    ) -> Step {
        let double = |wave: &Wave, row: usize| {
            u64::from(wave.lane(row, lane)) | u64::from(wave.lane(row + 1, lane)) << 32
        };
        let (value, compare) = match self {
            Atomic::Word(_) | Atomic::AddF32 => (u64::from(wave.lane(data, lane)), 0),
            Atomic::CompareWord | Atomic::CompareF32 => {
                (u64::from(wave.lane(data, lane)), u64::from(wave.lane(data + 1, lane)))
            }
            Atomic::Double(_) => (double(wave, data), 0),
            Atomic::CompareDouble | Atomic::CompareF64 => {
                (double(wave, data), double(wave, data + 2))
            }
        };
        let old = self.apply(wave, machine, at, value, compare)?;
        if let Some(row) = target {
            wave.set_lane(row, lane, old as u32);
            if self.words() == 2 {
                wave.set_lane(row + 1, lane, (old >> 32) as u32);
            }
        }
        Ok(())
    }

    pub(crate) fn apply(
        self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        at: Location,
        value: u64,
        compare: u64,
    ) -> Result<u64, Box<Stop>> {
        let local = matches!(at, Location::Lds(_));
        let (sources, result) = (local && wave.flushes_sources(), local && wave.flushes_results());
        let word = |old: u32| match self {
            Atomic::Word(f) => f(old, value as u32),
            Atomic::AddF32 => {
                let [a, b] =
                    [old, value as u32].map(|bits| flushed_where(sources, f32::from_bits(bits)));
                flushed_where(result, a + b).to_bits()
            }
            Atomic::CompareF32 => match f32::from_bits(old) == f32::from_bits(compare as u32) {
                true => value as u32,
                false => old,
            },
            _ if old == compare as u32 => value as u32,
            _ => old,
        };
        let double = |old: u64| match self {
            Atomic::Double(f) => f(old, value),
            Atomic::CompareF64 => match f64::from_bits(old) == f64::from_bits(compare) {
                true => value,
                false => old,
            },
            _ if old == compare => value,
            _ => old,
        };
        match (at, self.words()) {
            (Location::Global(address), 1) if address % 4 == 0 => {
                let pointer = machine.memory(address, 4, true)?.cast::<u32>();
                // SAFETY: the four bytes are mapped, writable and aligned.
                let cell = unsafe { AtomicU32::from_ptr(pointer) };
                let update = |old| Some(word(old));
                Ok(match cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update) {
                    Ok(old) | Err(old) => u64::from(old),
                })
            }
            (Location::Global(address), 2) if address % 8 == 0 => {
                let pointer = machine.memory(address, 8, true)?.cast::<u64>();
                // SAFETY: the eight bytes are mapped, writable and aligned.
                let cell = unsafe { AtomicU64::from_ptr(pointer) };
                let update = |old| Some(double(old));
                Ok(match cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update) {
                    Ok(old) | Err(old) => old,
                })
            }
            // Hardware faults on a misaligned atomic.
            (Location::Global(address), _) => {
                Err(Box::new(Stop::PageFault { address, write: true }))
            }
            (_, 1) => {
                let old = u32::from_le_bytes(at.read(wave, machine)?);
                at.write(wave, machine, word(old).to_le_bytes())?;
                Ok(u64::from(old))
            }
            _ => {
                let old = u64::from_le_bytes(at.read(wave, machine)?);
                at.write(wave, machine, double(old).to_le_bytes())?;
                Ok(old)
            }
        }
    }
}

fn single(a: u32, b: u32, f: fn(f32, f32) -> f32) -> u32 {
    f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

fn double(a: u64, b: u64, f: fn(f64, f64) -> f64) -> u64 {
    f(f64::from_bits(a), f64::from_bits(b)).to_bits()
}

fn pair(a: u32, b: u32, f: fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// Returns true if a global, flat or buffer atomic returns the old value. The bit for this is `glc` up to GFX11, `sc0`
/// on GFX940, and the lowest bit of `th` on GFX12. LLVM prints `th` as a number if its combination of bits has no name
/// (`printTH`).
pub(crate) fn returns_old_value(text: &Text) -> bool {
    let returns = |th: &str| match th.strip_prefix("TH_ATOMIC_0x") {
        Some(bits) => u8::from_str_radix(bits, 16).is_ok_and(|bits| bits & 1 == 1),
        None => th.contains("RETURN"),
    };
    text.has("glc") || text.has("sc0") || text.value("th").is_some_and(returns)
}
