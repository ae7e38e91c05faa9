//! Scratch accesses of half a wave at once, if all active lanes use the same offset. Scratch interleaves the dwords of
//! the lanes, so theirs are consecutive. Everything else is handled lane by lane.

use super::gather::{dwords, set_dwords};
use crate::registers::{HALF, Half};
use crate::wave::Wave;

/// Returns the value that all active lanes have; `None` if they differ, and without active lanes.
#[inline(always)]
pub(crate) fn common(values: &Half, mask: u32) -> Option<u32> {
    let first = *values.get(mask.trailing_zeros() as usize)?;
    let mut differs = 0;
    for (lane, value) in values.iter().enumerate() {
        differs |= (value ^ first) & (mask >> lane & 1).wrapping_neg();
    }
    (differs == 0).then_some(first)
}

/// Returns the index of a half's first dword in [`Wave::scratch`], and the distance between its dwords.
#[inline(always)]
fn place(wave: &Wave, half: usize, offset: u64, words: usize) -> Option<(usize, usize)> {
    let len = wave.scratch.len();
    let offset = usize::try_from(offset).ok().filter(|at| at.is_multiple_of(4) && *at < len)?;
    let (start, stride) = (offset * wave.lanes + 4 * HALF * half, 4 * wave.lanes);
    (start + (words - 1) * stride + 4 * HALF <= len).then_some((start, stride))
}

/// Loads from `offset` of each lane's scratch memory. Returns false if nothing was done.
#[inline(always)]
pub(crate) fn load(wave: &mut Wave, half: usize, row: usize, words: usize, offset: u64) -> bool {
    let Some((start, stride)) = place(wave, half, offset, words) else { return false };
    let mask = wave.exec_half(half);
    for word in 0..words {
        let values = dwords(&wave.scratch[start + word * stride..]);
        wave.blend(row + word, half, mask, &values);
    }
    true
}

/// Stores to `offset` of each lane's scratch memory. Returns false if nothing was done.
#[inline(always)]
pub(crate) fn store(wave: &mut Wave, half: usize, row: usize, words: usize, offset: u64) -> bool {
    let Some((start, stride)) = place(wave, half, offset, words) else { return false };
    let mask = wave.exec_half(half);
    for word in 0..words {
        let values = wave.vector[row + word][half];
        set_dwords(&mut wave.scratch[start + word * stride..], mask, &values);
    }
    true
}
