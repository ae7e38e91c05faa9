use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsRawFd as _, RawFd},
};

use parking_lot::Mutex;
use plan::Event;

use crate::{leash, tell::tell};

/// First descriptor after the standard three.
const FIRST_FREE: i32 = 3;

/// Pipe to which events are written.
pub(crate) struct Events(Mutex<File>);

impl Events {
    /// Takes over standard output for the events and redirects further output there to standard error, so that a
    /// library's message never lands between two events. Programs that a library starts do not inherit the pipe.
    pub(crate) fn instead_of_stdout() -> io::Result<Self> {
        let pipe = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), FIRST_FREE)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Events(Mutex::new(File::from(pipe))))
    }

    /// Returns the number of the pipe's descriptor.
    pub(crate) fn pipe(&self) -> RawFd {
        self.0.lock().as_raw_fd()
    }

    /// Writes one event with one write(2), so that it is complete even if the next call kills the process.
    pub(crate) fn say(&self, event: &Event) {
        let mut line = match serde_json::to_vec(event) {
            Ok(line) => line,
            // Events contain only numbers, strings and lists, which always serialise.
            Err(error) => unreachable!("{error}"),
        };
        line.push(b'\n');
        let mut pipe = self.0.lock();
        match pipe.write_all(&line) {
            Ok(()) => {}
            // The reader has closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => leash::end(),
            Err(error) => {
                tell(format_args!("the pipe of events was closed within this process: {error}"));
                // SAFETY: _exit takes any status. The report is lost, so nothing further is tried.
                unsafe { libc::_exit(plan::PIPE_CLOSED) }
            }
        }
    }
}
