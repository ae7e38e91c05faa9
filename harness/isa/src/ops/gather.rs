//! Loads and stores that handle half a wave (32 lanes) at once. This is possible if all lanes of the half access one
//! mapped range. All other accesses are executed lane by lane, in particular those that fault.

use super::memory::Transfer;
use crate::{
    machine::Machine,
    registers::{HALF, Half},
    source::{Buffer, Source},
    wave::{Wave, active},
};

/// Addresses that the 32 lanes of half a wave access, and the mask of active lanes.
pub(crate) struct Addresses {
    pub(crate) lanes: [u64; HALF],
    pub(crate) mask: u32,
}

impl Addresses {
    /// Returns the smallest and the largest address of the active lanes; `None` if no lane is active.
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

    /// Returns the smallest and the largest address of the active lanes; `None` if no lane is active, or if the
    /// accesses are not all inside one mapped range. Each access has `bytes` bytes.
    #[inline(always)]
    fn mapped(&self, machine: &mut Machine<'_>, bytes: u64, write: bool) -> Option<(u64, u64)> {
        let (least, greatest) = self.bounds()?;
        let span = (greatest - least).checked_add(bytes)?;
        machine.memory(least, span, write).ok()?;
        Some((least, greatest))
    }

    /// Loads dwords into registers, starting at `row`. Returns false, without loading anything, if the lanes do not
    /// access one mapped range.
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
            // SAFETY: `mapped` checked that all dwords of the active lanes are mapped. `Machine::read` explains why the
            // read is allowed.
            u32::from_le_bytes(unsafe { at.read_unaligned() })
        };
        for word in 0..words {
            if least == greatest {
                wave.blend(row + word, half, self.mask, &[dword(least, word); HALF]);
                continue;
            }
            // An inactive lane reads from the address of the lowest active lane, which is certainly mapped.
            let values = std::array::from_fn(|lane| {
                let takes_part = self.mask & (1 << lane) != 0;
                dword(if takes_part { self.lanes[lane] } else { least }, word)
            });
            wave.blend(row + word, half, self.mask, &values);
        }
        true
    }

    /// Stores registers, starting at `row`. The lowest lane stores first. Returns false, without storing anything, if
    /// the lanes do not access one mapped range.
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
                // SAFETY: the addresses are mapped, as in `load`, and the address space guarantees that the range is
                // writable.
                unsafe { at.write_unaligned(bytes) };
            }
        }
        true
    }
}

/// Returns the LDS offsets at which the lanes of half a wave access `bytes` bytes each: the sums of the operand
/// `address` and the constant `offset`. `size` is the size of the LDS in bytes. Returns `None` if an active lane is out
/// of range. The offsets of inactive lanes are in range, but have no meaning.
#[inline(always)]
pub(crate) fn inside_lds(
    wave: &Wave,
    half: usize,
    (address, offset): (&Source, u32),
    bytes: usize,
    size: usize,
) -> Option<Half> {
    let last = u32::try_from(size.checked_sub(bytes)?).ok()?;
    let mut buffer = Buffer::uninit();
    let address = address.lanes(wave, half, 0, &mut buffer);
    let (mut places, mut outside) = ([0; HALF], 0u32);
    for lane in 0..HALF {
        // The sum wraps, because compilers fold negative constants into the register.
        let place = address[lane].wrapping_add(offset);
        outside |= u32::from(place > last) << lane;
        places[lane] = place.min(last);
    }
    (outside & wave.exec_half(half) == 0).then_some(places)
}

/// Returns the offset of lane 0 if the active lanes access consecutive dwords and the dwords of all 32 lanes are in
/// range.
#[inline(always)]
fn consecutive(places: &Half, mask: u32, size: usize) -> Option<usize> {
    let lane = mask.trailing_zeros();
    let first = places.get(lane as usize)?.checked_sub(4 * lane)?;
    let mut differs = 0;
    for (lane, place) in (0u32..).zip(places) {
        differs |= (place ^ first.wrapping_add(4 * lane)) & (mask >> lane & 1).wrapping_neg();
    }
    (differs == 0 && first as usize + 4 * HALF <= size).then_some(first as usize)
}

/// Loads `words` dwords for each lane from the offsets that [`inside_lds`] returned for accesses of at least this size.
#[inline(always)]
pub(crate) fn load_lds(
    wave: &mut Wave,
    lds: &[u8],
    half: usize,
    row: usize,
    words: usize,
    places: &Half,
) {
    let mask = wave.exec_half(half);
    if words == 1
        && let Some(first) = consecutive(places, mask, lds.len())
    {
        let values = dwords(&lds[first..]);
        wave.blend(row, half, mask, &values);
        return;
    }
    for word in 0..words {
        let mut values = [0; HALF];
        for lane in 0..HALF {
            let at = places[lane] as usize + 4 * word;
            debug_assert!(at + 4 <= lds.len());
            // SAFETY: `inside_lds` returns offsets from which all bytes are in the LDS.
            let bytes = unsafe { lds.as_ptr().add(at).cast::<[u8; 4]>().read_unaligned() };
            values[lane] = u32::from_le_bytes(bytes);
        }
        wave.blend(row + word, half, mask, &values);
    }
}

/// Stores `words` dwords of each lane to the offsets that [`inside_lds`] returned. The lowest lane stores first.
#[inline(always)]
pub(crate) fn store_lds(
    wave: &Wave,
    lds: &mut [u8],
    half: usize,
    row: usize,
    words: usize,
    places: &Half,
) {
    let mask = wave.exec_half(half);
    if words == 1
        && let Some(first) = consecutive(places, mask, lds.len())
    {
        set_dwords(&mut lds[first..], mask, &wave.vector[row][half]);
        return;
    }
    for lane in active(mask.into()) {
        for word in 0..words {
            let at = places[lane] as usize + 4 * word;
            let bytes = wave.vector[row + word][half][lane].to_le_bytes();
            lds[at..at + 4].copy_from_slice(&bytes);
        }
    }
}

/// Returns one dword for each lane of half a wave, from consecutive dwords in `bytes`.
#[inline(always)]
pub(crate) fn dwords(bytes: &[u8]) -> Half {
    let mut values = [0; HALF];
    for (value, bytes) in values.iter_mut().zip(bytes[..4 * HALF].chunks_exact(4)) {
        *value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    values
}

/// Writes the dwords of the lanes in `mask` to `bytes`, which has space for one dword of each lane.
#[inline(always)]
pub(crate) fn set_dwords(bytes: &mut [u8], mask: u32, values: &Half) {
    for (lane, bytes) in bytes[..4 * HALF].chunks_exact_mut(4).enumerate() {
        let written = (mask >> lane & 1).wrapping_neg();
        let old = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.copy_from_slice(&((values[lane] & written) | (old & !written)).to_le_bytes());
    }
}
