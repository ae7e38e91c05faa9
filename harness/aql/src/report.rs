//! Lines that the emulated device writes to standard error.
//!
//! By default, the device writes four kinds of lines, which the crate `judge` reads. A *gap* is a feature that the
//! emulation does not support. A *fault* is an error of the program that runs on the device. A *finding* is an error
//! that only the sanitizer detects. A *hang* is a kernel that does not end.

use std::{
    fmt::{Arguments, Display},
    io::Write,
    sync::OnceLock,
};

/// Environment variable that turns tracing on. If its value is `1`, the device writes all important HSA calls to
/// standard error.
const TRACE_VARIABLE: &str = "ROCREPRO_DEVICE_TRACE";

fn line(text: Arguments<'_>) {
    // Each line is written in one call, so that lines of different threads do not mix. Write errors are ignored.
    let _ = std::io::stderr().write_all(format!("rocrepro-device: {text}\n").as_bytes());
}

/// Reports an unsupported feature that a kernel needs.
pub fn unsupported(kernel: &str, trap: impl Display) {
    line(format_args!("gap: kernel {kernel}: {trap}"));
}

/// Reports an error of a kernel, for example an access to unmapped memory.
pub fn fault(kernel: &str, trap: impl Display) {
    line(format_args!("fault: kernel {kernel}: {trap}"));
}

/// Reports a kernel that does not end.
pub fn hang(kernel: &str, what: impl Display) {
    line(format_args!("hang: kernel {kernel}: {what}"));
}

/// Reports an error that the sanitizer found. The device continues.
pub fn finding(kernel: &str, what: impl Display) {
    line(format_args!("finding: kernel {kernel}: {what}"));
}

/// Reports that the configuration in the environment is invalid. The process then has no device.
pub fn bad_configuration(problem: impl Display) {
    line(format_args!("bad configuration: {problem}"));
}

/// Reports that HSA calls of the process do not reach this device, or that the process uses libraries other
/// than the requested ones.
pub fn note(what: impl Display) {
    line(format_args!("note: {what}"));
}

/// Returns true if tracing is on.
pub fn tracing() -> bool {
    // The value is stored once per process, because the variable and standard error belong to the process and not to a
    // device.
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os(TRACE_VARIABLE).is_some_and(|v| v == "1"))
}

/// Writes a line of the trace. Do not call this function directly: use the macro [`trace`](crate::trace!()), which
/// first checks whether tracing is on.
pub fn trace_line(text: Arguments<'_>) {
    line(format_args!("trace: {text}"));
}

/// Writes a line to standard error if tracing is on. If tracing is off, the macro only reads a flag.
#[macro_export]
macro_rules! trace {
    ($($arg:tt)*) => {
        if $crate::report::tracing() {
            $crate::report::trace_line(format_args!($($arg)*));
        }
    };
}
pub use crate::trace;

/// Makes the process abort with a message if this library panics. A panic must not unwind into C, and after a panic the
/// state of the device is unknown.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        line(format_args!("internal error: {panic}"));
        std::process::abort();
    }));
}
