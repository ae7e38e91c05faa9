//! Device memory for the fuzz targets: a few buffers, each an allocation of its own, so that the address sanitizer
//! detects every access outside of them.

use std::{ops::Range, sync::Arc};

use isa::{AddressSpace, Written};

/// A small block of mapped memory, which is never freed.
pub struct Block(*mut u64, usize);

// SAFETY: the memory is never freed, and a target uses its blocks from one thread.
unsafe impl Sync for Block {}
// SAFETY: the memory is never freed, and a target uses its blocks from one thread.
unsafe impl Send for Block {}

impl Block {
    /// Allocates a block of this many 64-bit words, all zero, for the life of the process.
    pub fn new(words: usize) -> Block {
        let memory = Box::leak(vec![0u64; words].into_boxed_slice()).as_mut_ptr();
        memory.expose_provenance();
        Block(memory, words)
    }

    /// Returns the address range of the block.
    pub fn range(&self) -> Range<u64> {
        let start = self.0.addr() as u64;
        start..start + self.1 as u64 * 8
    }

    /// Sets all words of the block to `word`.
    pub fn fill(&self, word: u64) {
        for index in 0..self.1 {
            // SAFETY: the index is below the number of words in the block.
            unsafe { self.0.add(index).write(word) };
        }
    }

    /// Writes bytes to the block from `offset` on, as many as fit.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min((self.1 * 8).saturating_sub(offset))];
        // SAFETY: the bytes were cut to the part of the block after `offset`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.0.cast::<u8>().add(offset),
                bytes.len(),
            );
        }
    }
}

/// Address space of a kernel that a fuzz target launches.
pub struct Space<'a> {
    /// Mapped blocks that the kernel may access.
    pub blocks: &'a [Block],
    /// True if the device sanitizer is on.
    pub is_watched: bool,
    /// Shadow memory that tracks which bytes were written; `None` if no block has shadow memory.
    pub written: Option<Arc<Written>>,
}

// SAFETY: the blocks are borrowed for the lifetime of the space, and the ranges are mapped.
unsafe impl AddressSpace for Space<'_> {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        self.blocks.iter().map(Block::range).find(|range| range.contains(&address))
    }

    fn is_watched(&self) -> bool {
        self.is_watched
    }

    fn written(&self, address: u64) -> Option<Arc<Written>> {
        self.written.clone().filter(|written| written.range().contains(&address))
    }
}
