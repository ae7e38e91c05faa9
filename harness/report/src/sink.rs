//! Writes text for people to the terminal. No other module prints.

use std::io::{self, Write};

use anstream::{
    AutoStream, ColorChoice,
    stream::{AsLockedWrite, RawStream},
};

use crate::terminal;

/// Writes a view to standard output. Styles are removed if the output is not a terminal or `NO_COLOR` is set.
///
/// # Errors
/// Writing failed, for example because the output is a closed pipe.
pub fn print(view: &str) -> io::Result<()> {
    write(io::stdout().lock(), terminal(view))
}

/// Writes a line to standard error, with styles as in [`print()`]. Write errors are ignored, because the exit status
/// also reports the result.
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

/// Selects whether colours are printed. `CLICOLOR_FORCE=0` does not force colours, although anstream takes any value as
/// a yes.
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
    fn zero_does_not_force_colours() {
        assert_eq!(choice(Some("0"), false), ColorChoice::Never);
        for (force, is_terminal) in [(Some("0"), true), (Some("1"), false), (None, false)] {
            assert_eq!(choice(force, is_terminal), ColorChoice::Auto);
        }
    }
}
