use std::{
    fmt,
    io::{self, Write},
};

/// Says something on standard error, for people. Where that is closed or full the trial goes on all the same.
pub(crate) fn tell(text: impl fmt::Display) {
    // One write, so that libraries print before or after it.
    let _ = io::stderr().write_all(format!("worker: {text}\n").as_bytes());
}
