//! Bounds what the examination of a process reads and how long it takes, because the mapped files may be crafted.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Instant;

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
    fn take(&self, bytes: usize) -> io::Result<()> {
        let rest = self.bytes.get().checked_sub(bytes as u64).filter(|_| !self.is_over());
        self.bytes.set(rest.ok_or_else(|| io::Error::other("the budget is used up"))?);
        Ok(())
    }
}

/// Reader of a file that fails when the budget is used up.
pub(super) struct Bounded<'b> {
    pub(super) file: &'b File,
    pub(super) budget: &'b Budget,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.budget.take(buffer.len())?;
        self.file.read(buffer)
    }
}

impl Seek for Bounded<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
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
