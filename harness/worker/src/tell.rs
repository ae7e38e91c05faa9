use std::{
    fmt,
    io::{self, Write},
};

/// Writes a message for people to standard error. If standard error is closed or full, the trial continues.
pub(crate) fn tell(text: impl fmt::Display) {
    // The message is written with one call, so that output of libraries cannot mix with it.
    let _ = io::stderr().write_all(format!("worker: {text}\n").as_bytes());
}
