//! Loads from memory to the LDS: `buffer_load_dword ... lds` and `global_load_lds_dword`. The data does not pass
//! through a vector register. The dwords of the lanes are consecutive in the LDS, starting at the sum of M0 and the
//! constant offset.

use super::{buffer, memory, memory::Location};
use crate::{
    exec::{Bound, on_machine},
    text::{Text, Unsupported, register},
    wave::{Wave, active},
};

/// A load from memory to the LDS, with its decoded operands.
#[derive(Clone, Copy)]
pub(crate) struct ToLds {
    from: From,
    pub(crate) words: usize,
    constant: u64,
    /// Mask of the bits of M0 that are part of the LDS address.
    m0: u32,
}

#[derive(Clone, Copy)]
enum From {
    Buffer(buffer::Address),
    Global(memory::Address),
}

impl ToLds {
    /// Parses a load from memory to the LDS. `name` is the part of the mnemonic after `load_` or `load_lds_`.
    ///
    /// Source: the CDNA 4 ISA guide, "Memory Buffer Load to LDS" and "Addressing" of FLAT.
    fn parse(text: &Text, from: From, name: &str) -> Result<ToLds, Unsupported> {
        let words = match name {
            "dword" | "b32" => 1,
            "dwordx3" => 3,
            "dwordx4" => 4,
            _ => return Err(Unsupported),
        };
        let m0 = (1 << text.site.arch.facts().lds_address_bits) - 1;
        // The offset is added to the memory address and to the LDS address.
        let constant = text.number("offset")? as u64;
        Ok(ToLds { from, words, constant, m0 })
    }

    pub(crate) fn of_buffer(text: &Text, name: &str) -> Result<ToLds, Unsupported> {
        let name = name.strip_prefix("load_").ok_or(Unsupported)?;
        ToLds::parse(text, From::Buffer(buffer::Address::parse(text, 0)?), name)
    }

    pub(crate) fn of_global(text: &Text, name: &str) -> Result<ToLds, Unsupported> {
        let address = memory::Address::parse(text, memory::Segment::Global, 0, 1)?;
        ToLds::parse(text, From::Global(address), name)
    }

    /// Returns the location in memory of a dword that a lane loads; `None` if it is out of range.
    pub(crate) fn source(&self, wave: &Wave, lane: usize, word: usize) -> Option<Location> {
        match self.from {
            From::Buffer(address) => address.of(wave, lane, 4 * word as u64, 4),
            From::Global(address) => Some(address.of(wave, lane).plus(4 * word as u64)),
        }
    }

    pub(crate) fn target(&self, wave: &Wave, lane: usize, word: usize) -> Location {
        let base = u64::from(wave.scalar[usize::from(register::M0)] & self.m0);
        // A lane with three dwords occupies the space of four.
        let apart = if self.words == 3 { 4 } else { self.words };
        let dword = (apart * lane + word) as u64;
        Location::Lds(base.wrapping_add(self.constant).wrapping_add(4 * dword))
    }

    pub(crate) fn bind(self) -> Bound {
        on_machine(move |wave, machine| {
            for lane in active(wave.exec()) {
                for word in 0..self.words {
                    let dword = match self.source(wave, lane, word) {
                        Some(from) => from.read::<4>(wave, machine)?,
                        None => [0; 4],
                    };
                    self.target(wave, lane, word).write(wave, machine, dword)?;
                }
            }
            Ok(())
        })
    }
}
