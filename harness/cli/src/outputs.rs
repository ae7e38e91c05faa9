//! Standard output and standard error.

use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

use engine::Stop;

use crate::width::{columns, fitted};

/// Writes a view for people to standard output, with styles only where they are seen, and without anything else that acts on a
/// terminal. On a terminal, lines that are too long are broken between words. A reader that closes the pipe has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    written(report::print(&fitted(text, columns(std::io::stdout()))))
}

/// Writes what a program reads to standard output, byte by byte: JSON, a schema, a source.
pub(crate) fn data(text: &str) -> Result<(), Stop> {
    let mut out = std::io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Tells of something on standard error, as [`print`] does on standard output.
pub(crate) fn note(text: impl std::fmt::Display) {
    report::note(&fitted(&text.to_string(), columns(std::io::stderr())));
}

fn written(written: std::io::Result<()>) -> Result<(), Stop> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Stop::no_verdict(format!("error: cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints why a command ends early, and returns its exit code.
pub fn stopped(stop: &Stop) -> ExitCode {
    let message = stop.to_string();
    if !message.is_empty() {
        // Other lines may show a place in a file, with marks below it.
        let columns = columns(std::io::stderr());
        let is_prose =
            |line: &str| ["error:", "hint:", "warning:"].iter().any(|word| line.starts_with(word));
        let lines = message.split('\n');
        let lines = lines.map(|line| fitted(line, columns.filter(|_| is_prose(line))));
        report::note(&lines.collect::<Vec<_>>().join("\n"));
    }
    ExitCode::from(stop.code())
}
