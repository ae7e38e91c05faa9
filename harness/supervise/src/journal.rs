//! Journal of finished results. Each result is a JSON object on a line of its own, in the order in which the results
//! arrived.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The event that a record survives once [`Journal::write`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of this process, even by SIGKILL. The bytes are in the Linux kernel's memory when `write` returns.
    Process,
    /// A crash of the machine, which a test of a driver may cause. The bytes are on the disk when `write` returns
    /// (`fdatasync`, a few milliseconds per record on most disks).
    Machine,
}

/// A journal that is open for appending. If two writers append to the same file, no record is lost, but their records
/// are interleaved.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    durability: Durability,
    /// True if the file ends with an incomplete record.
    torn: bool,
}

/// Error of a journal that could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file could not be opened.
    #[error("cannot open the journal {}", path.display())]
    Open {
        /// Path of the journal.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A record was not written, or only its beginning was written, for example because the disk is full. The next
    /// record starts on a new line.
    #[error("cannot write to the journal {}", path.display())]
    Write {
        /// Path of the journal.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read the journal {}", path.display())]
    Read {
        /// Path of the journal.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A record cannot be represented in JSON. The file is unchanged.
    #[error("a record for the journal {} cannot be written as JSON", path.display())]
    Serialize {
        /// Path of the journal.
        path: PathBuf,
        /// Error of the serialiser.
        source: serde_json::Error,
    },
}

/// Content of a journal, as [`read`] returns it.
#[derive(Debug)]
pub struct JournalContent<T> {
    /// Complete records, in the order of the file.
    pub records: Vec<T>,
    /// Lines that are not records.
    pub unreadable: Vec<UnreadableLine>,
}

/// A line of a journal that is not a record. The writer was killed or the disk was full while it wrote the line, or
/// another version wrote it.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the journal is not a record")]
pub struct UnreadableLine {
    /// Line number, counted from 1.
    pub line: usize,
    /// Error of the parser. `source.is_eof()` is true for an incomplete line.
    pub source: serde_json::Error,
}

impl Journal {
    /// Opens a journal for appending, and creates it if it does not exist. If a killed writer left an incomplete last
    /// line, the next record ends that line first.
    ///
    /// # Errors
    /// Returns [`JournalError::Open`] if the file cannot be opened or read.
    pub fn open(path: &Path, durability: Durability) -> Result<Journal, JournalError> {
        let failed = |source| JournalError::Open { path: path.to_owned(), source };
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let torn = ends_in_partial_line(&mut file).map_err(failed)?;
        Ok(Journal { file, path: path.to_owned(), durability, torn })
    }

    /// Appends one record with a single write(2). When the function returns, the record survives the event that
    /// [`Durability`] names. If this process is killed earlier, the line is complete, incomplete or absent, and earlier
    /// records are unchanged. Records must be JSON objects: the beginning of an object is never valid JSON, so [`read`]
    /// recognises an incomplete line.
    ///
    /// # Errors
    /// Returns [`JournalError::Serialize`] or [`JournalError::Write`]. After either error, further records can be
    /// written.
    pub fn write<T: Serialize>(&mut self, record: &T) -> Result<(), JournalError> {
        let mut line = if self.torn { b"\n".to_vec() } else { Vec::new() };
        serde_json::to_writer(&mut line, record)
            .map_err(|source| JournalError::Serialize { path: self.path.clone(), source })?;
        line.push(b'\n');
        let result = self.append(&line);
        result.map_err(|source| JournalError::Write { path: self.path.clone(), source })
    }

    fn append(&mut self, mut line: &[u8]) -> io::Result<()> {
        while !line.is_empty() {
            // A second write is needed only if a signal or a nearly full disk cut the first one short.
            match self.file.write(line) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    line = &line[written..];
                    self.torn = !line.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Machine => match self.file.sync_data() {
                // A pipe or a device cannot be synchronised; see fsync(2).
                Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
                synced => synced,
            },
        }
    }
}

/// Reads a journal, which another process may be writing to.
///
/// # Errors
/// Returns [`JournalError::Open`] or [`JournalError::Read`]. A line that is not a record is part of the result, not an
/// error.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<JournalContent<T>, JournalError> {
    let mut file =
        File::open(path).map_err(|source| JournalError::Open { path: path.to_owned(), source })?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|source| JournalError::Read { path: path.to_owned(), source })?;
    let mut found = JournalContent { records: Vec::new(), unreadable: Vec::new() };
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(record) => found.records.push(record),
            Err(source) => found.unreadable.push(UnreadableLine { line: index + 1, source }),
        }
    }
    Ok(found)
}

/// Returns true if the last byte of a file is not a newline. Returns false for an empty file or a pipe.
fn ends_in_partial_line(file: &mut File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        trial: String,
        runs: u32,
    }

    fn record(trial: &str, runs: u32) -> Record {
        Record { trial: trial.to_owned(), runs }
    }

    fn check(content: &str, records: &[Record], unreadable: &[usize]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        std::fs::write(&path, content).unwrap();
        let found = read::<Record>(&path).unwrap();
        assert_eq!(found.records, records, "{content:?}");
        let lines: Vec<_> = found.unreadable.iter().map(|line| line.line).collect();
        assert_eq!(lines, unreadable, "{content:?}");
    }

    #[test]
    fn reads_whole_and_damaged_journals() {
        let (a, b) = (r#"{"trial":"a","runs":1}"#, r#"{"trial":"b","runs":2}"#);
        let both = || [record("a", 1), record("b", 2)];
        check("", &[], &[]);
        check(&format!("{a}\n{b}\n"), &both(), &[]);
        // A record without a newline at its end is complete.
        check(&format!("{a}\n{b}"), &both(), &[]);
        check(&format!("{a}\n{}", &b[..b.len() - 1]), &both()[..1], &[2]);
        check(&format!("{}\n{b}\n", &a[..5]), &both()[1..], &[1]);
        check(&format!("{a}\n\u{0}\u{0}\n{{\"other\":1}}\n{b}\n"), &both(), &[2, 3]);
    }

    #[test]
    fn truncated_journal_keeps_earlier_records_and_accepts_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path, Durability::Machine).unwrap();
        journal.write(&record("first", 1)).unwrap();
        let first = std::fs::read(&path).unwrap().len();
        journal.write(&record("line\nbreak", 2)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        drop(journal);
        for cut in first..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&path, Durability::Process).unwrap();
            journal.write(&record("third", 3)).unwrap();
            journal.write(&record("fourth", 4)).unwrap();
            let found = read::<Record>(&path).unwrap();
            let trials: Vec<_> = found.records.iter().map(|record| record.trial.as_str()).collect();
            if cut >= whole.len() - 1 {
                assert_eq!(trials, ["first", "line\nbreak", "third", "fourth"], "{cut}");
                assert!(found.unreadable.is_empty(), "{cut}");
            } else {
                assert_eq!(trials, ["first", "third", "fourth"], "{cut}");
                let torn: Vec<_> = found.unreadable.iter().map(|u| u.source.is_eof()).collect();
                assert_eq!(torn, vec![true; usize::from(cut > first)], "{cut}");
            }
        }
    }

    #[test]
    fn full_disk_error_names_the_file() {
        let mut journal = Journal::open(Path::new("/dev/full"), Durability::Process).unwrap();
        for _ in 0..2 {
            let error = journal.write(&record("a", 1)).unwrap_err();
            assert_eq!(error.to_string(), "cannot write to the journal /dev/full");
            let JournalError::Write { source, .. } = error else { panic!("{error:?}") };
            assert_eq!(source.kind(), ErrorKind::StorageFull);
        }
    }

    #[test]
    fn missing_folder_error_names_the_file() {
        let error = Journal::open(Path::new("/nowhere/journal"), Durability::Process).unwrap_err();
        assert_eq!(error.to_string(), "cannot open the journal /nowhere/journal");
        assert!(read::<Record>(Path::new("/nowhere/journal")).is_err());
    }

    #[test]
    fn record_that_is_not_json_leaves_the_journal_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path, Durability::Process).unwrap();
        let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = journal.write(&odd).unwrap_err();
        assert!(matches!(error, JournalError::Serialize { .. }), "{error:?}");
        journal.write(&record("a", 1)).unwrap();
        assert_eq!(read::<Record>(&path).unwrap().records, [record("a", 1)]);
    }
}
