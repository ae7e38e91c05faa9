//! Files that a command writes. They are opened before the trials, so that a misspelt path costs no time.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use report::Record;
use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// The failure to open or write a file of results.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputFileError {
    /// An earlier file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file exists and rocrepro did not write it.
    #[error(
        "`{}` exists, and is not {what} of rocrepro",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The content that rocrepro would write.
        what: &'static str,
    },
    /// A file exists where a new one is to be written.
    #[error("cannot write `{}`: it exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be created.
    #[error("cannot write `{}`: {error}", path.display())]
    NotCreated {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file cannot be written after the trials.
    #[error("cannot write `{}`: {error}", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The JUnit report would overwrite the records.
    #[error("`{}` is the file of the records; JUnit needs another", path.display())]
    SameAsRecords {
        /// The file.
        path: PathBuf,
    },
    /// The JUnit report cannot be made.
    #[error("cannot make the JUnit report: {0}")]
    Junit(String),
}

impl FailedOperation for OutputFileError {
    fn class(&self) -> FailureClass {
        match self {
            OutputFileError::NotWritten { .. } | OutputFileError::Junit(_) => {
                FailureClass::NoVerdict
            }
            _ => FailureClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            OutputFileError::Foreign { .. } => "name another file, or move that one away",
            OutputFileError::Exists { .. } => "name another file",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Text near the beginning of a file that rocrepro wrote. Other files are never overwritten.
#[derive(Clone, Copy)]
pub struct FileMark {
    what: &'static str,
    says: &'static str,
}

/// Mark of a record file.
pub(crate) const RECORDS: FileMark = FileMark { what: "a file of records", says: "{\"format\":" };
const JUNIT: FileMark = FileMark { what: "a JUnit report", says: "<testsuites name=\"rocrepro\"" };
/// Mark of a page of `matrix`.
pub const PAGE: FileMark = FileMark { what: "a page", says: "<title>rocrepro: " };
/// Mark of an exported program.
pub const PROGRAM: FileMark = FileMark { what: "a program", says: "Printed by rocrepro from " };

/// Rejects a file that rocrepro did not write. Empty files, devices and pipes are accepted.
pub fn ours(path: &Path, mark: FileMark) -> Result<(), OutputFileError> {
    let cannot = |error| OutputFileError::Unreadable { path: path.to_owned(), error };
    if !path.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head)).map_err(cannot)?;
    let says = mark.says.as_bytes();
    // A killed run may have written part of the mark.
    if says.starts_with(&head) || head.windows(says.len()).any(|text| text == says) {
        return Ok(());
    }
    Err(OutputFileError::Foreign { path: path.to_owned(), what: mark.what })
}

/// Writes a file, and replaces an earlier one of rocrepro once the new one is complete.
pub fn replace(path: &Path, mark: FileMark, text: &str) -> Result<(), OutputFileError> {
    ours(path, mark)?;
    atomic::write(path, text)
        .map_err(|error| OutputFileError::NotWritten { path: path.to_owned(), error })
}

/// Writes a new file, completely or not at all.
pub fn new_file(path: &Path, text: &str) -> Result<(), OutputFileError> {
    let path_of = || path.to_owned();
    let cannot = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => OutputFileError::Exists { path: path_of() },
        _ => OutputFileError::NotCreated { path: path_of(), error },
    };
    atomic::write_new(path, text).map_err(cannot)
}

/// A JUnit report that is still to be written.
pub struct Junit<'a>(&'a Path);

impl<'a> Junit<'a> {
    /// Opens the file of the report, which must differ from the files of the records.
    pub fn open(path: &'a Path, records: &[&Path]) -> Result<Junit<'a>, OutputFileError> {
        let place = |path: &Path| path.canonicalize().ok();
        if records.iter().any(|record| {
            *record == path || (place(path).is_some() && place(record) == place(path))
        }) {
            return Err(OutputFileError::SameAsRecords { path: path.to_owned() });
        }
        ours(path, JUNIT)?;
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| OutputFileError::NotCreated { path: path.to_owned(), error })?;
        Ok(Junit(path))
    }

    /// Writes the report of these records.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(self, records: &[Record]) -> Result<(), OutputFileError> {
        let Junit(path) = self;
        let xml =
            report::junit(records).map_err(|error| OutputFileError::Junit(error.to_string()))?;
        replace(path, JUNIT, &xml)
    }
}
