//! Opens and reads the record file of a run, and finds trials that an earlier run began and did not finish.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::Path,
};

use report::{InvalidLine, Record, RecordIndex, RecordedRun, RunIndex, RunPlan, TrialStart, count};
use supervise::{Durability, Journal, JournalError};
use thiserror::Error;

use crate::{
    DeviceChoice, FailedOperation, FailureClass, Stop,
    events::{EngineEvent, Reporting},
    machine,
    output_files::{self, OutputFileError},
    stop::chain,
};

/// An error that prevents a record file from being opened or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordFileError {
    /// The file cannot be written to.
    #[error(transparent)]
    Output(#[from] OutputFileError),
    /// The journal of records cannot be opened for appending.
    #[error("{}", chain(.0))]
    Journal(JournalError),
    /// The file cannot be opened.
    #[error("cannot read `{name}`: {error}")]
    NotOpened {
        /// Path of the file.
        name: String,
        /// Cause.
        error: io::Error,
    },
    /// The path leads to a device, a pipe or a folder, not to a regular file.
    #[error("`{name}` is not a regular file, so it cannot hold records")]
    NotPlain {
        /// Path of the file.
        name: String,
    },
    /// The file contains no run.
    #[error("`{name}` contains no run with a plan; {}", .invalid.as_ref().map_or_else(
        || "create a record file with `rocrepro run --record FILE`".to_owned(),
        |InvalidLine { line, what }| format!("line {line}: {what}"),
    ))]
    NoRun {
        /// Path of the file.
        name: String,
        /// The first line that is not valid, if any.
        invalid: Option<InvalidLine>,
    },
    /// A line was not written by rocrepro: the file, the line number and the reason.
    #[error("{0}:{1}: {2}")]
    ForeignLine(String, usize, String),
    /// Further lines were not written by rocrepro: the file and the number of these lines.
    #[error("{0}: {1} that rocrepro did not write")]
    MoreForeignLines(String, String),
    /// A record in the file cannot be read.
    #[error("cannot read `{name}`: {error}")]
    Unreadable {
        /// Path of the file.
        name: String,
        /// The cause.
        error: io::Error,
    },
}

impl FailedOperation for RecordFileError {
    fn class(&self) -> FailureClass {
        match self {
            RecordFileError::Output(error) => error.class(),
            RecordFileError::Unreadable { .. } => FailureClass::NoVerdict,
            _ => FailureClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            RecordFileError::Output(error) => error.hint(),
            _ => None,
        }
    }
}

/// Opens the journal of records for appending, and reports unfinished trials in it. On a GPU, where a trial may crash
/// the machine, each record is written to the disk at once.
///
/// # Errors
/// Returns a usage error if the file was not written by rocrepro.
pub fn open(
    path: Option<&Path>,
    device: &DeviceChoice,
    reporting: &Reporting,
) -> Result<Option<Journal>, RecordFileError> {
    // Reading a device or a pipe may never end.
    if let Some(path) = path.filter(|path| path.is_file()) {
        report_unfinished(path, reporting);
    }
    path.map_or(Ok(()), |path| output_files::check_own_file(path, output_files::RECORDS))?;
    let durability = match device {
        DeviceChoice::Gpu => Durability::Machine,
        DeviceChoice::Emulated(_) => Durability::Process,
    };
    path.map(|path| Journal::open(path, durability)).transpose().map_err(RecordFileError::Journal)
}

fn report_unfinished(path: &Path, reporting: &Reporting) {
    let Ok(file) = File::open(path) else { return };
    let found = report::unfinished(lines(file));
    let lost: Vec<_> =
        found.iter().filter(|begun| ProcessFate::of(begun) != ProcessFate::Runs).collect();
    if let Some(last) = lost.last() {
        let (trials, last) = (lost.len(), last.trial.as_str());
        reporting.event(EngineEvent::UnfinishedTrials { file: path, trials, last });
    }
}

/// Returns the lines of a file up to the first read error.
pub fn lines(file: File) -> impl Iterator<Item = String> {
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// Opens a record file for reading.
///
/// # Errors
/// Returns an error for a device or a pipe, because reading it may never end.
pub fn open_regular_file(path: &Path) -> Result<File, RecordFileError> {
    let name = || path.display().to_string();
    let read = |error| RecordFileError::NotOpened { name: name(), error };
    if !fs::metadata(path).map_err(read)?.is_file() {
        return Err(RecordFileError::NotPlain { name: name() });
    }
    File::open(path).map_err(read)
}

/// A record file and its index. Records are read on demand.
pub struct RecordFile {
    /// Path of the file, for messages.
    pub name: String,
    file: File,
    /// Positions of the runs and records in the file.
    pub index: RecordIndex,
}

impl RecordFile {
    /// Opens a record file and reads its index.
    pub fn open(path: &Path) -> Result<RecordFile, RecordFileError> {
        let (name, file) = (path.display().to_string(), open_regular_file(path)?);
        let index = RecordIndex::read(BufReader::new(&file))
            .map_err(|error| RecordFileError::NotOpened { name: name.clone(), error })?;
        Ok(RecordFile { name, file, index })
    }

    /// Returns the last run in the file. If it was split into shards, returns each shard that the file contains.
    pub fn last_runs(&self) -> Result<Vec<&RunIndex>, RecordFileError> {
        let last = self.index.last();
        if last.is_empty() { Err(self.no_run()) } else { Ok(last) }
    }

    /// Returns the error for a record file without a run.
    pub fn no_run(&self) -> RecordFileError {
        RecordFileError::NoRun {
            name: self.name.clone(),
            invalid: self.index.foreign.first.first().cloned(),
        }
    }

    fn unreadable(&self, error: io::Error) -> RecordFileError {
        RecordFileError::Unreadable { name: self.name.clone(), error }
    }

    /// Reads the first line of a run, which lists the planned trials.
    pub fn opened(&self, run: &RunIndex) -> Result<RunPlan, RecordFileError> {
        run.opened(&self.file).map_err(|e| self.unreadable(e))
    }

    /// Returns the records of a run in the order of their numbers. They are read one at a time.
    pub fn records<'f>(
        &'f self,
        run: &'f RunIndex,
    ) -> impl Iterator<Item = Result<Record, RecordFileError>> + 'f {
        run.records(&self.file).map(move |record| record.map_err(|e| self.unreadable(e)))
    }

    /// Returns the records of a run like [`records`](Self::records), but with I/O errors as they are, because a results
    /// store needs them in this form.
    pub fn records_with_io_errors<'f>(
        &'f self,
        run: &'f RunIndex,
    ) -> impl Iterator<Item = io::Result<Record>> + 'f {
        run.records(&self.file)
    }

    /// Reads all records of a run into memory. If `trim` is true, records of passed and skipped trials keep only the
    /// fields that views show.
    pub fn read_run(&self, run: &RunIndex, trim: bool) -> Result<RecordedRun, RecordFileError> {
        run.read_run(&self.file, trim).map_err(|e| self.unreadable(e))
    }

    /// Returns notes about incomplete lines in the file.
    pub fn incomplete_lines(&self) -> Vec<String> {
        let (name, torn) = (&self.name, &self.index.torn);
        let note = |InvalidLine { line, .. }: &InvalidLine| {
            format!("{name}:{line}: this line is incomplete and is ignored")
        };
        let mut notes: Vec<String> = torn.first.iter().map(note).collect();
        if torn.more > 0 {
            notes.push(format!("{name}: {} ignored", count(torn.more, "more incomplete line")));
        }
        notes
    }

    /// Returns messages about lines in the file that rocrepro did not write.
    pub fn foreign_lines(&self) -> Vec<String> {
        let (name, foreign) = (&self.name, &self.index.foreign);
        let problem = |InvalidLine { line, what }: &InvalidLine| {
            RecordFileError::ForeignLine(name.clone(), *line, what.to_string())
        };
        let mut problems: Vec<_> = foreign.first.iter().map(problem).collect();
        if foreign.more > 0 {
            let more = count(foreign.more, "more line");
            problems.push(RecordFileError::MoreForeignLines(name.clone(), more));
        }
        problems.into_iter().map(|problem| Stop::from(problem).to_string()).collect()
    }
}

/// The current state of a process that began a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProcessFate {
    /// The machine has been restarted since then.
    Restarted,
    /// The process no longer exists.
    Gone,
    /// The process is still running.
    Runs,
}

impl ProcessFate {
    /// Returns the state of the process that began a trial.
    pub fn of(begun: &TrialStart) -> ProcessFate {
        if begun.boot != machine::boot() {
            ProcessFate::Restarted
        } else if Path::new("/proc").join(begun.pid.to_string()).exists() {
            ProcessFate::Runs
        } else {
            ProcessFate::Gone
        }
    }
}
