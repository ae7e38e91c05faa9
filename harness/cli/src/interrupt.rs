//! Cancels the running command when the user sends a signal, for example with Ctrl-C.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use engine::{Stop, stop::chain};
use supervise::Cancel;

/// Maximum time between a signal and the end of the command. After this time, the process is ended. No results are
/// lost, because they are written to disk as soon as they are known.
const END_TIMEOUT: Duration = Duration::from_millis(1700);

/// Handle by which signals cancel this process, or the reason why the signal handlers could not be installed.
static REQUEST: OnceLock<Result<Cancel, String>> = OnceLock::new();

/// True once the command checks the cancellation. Until then, a signal ends the process.
static CANCELLATION_CHECKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the signal handlers. Must be called before the process starts threads, so that no signal is lost.
pub(crate) fn install() {
    let _ = request();
}

fn request() -> &'static Result<Cancel, String> {
    REQUEST.get_or_init(|| {
        let made = Cancel::new().and_then(|cancel| {
            cancel.on_signals(cancellation_checked())?;
            Ok(cancel)
        });
        made.map_err(|error| format!("error: {}", chain(&error)))
    })
}

fn cancellation_checked() -> &'static Arc<AtomicBool> {
    CANCELLATION_CHECKED.get_or_init(Arc::default)
}

/// Returns the cancellation handle, for a command that checks it from now on. The first signal requests the
/// cancellation, and a signal more than a second later ends the process. A command that does not end within
/// [`END_TIMEOUT`] is ended.
pub(crate) fn cancel() -> Result<Cancel, Stop> {
    let cancel = request().as_ref().map_err(Stop::no_verdict)?;
    if !cancellation_checked().swap(true, Ordering::SeqCst) {
        // If the thread cannot be started, a second signal still ends the process.
        let _ = cancel.end_after(END_TIMEOUT);
    }
    Ok(cancel.clone())
}

/// Gives signals their default action again, before this process becomes another program.
pub(crate) fn restore_signals() {
    cancellation_checked().store(false, Ordering::SeqCst);
}

/// Returns the flag that a signal sets to cancel the command. Until [`cancel`] is called, a signal ends the process
/// without setting the flag.
pub(crate) fn flag() -> Arc<AtomicBool> {
    request().as_ref().map(|cancel| Arc::clone(cancel.flag())).unwrap_or_default()
}

/// Returns the cancellation flag for the fetch of a stack. If `spec` names a build of a download source, a signal from
/// now on requests the cancellation, because it must not end the process in the middle of the fetch.
pub(crate) fn flag_for(spec: &str) -> Arc<AtomicBool> {
    if engine::stack_source::is_night(spec) {
        // If the handlers cannot be installed, a signal ends the process.
        let _ = cancel();
    }
    flag()
}
