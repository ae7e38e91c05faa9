//! Compute unit masks of queues. The device does not model which unit executes a workgroup, so a mask is only stored
//! and returned.

use crate::{
    abi::{Out, QueueCell, Status, array},
    config, model,
};

/// One bit per compute unit of the device, in 32-bit words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mask(Vec<u32>);

impl Mask {
    pub(super) fn all() -> Mask {
        let units = model::for_arch(config::get().arch).compute_units;
        Mask::from_words(&vec![u32::MAX; units.div_ceil(u32::BITS) as usize], units)
    }

    /// Returns the requested mask for a device with `units` compute units. Words and bits past the last unit are
    /// dropped.
    fn from_words(asked: &[u32], units: u32) -> Mask {
        let kept = asked.iter().zip((0..units).step_by(u32::BITS as usize));
        Mask(kept.map(|(word, first)| word & ones(units - first)).collect())
    }

    /// Returns true if the mask enables or disables both units of each pair. A pair is a workgroup processor.
    fn has_only_pairs(&self) -> bool {
        const EVEN: u32 = 0x5555_5555;
        self.0.iter().all(|word| word & EVEN == word >> 1 & EVEN)
    }

    fn words(&self, words: usize) -> impl Iterator<Item = u32> {
        self.0.iter().copied().chain(std::iter::repeat(0)).take(words)
    }
}

/// Returns a word whose lowest `count` bits are set. `count` must not be 0; values above 32 count as 32.
fn ones(count: u32) -> u32 {
    u32::MAX >> (u32::BITS - count.min(u32::BITS))
}

/// `hsa_amd_queue_cu_set_mask`. As in ROCr (`AqlQueue::SetCUMasking`), an empty mask means all units, and a device with
/// workgroup processors rejects a mask that contains only one unit of a pair.
///
/// # Safety
/// As HSA requires, `mask` must point at `bits` bits.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_amd_queue_cu_set_mask(
    queue: *const QueueCell,
    bits: u32,
    mask: *const u32,
) -> Status {
    let Some(queue) = super::find(queue as u64) else { return Status::INVALID_QUEUE };
    if !bits.is_multiple_of(u32::BITS) || (bits > 0 && mask.is_null()) {
        return Status::INVALID_ARGUMENT;
    }
    // SAFETY: HSA requires the caller to pass one bit for each unit, in whole 32-bit words.
    let asked = unsafe { array(mask, bits / u32::BITS) };
    let arch = config::get().arch;
    let mask = if bits == 0 {
        Mask::all()
    } else {
        Mask::from_words(asked, model::for_arch(arch).compute_units)
    };
    if arch.facts().has_workgroup_processors && !mask.has_only_pairs() {
        return Status::INVALID_ARGUMENT;
    }
    *queue.units.lock() = mask;
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_amd_queue_cu_get_mask(
    queue: *const QueueCell,
    bits: u32,
    mask: Out<u32>,
) -> Status {
    let Some(queue) = super::find(queue as u64) else { return Status::INVALID_QUEUE };
    if bits == 0 || !bits.is_multiple_of(u32::BITS) || mask.is_null() {
        return Status::INVALID_ARGUMENT;
    }
    let units = queue.units.lock();
    mask.put_all(units.words((bits / u32::BITS) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: &[u32], units: u32, expected: &[u32], pairs: bool) {
        let mask = Mask::from_words(asked, units);
        assert_eq!(mask.words(expected.len()).collect::<Vec<_>>(), expected);
        assert_eq!(mask.has_only_pairs(), pairs);
    }

    #[test]
    fn mask_ends_with_the_last_unit() {
        check(&[u32::MAX; 2], 40, &[u32::MAX, 0xff], true);
        check(&[u32::MAX; 3], 64, &[u32::MAX, u32::MAX, 0], true);
        check(&[0x33], 40, &[0x33, 0], true);
        check(&[0x5], 40, &[0x5], false);
        check(&[0, 0b110], 40, &[0, 0b110], false);
        check(&[u32::MAX, u32::MAX], 10, &[0x3ff, 0], true);
    }
}
