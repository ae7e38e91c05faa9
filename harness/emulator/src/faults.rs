//! Decides when the injected faults of the device take effect, and records each time.

use std::{
    ffi::{CString, c_char},
    sync::atomic::{AtomicU64, Ordering},
};

use device::{Acts, Config, Fault, Planted};

use crate::{locks::Mutex, part::Part as _, sanitizer::Sanitizer};

/// An injected fault, the number of opportunities so far, and the opportunities at which the fault took effect.
struct Choice {
    planted: Planted,
    seen: AtomicU64,
    acts: Mutex<Acts>,
}

impl Choice {
    fn acted(&self, opportunity: u64, sanitizer: &Sanitizer) {
        let line = match sanitizer.current_line() {
            // The program is not a trial, or the trial has not reached the first line of its case.
            u32::MAX => 0,
            line => line,
        };
        self.acts.lock().note(opportunity, line);
    }
}

pub(crate) struct Chooser(Vec<Choice>);

impl Chooser {
    pub(crate) fn new(config: &Config) -> Chooser {
        let choice = |planted: &Planted| Choice {
            planted: planted.clone(),
            seen: AtomicU64::new(0),
            acts: Mutex::new(Acts::none(planted.fault)),
        };
        Chooser(config.faults.iter().map(choice).collect())
    }

    fn choice(&self, fault: Fault) -> Option<&Choice> {
        self.0.iter().find(|choice| choice.planted.fault == fault)
    }

    /// Counts an opportunity, and returns the fault if it takes effect at this opportunity. The decision depends only
    /// on the seed, the fault and the number of earlier opportunities. `sanitizer` provides the current line of the
    /// case.
    pub(crate) fn taken(&self, fault: Fault, sanitizer: &Sanitizer) -> Option<&Planted> {
        let choice = self.choice(fault)?;
        let opportunity = choice.seen.fetch_add(1, Ordering::Relaxed);
        let takes = choice.planted.takes(opportunity);
        takes.then(|| {
            choice.acted(opportunity, sanitizer);
            &choice.planted
        })
    }

    /// Returns the fault with its parameters if it is injected. Unlike `taken`, does not count an opportunity.
    pub(crate) fn planted(&self, fault: Fault) -> Option<&Planted> {
        self.choice(fault).map(|choice| &choice.planted)
    }
}

/// Counts an opportunity, and returns true if the fault takes effect at this opportunity.
pub(crate) fn takes(fault: Fault) -> bool {
    taken(fault).is_some()
}

/// Counts an opportunity, and returns the fault with its parameters if it takes effect at this opportunity.
pub(crate) fn taken(fault: Fault) -> Option<&'static Planted> {
    Chooser::here().taken(fault, Sanitizer::here())
}

/// Returns true if the fault takes effect at the opportunity with this number. The function is for opportunities that
/// may be checked more than once. Each check that returns true is recorded.
pub(crate) fn takes_at(fault: Fault, opportunity: u64) -> bool {
    let choice = Chooser::here().choice(fault).filter(|choice| choice.planted.takes(opportunity));
    choice.inspect(|choice| choice.acted(opportunity, Sanitizer::here())).is_some()
}

/// Returns the fault with its parameters if it is injected. Unlike `taken`, does not count an opportunity.
pub(crate) fn planted(fault: Fault) -> Option<&'static Planted> {
    Chooser::here().planted(fault)
}

/// Returns a list of [`Acts`] as JSON, which states how often each injected fault has taken effect so far.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_acts() -> *const c_char {
    let acts = |choice: &Choice| choice.acts.lock().clone();
    let all: Vec<Acts> = Chooser::here().0.iter().map(acts).collect();
    let json = serde_json::to_string(&all).unwrap_or_default();
    // The string is leaked, because the caller may keep it. A process calls this function about once.
    CString::new(json).unwrap_or_default().into_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<const N: usize>(faults: [Planted; N]) -> Chooser {
        Chooser::new(&Config { faults: faults.into(), ..Config::default() })
    }

    #[test]
    fn each_fault_counts_its_own_opportunities() {
        let half = |fault| Planted { probability: 0.5, ..Planted::from(fault) };
        let chooser = with([half(Fault::CopyZero), half(Fault::CopyDrop)]);
        for opportunity in 0..100 {
            let taken = chooser.taken(Fault::CopyZero, Sanitizer::here()).is_some();
            assert_eq!(taken, half(Fault::CopyZero).takes(opportunity));
            if opportunity % 3 == 0 {
                chooser.taken(Fault::CopyDrop, Sanitizer::here());
            }
        }
    }

    #[test]
    fn absent_fault_never_acts() {
        let chooser = with([Planted::from(Fault::CopyDrop)]);
        assert_eq!(chooser.taken(Fault::CopyZero, Sanitizer::here()), None);
    }
}
