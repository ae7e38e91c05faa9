//! The vector registers of a wave.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, PoisonError},
};

use memmap2::{MmapMut, UncheckedAdvice};

/// Half a row: 32 lanes. A wave of 64 lanes is two halves, so that loops have a fixed length.
pub(crate) const HALF: usize = 32;
pub(crate) type Half = [u32; HALF];
/// One vector register: all lanes.
pub(crate) type Row = [Half; 2];

/// Rows of a wave: `v0` to `v255`, then `a0` to `a255`.
pub const ROWS: usize = 512;

const BYTES: usize = ROWS * size_of::<Row>();
const PAGE: usize = 4096;

/// Register files of launches that have ended, all zeros.
static SPARE: Mutex<Vec<RegisterFile>> = Mutex::new(Vec::new());

/// So many are kept: those of two large workgroups.
const KEPT: usize = 64;

/// All rows, at first zeros. A kernel uses few of them, and those that it does not use cost nothing: the file is a mapping of its own,
/// whose pages come with the first write, where an allocator would clear all of its 128 KiB.
pub struct RegisterFile(MmapMut);

impl RegisterFile {
    /// One that is all zeros.
    pub fn zeros() -> RegisterFile {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| {
            let map = MmapMut::map_anon(BYTES);
            RegisterFile(map.expect("the system has memory for the registers of a wave"))
        })
    }

    /// Keeps the file for another launch. This one's kernel uses the first `rows` of it, if it keeps to what it says of itself.
    pub fn keep(mut self, rows: usize) {
        // Miri has no madvise(2).
        if cfg!(miri) {
            return;
        }
        let rows = rows.next_multiple_of(PAGE / size_of::<Row>());
        self[..rows].fill([[0; HALF]; 2]);
        let others = rows * size_of::<Row>();
        // SAFETY: the range lies within the mapping, of which `self` has the only view; what it held is wanted no more, and reads as zeros
        // from now on, since the mapping is private and anonymous (madvise(2)).
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
        // SAFETY: the mapping has `BYTES` bytes, begins at a page and is initialised: the kernel gives zeros. A row is words, for which
        // any bytes do. The mapping lives and is borrowed as long as `self`.
        unsafe { &*self.0.as_ptr().cast::<[Row; ROWS]>() }
    }
}

impl DerefMut for RegisterFile {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Row; ROWS] {
        // SAFETY: as above; and nobody else has it, since `self` is borrowed for as long and alone has the mapping.
        unsafe { &mut *self.0.as_mut_ptr().cast::<[Row; ROWS]>() }
    }
}
