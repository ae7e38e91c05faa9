//! The wish of whoever sits before the machine to stop: one for the whole process, whatever it waits for.

use std::sync::{Mutex, PoisonError};

use supervise::Cancel;

use crate::{Stop, stop::chain};

static ASKED: Mutex<Option<Cancel>> = Mutex::new(None);

/// What the first signal asks for, from the first call on; the signal that comes a second later ends the process.
pub(crate) fn cancel() -> Result<Cancel, Stop> {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cancel) = &*asked {
        return Ok(cancel.clone());
    }
    let made = Cancel::new().and_then(|cancel| cancel.on_signals().map(|()| cancel));
    let cancel = made.map_err(|e| Stop::no_verdict(format!("error: {}", chain(&e))))?;
    Ok(asked.insert(cancel).clone())
}
