//! Dwords of scratch by half a wave at once, where its active lanes are all at one offset: scratch interleaves the dwords
//! of the lanes, so that theirs lie one behind the other. Anything else is left to the way lane by lane.

use super::gather::{dwords, set_dwords};
use crate::registers::{HALF, Half};
use crate::wave::Wave;

/// What the active lanes have in common; `None` where they differ, and without active lanes.
#[inline(always)]
pub(crate) fn common(values: &Half, mask: u32) -> Option<u32> {
    let first = *values.get(mask.trailing_zeros() as usize)?;
    let mut differs = 0;
    for (lane, value) in values.iter().enumerate() {
        differs |= (value ^ first) & (mask >> lane & 1).wrapping_neg();
    }
    (differs == 0).then_some(first)
}

/// Where the first dword of a half lies in [`Wave::scratch`], and how far apart its dwords are.
#[inline(always)]
fn place(wave: &Wave, half: usize, offset: u64, words: usize) -> Option<(usize, usize)> {
    let len = wave.scratch.len();
    let offset = usize::try_from(offset).ok().filter(|at| at.is_multiple_of(4) && *at < len)?;
    let (start, stride) = (offset * wave.lanes + 4 * HALF * half, 4 * wave.lanes);
    (start + (words - 1) * stride + 4 * HALF <= len).then_some((start, stride))
}

/// Loads from `offset` of each lane's scratch; false says that nothing was done.
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

/// Stores to `offset` of each lane's scratch; false says that nothing was done.
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
