//! Records the last accesses to each byte of memory.

use std::{cell::Cell, collections::BTreeMap, ops::Range};

use isa::AccessKind;

/// Last write to a byte and last read of it. Each is the number of the packet or copy plus one; zero means that there
/// was no access. The writer, a flag for atomic writes, and the reader are packed into one word, because many of these
/// values are compared and filled.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Byte(u64);

const READER: u64 = u32::MAX as u64;
const WRITER: u32 = 33;
const ATOMIC: u64 = 1 << 32;

const PAGE: u64 = 4096;

/// Last accesses to the bytes of a page. Most copies and many kernels access all bytes of a page in the same way.
enum Page {
    Uniform(Byte),
    PerByte(Box<[Byte]>),
}

/// An earlier access that conflicts with the current one, because no synchronisation guarantees their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unordered {
    pub(super) work: u32,
    pub(super) kind: AccessKind,
    pub(super) address: u64,
}

/// Last accesses to all memory. The key is the number of the page. A page that was not accessed has no entry.
#[derive(Default)]
pub(super) struct Accesses(BTreeMap<u64, Page>);

impl Byte {
    /// Records an access to the byte by the packet or copy with the number `work`. `is_before` returns true for the
    /// number of a packet or copy that is complete before the access. If the access conflicts with an earlier one, the
    /// error contains the number of the packet or copy that made the earlier access, and the kind of the earlier
    /// access.
    fn add(
        &mut self,
        work: u32,
        kind: AccessKind,
        is_before: &impl Fn(u32) -> bool,
    ) -> Result<(), (u32, AccessKind)> {
        let rival =
            |last: u32| (last != 0 && last != work + 1 && !is_before(last - 1)).then(|| last - 1);
        let (write, read) = ((self.0 >> WRITER) as u32, self.0 as u32);
        let atomic = self.0 & ATOMIC != 0;
        let wrote = if atomic { AccessKind::Atomic } else { AccessKind::Store };
        let both_atomic = atomic && kind == AccessKind::Atomic;
        let writer = rival(write).filter(|_| !both_atomic).map(|other| (other, wrote));
        let reader = rival(read).map(|other| (other, AccessKind::Load));
        let found = if kind == AccessKind::Load {
            // If the order of several readers is not guaranteed, only the first of them is kept.
            if reader.is_none() {
                self.0 = self.0 & !READER | u64::from(work + 1);
            }
            writer
        } else {
            // A conflict is reported only once: later writes that are ordered after this write do not report it again.
            let read = if reader.is_some() { 0 } else { self.0 & READER };
            let atomic = if kind == AccessKind::Atomic { ATOMIC } else { 0 };
            self.0 = u64::from(work + 1) << WRITER | atomic | read;
            writer.or(reader)
        };
        found.map_or(Ok(()), Err)
    }
}

/// Returns the number of bytes at the start of the slice that have the same last accesses as the first byte. The
/// function compares 16 bytes at once.
fn uniform_prefix(bytes: &[Byte]) -> usize {
    let Some(first) = bytes.first() else { return 0 };
    let mut length = 0;
    for piece in bytes.chunks(16) {
        if piece.iter().fold(0, |all, byte| all | (byte.0 ^ first.0)) != 0 {
            return length + piece.iter().take_while(|byte| *byte == first).count();
        }
        length += piece.len();
    }
    length
}

impl Accesses {
    /// Records an access. `is_before` returns true for a packet or copy that is complete before the access. Returns the
    /// first conflict as an error.
    pub(super) fn touch(
        &mut self,
        work: u32,
        kind: AccessKind,
        range: Range<u64>,
        is_before: impl Fn(u32) -> bool,
    ) -> Result<(), Unordered> {
        // Neighbouring bytes mostly have equal histories, so the last result is cached.
        let known = Cell::new(work);
        let is_before = |other| {
            let before = known.get() == other || is_before(other);
            if before {
                known.set(other);
            }
            before
        };
        let mut first = Ok(());
        let mut start = range.start;
        while start < range.end {
            let base = start / PAGE * PAGE;
            let end = range.end.min(base.saturating_add(PAGE));
            let page = self.0.entry(base).or_insert(Page::Uniform(Byte::default()));
            let found = |address, (work, kind)| Unordered { work, kind, address };
            match page {
                Page::Uniform(byte) if end - start == PAGE => {
                    let added = byte.add(work, kind, &is_before);
                    first = first.and(added.map_err(|other| found(base, other)));
                }
                Page::Uniform(byte) => {
                    *page = Page::PerByte(vec![*byte; PAGE as usize].into_boxed_slice());
                    continue;
                }
                Page::PerByte(bytes) => {
                    let part = &mut bytes[(start - base) as usize..(end - base) as usize];
                    let mut done = 0;
                    while done < part.len() {
                        // All bytes with equal history have the same result.
                        let length = uniform_prefix(&part[done..]);
                        let mut byte = part[done];
                        let added = byte.add(work, kind, &is_before);
                        let address = start + done as u64;
                        first = first.and(added.map_err(|other| found(address, other)));
                        if byte != part[done] {
                            part[done..done + length].fill(byte);
                        }
                        done += length;
                    }
                    // Waves write a page piece by piece, mostly in ascending order. After the last piece, all bytes may
                    // have equal histories.
                    if end == base.saturating_add(PAGE) && uniform_prefix(bytes) == bytes.len() {
                        *page = Page::Uniform(bytes[0]);
                    }
                }
            }
            start = end;
        }
        first
    }

    /// Forgets all accesses to the pages in a range.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        let first = range.start / PAGE * PAGE;
        let mut rest = self.0.split_off(&first);
        let mut behind = rest.split_off(&range.end.next_multiple_of(PAGE));
        self.0.append(&mut behind);
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessKind::*, *};

    /// Records a list of accesses and compares the first conflict with the expected one. In this test, two packets are
    /// ordered if their numbers have the same parity.
    #[track_caller]
    fn check(list: &[(u32, AccessKind, Range<u64>)], expected: Option<(u32, AccessKind, u64)>) {
        let mut accesses = Accesses::default();
        let found = list.iter().find_map(|(work, kind, range)| {
            accesses.touch(*work, *kind, range.clone(), |other| other % 2 == work % 2).err()
        });
        assert_eq!(found.map(|found| (found.work, found.kind, found.address)), expected);
    }

    #[test]
    fn unordered_write_and_access_conflict() {
        let one = || 5000..5004;
        check(&[(0, Store, one()), (1, Load, one())], Some((0, Store, 5000)));
        check(&[(0, Store, one()), (2, Load, one())], None);
        check(&[(0, Load, one()), (1, Store, one())], Some((0, Load, 5000)));
        check(&[(0, Load, one()), (1, Load, one()), (3, Store, 5002..5003)], Some((0, Load, 5002)));
        check(&[(0, Load, one()), (2, Load, one()), (2, Store, one())], None);
        // The second packet reads and then writes.
        check(&[(0, Load, one()), (1, Load, one()), (1, Store, one())], Some((0, Load, 5000)));
        check(&[(0, Store, one()), (0, Load, one()), (0, Store, one())], None);
        check(&[(0, Store, 5000..5004), (1, Store, 5004..5008)], None);
        check(&[(0, Store, 5000..5004), (1, Store, 5003..5008)], Some((0, Store, 5003)));
        check(&[(0, Atomic, one()), (1, Atomic, one())], None);
        check(&[(0, Atomic, one()), (1, Load, one())], Some((0, Atomic, 5000)));
        check(&[(0, Atomic, one()), (1, Store, one())], Some((0, Atomic, 5000)));
    }

    #[test]
    fn page_and_byte_accesses_conflict() {
        let pages = || 4096..3 * 4096;
        check(&[(0, Store, pages()), (1, Load, 9000..9001)], Some((0, Store, 9000)));
        check(&[(0, Store, 9000..9001), (1, Load, pages())], Some((0, Store, 9000)));
        check(
            &[(0, Store, 9000..9001), (2, Store, pages()), (1, Load, 12000..12001)],
            Some((2, Store, 12000)),
        );
        check(&[(0, Store, pages()), (2, Load, 9000..9001), (4, Store, pages())], None);
        let last = u64::MAX - 3..u64::MAX;
        check(&[(0, Store, last.clone()), (1, Load, last)], Some((0, Store, u64::MAX - 3)));
        check(&[(0, Store, pages()), (1, Store, 0..4096), (1, Store, 3 * 4096..20000)], None);
    }

    /// An access to a range must have the same result as accesses to its bytes one by one.
    #[test]
    fn range_access_equals_byte_accesses() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut whole, mut single) = (Accesses::default(), Accesses::default());
            let mut conflicts = 0;
            for _ in 0..60 {
                let start = 4000 + next(400) * [1, 4, 16][next(3) as usize];
                let range = start..start + [1, 4, 128, 500, 4096, 9000][next(6) as usize];
                let (work, kind) = (next(6) as u32, [Load, Store, Atomic][next(3) as usize]);
                let before = |other: u32| other % 3 == work % 3 || other < work;
                let one = whole.touch(work, kind, range.clone(), before);
                let touch = |at| single.touch(work, kind, at..at + 1, before);
                // All bytes are accessed, even after a conflict.
                let results: Vec<_> = range.map(touch).collect();
                let other = results.into_iter().find(Result::is_err).unwrap_or(Ok(()));
                assert_eq!(one, other);
                conflicts += usize::from(one.is_err());
            }
            assert!((1..60).contains(&conflicts));
        }
    }

    #[test]
    fn freed_memory_has_no_conflicts() {
        let mut accesses = Accesses::default();
        let no = |_| false;
        assert_eq!(accesses.touch(0, Store, 0..16384, no), Ok(()));
        accesses.forget(4096..8192);
        assert_eq!(accesses.touch(1, Load, 4096..8192, no), Ok(()));
        let found = Unordered { work: 0, kind: Store, address: 8192 };
        assert_eq!(accesses.touch(1, Load, 4096..8193, no), Err(found));
        assert!(accesses.touch(1, Load, 0..1, no).is_err());
    }

    #[test]
    fn access_is_recorded_fully_after_a_conflict() {
        let mut accesses = Accesses::default();
        let no = |_| false;
        assert_eq!(accesses.touch(0, Load, 4096..4100, no), Ok(()));
        let found = |work, kind, address| Err(Unordered { work, kind, address });
        assert_eq!(accesses.touch(1, Store, 4096..4104, no), found(0, Load, 4096));
        assert_eq!(accesses.touch(1, Store, 4096..4104, |other| other == 0), Ok(()));
        assert_eq!(accesses.touch(2, Load, 4096..4104, |other| other == 0), found(1, Store, 4096));
        assert_eq!(accesses.touch(2, Load, 4102..4104, |other| other == 0), found(1, Store, 4102));
    }
}
