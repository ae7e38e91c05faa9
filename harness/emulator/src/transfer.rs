//! Moving bytes between two places, which is where the copy faults bite.
//!
//! The copy engine moves bytes this way, and so do the blit kernels that the HIP runtime brings
//! along for the same purpose.

use std::sync::atomic::{AtomicU64, Ordering};

use device::Fault;

use crate::faults;

/// One contiguous piece of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) len: usize,
}

/// From where to where, as far as faults depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    HostToDevice,
    Other,
}

/// What becomes of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All bytes arrive.
    Done,
    /// Nothing is written.
    Dropped,
    /// Zeros arrive.
    Zeroed,
    /// The last bytes are not written; how many.
    Torn(usize),
}

/// Host-to-device copies up to this many bytes share a staging slot, as in the bug that
/// `copy.lost-small-slot` stands for.
const SMALL: usize = 64;

/// Decides about a transfer of `len` bytes.
pub(crate) fn fate(len: usize, direction: Direction) -> Fate {
    static SMALL_COPIES: AtomicU64 = AtomicU64::new(0);
    if len == 0 {
        return Fate::Done;
    }
    if direction == Direction::HostToDevice && len <= SMALL {
        let second = SMALL_COPIES.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if second && faults::takes(Fault::CopyLostSmallSlot) {
            return Fate::Zeroed;
        }
    }
    if faults::takes(Fault::CopyZero) {
        Fate::Zeroed
    } else if faults::takes(Fault::CopyDrop) {
        Fate::Dropped
    } else if faults::takes(Fault::CopyTorn) {
        Fate::Torn(torn_tail(len))
    } else {
        Fate::Done
    }
}

/// How many bytes of a torn copy are missing: a quarter, but 1 to 64.
fn torn_tail(len: usize) -> usize {
    (len / 4).clamp(1, 64)
}

/// Carries out a transfer.
///
/// # Safety
/// Every row is readable and writable for its length, and stays so until the return. The guest may
/// race with the copy; that is its own affair and at worst gives torn data.
pub(crate) unsafe fn carry_out(rows: impl IntoIterator<Item = Row>, total: usize, fate: Fate) {
    let mut left = match fate {
        Fate::Dropped => return,
        Fate::Torn(tail) => total.saturating_sub(tail),
        Fate::Done | Fate::Zeroed => total,
    };
    for row in rows {
        let len = row.len.min(left);
        left -= len;
        // SAFETY: by this function's contract; `copy` allows the rows to overlap.
        unsafe {
            match fate {
                Fate::Zeroed => std::ptr::write_bytes(row.to as *mut u8, 0, len),
                _ => std::ptr::copy(row.from as *const u8, row.to as *mut u8, len),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fate: Fate, expected: [u8; 8]) {
        let source = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let mut target = [9u8; 8];
        let (to, from) = (target.as_mut_ptr() as usize, source.as_ptr() as usize);
        let row = |at: usize, len| Row { to: to + at, from: from + at, len };
        let rows = [row(0, 3), row(3, 5)];
        // SAFETY: the rows lie in the two arrays.
        unsafe { carry_out(rows, 8, fate) };
        assert_eq!(target, expected, "{fate:?}");
    }

    #[test]
    fn each_fate_leaves_its_own_trace() {
        check(Fate::Done, [1, 2, 3, 4, 5, 6, 7, 8]);
        check(Fate::Dropped, [9; 8]);
        check(Fate::Zeroed, [0; 8]);
        check(Fate::Torn(torn_tail(8)), [1, 2, 3, 4, 5, 6, 9, 9]);
    }

    #[test]
    fn a_torn_copy_misses_a_quarter_but_1_to_64_bytes() {
        assert_eq!([1, 3, 4, 100, 4096].map(torn_tail), [1, 1, 1, 25, 64]);
    }

    #[test]
    fn a_healthy_device_copies() {
        assert_eq!(fate(16, Direction::HostToDevice), Fate::Done);
        assert_eq!(fate(0, Direction::Other), Fate::Done);
    }
}
