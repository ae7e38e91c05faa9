//! `global_load_tr` of GFX12: a 16x16 matrix out of memory, with rows and columns exchanged on the way to the registers.
//!
//! Each lane loads eight elements that lie together. Which lane gets which element is not published; this is as kernels of
//! hipBLASLt for GFX1201 take it, whose products are wrong with any other order.

use super::memory::{Address, Segment};
use crate::{
    exec::{Bound, on_machine},
    registers::HALF,
    text::{Text, Unsupported},
};

/// Elements of a lane.
const ELEMENTS: usize = 8;

/// The lane that loaded element `index` of what `lane` gets; it is that lane's element `lane % 8`.
fn loader(lane: usize, index: usize, bytes: usize) -> usize {
    match bytes {
        // Within each group of 8 lanes.
        2 => lane / 8 * 8 + index,
        // Within each group of 16 lanes, of which every other four have the same columns.
        _ => lane / 16 * 16 + index / 4 * 8 + lane / 8 % 2 * 4 + index % 4,
    }
}

/// `global_load_tr_b64` of bytes and `global_load_tr_b128` of halves, in waves of 32 lanes; those of 64 have other registers.
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
        // EXEC does not count: all lanes take part.
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
