use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsRawFd as _, RawFd},
};

use parking_lot::Mutex;
use plan::Event;

use crate::{leash, tell::tell};

/// First file descriptor after the three standard file descriptors.
const FIRST_FREE: i32 = 3;

pub(crate) struct Events(Mutex<File>);

impl Events {
    /// Uses the original standard output as the pipe for events, and redirects all later output to standard error, so
    /// that a message of a library cannot mix with the events. Programs that a library starts do not inherit the pipe.
    pub(crate) fn instead_of_stdout() -> io::Result<Self> {
        let pipe = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), FIRST_FREE)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Events(Mutex::new(File::from(pipe))))
    }

    pub(crate) fn pipe(&self) -> RawFd {
        self.0.lock().as_raw_fd()
    }

    /// Writes an event with a single write(2), so that the event is complete even if the next call kills the process.
    pub(crate) fn send(&self, event: &Event) {
        let mut line = match serde_json::to_vec(event) {
            Ok(line) => line,
            // Serialising cannot fail, because events contain only numbers, strings and lists.
            Err(error) => unreachable!("{error}"),
        };
        line.push(b'\n');
        let mut pipe = self.0.lock();
        match pipe.write_all(&line) {
            Ok(()) => {}
            // The parent has closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => leash::end(),
            Err(error) => {
                tell(format_args!("the pipe of events was closed within this process: {error}"));
                // SAFETY: _exit takes any status. Events can no longer be reported, so the process ends here.
                unsafe { libc::_exit(plan::PIPE_CLOSED) }
            }
        }
    }
}
