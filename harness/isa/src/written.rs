//! Which bytes of an allocation were ever written.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// One bit for each byte of an allocation: whether anything was written there since it was allocated.
#[derive(Debug)]
pub struct Written {
    start: u64,
    len: u64,
    words: Vec<AtomicU64>,
}

impl Written {
    /// Of an allocation of `len` bytes at `start` to which nobody has written yet.
    pub fn new(start: u64, len: u64) -> Written {
        // Zeroed pages, so that what nobody touches costs nothing.
        let words = vec![0u64; usize::try_from(len.div_ceil(64)).unwrap_or(0)];
        Written { start, len, words: words.into_iter().map(AtomicU64::new).collect() }
    }

    /// The addresses of the allocation.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.len
    }

    /// The words that hold the bits of a range of addresses, each with the mask of these bits.
    fn words(&self, range: Range<u64>) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let first = range.start.clamp(self.start, self.start + self.len) - self.start;
        let end = range.end.clamp(self.start, self.start + self.len) - self.start;
        (first / 64..end.div_ceil(64)).map(move |index| {
            let (low, high) = (first.max(index * 64) % 64, end.min(index * 64 + 64) - index * 64);
            let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
            (&self.words[index as usize], mask)
        })
    }

    /// Whether any byte of the range was written; what is outside of the allocation does not count.
    pub fn any(&self, range: Range<u64>) -> bool {
        self.words(range).any(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }

    /// Whether all bytes of the range were written.
    pub fn all(&self, range: Range<u64>) -> bool {
        self.words(range).all(|(word, mask)| word.load(Ordering::Relaxed) & mask == mask)
    }

    /// Notes that the range was written, or that it now holds what was never written.
    pub fn set(&self, range: Range<u64>, written: bool) {
        for (word, mask) in self.words(range) {
            if written {
                word.fetch_or(mask, Ordering::Relaxed);
            } else {
                word.fetch_and(!mask, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_for_bytes() {
        let written = Written::new(1000, 200);
        written.set(1060..1070, true);
        #[track_caller]
        fn check(written: &Written, range: Range<u64>, any: bool) {
            assert_eq!(written.any(range.clone()), any, "{range:?}");
        }
        check(&written, 1000..1060, false);
        check(&written, 1059..1061, true);
        check(&written, 1063..1064, true);
        check(&written, 1064..1065, true);
        check(&written, 1070..1300, false);
        check(&written, 0..5000, true);
        check(&written, 1065..1065, false);
        written.set(1062..1069, false);
        check(&written, 1062..1069, false);
        check(&written, 1061..1062, true);
        assert!(written.all(1060..1062) && !written.all(1060..1063));
        written.set(0..u64::MAX, true);
        check(&written, 1199..1200, true);
        check(&written, 1200..1201, false);
    }
}
