//! How much an archive may unpack to.

use std::cell::Cell;
use std::io::{self, Read};

/// What any archive may have.
const FREE: u64 = 1 << 30;

/// Bytes for each byte of the archive. The kernel libraries of ROCm, the most compressible that it ships, have eight.
const EACH: u64 = 30;

/// More members than any archive of ROCm has.
const MOST_MEMBERS: u64 = 1_000_000;

/// Counts while it is unpacked: what a header says of a size is not believed, and a bomb ends before the disk is full.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    packed: Cell<u64>,
    plain: Cell<u64>,
    members: Cell<u64>,
}

impl Budget {
    /// So many bytes of the archive were read.
    pub(crate) fn read(&self, bytes: u64) {
        self.packed.set(self.packed.get().saturating_add(bytes));
    }

    /// So many bytes came out of it.
    ///
    /// # Errors
    /// More than an archive of this size can have for good reason.
    pub(crate) fn spend(&self, bytes: u64) -> io::Result<()> {
        let plain = self.plain.get().saturating_add(bytes);
        self.plain.set(plain);
        let packed = self.packed.get();
        if plain <= FREE.saturating_add(packed.saturating_mul(EACH)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} MB of it unpack to more than {} MB, which no ROCm does",
            packed / 1_000_000,
            plain / 1_000_000
        )))
    }

    /// One more member.
    ///
    /// # Errors
    /// More than an archive has.
    pub(crate) fn member(&self) -> io::Result<()> {
        self.members.set(self.members.get() + 1);
        if self.members.get() <= MOST_MEMBERS {
            return Ok(());
        }
        Err(io::Error::other(format!("it has more than {MOST_MEMBERS} members")))
    }
}

/// Counts what is read of an archive.
#[derive(Debug)]
pub(crate) struct Packed<'b, R> {
    /// The archive.
    pub(crate) inner: R,
    /// Where it is counted.
    pub(crate) budget: &'b Budget,
}

impl<R: Read> Read for Packed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.budget.read(n as u64);
        Ok(n)
    }
}

/// Counts what comes out of an archive, and fails where that is too much.
#[derive(Debug)]
pub(crate) struct Plain<'b, R> {
    /// The content.
    pub(crate) inner: R,
    /// Where it is counted.
    pub(crate) budget: &'b Budget,
}

impl<R: Read> Read for Plain<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.budget.spend(n as u64)?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_ends_and_an_archive_does_not() {
        let unpack = |packed: u64, plain: u64| {
            let budget = Budget::default();
            budget.read(packed);
            let mut bytes = Plain { inner: io::repeat(0).take(plain), budget: &budget };
            io::copy(&mut bytes, &mut io::sink())
        };
        assert_eq!(unpack(0, 1 << 20).unwrap(), 1 << 20);
        assert_eq!(unpack(100 << 20, 2 << 30).unwrap(), 2 << 30);
        let bomb = unpack(14_000_000, 3_200_000_000).unwrap_err().to_string();
        assert!(bomb.starts_with("14 MB of it unpack to more than 14"), "{bomb}");
    }

    #[test]
    fn members_are_counted() {
        let budget = Budget::default();
        assert!((0..MOST_MEMBERS).all(|_| budget.member().is_ok()));
        assert!(budget.member().is_err());
    }
}
