//! Ends this process some time after a signal asked it to end.

use std::{io, time::Duration};

use rustix::event::PollFlags;

use crate::{Cancel, adopted, group::wait_ready};

impl Cancel {
    /// Starts a thread that ends this process when the time `after` has passed since a signal made the request. The
    /// exit status is 128 plus the signal's number, and the children of this process are killed first. A process that
    /// ends by itself before that time is not affected.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn end_after(&self, after: Duration) -> io::Result<()> {
        let cancel = self.clone();
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            let asked = wait_ready(&[((), cancel.wake(), PollFlags::IN)], None);
            let signal = cancel.signal();
            if asked.is_ok() && signal != 0 {
                std::thread::sleep(after);
                adopted::kill_all();
                signal_hook::low_level::exit(128 + signal);
            }
        })?;
        Ok(())
    }
}
