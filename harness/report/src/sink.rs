//! The ways to a terminal: every text that people read goes through one of these.

use std::io::{self, Write};

use anstream::{
    AutoStream, ColorChoice,
    stream::{AsLockedWrite, RawStream},
};

use crate::terminal;

/// Writes a view to standard output, with its styles only where they are seen: not into a pipe, and not
/// where `NO_COLOR` is set.
///
/// # Errors
/// Those of writing, such as a closed pipe.
pub fn print(view: &str) -> io::Result<()> {
    write(io::stdout().lock(), terminal(view))
}

/// Writes a text and the end of its line to standard error, as [`print()`] does to standard output. Where nobody can be told, the
/// work goes on: what the text is about has its exit code.
pub fn note(text: &str) {
    let _ = write(io::stderr().lock(), terminal(text) + "\n");
}

fn write<S: RawStream + AsLockedWrite>(stream: S, view: String) -> io::Result<()> {
    let force = std::env::var("CLICOLOR_FORCE").ok();
    let choice = choice(force.as_deref(), stream.is_terminal());
    let mut out = AutoStream::new(stream, choice);
    out.write_all(view.as_bytes())?;
    out.flush()
}

/// `CLICOLOR_FORCE=0` forces nothing; anstream takes every value for a yes.
fn choice(force: Option<&str>, is_terminal: bool) -> ColorChoice {
    match force {
        Some("0") if !is_terminal => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_forces_no_colours() {
        assert_eq!(choice(Some("0"), false), ColorChoice::Never);
        for (force, is_terminal) in [(Some("0"), true), (Some("1"), false), (None, false)] {
            assert_eq!(choice(force, is_terminal), ColorChoice::Auto);
        }
    }
}
