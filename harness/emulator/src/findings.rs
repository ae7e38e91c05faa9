//! Reports the sanitizer's findings, each error only once. The configuration decides whether the kernel or copy
//! continues after a finding.

use std::{collections::BTreeSet, fmt::Display, ops::ControlFlow};

use device::Sanitize;
use isa::Unordered;

use crate::{config, locks::Mutex, part::DeviceComponent as _, report, sanitizer};

/// Errors that have been reported. Each entry consists of the name of the kernel and the message without its varying
/// parts.
#[derive(Default)]
pub(crate) struct Findings(Mutex<BTreeSet<(String, String)>>);

/// Maximum number of errors that are reported. More messages would displace other output from the log.
const MAX_REPORTED: usize = 100;

/// Reports an error of a kernel or of the copy engine. `who` is the name of the kernel, or `copy engine`. `mistake` is
/// the message without its varying parts, and `what` is the complete message. An error with the same `who` and
/// `mistake` is reported only once. Returns `Continue` if the kernel or copy must continue, and `Break` if it must
/// stop.
pub(crate) fn report(who: &str, mistake: String, what: impl Display) -> ControlFlow<()> {
    let asked = config::get().sanitize;
    let then = if asked == Sanitize::Stop {
        "; the queue stops here, as --sanitize=stop asks"
    } else {
        ""
    };
    let mut told = Findings::current().0.lock();
    if told.len() <= MAX_REPORTED && told.insert((who.to_owned(), mistake)) {
        if told.len() <= MAX_REPORTED {
            report::finding(who, format_args!("{what}{then}"));
        } else {
            report::finding(
                who,
                format_args!("further mistakes are omitted ({MAX_REPORTED} reported)"),
            );
        }
    }
    match asked {
        Sanitize::Stop => ControlFlow::Break(()),
        Sanitize::Off | Sanitize::On => ControlFlow::Continue(()),
    }
}

/// Reports the error in `unordered`, if any: the order of a copy and an earlier access is not guaranteed. Returns the
/// error again if the copy must not be executed.
pub(crate) fn report_copy(unordered: Result<(), Unordered>) -> Result<(), Unordered> {
    let Err(unordered) = unordered else { return Ok(()) };
    let Unordered { address, this, rival, .. } = &unordered;
    let text = format!("{unordered}{}", sanitizer::describe(*address));
    match report("copy engine", format!("{this} {rival}"), text) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(unordered),
    }
}
