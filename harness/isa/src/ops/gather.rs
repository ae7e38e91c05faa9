//! Loads and stores by half a wave at once, where all its lanes stay in one mapped range. Anything else, a fault above
//! all, is left to the way lane by lane.

use super::memory::Transfer;
use crate::wave::{HALF, Half, Machine, Wave, active};

/// The addresses of 32 lanes, and which of them take part.
pub(crate) struct Addresses {
    pub(crate) lanes: [u64; HALF],
    pub(crate) mask: u32,
}

impl Addresses {
    /// The least and the greatest of the active lanes; `None` without active lanes.
    #[inline(always)]
    fn bounds(&self) -> Option<(u64, u64)> {
        if self.mask == 0 {
            return None;
        }
        let (mut least, mut greatest) = (u64::MAX, 0);
        for (lane, address) in self.lanes.iter().enumerate() {
            let takes_part = self.mask & (1 << lane) != 0;
            least = least.min(if takes_part { *address } else { u64::MAX });
            greatest = greatest.max(if takes_part { *address } else { 0 });
        }
        Some((least, greatest))
    }

    /// Whether every access of `bytes` bytes is inside one mapped range.
    #[inline(always)]
    fn mapped(&self, machine: &mut Machine<'_>, bytes: u64, write: bool) -> Option<(u64, u64)> {
        let (least, greatest) = self.bounds()?;
        let span = (greatest - least).checked_add(bytes)?;
        machine.memory(least, span, write).ok()?;
        Some((least, greatest))
    }

    /// Loads into the registers from `row` on; false says that nothing was done.
    #[inline(always)]
    pub(crate) fn load(
        &self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        half: usize,
        row: usize,
        transfer: Transfer,
    ) -> bool {
        let Transfer::Words(words) = transfer else { return false };
        let words = usize::from(words);
        let Some((least, greatest)) = self.mapped(machine, words as u64 * 4, false) else {
            return false;
        };
        let dword = |address: u64, word: usize| {
            let at = std::ptr::with_exposed_provenance::<[u8; 4]>(address as usize + 4 * word);
            // SAFETY: `mapped` found all dwords of the active lanes mapped; as in `Machine::read`.
            u32::from_le_bytes(unsafe { at.read_unaligned() })
        };
        for word in 0..words {
            if least == greatest {
                wave.blend(row + word, half, self.mask, &[dword(least, word); HALF]);
                continue;
            }
            // An inactive lane reads what the lowest active one does.
            let values = std::array::from_fn(|lane| {
                let takes_part = self.mask & (1 << lane) != 0;
                dword(if takes_part { self.lanes[lane] } else { least }, word)
            });
            wave.blend(row + word, half, self.mask, &values);
        }
        true
    }

    /// Stores from the registers from `row` on, the lowest lane first; false says that nothing was done.
    #[inline(always)]
    pub(crate) fn store(
        &self,
        wave: &Wave,
        machine: &mut Machine<'_>,
        half: usize,
        row: usize,
        transfer: Transfer,
    ) -> bool {
        let Transfer::Words(words) = transfer else { return false };
        let words = usize::from(words);
        if self.mapped(machine, words as u64 * 4, true).is_none() {
            return false;
        }
        for lane in active(self.mask.into()) {
            for word in 0..words {
                let at = self.lanes[lane] as usize + 4 * word;
                let at = std::ptr::with_exposed_provenance_mut::<[u8; 4]>(at);
                let bytes = wave.vector[row + word][half][lane].to_le_bytes();
                // SAFETY: as in `load`; the address space promises that the range is writable.
                unsafe { at.write_unaligned(bytes) };
            }
        }
        true
    }
}

/// Offsets in the LDS of all lanes of a wave.
pub(crate) type Offsets = [Half; 2];

/// Whether `bytes` bytes at the offset of each active lane are inside the LDS.
#[inline(always)]
pub(crate) fn inside_lds(wave: &Wave, offsets: &Offsets, bytes: usize, size: usize) -> bool {
    let Some(last) = size.checked_sub(bytes) else { return false };
    let mut inside = true;
    for (half, offsets) in offsets.iter().enumerate().take(wave.halves()) {
        let mask = wave.exec_half(half);
        for (lane, offset) in offsets.iter().enumerate() {
            inside &= mask & (1 << lane) == 0 || *offset as usize <= last;
        }
    }
    inside
}

/// Loads dwords from the LDS at offsets that are inside it.
#[inline(always)]
pub(crate) fn load_lds(wave: &mut Wave, lds: &[u8], row: usize, words: usize, offsets: &Offsets) {
    for (half, offsets) in offsets.iter().enumerate().take(wave.halves()) {
        let mask = wave.exec_half(half);
        for word in 0..words {
            // Inactive lanes may have any offset.
            let values = offsets.map(|offset| {
                let at = offset as usize + 4 * word;
                let bytes = lds.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                u32::from_le_bytes(bytes.unwrap_or_default())
            });
            wave.blend(row + word, half, mask, &values);
        }
    }
}

/// Stores dwords to the LDS at offsets that are inside it, the lowest lane first.
#[inline(always)]
pub(crate) fn store_lds(wave: &Wave, lds: &mut [u8], row: usize, words: usize, offsets: &Offsets) {
    for (half, offsets) in offsets.iter().enumerate().take(wave.halves()) {
        for lane in active(wave.exec_half(half).into()) {
            for word in 0..words {
                let at = offsets[lane] as usize + 4 * word;
                let bytes = wave.vector[row + word][half][lane].to_le_bytes();
                lds[at..at + 4].copy_from_slice(&bytes);
            }
        }
    }
}
