//! Faults that are planted in the device on purpose.

use std::{
    ffi::{CString, c_char},
    sync::atomic::{AtomicU64, Ordering},
};

use device::{Acts, Config, Fault, Planted};

use crate::{locks::Mutex, part::Part as _, sanitizer::Sanitizer};

/// A planted fault, how many opportunities it has had, and which of them it took.
struct Choice {
    planted: Planted,
    seen: AtomicU64,
    acts: Mutex<Acts>,
}

impl Choice {
    /// Notes an act at this opportunity.
    fn acted(&self, opportunity: u64, sanitizer: &Sanitizer) {
        let line = match sanitizer.current_line() {
            // A program that is not a trial, or one that is not at its lines yet.
            u32::MAX => 0,
            line => line,
        };
        self.acts.lock().note(opportunity, line);
    }
}

/// The planted faults.
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

    /// The fault, where this opportunity to misbehave is taken. It depends on nothing but the seed, the
    /// fault and how many opportunities there were before. The sanitizer knows where the program is.
    pub(crate) fn taken(&self, fault: Fault, sanitizer: &Sanitizer) -> Option<&Planted> {
        let choice = self.choice(fault)?;
        let opportunity = choice.seen.fetch_add(1, Ordering::Relaxed);
        let takes = choice.planted.takes(opportunity);
        takes.then(|| {
            choice.acted(opportunity, sanitizer);
            &choice.planted
        })
    }

    /// The fault, whether or not an opportunity is taken.
    pub(crate) fn planted(&self, fault: Fault) -> Option<&Planted> {
        self.choice(fault).map(|choice| &choice.planted)
    }
}

/// Whether the device misbehaves in this way at this opportunity.
pub(crate) fn takes(fault: Fault) -> bool {
    taken(fault).is_some()
}

/// The planted fault with its parameters, where the device misbehaves in this way at this opportunity.
pub(crate) fn taken(fault: Fault) -> Option<&'static Planted> {
    Chooser::here().taken(fault, Sanitizer::here())
}

/// Whether the opportunity of this number is taken: for those that may be looked at more than once. Each look at which it is
/// counts as an act.
pub(crate) fn takes_at(fault: Fault, opportunity: u64) -> bool {
    let choice = Chooser::here().choice(fault).filter(|choice| choice.planted.takes(opportunity));
    choice.inspect(|choice| choice.acted(opportunity, Sanitizer::here())).is_some()
}

/// The fault, whether or not an opportunity is taken.
pub(crate) fn planted(fault: Fault) -> Option<&'static Planted> {
    Chooser::here().planted(fault)
}

/// The JSON of a list of [`Acts`]: how often each planted fault misbehaved up to now.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_acts() -> *const c_char {
    let acts = |choice: &Choice| choice.acts.lock().clone();
    let all: Vec<Acts> = Chooser::here().0.iter().map(acts).collect();
    let json = serde_json::to_string(&all).unwrap_or_default();
    // Whoever asks may keep it; once in a process is often.
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
    fn a_fault_that_is_not_planted_is_never_taken() {
        let chooser = with([Planted::from(Fault::CopyDrop)]);
        assert_eq!(chooser.taken(Fault::CopyZero, Sanitizer::here()), None);
    }
}
