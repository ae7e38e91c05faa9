use std::{
    fmt,
    io::{self, Write},
};

/// Writes a message for people to standard error. If that is closed or full, the trial continues.
pub(crate) fn tell(text: impl fmt::Display) {
    // A single write, so that output of libraries comes before or after the message.
    let _ = io::stderr().write_all(format!("worker: {text}\n").as_bytes());
}
