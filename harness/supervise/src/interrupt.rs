//! Ends this process some time after a signal asked it to end.

use std::{io, time::Duration};

use rustix::event::PollFlags;

use crate::{Cancel, adopted, group::wait_ready};

impl Cancel {
    /// Starts a thread that ends this process `after` a signal has made the request, with status 128 plus the signal's
    /// number. Its children are killed before. A process that ends by itself in that time is not affected.
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
