//! Standard output, and the files that a run writes. Those are opened before it starts: hours of trials must not end
//! at a misspelt path.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    path::Path,
};

use report::Record;

use crate::Stop;

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

/// What a file that rocrepro wrote says at its beginning; others are never written over.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    what: &'static str,
    says: &'static str,
}

/// Records of a run, a line for each.
pub(crate) const RECORDS: Mark = Mark { what: "a file of records", says: "{\"format\":" };
const JUNIT: Mark = Mark { what: "a JUnit report", says: "<testsuites name=\"rocrepro\"" };
/// A page of `matrix`.
pub(crate) const PAGE: Mark = Mark { what: "a page", says: "<title>rocrepro: " };
/// What `export` prints.
pub(crate) const PROGRAM: Mark = Mark { what: "a program", says: "Printed by rocrepro from " };

/// Refuses a file that somebody else wrote. One that is empty is nobody's; a device or a pipe keeps nothing.
pub(crate) fn ours(path: &Path, mark: Mark) -> Result<(), Stop> {
    let cannot =
        |e: std::io::Error| Stop::usage(format!("error: cannot read `{}`: {e}", path.display()));
    if !path.is_file() {
        return Ok(());
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head)).map_err(cannot)?;
    let says = mark.says.as_bytes();
    // The beginning of it is what a run that was ended early has left.
    if says.starts_with(&head) || head.windows(says.len()).any(|text| text == says) {
        return Ok(());
    }
    Err(Stop::usage(format!(
        "error: `{}` is there, and is not {} of rocrepro's; name another file, or move that one away",
        path.display(),
        mark.what
    )))
}

/// Writes a file, in the place of an earlier one of ours, which stays until the new one is whole.
pub(crate) fn replace(path: &Path, mark: Mark, text: &str) -> Result<(), Stop> {
    ours(path, mark)?;
    atomic::write(path, text)
        .map_err(|e| Stop::no_verdict(format!("error: cannot write `{}`: {e}", path.display())))
}

/// Writes a file that is not there yet, whole or not at all.
pub(crate) fn new_file(path: &Path, text: &str) -> Result<(), Stop> {
    let cannot = |e: std::io::Error| {
        let why = match e.kind() {
            ErrorKind::AlreadyExists => "it is there already; name another".to_owned(),
            _ => e.to_string(),
        };
        Stop::usage(format!("error: cannot write `{}`: {why}", path.display()))
    };
    atomic::write_new(path, text).map_err(cannot)
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
        ours(path, JUNIT)?;
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
        replace(path, JUNIT, &xml)
    }
}
