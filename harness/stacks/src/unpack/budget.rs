//! Limits the disk space and memory that unpacking an archive may use, so that a decompression bomb cannot fill the
//! disk.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::paths::relative;

/// Number of bytes that the content of an archive may have in any case, however small the archive is.
const BASE_BYTES: u64 = 1 << 30;

/// Number of bytes that the content of an archive may have for each byte of the archive, in addition to [`BASE_BYTES`].
/// The most compressible files of ROCm are its kernel libraries, which need eight.
const MAX_RATIO: u64 = 30;

/// Maximum number of components in the path of a member. Paths in ROCm's archives have at most 20.
const MAX_PATH_DEPTH: usize = 64;

/// Maximum number of members of an archive. No archive of ROCm has as many.
const MAX_MEMBERS: u64 = 1_000_000;

/// Maximum number of bytes in the headers of one member. The long names and PAX records of a tar are read into memory
/// as a whole.
const MAX_HEADER_BYTES: u64 = 4 << 20;

/// Counts the bytes and members of one archive while it is unpacked, and enforces the limits. Sizes in headers are not
/// trusted. Also checks the flag with which the caller cancels.
#[derive(Debug)]
pub(crate) struct Budget<'s> {
    stop: &'s AtomicBool,
    /// True if the decompression needs too much memory.
    starved: Cell<bool>,
    packed: Cell<u64>,
    plain: Cell<u64>,
    members: Cell<u64>,
    /// Number of bytes that the headers of the next member may still have; `None` while the content of a member is
    /// read.
    header: Cell<Option<u64>>,
}

/// Reason why unpacking ended early although the archive's bytes may be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The caller cancelled unpacking.
    Cancelled,
    /// The decompression needs more memory than [`super::decode::MEMORY`].
    Starved,
}

/// Reason why a member of an archive is not unpacked.
#[derive(Debug)]
pub(crate) enum RejectedMember {
    /// The archive is damaged or exceeds a limit.
    Archive(io::Error),
    /// The member's path leads out of the folder into which the archive is unpacked.
    Outside,
    /// The member's path has more than [`MAX_PATH_DEPTH`] components.
    Deep,
}

impl<'s> Budget<'s> {
    /// Returns counters at zero for a new archive. Once `stop` is true, all methods that return a `Result` fail.
    pub(crate) fn new(stop: &'s AtomicBool) -> Self {
        Self {
            stop,
            starved: Cell::default(),
            packed: Cell::default(),
            plain: Cell::default(),
            members: Cell::default(),
            header: Cell::default(),
        }
    }

    /// Returns the reason if unpacking was cancelled or needed too much memory; `None` otherwise.
    pub(crate) fn ended(&self) -> Option<Ended> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(Ended::Cancelled);
        }
        self.starved.get().then_some(Ended::Starved)
    }

    /// Checks that the caller has not cancelled.
    ///
    /// # Errors
    /// The caller has cancelled.
    pub(crate) fn go_on(&self) -> io::Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(io::Error::other("it was cancelled")),
            false => Ok(()),
        }
    }

    /// Adds compressed bytes that were read from the archive.
    pub(crate) fn read(&self, bytes: u64) {
        self.packed.set(self.packed.get().saturating_add(bytes));
    }

    /// Adds decompressed bytes, including those of headers.
    ///
    /// # Errors
    /// The archive has unpacked to more bytes than an archive of its size may, the headers of a member are too long, or
    /// the caller cancelled.
    pub(crate) fn spend(&self, bytes: u64) -> io::Result<()> {
        self.go_on()?;
        let plain = self.plain.get().saturating_add(bytes);
        self.plain.set(plain);
        if let Some(left) = self.header.get() {
            let longest = || format!("one of its headers has more than {MAX_HEADER_BYTES} bytes");
            let left = left.checked_sub(bytes).ok_or_else(|| io::Error::other(longest()))?;
            self.header.set(Some(left));
        }
        let packed = self.packed.get();
        if plain <= BASE_BYTES.saturating_add(packed.saturating_mul(MAX_RATIO)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "its first {} MB unpack to more than {} MB, so it cannot be ROCm",
            packed / 1_000_000,
            plain / 1_000_000
        )))
    }

    /// Counts one member of the archive, and returns the member's path relative to the folder into which the archive is
    /// unpacked.
    ///
    /// # Errors
    /// There are more than [`MAX_MEMBERS`] members, the path has more than [`MAX_PATH_DEPTH`] components or leads out
    /// of the folder, or the caller cancelled.
    pub(crate) fn member(&self, named: &Path) -> Result<PathBuf, RejectedMember> {
        self.go_on().map_err(RejectedMember::Archive)?;
        self.members.set(self.members.get() + 1);
        if self.members.get() > MAX_MEMBERS {
            let reason = format!("it has more than {MAX_MEMBERS} members");
            return Err(RejectedMember::Archive(io::Error::other(reason)));
        }
        let path = relative(named).ok_or(RejectedMember::Outside)?;
        match path.components().count() > MAX_PATH_DEPTH {
            true => Err(RejectedMember::Deep),
            false => Ok(path),
        }
    }

    /// Calls `each` with the path and content of each member of a tar, until a call fails. Returns the number of
    /// members.
    ///
    /// # Errors
    /// The errors of `each`, and the errors of [`Budget::member`] and of reading the tar, which `refused` converts.
    /// `refused` receives the path of the member as written in the tar, or an empty path if it is unknown.
    pub(crate) fn each_of_tar<R: Read, E>(
        &self,
        archive: &mut tar::Archive<R>,
        refused: &dyn Fn(&Path, RejectedMember) -> E,
        each: &mut OnMember<'_, R, E>,
    ) -> Result<u64, E> {
        let damaged = |error| refused(Path::new(""), RejectedMember::Archive(error));
        let mut entries = archive.entries().map_err(damaged)?;
        let mut members = 0;
        loop {
            self.header.set(Some(MAX_HEADER_BYTES));
            let next = entries.next();
            self.header.set(None);
            let Some(entry) = next else { return Ok(members) };
            let mut entry = entry.map_err(damaged)?;
            members += 1;
            let named = entry.path().map_err(damaged)?.into_owned();
            let path = self.member(&named).map_err(|error| refused(&named, error))?;
            each(path, &mut entry)?;
            // The unread rest of the content must not be taken for the next header.
            io::copy(&mut entry, &mut io::sink()).map_err(damaged)?;
        }
    }
}

/// Function that receives the relative path and the content of each member of a tar.
type OnMember<'f, R, E> = dyn FnMut(PathBuf, &mut tar::Entry<'_, R>) -> Result<(), E> + 'f;

/// Reader that counts the compressed bytes of an archive.
#[derive(Debug)]
pub(crate) struct CompressedReader<'b, R> {
    pub(crate) inner: R,
    pub(crate) budget: &'b Budget<'b>,
}

impl<R: Read> Read for CompressedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.budget.read(n as u64);
        Ok(n)
    }
}

/// Reader that counts the decompressed bytes of an archive, and fails if there are too many.
#[derive(Debug)]
pub(crate) struct DecompressedReader<'b, R> {
    pub(crate) inner: R,
    pub(crate) budget: &'b Budget<'b>,
}

impl<R: Read> Read for DecompressedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        let n = read.inspect_err(|error| {
            let starved = error.kind() == io::ErrorKind::OutOfMemory;
            self.budget.starved.set(starved || self.budget.starved.get());
        })?;
        self.budget.spend(n as u64)?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_bomb_and_accepts_archives() {
        let unpack = |packed: u64, plain: u64| {
            let stop = AtomicBool::new(false);
            let budget = Budget::new(&stop);
            budget.read(packed);
            let mut bytes =
                DecompressedReader { inner: io::repeat(0).take(plain), budget: &budget };
            io::copy(&mut bytes, &mut io::sink())
        };
        assert_eq!(unpack(0, 1 << 20).unwrap(), 1 << 20);
        assert_eq!(unpack(100 << 20, 2 << 30).unwrap(), 2 << 30);
        let bomb = unpack(14_000_000, 3_200_000_000).unwrap_err().to_string();
        assert!(bomb.starts_with("its first 14 MB unpack to more than 14"), "{bomb}");
    }

    #[test]
    fn limits_the_number_and_depth_of_members() {
        let stop = AtomicBool::new(false);
        let budget = Budget::new(&stop);
        let deep = |folders: usize| PathBuf::from("d/".repeat(folders) + "f");
        assert_eq!(budget.member(Path::new("./a//b/")).unwrap(), Path::new("a/b"));
        assert!(budget.member(&deep(MAX_PATH_DEPTH - 1)).is_ok());
        assert!(matches!(budget.member(&deep(MAX_PATH_DEPTH)), Err(RejectedMember::Deep)));
        assert!(matches!(budget.member(Path::new("a/../b")), Err(RejectedMember::Outside)));
        assert!((4..MAX_MEMBERS).all(|_| budget.member(Path::new("a")).is_ok()));
        assert!(matches!(budget.member(Path::new("a")), Err(RejectedMember::Archive(_))));
    }
}
