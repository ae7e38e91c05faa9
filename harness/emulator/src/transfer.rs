//! Moving bytes between two places, which is where the copy faults bite.
//!
//! The copy engine moves bytes this way, and so do the blit kernels that the HIP runtime brings
//! along for the same purpose.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use device::Fault;

use crate::{delay, faults, locks::Mutex, memory, part::Part as _, row::Row, sanitizer};

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
    /// Each row arrives this many bytes behind its place, and its end is cut off.
    Misplaced(usize),
    /// All bytes arrive, and so many zeros behind them.
    Overrun(usize),
    /// The bytes are moved so much later, and nobody is told.
    Late(Duration),
    /// All bytes arrive, and arrive again behind the next copy to the same place.
    Twice,
    /// All bytes arrive, but kernels see so many of the first ones only from the second dispatch on.
    Stale(usize),
}

/// Host-to-device copies up to this many bytes share a staging slot, as in the bug that
/// `copy.lost-small-slot` stands for.
const SMALL: usize = 64;

/// What planted faults keep of the transfers so far.
#[derive(Default)]
pub(crate) struct Transfers {
    /// How many small ones went to the device.
    small: AtomicU64,
    /// The bytes of the last copy to each place.
    last: Mutex<BTreeMap<usize, Vec<u8>>>,
    stale_lines: Mutex<Vec<StaleLine>>,
}

/// Decides about a transfer of `len` bytes.
pub(crate) fn fate(len: usize, direction: Direction) -> Fate {
    if len == 0 {
        return Fate::Done;
    }
    if direction == Direction::HostToDevice && len <= SMALL {
        let second = Transfers::here().small.fetch_add(1, Ordering::Relaxed) % 2 == 1;
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
    } else if let Some(planted) = faults::taken(Fault::CopyMisplaced) {
        Fate::Misplaced(planted.amount("bytes") as usize)
    } else if let Some(planted) = faults::taken(Fault::CopyOverrun) {
        Fate::Overrun(planted.amount("bytes") as usize)
    } else if let Some(planted) = faults::taken(Fault::CopyLate) {
        Fate::Late(Duration::from_millis(planted.amount("ms")))
    } else if faults::takes(Fault::CopyTwice) {
        Fate::Twice
    } else if direction == Direction::HostToDevice
        && let Some(planted) = faults::taken(Fault::CacheStale)
    {
        Fate::Stale(planted.amount("bytes") as usize)
    } else {
        Fate::Done
    }
}

/// With `copy.page-fault`, where a copy of the rows touches memory that is not mapped.
pub(crate) fn page_fault(rows: &[Row]) -> Option<u64> {
    let first = rows.iter().find(|row| row.len > 0)?;
    faults::takes(Fault::CopyPageFault).then_some(first.to as u64)
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
pub(crate) unsafe fn carry_out(rows: &[Row], fate: Fate) {
    // What a planted fault does to the copy is no mistake of the program.
    sanitizer::copied(rows);
    match fate {
        Fate::Late(length) => return later(rows.to_vec(), length),
        // SAFETY: the caller vouches for the rows, which are handed on.
        Fate::Twice => return unsafe { duplicate(rows) },
        // SAFETY: as above.
        Fate::Stale(bytes) => unsafe { keep_stale(rows, bytes) },
        _ => {}
    }
    // SAFETY: as above.
    unsafe { carry_out_now(rows, fate) };
    if let (Fate::Overrun(bytes), Some(row)) = (fate, rows.iter().rfind(|row| row.len > 0)) {
        overrun(row.to + row.len, bytes);
    }
}

/// Writes zeros behind a copy, as far as there is memory.
fn overrun(from: usize, bytes: usize) {
    let map = memory::map();
    let room = (1..=bytes).rev().find(|len| map.check(from, *len).is_ok()).unwrap_or(0);
    // SAFETY: the range is mapped, and stays so while the map is held.
    unsafe { std::ptr::write_bytes(from as *mut u8, 0, room) };
}

/// # Safety
/// As of [`carry_out`].
unsafe fn carry_out_now(rows: &[Row], fate: Fate) {
    let total: usize = rows.iter().map(|row| row.len).sum();
    let mut left = match fate {
        Fate::Dropped => return,
        Fate::Torn(tail) => total.saturating_sub(tail),
        _ => total,
    };
    for row in rows {
        let len = row.len.min(left);
        left -= len;
        // SAFETY: the caller vouches for both ends of each row; `copy` allows them to overlap.
        unsafe {
            match fate {
                Fate::Zeroed => std::ptr::write_bytes(row.to as *mut u8, 0, len),
                Fate::Misplaced(by) => {
                    let by = by.min(len);
                    std::ptr::copy(row.from as *const u8, (row.to + by) as *mut u8, len - by);
                }
                _ => std::ptr::copy(row.from as *const u8, row.to as *mut u8, len),
            }
        }
    }
}

/// Moves the bytes after the delay, on a thread of its own. What is freed meanwhile stays mapped until then.
fn later(rows: Vec<Row>, length: Duration) {
    let in_use = memory::InUse::new();
    let copy = move || {
        delay::sleep(length);
        // SAFETY: the rows were mapped when `in_use` was made, which keeps them so.
        unsafe { carry_out_now(&rows, Fate::Done) };
        drop(in_use);
    };
    // Without a thread the bytes never arrive, which is a late copy too.
    let _ = Transfers::spawn(delay::THREAD, copy);
}

/// Carries out a transfer, and behind it the one before it to the same place.
///
/// # Safety
/// As of [`carry_out`].
unsafe fn duplicate(rows: &[Row]) {
    let mut last = Transfers::here().last.lock();
    for row in rows {
        // SAFETY: the caller vouches for both ends of each row; the bytes that come again are no more than it has room for.
        unsafe {
            let came = std::slice::from_raw_parts(row.from as *const u8, row.len).to_vec();
            std::ptr::copy(came.as_ptr(), row.to as *mut u8, row.len);
            if let Some(before) = last.insert(row.to, came) {
                let len = before.len().min(row.len);
                std::ptr::copy(before.as_ptr(), row.to as *mut u8, len);
            }
        }
    }
}

/// What kernels see in place of what a copy has brought: where, the bytes before and those that came.
struct StaleLine {
    at: usize,
    before: Vec<u8>,
    came: Vec<u8>,
}

/// # Safety
/// As of [`carry_out`].
unsafe fn keep_stale(rows: &[Row], bytes: usize) {
    let Some(row) = rows.first() else { return };
    let len = row.len.min(bytes);
    // SAFETY: the caller vouches for `len` bytes at both ends.
    let read = |at: usize| unsafe { std::slice::from_raw_parts(at as *const u8, len) }.to_vec();
    let line = StaleLine { at: row.to, before: read(row.to), came: read(row.from) };
    Transfers::here().stale_lines.lock().push(line);
}

/// Runs a kernel that sees stale lines where `cache.stale` has left some; they are gone afterwards, but for what the
/// kernel wrote over them.
pub(crate) fn with_stale_lines<T>(kernel: impl FnOnce() -> T) -> T {
    let lines = std::mem::take(&mut *Transfers::here().stale_lines.lock());
    let swap = |put: fn(&StaleLine) -> &[u8], there: fn(&StaleLine) -> &[u8]| {
        for line in &lines {
            if memory::map().check(line.at, line.came.len()).is_err() {
                continue;
            }
            // SAFETY: the range is mapped, and the dispatch that calls this keeps it so.
            let now =
                unsafe { std::slice::from_raw_parts_mut(line.at as *mut u8, line.came.len()) };
            for ((byte, put), there) in now.iter_mut().zip(put(line)).zip(there(line)) {
                if byte == there {
                    *byte = *put;
                }
            }
        }
    };
    swap(|line| &line.before, |line| &line.came);
    let result = kernel();
    swap(|line| &line.came, |line| &line.before);
    result
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
        unsafe { carry_out(&rows, fate) };
        assert_eq!(target, expected, "{fate:?}");
    }

    #[test]
    fn each_fate_leaves_its_own_trace() {
        check(Fate::Done, [1, 2, 3, 4, 5, 6, 7, 8]);
        check(Fate::Dropped, [9; 8]);
        check(Fate::Zeroed, [0; 8]);
        check(Fate::Torn(torn_tail(8)), [1, 2, 3, 4, 5, 6, 9, 9]);
        check(Fate::Misplaced(1), [9, 1, 2, 9, 4, 5, 6, 7]);
        check(Fate::Misplaced(4), [9, 9, 9, 9, 9, 9, 9, 4]);
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
