//! Copies bytes and applies injected copy faults.
//!
//! Both the copy engine and the copies that the HIP runtime makes with its own kernels use this module.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use device::Fault;

use crate::{delay, faults, locks::Mutex, memory, part::DeviceComponent as _, row::Row, sanitizer};

/// Direction of a copy, with the distinctions that injected faults need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    HostToDevice,
    Other,
}

/// Effect of an injected fault on one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyEffect {
    /// All bytes are written, as without a fault.
    Complete,
    Dropped,
    Zeroed,
    /// All bytes are written except this number of bytes at the end.
    Torn(usize),
    /// Each row is written this many bytes after its target address, and as many bytes at its end are left out.
    Misplaced(usize),
    /// All bytes are written, followed by this many zeros.
    Overrun(usize),
    /// The bytes are written after this delay, although the copy is reported as complete at once.
    Delayed(Duration),
    /// All bytes are written. After the next copy to the same address, they are written again.
    Twice,
    /// All bytes are written, but the first dispatch after the copy still sees the old values of this number of bytes
    /// at the start.
    Stale(usize),
}

/// Maximum size in bytes of host-to-device copies that share a staging slot, as in the bug that the fault
/// `copy.lost-small-slot` imitates.
const SMALL: usize = 64;

/// State of injected copy faults that is kept from one copy to the next.
#[derive(Default)]
pub(crate) struct Transfers {
    /// Number of small host-to-device copies so far.
    small: AtomicU64,
    /// Bytes of the last copy to each address. The key is the address.
    last: Mutex<BTreeMap<usize, Vec<u8>>>,
    stale_lines: Mutex<Vec<StaleLine>>,
}

/// Decides which injected fault takes effect on a copy of `len` bytes.
pub(crate) fn copy_effect(len: usize, direction: Direction) -> CopyEffect {
    if len == 0 {
        return CopyEffect::Complete;
    }
    if direction == Direction::HostToDevice && len <= SMALL {
        let second = Transfers::current().small.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if second && faults::is_active(Fault::CopyLostSmallSlot) {
            return CopyEffect::Zeroed;
        }
    }
    if faults::is_active(Fault::CopyZero) {
        CopyEffect::Zeroed
    } else if faults::is_active(Fault::CopyDrop) {
        CopyEffect::Dropped
    } else if faults::is_active(Fault::CopyTorn) {
        CopyEffect::Torn(torn_tail(len))
    } else if let Some(planted) = faults::active_fault(Fault::CopyMisplaced) {
        CopyEffect::Misplaced(planted.amount("bytes") as usize)
    } else if let Some(planted) = faults::active_fault(Fault::CopyOverrun) {
        CopyEffect::Overrun(planted.amount("bytes") as usize)
    } else if let Some(planted) = faults::active_fault(Fault::CopyLate) {
        CopyEffect::Delayed(Duration::from_millis(planted.amount("ms")))
    } else if faults::is_active(Fault::CopyTwice) {
        CopyEffect::Twice
    } else if direction == Direction::HostToDevice
        && let Some(planted) = faults::active_fault(Fault::CacheStale)
    {
        CopyEffect::Stale(planted.amount("bytes") as usize)
    } else {
        CopyEffect::Complete
    }
}

/// Returns the address at which the copy causes a page fault; `None` unless the fault `copy.page-fault` takes effect.
pub(crate) fn page_fault(rows: &[Row]) -> Option<u64> {
    let first = rows.iter().find(|row| row.len > 0)?;
    faults::is_active(Fault::CopyPageFault).then_some(first.to as u64)
}

/// Returns the number of bytes that a torn copy does not write: a quarter of its size, but at least 1 and at most 64.
fn torn_tail(len: usize) -> usize {
    (len / 4).clamp(1, 64)
}

/// Executes a copy with the effect of an injected fault.
///
/// # Safety
/// Every row must be readable and writable for its length until the function returns. If the program accesses the
/// memory at the same time, the only effect is torn data.
pub(crate) unsafe fn execute(rows: &[Row], copy_effect: CopyEffect) {
    // The effect of an injected fault is not an error of the program, so all bytes are recorded as copied.
    sanitizer::record_copy(rows);
    match copy_effect {
        CopyEffect::Delayed(length) => return later(rows.to_vec(), length),
        // SAFETY: the caller guarantees the rows, which are passed on.
        CopyEffect::Twice => return unsafe { duplicate(rows) },
        // SAFETY: the caller guarantees the rows, which are passed on.
        CopyEffect::Stale(bytes) => unsafe { keep_stale(rows, bytes) },
        _ => {}
    }
    // SAFETY: the caller guarantees the rows, which are passed on.
    unsafe { execute_now(rows, copy_effect) };
    if let (CopyEffect::Overrun(bytes), Some(row)) =
        (copy_effect, rows.iter().rfind(|row| row.len > 0))
    {
        overrun(row.to + row.len, bytes);
    }
}

/// Writes `bytes` zeros starting at `from`, but not beyond the end of the mapped memory.
fn overrun(from: usize, bytes: usize) {
    let map = memory::map();
    let room = (1..=bytes).rev().find(|len| map.check(from, *len).is_ok()).unwrap_or(0);
    // SAFETY: the range is mapped, and stays mapped while the map is locked.
    unsafe { std::ptr::write_bytes(from as *mut u8, 0, room) };
}

/// Executes a copy without delay.
///
/// # Safety
/// See [`execute`].
unsafe fn execute_now(rows: &[Row], copy_effect: CopyEffect) {
    let total: usize = rows.iter().map(|row| row.len).sum();
    let mut left = match copy_effect {
        CopyEffect::Dropped => return,
        CopyEffect::Torn(tail) => total.saturating_sub(tail),
        _ => total,
    };
    for row in rows {
        let len = row.len.min(left);
        left -= len;
        // SAFETY: the caller guarantees both ends of each row; `copy` allows them to overlap.
        unsafe {
            match copy_effect {
                CopyEffect::Zeroed => std::ptr::write_bytes(row.to as *mut u8, 0, len),
                CopyEffect::Misplaced(by) => {
                    let by = by.min(len);
                    std::ptr::copy(row.from as *const u8, (row.to + by) as *mut u8, len - by);
                }
                _ => std::ptr::copy(row.from as *const u8, row.to as *mut u8, len),
            }
        }
    }
}

/// Copies the bytes on another thread, after a delay. Memory that is freed in the meantime stays mapped until the copy
/// ends.
fn later(rows: Vec<Row>, length: Duration) {
    let in_use = memory::InUse::new();
    let copy = move || {
        delay::sleep(length);
        // SAFETY: the rows were mapped when `in_use` was created, which keeps them mapped.
        unsafe { execute_now(&rows, CopyEffect::Complete) };
        drop(in_use);
    };
    // If the system cannot create a thread, the bytes are never written, as if the copy were very late.
    let _ = Transfers::spawn(delay::THREAD, copy);
}

/// Executes a copy and then repeats the previous copy to the same address.
///
/// # Safety
/// See [`execute`].
unsafe fn duplicate(rows: &[Row]) {
    let mut last = Transfers::current().last.lock();
    for row in rows {
        // SAFETY: the caller guarantees both ends of each row, and at most as many bytes are repeated as the row has.
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

/// Old bytes that kernels see at an address although a copy has replaced them. `at` is the address, `before` the old
/// bytes, and `came` the copied bytes.
struct StaleLine {
    at: usize,
    before: Vec<u8>,
    came: Vec<u8>,
}

/// Stores the first `bytes` old bytes at the target of a copy and the bytes that replace them, for
/// [`with_stale_lines`].
///
/// # Safety
/// See [`execute`].
unsafe fn keep_stale(rows: &[Row], bytes: usize) {
    let Some(row) = rows.first() else { return };
    let len = row.len.min(bytes);
    // SAFETY: the caller guarantees `len` bytes at both ends.
    let read = |at: usize| unsafe { std::slice::from_raw_parts(at as *const u8, len) }.to_vec();
    let line = StaleLine { at: row.to, before: read(row.to), came: read(row.from) };
    Transfers::current().stale_lines.lock().push(line);
}

/// Runs a kernel that sees the old bytes of the copies on which the fault `cache.stale` took effect. After the kernel,
/// the copied bytes are visible, except where the kernel has written.
pub(crate) fn with_stale_lines<T>(kernel: impl FnOnce() -> T) -> T {
    let lines = std::mem::take(&mut *Transfers::current().stale_lines.lock());
    let swap = |put: fn(&StaleLine) -> &[u8], there: fn(&StaleLine) -> &[u8]| {
        for line in &lines {
            if memory::map().check(line.at, line.came.len()).is_err() {
                continue;
            }
            // SAFETY: the range is mapped, and the dispatch that calls this keeps it mapped.
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
    fn check(copy_effect: CopyEffect, expected: [u8; 8]) {
        let source = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let mut target = [9u8; 8];
        let (to, from) = (target.as_mut_ptr() as usize, source.as_ptr() as usize);
        let row = |at: usize, len| Row { to: to + at, from: from + at, len };
        let rows = [row(0, 3), row(3, 5)];
        // SAFETY: the rows are inside the two arrays.
        unsafe { execute(&rows, copy_effect) };
        assert_eq!(target, expected, "{copy_effect:?}");
    }

    #[test]
    fn each_fault_changes_the_target_differently() {
        check(CopyEffect::Complete, [1, 2, 3, 4, 5, 6, 7, 8]);
        check(CopyEffect::Dropped, [9; 8]);
        check(CopyEffect::Zeroed, [0; 8]);
        check(CopyEffect::Torn(torn_tail(8)), [1, 2, 3, 4, 5, 6, 9, 9]);
        check(CopyEffect::Misplaced(1), [9, 1, 2, 9, 4, 5, 6, 7]);
        check(CopyEffect::Misplaced(4), [9, 9, 9, 9, 9, 9, 9, 4]);
    }

    #[test]
    fn torn_copy_misses_a_quarter_limited_to_1_to_64_bytes() {
        assert_eq!([1, 3, 4, 100, 4096].map(torn_tail), [1, 1, 1, 25, 64]);
    }

    #[test]
    fn copies_without_a_fault() {
        assert_eq!(copy_effect(16, Direction::HostToDevice), CopyEffect::Complete);
        assert_eq!(copy_effect(0, Direction::Other), CopyEffect::Complete);
    }
}
