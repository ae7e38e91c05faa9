//! Transposing matrix loads: `global_load_tr` of GFX12 loads a 16x16 matrix from memory, and `ds_read_b64_tr` of GFX950
//! loads from the LDS.
//!
//! On GFX12 each lane loads eight consecutive elements. AMD has not published which lane receives which element. This
//! module uses the mapping that hipBLASLt's kernels for GFX1201 expect: with any other mapping, their matrix products
//! are wrong.

use super::{
    lds,
    memory::{Address, Segment},
};
use crate::{
    exec::{Bound, on_machine},
    registers::HALF,
    text::{Text, Unsupported},
};

const ELEMENTS: usize = 8;

/// Returns the lane that loads element `index` of the result of lane `lane`. Among the eight elements that the returned
/// lane loads, it is number `lane % 8`.
fn loader(lane: usize, index: usize, bytes: usize) -> usize {
    match bytes {
        // The lanes of each group of 8 exchange elements.
        2 => lane / 8 * 8 + index,
        // The lanes of each group of 16 exchange elements. Lanes 0 to 7 of the group receive elements from its lanes 0
        // to 3 and 8 to 11, the other lanes from lanes 4 to 7 and 12 to 15.
        _ => lane / 16 * 16 + index / 4 * 8 + lane / 8 % 2 * 4 + index % 4,
    }
}

/// Binds `global_load_tr_b64`, which loads 8-bit elements, and `global_load_tr_b128`, which loads 16-bit elements, for
/// waves of 32 lanes. In waves of 64 lanes, which are not supported, the instructions use other registers.
pub(crate) fn bind(text: &Text, segment: Segment, name: &str) -> Bound {
    let bytes = match (segment, name) {
        (Segment::Global, "b64") => 1,
        (Segment::Global, "b128") => 2,
        _ => return Err(Unsupported),
    };
    if text.site.lanes != HALF {
        return Err(Unsupported);
    }
    let words = ELEMENTS * bytes / 4;
    let row = text.row(0, words as u16)?;
    let address = Address::parse(text, segment, 1, 2)?;
    on_machine(move |wave, machine| {
        let mut loaded = [[0u8; 2 * ELEMENTS]; HALF];
        // All lanes take part, because the instruction ignores EXEC.
        for (lane, loaded) in loaded.iter_mut().enumerate() {
            for (word, bytes) in loaded.chunks_exact_mut(4).take(words).enumerate() {
                let from = address.of(wave, lane).plus(word as u64 * 4);
                bytes.copy_from_slice(&from.read::<4>(wave, machine)?);
            }
        }
        for lane in 0..HALF {
            let mut result = [0u8; 2 * ELEMENTS];
            for (index, element) in result.chunks_exact_mut(bytes).take(ELEMENTS).enumerate() {
                let from = lane % 8 * bytes;
                element.copy_from_slice(&loaded[loader(lane, index, bytes)][from..from + bytes]);
            }
            for (word, bytes) in result.chunks_exact(4).take(words).enumerate() {
                let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                wave.set_lane(row + word, lane, value);
            }
        }
        Ok(())
    })
}

/// Number of lanes that together load a part of a matrix from the LDS.
const GROUP: usize = 16;

/// Instructions such as `ds_read_b64_tr_b16`. Each lane specifies the address of consecutive elements. A group of 16
/// lanes loads as many rows as a lane has elements, and each row has 16 elements. Each lane receives one column.
///
/// Source: the CDNA 4 ISA guide, "MFMA Transpose Load from LDS", which specifies the k of the loaded elements for a
/// matrix product. With this layout, the products of existing kernels are correct.
#[derive(Clone, Copy)]
pub(crate) struct Local {
    bits: usize,
    words: usize,
}

impl Local {
    /// Parses the part of a mnemonic after `ds_`; `None` for other instructions.
    pub(crate) fn parse(name: &str) -> Option<Local> {
        let (bits, words) = match name {
            "read_b64_tr_b16" => (16, 2),
            "read_b64_tr_b8" => (8, 2),
            "read_b96_tr_b6" => (6, 3),
            "read_b64_tr_b4" => (4, 2),
            _ => return None,
        };
        Some(Local { bits, words })
    }

    pub(crate) fn bytes(self) -> u64 {
        4 * self.words as u64
    }

    /// Returns the lane that reads element `index` of the result of lane `lane`, and the position of this element among
    /// those that the returned lane reads.
    fn of(self, lane: usize, index: usize) -> (usize, usize) {
        let elements = 32 * self.words / self.bits;
        // Number of lanes whose elements form one row of the matrix.
        let lanes = GROUP / elements;
        let column = lane % GROUP;
        (lane / GROUP * GROUP + index * lanes + column / elements, column % elements)
    }

    pub(crate) fn bind(self, text: &Text) -> Bound {
        let row = text.row(0, self.words as u16)?;
        let address = text.plain_source::<u32>(1)?;
        let offset = text.number("offset")? as u32;
        on_machine(move |wave, machine| {
            let mut loaded = [0u128; 64];
            // The interpreter reads for all lanes, because the instruction requires that all lanes are active.
            for (lane, loaded) in loaded.iter_mut().enumerate() {
                let from = lds::at(address.word(wave, lane, 0), offset);
                for word in 0..self.words {
                    let dword = from.plus(4 * word as u64).read::<4>(wave, machine)?;
                    *loaded |= u128::from(u32::from_le_bytes(dword)) << (32 * word);
                }
            }
            for lane in 0..wave.lanes {
                let mut result = 0u128;
                for index in 0..32 * self.words / self.bits {
                    let (from, element) = self.of(lane, index);
                    let value = loaded[from] >> (self.bits * element) & ((1 << self.bits) - 1);
                    result |= value << (self.bits * index);
                }
                for word in 0..self.words {
                    wave.set_lane(row + word, lane, (result >> (32 * word)) as u32);
                }
            }
            Ok(())
        })
    }
}
