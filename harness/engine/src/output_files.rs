//! Files that a command writes. They are opened before the first trial, so that hours of trials do not end at a misspelt path.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read},
    path::Path,
};

use report::Record;

use crate::Stop;

/// What a file that rocrepro wrote says at its beginning; others are never written over.
#[derive(Clone, Copy)]
pub struct Mark {
    what: &'static str,
    says: &'static str,
}

/// Records of a run, a line for each.
pub(crate) const RECORDS: Mark = Mark { what: "a file of records", says: "{\"format\":" };
const JUNIT: Mark = Mark { what: "a JUnit report", says: "<testsuites name=\"rocrepro\"" };
/// A page of `matrix`.
pub const PAGE: Mark = Mark { what: "a page", says: "<title>rocrepro: " };
/// What `export` prints.
pub const PROGRAM: Mark = Mark { what: "a program", says: "Printed by rocrepro from " };

/// Refuses a file that somebody else wrote. One that is empty is nobody's; a device or a pipe keeps nothing.
pub fn ours(path: &Path, mark: Mark) -> Result<(), Stop> {
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
pub fn replace(path: &Path, mark: Mark, text: &str) -> Result<(), Stop> {
    ours(path, mark)?;
    atomic::write(path, text)
        .map_err(|e| Stop::no_verdict(format!("error: cannot write `{}`: {e}", path.display())))
}

/// Writes a file that is not there yet, whole or not at all.
pub fn new_file(path: &Path, text: &str) -> Result<(), Stop> {
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
pub struct Junit<'a>(&'a Path);

impl<'a> Junit<'a> {
    /// Opens it. It is none of the files that the records are in.
    pub fn open(path: &'a Path, records: &[&Path]) -> Result<Junit<'a>, Stop> {
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

    /// Writes the report of these records.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(self, records: &[Record]) -> Result<(), Stop> {
        let Junit(path) = self;
        let xml = report::junit(records)
            .map_err(|e| Stop::no_verdict(format!("error: cannot make the JUnit report: {e}")))?;
        replace(path, JUNIT, &xml)
    }
}
