//! Tracks which bytes of an allocation are initialised.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// One bit for each byte of an allocation. The bit is set once the byte has been written.
#[derive(Debug)]
pub struct Written {
    start: u64,
    len: u64,
    words: Vec<AtomicU64>,
}

impl Written {
    /// Creates the bits for an uninitialised allocation of `len` bytes at `start`.
    pub fn new(start: u64, len: u64) -> Written {
        // `vec!` allocates zeroed pages, so that parts that are never written need no memory.
        let words = vec![0u64; usize::try_from(len.div_ceil(64)).unwrap_or(0)];
        Written { start, len, words: words.into_iter().map(AtomicU64::new).collect() }
    }

    /// Returns the addresses of the allocation.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.len
    }

    /// Returns the words that contain the bits of an address range, each with the mask of these bits.
    fn words(&self, range: Range<u64>) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let first = range.start.clamp(self.start, self.start + self.len) - self.start;
        let end = range.end.clamp(self.start, self.start + self.len) - self.start;
        (first / 64..end.div_ceil(64)).map(move |index| {
            let (low, high) = (first.max(index * 64) % 64, end.min(index * 64 + 64) - index * 64);
            let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
            (&self.words[index as usize], mask)
        })
    }

    /// Returns true if at least one byte of the range is initialised. Bytes outside of the allocation are ignored.
    pub fn any(&self, range: Range<u64>) -> bool {
        self.words(range).any(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }

    /// Returns true if all bytes of the range are initialised.
    pub fn all(&self, range: Range<u64>) -> bool {
        self.words(range).all(|(word, mask)| word.load(Ordering::Relaxed) & mask == mask)
    }

    /// Marks the range as initialised or uninitialised.
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
