//! Copies bytes from a reader to a writer, and computes SHA-256 digests of files.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use sha2::{Digest as _, Sha256};

const CHUNK: usize = 1 << 16;

/// Error while copying bytes: reading from the source failed, or writing to the target.
#[derive(Debug)]
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies all bytes, and calls `written` with each chunk after the chunk has been written. Interrupted reads are
/// repeated.
///
/// # Errors
/// [`CopyError`], which distinguishes failed reads from failed writes.
pub(crate) fn copy(
    from: &mut (impl Read + ?Sized),
    to: &mut (impl Write + ?Sized),
    mut written: impl FnMut(&[u8]),
) -> Result<(), CopyError> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = match from.read(&mut buffer) {
            Ok(0) => return to.flush().map_err(CopyError::Write),
            Ok(n) => &buffer[..n],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Read(error)),
        };
        to.write_all(chunk).map_err(CopyError::Write)?;
        written(chunk);
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the SHA-256 of a file in hexadecimal, or `None` once `stop` is true.
///
/// # Errors
/// The file cannot be opened or read.
pub(crate) fn sha256_of(path: &Path, stop: &AtomicBool) -> io::Result<Option<String>> {
    let (mut file, mut digest) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; CHUNK];
    while !stop.load(Ordering::Relaxed) {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some(hex(&digest.finalize()))),
            Ok(n) => digest.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader whose every byte is preceded by an interrupted read.
    struct Interrupted(Vec<u8>, bool);

    impl Read for Interrupted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let Some(byte) = self.0.pop() else { return Ok(0) };
            buffer[0] = byte;
            Ok(1)
        }
    }

    /// A reader and writer whose operations always fail.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::other("broken"))
        }
    }

    #[test]
    fn copies_everything_through_interruptions() {
        let (mut to, mut seen) = (Vec::new(), 0);
        copy(&mut Interrupted(b"cba".to_vec(), false), &mut to, |chunk| seen += chunk.len())
            .unwrap();
        assert_eq!((to.as_slice(), seen), (b"abc".as_slice(), 3));
    }

    #[test]
    fn reports_the_side_that_failed() {
        let read = copy(&mut Broken, &mut io::sink(), |_| ());
        assert!(matches!(read, Err(CopyError::Read(_))), "{read:?}");
        let write = copy(&mut b"x".as_slice(), &mut Broken, |_| ());
        assert!(matches!(write, Err(CopyError::Write(_))), "{write:?}");
        let flush = copy(&mut b"".as_slice(), &mut Broken, |_| ());
        assert!(matches!(flush, Err(CopyError::Write(_))), "{flush:?}");
    }

    #[test]
    fn computes_known_digests() {
        assert_eq!(hex(&[0, 0x0f, 0xa0]), "000fa0");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let stop = AtomicBool::new(false);
        assert_eq!(sha256_of(&path, &stop).unwrap().as_deref(), Some(known));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sha256_of(&path, &stop).unwrap(), None);
    }
}
