//! Vector registers of a wave, allocated lazily and reused by later waves.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, PoisonError},
};

use memmap2::{MmapMut, UncheckedAdvice};

/// Number of lanes in half a row. A row is one register of all lanes. A wave of 64 lanes has two halves, and a wave of
/// 32 lanes has one. With this division, loops over a half have a fixed length.
pub(crate) const HALF: usize = 32;
pub(crate) type Half = [u32; HALF];
pub(crate) type Row = [Half; 2];

/// Number of vector registers (rows) of a wave: `v0` to `v255`, then `a0` to `a255`.
pub const ROWS: usize = 512;

const BYTES: usize = ROWS * size_of::<Row>();
const PAGE: usize = 4096;

/// Zeroed register files of waves that have ended, for reuse.
static SPARE: Mutex<Vec<RegisterFile>> = Mutex::new(Vec::new());

/// Maximum number of register files in [`SPARE`], enough for two large workgroups.
const KEPT: usize = 64;

/// All rows of a wave, initially zero. A row is one register of all lanes. The file is a memory mapping of its own,
/// whose pages are allocated on the first write. Most kernels use few rows, and unused rows then cost nothing. Memory
/// from an allocator would have to be cleared, all 128 KiB of it.
pub struct RegisterFile(MmapMut);

impl RegisterFile {
    /// Returns a register file that contains only zeros.
    pub fn zeros() -> RegisterFile {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| {
            let map = MmapMut::map_anon(BYTES);
            RegisterFile(map.expect("the system has memory for the registers of a wave"))
        })
    }

    /// Keeps the register file for another launch. `rows` is the number of rows that the kernel declares. These rows
    /// are overwritten with zeros. The pages of all other rows are returned to the operating system.
    pub fn keep(mut self, rows: usize) {
        // Miri does not support madvise(2).
        if cfg!(miri) {
            return;
        }
        let rows = rows.next_multiple_of(PAGE / size_of::<Row>());
        self[..rows].fill([[0; HALF]; 2]);
        let others = rows * size_of::<Row>();
        // SAFETY: the range is inside the mapping, and `self` has the only view of the mapping. The contents of the
        // range are not needed any more. The range reads as zeros afterwards, because the mapping is private and
        // anonymous (madvise(2)).
        let cleared = unsafe {
            self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, others, BYTES - others)
        };
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if cleared.is_ok() && spare.len() < KEPT {
            spare.push(self);
        }
    }
}

impl Deref for RegisterFile {
    type Target = [Row; ROWS];

    #[inline(always)]
    fn deref(&self) -> &[Row; ROWS] {
        // SAFETY: the mapping has `BYTES` bytes, starts at a page and is initialised with zeros by Linux. A row
        // consists of words, for which all bytes are valid. The mapping lives and is borrowed as long as `self`.
        unsafe { &*self.0.as_ptr().cast::<[Row; ROWS]>() }
    }
}

impl DerefMut for RegisterFile {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Row; ROWS] {
        // SAFETY: the cast is valid for the reason given in `deref`. The borrow is exclusive, because `self` is
        // borrowed mutably and is the only owner of the mapping.
        unsafe { &mut *self.0.as_mut_ptr().cast::<[Row; ROWS]>() }
    }
}
