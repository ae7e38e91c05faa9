//! Scratch accesses for half a wave at once. This is possible if all active lanes use the same offset. The dwords of
//! the lanes are then consecutive, because scratch memory interleaves them. All other accesses are executed lane by
//! lane.

use super::gather::{dwords, set_dwords};
use crate::registers::{HALF, Half};
use crate::wave::Wave;

/// Returns the value that is the same in all active lanes. Returns `None` if the values differ, or if no lane is
/// active.
#[inline(always)]
pub(crate) fn common(values: &Half, mask: u32) -> Option<u32> {
    let first = *values.get(mask.trailing_zeros() as usize)?;
    let mut differs = 0;
    for (lane, value) in values.iter().enumerate() {
        differs |= (value ^ first) & (mask >> lane & 1).wrapping_neg();
    }
    (differs == 0).then_some(first)
}

/// Returns the index in [`Wave::scratch`] of the first dword of half a wave, and the distance in bytes between two
/// dwords of one lane. Returns `None` if `offset` is not aligned or out of range.
#[inline(always)]
fn place(wave: &Wave, half: usize, offset: u64, words: usize) -> Option<(usize, usize)> {
    let len = wave.scratch.len();
    let offset = usize::try_from(offset).ok().filter(|at| at.is_multiple_of(4) && *at < len)?;
    let (start, stride) = (offset * wave.lanes + 4 * HALF * half, 4 * wave.lanes);
    (start + (words - 1) * stride + 4 * HALF <= len).then_some((start, stride))
}

/// Loads registers from `offset` in each lane's scratch memory. Returns false, without loading anything, if the offset
/// is not aligned or out of range.
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

/// Stores registers to `offset` in each lane's scratch memory. Returns false, without storing anything, if the offset
/// is not aligned or out of range.
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
