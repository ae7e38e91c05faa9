//! Data that the sanitizer keeps in addition to the address map: allocations, guard areas and initialised bytes.
//!
//! With the sanitizer, the address map contains the exact bytes of allocations instead of whole pages. If a kernel or a
//! copy accesses memory outside of an allocation, this is therefore a page fault. For such an address, this module
//! describes the nearest allocation.

use std::{
    collections::BTreeMap,
    ffi::{CStr, c_char},
    ops::Range,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
};

use device::Config;
use isa::Written;

use crate::{
    locks::{Mutex, RwLock},
    part::DeviceComponent as _,
    row::Row,
};

pub(crate) struct Sanitizer {
    on: bool,
    /// Current line of the case, or `u32::MAX` before the first line.
    line: AtomicU32,
    history: Mutex<History>,
    /// Guard areas on both sides of buffers, which kernels of the program must not access. The key is the start of a
    /// guard area, the value its end. Guard areas do not overlap.
    guards: RwLock<BTreeMap<usize, usize>>,
    /// Initialised bytes of each allocation of device memory. The key is the start of the allocation.
    ///
    /// Only memory that nothing but packets and copies can access is tracked. Memory that the host can write without a
    /// call, and memory from the virtual memory calls, is treated as initialised.
    written: RwLock<BTreeMap<u64, Arc<Written>>>,
}

impl Sanitizer {
    pub(crate) fn new(config: &Config) -> Sanitizer {
        Sanitizer {
            on: config.sanitize.is_on(),
            line: AtomicU32::new(u32::MAX),
            history: Mutex::default(),
            guards: RwLock::default(),
            written: RwLock::default(),
        }
    }

    /// Returns true if the sanitizer is on. Then accesses are checked against the exact bytes of allocations.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn current_line(&self) -> u32 {
        self.line.load(Ordering::Relaxed)
    }

    /// Returns the part of the mapped range around the address that does not overlap guard areas; `None` if the address
    /// is in a guard area.
    pub(crate) fn unguarded(&self, address: usize, mapped: Range<usize>) -> Option<Range<usize>> {
        if !self.on {
            return Some(mapped);
        }
        between(&self.guards.read(), address, mapped)
    }

    /// Returns the marks of initialised bytes of the allocation that contains the address; `None` if the allocation is
    /// not tracked.
    pub(crate) fn written(&self, address: u64) -> Option<Arc<Written>> {
        let all = self.written.read();
        let (_, found) = all.range(..=address).next_back()?;
        found.range().contains(&address).then(|| found.clone())
    }

    /// Describes the allocation that contains an address or is near it, for the message about an invalid access.
    /// Returns an empty string if the sanitizer is off.
    pub(crate) fn describe(&self, address: u64) -> String {
        let current = self.current_line();
        let known = self.history.lock().describe(address as usize, current);
        known.map_or_else(String::new, |known| format!("; {known}"))
    }
}

#[derive(Clone, Debug)]
struct Allocation {
    start: usize,
    len: usize,
    /// Name of the buffer of the case; `None` if the allocation is not such a buffer.
    name: Option<Arc<str>>,
    allocated_at: u32,
    freed_at: Option<u32>,
}

#[derive(Debug, Default)]
struct History(Vec<Allocation>);

/// Maximum distance in bytes between an address and an allocation for the allocation to be mentioned.
const MAX_DISTANCE: usize = 1 << 20;

impl History {
    /// Describes the allocation that contains the address, has contained it, or is next to it; `None` if no allocation
    /// is near. `at` is the current line of the case.
    fn describe(&self, address: usize, at: u32) -> Option<String> {
        let inside = |a: &&Allocation| a.start <= address && address - a.start < a.len;
        let after = |a: &Allocation| address.checked_sub(a.start + a.len);
        let before = |a: &Allocation| a.start.checked_sub(address);
        let newest = self.0.iter().rev();
        // If an allocation contains a named buffer, the buffer is described instead, because its name says more.
        let holds_one = |a: &Allocation| {
            let inside = |b: &Allocation| b.start >= a.start && b.start + b.len <= a.start + a.len;
            let of_it = |b: &Allocation| b.name.is_some() && b.freed_at == a.freed_at && inside(b);
            a.name.is_none() && self.0.iter().any(of_it)
        };
        if let Some(found) = newest.clone().filter(inside).find(|a| !holds_one(a)) {
            return Some(format!("{} bytes into {}", address - found.start, found.words(at)));
        }
        let live = || newest.clone().filter(|a| a.freed_at.is_none() && !holds_one(a));
        let behind = live().filter_map(|a| Some((after(a)?, a))).min_by_key(|(by, _)| *by);
        let ahead = live().filter_map(|a| Some((before(a)?, a))).min_by_key(|(by, _)| *by);
        match (behind, ahead) {
            (Some((by, a)), other) if by < MAX_DISTANCE && other.is_none_or(|o| by <= o.0) => {
                let words = a.words(at);
                Some(if by == 0 {
                    format!("just past {words}")
                } else {
                    format!("{by} bytes past {words}")
                })
            }
            (_, Some((by, a))) if by < MAX_DISTANCE => {
                Some(format!("{by} bytes before {}", a.words(at)))
            }
            _ => None,
        }
    }
}

impl Allocation {
    fn words(&self, at: u32) -> String {
        let what = match &self.name {
            Some(name) => format!("of buffer `{name}`"),
            None => format!("at {:#x}", self.start),
        };
        let freed = self
            .freed_at
            .map_or_else(String::new, |by| format!(" and {} freed", line_in_words(by, at)));
        format!(
            "the {} bytes {what} that {} allocated{freed}",
            self.len,
            line_in_words(self.allocated_at, at)
        )
    }
}

fn line_in_words(number: u32, at: u32) -> String {
    match number {
        // A program that is not a trial does not report the lines that it executes.
        u32::MAX if at == u32::MAX => "the program".to_owned(),
        u32::MAX => "the runtime".to_owned(),
        // Line 0 means work that the case does not contain explicitly.
        0 => "the set-up".to_owned(),
        number => format!("line {number}"),
    }
}

pub(crate) fn line(number: u32) -> String {
    line_in_words(number, current_line())
}

fn history() -> MutexGuard<'static, History> {
    Sanitizer::current().history.lock()
}

/// Returns true if the sanitizer is on. Then accesses are checked against the exact bytes of allocations.
pub(crate) fn is_on() -> bool {
    Sanitizer::current().is_on()
}

fn between(
    guards: &BTreeMap<usize, usize>,
    address: usize,
    mapped: Range<usize>,
) -> Option<Range<usize>> {
    let before = guards.range(..=address).next_back().map_or(0, |(_, end)| *end);
    let behind = guards.range(address..).next().map_or(usize::MAX, |(start, _)| *start);
    (before <= address).then(|| mapped.start.max(before)..mapped.end.min(behind))
}

/// Removes all guard areas in a range of memory that is reused.
fn forget_guards(range: Range<usize>) {
    Sanitizer::current()
        .guards
        .write()
        .retain(|start, end| *end <= range.start || range.end <= *start);
}

fn written(address: u64) -> Option<Arc<Written>> {
    Sanitizer::current().written(address)
}

/// Records a copy. A copied byte is initialised if its source byte is.
pub(crate) fn record_copy(rows: &[Row]) {
    if !is_on() {
        return;
    }
    for row in rows {
        let Some(target) = written(row.to as u64) else { continue };
        let len = row.len as u64;
        let (to, from) = (row.to as u64, row.from as u64);
        match written(from) {
            None => target.set(to..to + len, true),
            Some(source) => copy_written(&target, &source, to, from, len),
        }
    }
}

/// Copies the marks of `len` initialised or uninitialised bytes, from the address `from` in `source` to the address
/// `to` in `target`. Works in large pieces, because most pieces are completely initialised or completely uninitialised.
fn copy_written(target: &Written, source: &Written, to: u64, from: u64, len: u64) {
    const CHUNK_BYTES: u64 = 4096;
    for start in (0..len).step_by(CHUNK_BYTES as usize) {
        let end = (start + CHUNK_BYTES).min(len);
        if !source.any(from + start..from + end) {
            target.set(to + start..to + end, false);
            continue;
        }
        for byte in start..end {
            target.set(to + byte..to + byte + 1, source.any(from + byte..from + byte + 1));
        }
    }
}

pub(crate) fn current_line() -> u32 {
    Sanitizer::current().current_line()
}

/// Records an allocation. `of_the_device` is true if the host cannot access the memory.
pub(crate) fn record_allocation(start: usize, len: usize, of_the_device: bool) {
    if is_on() {
        if of_the_device {
            let book = Arc::new(Written::new(start as u64, len as u64));
            Sanitizer::current().written.write().insert(start as u64, book);
        }
        let by = current_line();
        history().0.push(Allocation { start, len, name: None, allocated_at: by, freed_at: None });
    }
}

pub(crate) fn record_free(start: usize) {
    if is_on() {
        Sanitizer::current().written.write().remove(&(start as u64));
        let mut history = history();
        let live = |a: &&mut Allocation| a.freed_at.is_none();
        let end = history.0.iter_mut().rev().filter(live).find(|a| a.start == start);
        let Some(end) = end.map(|a| a.start + a.len) else { return };
        forget_guards(start..end);
        let inside = |a: &&mut Allocation| a.start >= start && a.start + a.len <= end;
        for allocation in history.0.iter_mut().filter(live).filter(inside) {
            allocation.freed_at = Some(current_line());
        }
    }
}

/// Describes the allocation that contains an address or is near it, for the message about an invalid access. Returns an
/// empty string if the sanitizer is off.
pub(crate) fn describe(address: u64) -> String {
    Sanitizer::current().describe(address)
}

/// Marks a range of memory as uninitialised, even if it has been written.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_never_written(start: usize, bytes: usize) {
    if let Some(written) = written(start as u64) {
        written.set(start as u64..(start as u64).saturating_add(bytes as u64), false);
    }
}

/// Registers a buffer of the case, with a guard area of `guard` bytes on each side.
///
/// # Safety
/// `name` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn rocrepro_device_buffer(
    start: usize,
    len: usize,
    guard: usize,
    name: *const c_char,
) {
    if is_on() {
        forget_guards(start - guard..start + len + guard);
        if guard > 0 {
            let guards = [(start - guard, start), (start + len, start + len + guard)];
            Sanitizer::current().guards.write().extend(guards);
        }
        // SAFETY: the caller guarantees a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let (name, by) = (Some(Arc::from(name)), current_line());
        history().0.push(Allocation { start, len, name, allocated_at: by, freed_at: None });
    }
}

/// Sets the line of the case that the worker executes next.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_line(line: u32) {
    Sanitizer::current().line.store(line, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_propagate_uninitialised_bytes() {
        let (source, target) = (Written::new(10_000, 9000), Written::new(50_000, 9000));
        source.set(10_100..10_200, true);
        target.set(50_000..59_000, true);
        copy_written(&target, &source, 50_001, 10_000, 8999);
        #[track_caller]
        fn check(book: &Written, range: std::ops::Range<u64>, expected: bool) {
            assert_eq!(book.any(range.clone()), expected, "{range:?}");
        }
        check(&target, 50_000..50_001, true);
        check(&target, 50_001..50_101, false);
        check(&target, 50_101..50_102, true);
        check(&target, 50_200..50_201, true);
        check(&target, 50_201..59_000, false);
    }

    #[test]
    fn guards_are_not_accessible() {
        let guards = BTreeMap::from([(1000, 1256), (1300, 1556)]);
        #[track_caller]
        fn check(guards: &BTreeMap<usize, usize>, address: usize, expected: Option<Range<usize>>) {
            assert_eq!(between(guards, address, 900..2000), expected, "{address}");
        }
        check(&guards, 999, Some(900..1000));
        check(&guards, 1000, None);
        check(&guards, 1255, None);
        check(&guards, 1256, Some(1256..1300));
        check(&guards, 1299, Some(1256..1300));
        check(&guards, 1300, None);
        check(&guards, 1556, Some(1556..2000));
    }

    #[test]
    fn describes_addresses_by_neighbouring_allocations() {
        let allocation = |start, by, freed_by| Allocation {
            start,
            len: 100,
            name: None,
            allocated_at: by,
            freed_at: freed_by,
        };
        let buffer = Allocation {
            start: 0x40010,
            len: 60,
            name: Some("src".into()),
            allocated_at: 0,
            freed_at: None,
        };
        let history = History(vec![
            allocation(0x10000, u32::MAX, None),
            allocation(0x20000, 3, Some(9)),
            allocation(0x20000, 12, None),
            allocation(0x30000, 4, Some(5)),
            allocation(0x40000, 0, None),
            buffer,
        ]);
        #[track_caller]
        fn check(history: &History, address: usize, expected: Option<&str>) {
            assert_eq!(history.describe(address, u32::MAX).as_deref(), expected);
        }
        let runtime = "8 bytes past the 100 bytes at 0x10000 that the program allocated";
        check(&history, 0x10000 + 108, Some(runtime));
        check(
            &history,
            0x20000 - 4,
            Some("4 bytes before the 100 bytes at 0x20000 that line 12 allocated"),
        );
        check(
            &history,
            0x20001,
            Some("1 bytes into the 100 bytes at 0x20000 that line 12 allocated"),
        );
        let freed = "16 bytes into the 100 bytes at 0x30000 that line 4 allocated and line 5 freed";
        check(&history, 0x30010, Some(freed));
        let inside = "4 bytes into the 60 bytes of buffer `src` that the set-up allocated";
        check(&history, 0x40014, Some(inside));
        let behind = "24 bytes past the 60 bytes of buffer `src` that the set-up allocated";
        check(&history, 0x40010 + 84, Some(behind));
        check(&history, 0x9000_0000, None);
    }
}
