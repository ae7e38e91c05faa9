//! The wish of whoever sits before the machine to stop: one for the whole process, whatever it waits for.

use std::sync::{Arc, atomic::AtomicBool};

use parking_lot::Mutex;

use supervise::Cancel;

use crate::{Stop, stop::chain};

static ASKED: Mutex<Option<Cancel>> = Mutex::new(None);

/// What the first signal asks for, from the first call on; the signal that comes a second later ends the process.
pub(crate) fn cancel() -> Result<Cancel, Stop> {
    let mut asked = ASKED.lock();
    if let Some(cancel) = &*asked {
        return Ok(cancel.clone());
    }
    let made = Cancel::new().and_then(|cancel| cancel.on_signals().map(|()| cancel));
    let cancel = made.map_err(|e| Stop::no_verdict(format!("error: {}", chain(&e))))?;
    Ok(asked.insert(cancel).clone())
}

/// What becomes true at the first signal where a command looks at it. Where none does yet, the signal ends the process,
/// which is as quick.
pub(crate) fn wish() -> Arc<AtomicBool> {
    let asked = ASKED.lock();
    asked.as_ref().map(|cancel| Arc::clone(cancel.flag())).unwrap_or_default()
}
