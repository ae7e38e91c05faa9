//! The request of the user to stop: one for the whole process.

use std::sync::{Arc, atomic::AtomicBool};

use engine::{Stop, stop::chain};
use parking_lot::Mutex;
use supervise::Cancel;

/// The request, and whether signals make it.
static REQUEST: Mutex<Option<(Cancel, bool)>> = Mutex::new(None);

/// Returns the request that the first signal makes, from the first call on. A signal that comes a second later ends the process.
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

/// Returns the flag of the request. Until [`cancel`] is called a signal ends the process instead, which is as quick.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let mut request = REQUEST.lock();
    if request.is_none() {
        *request = Cancel::new().ok().map(|cancel| (cancel, false));
    }
    request.as_ref().map(|(cancel, _)| Arc::clone(cancel.flag())).unwrap_or_default()
}

/// Returns the flag for the fetch of a stack. A signal must not end the process in the middle of the fetch of a build.
pub(crate) fn flag_for(spec: &str) -> Arc<AtomicBool> {
    if engine::stack_source::is_night(spec) {
        // Without it a signal ends the process.
        let _ = cancel();
    }
    flag()
}
