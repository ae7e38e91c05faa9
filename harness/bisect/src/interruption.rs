//! The end of a search that can be resumed.

use engine::Stop;

/// Returns the stop of a search that was interrupted.
pub(crate) fn interrupted(why: &str) -> Stop {
    Stop::no_verdict(format!(
        "{why}\nwhat was seen is kept; the same command with --resume goes on"
    ))
}
