//! The cancellation of the whole process, which the user requests by a signal, for example with Ctrl-C.

use std::sync::{Arc, atomic::AtomicBool};

use engine::{Stop, stop::chain};
use parking_lot::Mutex;
use supervise::Cancel;

/// The cancellation. The flag is true if signal handlers have been installed.
static REQUEST: Mutex<Option<(Cancel, bool)>> = Mutex::new(None);

/// Returns the cancellation. The first call installs the handlers: the first signal requests the cancellation, and a
/// signal more than a second later ends the process.
pub(crate) fn cancel() -> Result<Cancel, Stop> {
    let mut request = REQUEST.lock();
    let made = match &*request {
        Some((cancel, true)) => return Ok(cancel.clone()),
        Some((cancel, false)) => Ok(cancel.clone()),
        None => Cancel::new(),
    };
    let made = made.and_then(|cancel| cancel.on_signals().map(|()| cancel));
    let cancel = made.map_err(|e| Stop::no_verdict(format!("error: {}", chain(&e))))?;
    *request = Some((cancel.clone(), true));
    Ok(cancel)
}

/// Returns the flag of the cancellation. Until [`cancel`] installs the handlers, a signal ends the process, which
/// serves the same purpose.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let mut request = REQUEST.lock();
    if request.is_none() {
        *request = Cancel::new().ok().map(|cancel| (cancel, false));
    }
    request.as_ref().map(|(cancel, _)| Arc::clone(cancel.flag())).unwrap_or_default()
}

/// Returns the flag that cancels the download of a stack. For a build, installs the signal handlers first, because a
/// signal must not end the process in the middle of that download.
pub(crate) fn flag_for(spec: &str) -> Arc<AtomicBool> {
    if engine::stack_source::is_night(spec) {
        // If the handlers cannot be installed, a signal ends the process.
        let _ = cancel();
    }
    flag()
}
