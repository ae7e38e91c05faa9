//! Writes to standard output and standard error, fitted to the terminal.

use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

use engine::Stop;

use crate::width::{columns, wrap};

/// Writes text for people to standard output. Removes styles unless the output is a terminal, and escapes all other
/// control sequences. On a terminal, long lines are broken between words. A closed pipe is not an error, because the
/// program that reads it needs no more output.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    check_write(report::print(&wrap(text, columns(std::io::stdout()))))
}

/// Writes text like [`print`], but breaks long lines at `columns` if standard output is not a terminal.
pub(crate) fn print_in(text: &str, columns: usize) -> Result<(), Stop> {
    let columns = crate::width::columns(std::io::stdout()).unwrap_or(columns);
    check_write(report::print(&wrap(text, Some(columns))))
}

/// Writes machine-readable output, such as JSON or source text, to standard output without changes.
pub(crate) fn print_data(text: &str) -> Result<(), Stop> {
    let mut out = std::io::stdout().lock();
    check_write(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a message to standard error in the form that [`print`] uses on standard output.
pub(crate) fn note(text: impl std::fmt::Display) {
    report::note(&wrap(&text.to_string(), columns(std::io::stderr())));
}

fn check_write(written: std::io::Result<()>) -> Result<(), Stop> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Stop::no_verdict(format!("error: cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints the reason why a command ends early, and returns its exit code.
pub fn report_stop(stop: &Stop) -> ExitCode {
    let message = stop.to_string();
    if !message.is_empty() {
        // Lines without such a prefix may quote a line of a file with marks below it, so they are not wrapped.
        let columns = columns(std::io::stderr());
        let is_prose =
            |line: &str| ["error:", "hint:", "warning:"].iter().any(|word| line.starts_with(word));
        let lines = message.split('\n');
        let lines = lines.map(|line| wrap(line, columns.filter(|_| is_prose(line))));
        report::note(&lines.collect::<Vec<_>>().join("\n"));
    }
    ExitCode::from(stop.code())
}
