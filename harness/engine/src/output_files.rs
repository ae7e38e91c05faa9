//! Opens and writes the files that a command produces. They are opened before trials run, so that a misspelt path is
//! reported at once.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use report::Record;
use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// An error that prevents a file of results from being opened or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputFileError {
    /// A file that already exists cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file already exists, and rocrepro did not write it.
    #[error(
        "`{}` already exists and is not {what} of rocrepro",
        path.display()
    )]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// The kind of file that rocrepro would write.
        what: &'static str,
    },
    /// A file exists where a new one is to be written.
    #[error("cannot write `{}`: it exists", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file cannot be created.
    #[error("cannot write `{}`: {error}", path.display())]
    NotCreated {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file cannot be written after the trials ran.
    #[error("cannot write `{}`: {error}", path.display())]
    NotWritten {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A report would overwrite the record file.
    #[error("`{}` is already used for the records; {format} needs another file", path.display())]
    SameAsRecords {
        /// Path of the file.
        path: PathBuf,
        /// Name of the report's format.
        format: &'static str,
    },
    /// Two reports would be written to the same file.
    #[error("`{}` is the file of two reports; each needs its own", path.display())]
    SameForTwo {
        /// Path of the file.
        path: PathBuf,
    },
    /// The JUnit report cannot be created.
    #[error("cannot create the JUnit report: {0}")]
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
            OutputFileError::Foreign { .. } => "choose another file, or move the existing one away",
            OutputFileError::Exists { .. } => "choose another file",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A text near the beginning of a file by which rocrepro recognises a file that it wrote. A file without this text is
/// never overwritten.
#[derive(Clone, Copy)]
pub struct FileMark {
    what: &'static str,
    says: &'static str,
}

/// Mark by which a record file is recognised.
pub(crate) const RECORDS: FileMark = FileMark { what: "a record file", says: "{\"format\":" };
const JUNIT: FileMark = FileMark { what: "a JUnit report", says: "<testsuites name=\"rocrepro\"" };
const TAP: FileMark = FileMark { what: "a TAP report", says: "TAP version 14\n# rocrepro\n" };
const ANNOTATIONS: FileMark = FileMark {
    what: "a file of annotations",
    says: "# rocrepro: annotations for GitHub Actions\n",
};
/// Mark by which a page of `matrix` is recognised.
pub const PAGE: FileMark = FileMark { what: "a page", says: "<title>rocrepro: " };
/// Mark by which an exported program is recognised.
pub const PROGRAM: FileMark = FileMark { what: "a program", says: "Printed by rocrepro from " };

/// Returns an error for a file that rocrepro did not write. Empty files, devices and pipes are accepted.
pub fn check_own_file(path: &Path, mark: FileMark) -> Result<(), OutputFileError> {
    let cannot = |error| OutputFileError::Unreadable { path: path.to_owned(), error };
    if !path.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head)).map_err(cannot)?;
    let says = mark.says.as_bytes();
    // A process that was killed may have written only the beginning of the text.
    if says.starts_with(&head) || head.windows(says.len()).any(|text| text == says) {
        return Ok(());
    }
    Err(OutputFileError::Foreign { path: path.to_owned(), what: mark.what })
}

/// Writes a file. An earlier file of rocrepro is replaced when the new one is complete.
pub fn replace(path: &Path, mark: FileMark, text: &str) -> Result<(), OutputFileError> {
    check_own_file(path, mark)?;
    atomic::write(path, text)
        .map_err(|error| OutputFileError::NotWritten { path: path.to_owned(), error })
}

/// Writes a file that does not exist yet, completely or not at all.
pub fn new_file(path: &Path, text: &str) -> Result<(), OutputFileError> {
    let path_of = || path.to_owned();
    let cannot = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => OutputFileError::Exists { path: path_of() },
        _ => OutputFileError::NotCreated { path: path_of(), error },
    };
    atomic::write_new(path, text).map_err(cannot)
}

/// Formats of reports for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// JUnit, as XML.
    Junit,
    /// Version 14 of the Test Anything Protocol.
    Tap,
    /// Annotations for GitHub Actions.
    Annotations,
}

impl ReportFormat {
    fn name(self) -> &'static str {
        match self {
            ReportFormat::Junit => "JUnit",
            ReportFormat::Tap => "TAP",
            ReportFormat::Annotations => "the format of annotations",
        }
    }

    fn mark(self) -> FileMark {
        match self {
            ReportFormat::Junit => JUNIT,
            ReportFormat::Tap => TAP,
            ReportFormat::Annotations => ANNOTATIONS,
        }
    }

    fn text(self, records: &[Record]) -> Result<String, OutputFileError> {
        match self {
            ReportFormat::Junit => {
                report::junit(records).map_err(|error| OutputFileError::Junit(error.to_string()))
            }
            ReportFormat::Tap => Ok(report::tap(records)),
            ReportFormat::Annotations => Ok(report::annotations(records)),
        }
    }
}

/// Reports that are written after the trials, each with its path and format.
pub struct ReportFiles<'a>(Vec<(&'a Path, ReportFormat)>);

impl<'a> ReportFiles<'a> {
    /// Opens the files of reports. They must differ from each other and from the record file.
    pub fn open(
        files: [(Option<&'a Path>, ReportFormat); 3],
        records: &[&Path],
    ) -> Result<ReportFiles<'a>, OutputFileError> {
        let place = |path: &Path| path.canonicalize().ok();
        let same = |one: &Path, other: &Path| {
            one == other || (place(one).is_some() && place(one) == place(other))
        };
        let mut opened: Vec<(&Path, ReportFormat)> = Vec::new();
        for (path, format) in files {
            let Some(path) = path else { continue };
            let path_of = || path.to_owned();
            if records.iter().any(|record| same(record, path)) {
                let format = format.name();
                return Err(OutputFileError::SameAsRecords { path: path_of(), format });
            }
            if opened.iter().any(|(other, _)| same(other, path)) {
                return Err(OutputFileError::SameForTwo { path: path_of() });
            }
            check_own_file(path, format.mark())?;
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| OutputFileError::NotCreated { path: path_of(), error })?;
            opened.push((path, format));
        }
        Ok(ReportFiles(opened))
    }

    /// Returns true if no report is to be written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the reports about these records.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write(self, records: &[Record]) -> Result<(), OutputFileError> {
        for (path, format) in self.0 {
            replace(path, format.mark(), &format.text(records)?)?;
        }
        Ok(())
    }
}
