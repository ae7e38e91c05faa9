//! Bounds what the examination of a process reads and how long it takes, because the mapped files may be crafted.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::time::Instant;

use object::ReadRef;
use object::read::ReadCache;

/// Number of bytes that the cache reads at least for a text that ends with a delimiter.
const LONGEST_TEXT: u64 = 256;

/// Bytes and time that remain for the examination of one process.
pub(super) struct Budget {
    bytes: Cell<u64>,
    until: Instant,
}

impl Budget {
    pub(super) fn new(bytes: u64, until: Instant) -> Budget {
        Budget { bytes: Cell::new(bytes), until }
    }

    /// Returns true after the end of the time.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Takes `bytes` from the budget.
    fn take(&self, bytes: u64) -> Result<(), ()> {
        let rest = self.bytes.get().checked_sub(bytes).filter(|_| !self.is_over());
        self.bytes.set(rest.ok_or(())?);
        Ok(())
    }
}

/// Content of a file of which no more is read once the budget is used up.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'b> {
    pub(super) file: &'b ReadCache<&'b File>,
    pub(super) budget: &'b Budget,
}

impl<'b> ReadRef<'b> for Bounded<'b> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'b [u8], ()> {
        // The cache allocates the whole range before it reads.
        self.budget.take(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'b [u8], ()> {
        self.budget.take(LONGEST_TEXT)?;
        self.file.read_bytes_at_until(range, delimiter)
    }
}

/// Text that does not grow beyond a number of bytes: a short mangled name can stand for an endless plain one.
pub(super) struct BoundedText {
    pub(super) text: String,
    pub(super) most: usize,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}
