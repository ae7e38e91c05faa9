//! What the sanitizer tells: each mistake once, after which the work goes on or stops, as was asked for.

use std::{collections::BTreeSet, fmt::Display, ops::ControlFlow};

use device::Sanitize;
use isa::Unordered;

use crate::{config, locks::Mutex, part::Part as _, report, sanitizer};

/// The mistakes that were told: by whom, and what is the same each time.
#[derive(Default)]
pub(crate) struct Findings(Mutex<BTreeSet<(String, String)>>);

/// More than that are not read by anybody, and would push the rest out of the log.
const MOST: usize = 100;

/// Tells a mistake of a kernel, or of the copy engine, unless it was told before; whether the work goes on.
pub(crate) fn tell(who: &str, mistake: String, what: impl Display) -> ControlFlow<()> {
    let asked = config::get().sanitize;
    let then = if asked == Sanitize::Stop {
        "; the queue stops here, as --sanitize=stop asks"
    } else {
        ""
    };
    let mut told = Findings::here().0.lock();
    if told.len() <= MOST && told.insert((who.to_owned(), mistake)) {
        if told.len() <= MOST {
            report::finding(who, format_args!("{what}{then}"));
        } else {
            report::finding(who, format_args!("and more; {MOST} different mistakes are told"));
        }
    }
    match asked {
        Sanitize::Stop => ControlFlow::Break(()),
        Sanitize::Off | Sanitize::On => ControlFlow::Continue(()),
    }
}

/// Tells of a copy that nothing orders; an error where it is not to be made.
pub(crate) fn of_copy(unordered: Result<(), Unordered>) -> Result<(), Unordered> {
    let Err(unordered) = unordered else { return Ok(()) };
    let Unordered { address, this, rival, .. } = &unordered;
    let text = format!("{unordered}{}", sanitizer::describe(*address));
    match tell("copy engine", format!("{this} {rival}"), text) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(unordered),
    }
}
