use std::{
    io::{self, BufRead, Read},
    thread,
};

use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};

/// Reads the order from standard input.
pub(crate) fn first_line() -> io::Result<String> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::Error::other("standard input was closed before an order came"));
    }
    Ok(line)
}

/// From now on the process ends when standard input is closed: its parent is gone then, and a trial must not outlive its runner.
pub(crate) fn hold() -> io::Result<()> {
    thread::Builder::new().name("leash".into()).spawn(|| {
        let mut sink = [0; 256];
        let mut input = io::stdin().lock();
        // Anything but more input, an error included, means that the other end is gone.
        while matches!(input.read(&mut sink), Ok(1..)) {}
        end()
    })?;
    Ok(())
}

/// Ends the process at once, with every program that it started. Only the leader of a group may kill it: else the group is
/// that of a shell or a test runner.
pub(crate) fn end() -> ! {
    if getpgrp() == getpid() {
        // Cannot fail for the own group; if it did, the process still ends below.
        let _ = kill_current_process_group(Signal::KILL);
    }
    // SAFETY: _exit takes any status. Exit handlers are not run: a hanging call would hang them too.
    unsafe { libc::_exit(plan::LEFT_ALONE) }
}
