//! The three pipes to a child. Reads and writes never block.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::lines::Lines;
use crate::{Line, Log};

/// Maximum number of reads of one stream before the other streams are served. Multiplied by [`READ_BYTES`], this is the
/// largest capacity that a pipe can have without privileges (1 MiB); see `pipe(7)`.
const READS_PER_TURN: usize = 16;

/// Size of the read buffer in bytes.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// Event that wakes the thread which watches a child.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum WakeSource {
    Child,
    Stdin,
    Stdout,
    Stderr,
    Cancel,
}

/// The parent's ends of the pipes, and the data that was read from them.
pub(crate) struct Pipes<'a> {
    /// Standard input of the child. It remains open after the order has been written, until the child has been reaped.
    pub(crate) stdin: Option<ChildStdin>,
    /// Rest of the order that must still be written to the child's standard input.
    orders: &'a [u8],
    /// Standard output of the child, or `None` after every writer has closed it.
    stdout: Option<ChildStdout>,
    /// Standard error of the child, or `None` after every writer has closed it.
    stderr: Option<ChildStderr>,
    pub(crate) lines: Lines,
    pub(crate) log: Log,
    /// Time at which standard error was last read, or zero before the first read.
    pub(crate) stderr_at: Duration,
}

impl<'a> Pipes<'a> {
    pub(crate) fn new(child: &mut Child, orders: &'a [u8]) -> Pipes<'a> {
        Pipes {
            stdin: child.stdin.take(),
            orders,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            lines: Lines::default(),
            log: Log::default(),
            stderr_at: Duration::ZERO,
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        // Only the parent's ends become non-blocking, because the child's ends are separate open file descriptions.
        let fds = [
            self.stdin.as_ref().map(AsFd::as_fd),
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        fds.into_iter().flatten().try_for_each(|fd| Ok(rustix::io::ioctl_fionbio(fd, true)?))
    }

    pub(crate) fn sources(&self) -> Vec<(WakeSource, BorrowedFd<'_>, PollFlags)> {
        let mut sources = Vec::with_capacity(5);
        if let Some(stdout) = &self.stdout {
            sources.push((WakeSource::Stdout, stdout.as_fd(), PollFlags::IN));
        }
        if let Some(stderr) = &self.stderr {
            sources.push((WakeSource::Stderr, stderr.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.orders.is_empty()) {
            sources.push((WakeSource::Stdin, stdin.as_fd(), PollFlags::OUT));
        }
        sources
    }

    /// Reads from and writes to the streams that are ready.
    pub(crate) fn serve(
        &mut self,
        ready: &[WakeSource],
        buffer: &mut [u8],
        start: Instant,
        on_line: &mut dyn FnMut(&Line),
    ) {
        if ready.contains(&WakeSource::Stdout) {
            let lines = &mut self.lines;
            read_available(&mut self.stdout, buffer, |bytes| {
                lines.push(bytes, start.elapsed(), on_line);
            });
        }
        if ready.contains(&WakeSource::Stderr) {
            let (log, at) = (&mut self.log, &mut self.stderr_at);
            read_available(&mut self.stderr, buffer, |bytes| {
                log.push(bytes);
                *at = start.elapsed();
            });
        }
        if ready.contains(&WakeSource::Stdin) {
            self.write();
        }
    }

    /// Writes as many bytes of the order as fit into the pipe of standard input. If the child has closed its standard
    /// input, the other bytes are dropped, because the end of the child will show what happened.
    pub(crate) fn write(&mut self) {
        while let Some(stdin) = &mut self.stdin
            && !self.orders.is_empty()
        {
            match stdin.write(self.orders) {
                Ok(written) => self.orders = &self.orders[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.orders = &[],
            }
        }
    }
}

/// Passes the bytes that can be read now to `take`, in at most [`READS_PER_TURN`] reads. Closes a stream that has
/// ended.
fn read_available<R: Read>(stream: &mut Option<R>, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
    let mut reads = 0;
    while let Some(open) = stream
        && reads < READS_PER_TURN
    {
        match open.read(buffer) {
            Ok(0) => *stream = None,
            Ok(read) => {
                reads += 1;
                take(&buffer[..read]);
                if read < buffer.len() {
                    // A read that does not fill the buffer has emptied the pipe. The next poll reports further bytes.
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => *stream = None,
        }
    }
}
