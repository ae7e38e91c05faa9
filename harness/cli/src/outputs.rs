//! Standard output, and the files that a run writes. Those are opened before it starts: hours of trials must not end
//! at a misspelt path.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    path::Path,
};

use report::Record;
use supervise::{Durability, Journal};

use crate::{Stop, commands::unfinished, stop::chain};

/// Writes a view for people to standard output, with styles only where they are seen, and without anything else that acts on a
/// terminal. A reader that closes the pipe has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    written(report::print(text))
}

/// Writes what a program reads to standard output, byte by byte: JSON, a schema, a source.
pub(crate) fn data(text: &str) -> Result<(), Stop> {
    let mut out = std::io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Tells of something on standard error, as [`print`] does on standard output.
pub(crate) fn note(text: impl std::fmt::Display) {
    report::note(&text.to_string());
}

fn written(written: std::io::Result<()>) -> Result<(), Stop> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Stop::no_verdict(format!("error: cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Opens the journal of records to append to. What an earlier run began there and never ended is said.
pub(crate) fn journal(path: Option<&Path>) -> Result<Option<Journal>, Stop> {
    // A device or a pipe has no end.
    if let Some(warning) = path.filter(|path| path.is_file()).and_then(unfinished::warning) {
        note(warning);
    }
    path.map(|path| Journal::open(path, Durability::Machine))
        .transpose()
        .map_err(|e| Stop::usage(format!("error: {}", chain(&e))))
}

/// Writes a file that is not there yet.
pub(crate) fn new_file(path: &Path, text: &str) -> Result<(), Stop> {
    let cannot = |e: std::io::Error| {
        let why = match e.kind() {
            ErrorKind::AlreadyExists => "it is there already; name another".to_owned(),
            _ => e.to_string(),
        };
        Stop::usage(format!("error: cannot write `{}`: {why}", path.display()))
    };
    let mut file = OpenOptions::new().create_new(true).write(true).open(path).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)
}

/// A JUnit report still to be written. A report of an earlier run stays until then.
pub(crate) struct Junit<'a>(&'a Path);

impl<'a> Junit<'a> {
    /// Opens it. It is none of the files that the records are in.
    pub(crate) fn open(path: &'a Path, records: &[&Path]) -> Result<Junit<'a>, Stop> {
        let place = |path: &Path| path.canonicalize().ok();
        if records.iter().any(|record| {
            *record == path || (place(path).is_some() && place(record) == place(path))
        }) {
            let path = path.display();
            return Err(Stop::usage(format!(
                "error: `{path}` is the file of the records; JUnit needs another"
            )));
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|e| Stop::usage(format!("error: cannot write `{}`: {e}", path.display())))?;
        Ok(Junit(path))
    }

    pub(crate) fn write(self, records: &[Record]) -> Result<(), Stop> {
        let Junit(path) = self;
        let xml = report::junit(records)
            .map_err(|e| Stop::no_verdict(format!("error: cannot make the JUnit report: {e}")))?;
        let written =
            std::fs::File::create(path).and_then(|mut file| file.write_all(xml.as_bytes()));
        written
            .map_err(|e| Stop::no_verdict(format!("error: cannot write `{}`: {e}", path.display())))
    }
}
