//! The lines that the emulated device writes to standard error.
//!
//! Silent by default, but for four kinds of line that the judge of an outcome relies on: a *gap* is
//! something that the emulation lacks, a *fault* is the guest's own mistake, a *finding* is one that only the sanitizer
//! notices, and a *hang* is a kernel that does not end.

use std::{
    fmt::{Arguments, Display},
    io::Write,
    sync::OnceLock,
};

/// Set to `1`, every HSA call that matters is written to standard error.
const TRACE_VARIABLE: &str = "ROCREPRO_DEVICE_TRACE";

fn line(text: Arguments<'_>) {
    // One write keeps lines of different threads apart. There is no one to tell if it fails.
    let _ = std::io::stderr().write_all(format!("rocrepro-device: {text}\n").as_bytes());
}

/// Something that the emulation lacks and that mattered to this kernel.
pub(crate) fn gap(kernel: &str, trap: impl Display) {
    line(format_args!("gap: kernel {kernel}: {trap}"));
}

/// A mistake of the kernel itself, such as an access to memory that is not mapped.
pub(crate) fn fault(kernel: &str, trap: impl Display) {
    line(format_args!("fault: kernel {kernel}: {trap}"));
}

/// A kernel that does not end.
pub(crate) fn hang(kernel: &str, what: impl Display) {
    line(format_args!("hang: kernel {kernel}: {what}"));
}

/// A mistake that the sanitizer found, after which the device goes on.
pub(crate) fn finding(kernel: &str, what: impl Display) {
    line(format_args!("finding: kernel {kernel}: {what}"));
}

/// The configuration cannot be used.
pub(crate) fn bad_configuration(problem: impl Display) {
    line(format_args!("bad configuration: {problem}"));
}

/// A process whose work does not reach this device, or reaches it from other libraries than was requested.
pub(crate) fn note(what: impl Display) {
    line(format_args!("note: {what}"));
}

/// Whether tracing is on.
pub(crate) fn tracing() -> bool {
    // The variable, and standard error, are those of the process.
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os(TRACE_VARIABLE).is_some_and(|v| v == "1"))
}

pub(crate) fn trace_line(text: Arguments<'_>) {
    line(format_args!("trace: {text}"));
}

/// Writes a line when tracing is on; costs one load otherwise.
macro_rules! trace {
    ($($arg:tt)*) => {
        if $crate::report::tracing() {
            $crate::report::trace_line(format_args!($($arg)*));
        }
    };
}
pub(crate) use trace;

/// Makes a panic of this library an abort with a line of ours. It must never unwind into C, and a
/// process whose device has an unknown state must not go on.
pub(crate) fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        line(format_args!("internal error: {panic}"));
        std::process::abort();
    }));
}
