//! The three pipes to a child. Reads and writes never block.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::Instant;

use rustix::event::PollFlags;

use crate::lines::Lines;
use crate::{Line, Log};

/// Maximum number of reads of one stream before the other streams are served. Times [`READ_BYTES`] it is the largest
/// capacity of a pipe without privileges; see `pipe(7)`.
const READS_PER_TURN: usize = 16;

/// Size of the read buffer in bytes.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// Event that wakes the thread that watches a child.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Source {
    Child,
    Stdin,
    Stdout,
    Stderr,
    Cancel,
}

/// The parent's ends of the pipes, and the data read from them.
pub(crate) struct Pipes<'a> {
    /// Kept open after the last byte of `orders`, until the child has been reaped.
    pub(crate) stdin: Option<ChildStdin>,
    /// Bytes of the orders that are still to be written.
    orders: &'a [u8],
    /// `None` once every writer has closed it.
    stdout: Option<ChildStdout>,
    /// `None` once every writer has closed it.
    stderr: Option<ChildStderr>,
    pub(crate) lines: Lines,
    pub(crate) log: Log,
}

impl<'a> Pipes<'a> {
    /// Takes the pipes of a child that was started with all three.
    pub(crate) fn new(child: &mut Child, orders: &'a [u8]) -> Pipes<'a> {
        Pipes {
            stdin: child.stdin.take(),
            orders,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            lines: Lines::default(),
            log: Log::default(),
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        // Only the parent's ends become non-blocking. The child's ends are separate open files.
        let fds = [
            self.stdin.as_ref().map(AsFd::as_fd),
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        fds.into_iter().flatten().try_for_each(|fd| Ok(rustix::io::ioctl_fionbio(fd, true)?))
    }

    /// Returns the pipes to poll.
    pub(crate) fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut sources = Vec::with_capacity(5);
        if let Some(stdout) = &self.stdout {
            sources.push((Source::Stdout, stdout.as_fd(), PollFlags::IN));
        }
        if let Some(stderr) = &self.stderr {
            sources.push((Source::Stderr, stderr.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.orders.is_empty()) {
            sources.push((Source::Stdin, stdin.as_fd(), PollFlags::OUT));
        }
        sources
    }

    /// Reads and writes the streams that are ready.
    pub(crate) fn serve(
        &mut self,
        ready: &[Source],
        buffer: &mut [u8],
        start: Instant,
        on_line: &mut dyn FnMut(&Line),
    ) {
        if ready.contains(&Source::Stdout) {
            let lines = &mut self.lines;
            read_available(&mut self.stdout, buffer, |bytes| {
                lines.push(bytes, start.elapsed(), on_line);
            });
        }
        if ready.contains(&Source::Stderr) {
            let log = &mut self.log;
            read_available(&mut self.stderr, buffer, |bytes| log.push(bytes));
        }
        if ready.contains(&Source::Stdin) {
            self.write();
        }
    }

    /// Writes as many bytes of the orders as the pipe takes. If the child closed its standard input, the rest is
    /// dropped; the end of the child shows what happened.
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

/// Passes the bytes that can be read now to `take`, in at most [`READS_PER_TURN`] reads. Drops a stream at its end.
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
                    // A pipe that does not fill the buffer is empty; the next poll reports further bytes.
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => *stream = None,
        }
    }
}
