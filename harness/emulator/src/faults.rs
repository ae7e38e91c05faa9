//! Decides when the injected faults of the device take effect, and records each time. An opportunity is a point of the
//! execution at which a fault can take effect, for example one copy. Each fault counts its opportunities.

use std::{
    ffi::{CString, c_char},
    sync::atomic::{AtomicU64, Ordering},
};

use device::{Config, Fault, FaultActivations, FaultSpec};

use crate::{locks::Mutex, part::DeviceComponent as _, sanitizer::Sanitizer};

/// An injected fault, the number of opportunities so far, and the opportunities at which the fault took effect.
struct FaultState {
    spec: FaultSpec,
    opportunities: AtomicU64,
    activations: Mutex<FaultActivations>,
}

impl FaultState {
    fn record_activation(&self, opportunity: u64, sanitizer: &Sanitizer) {
        let line = match sanitizer.current_line() {
            // The program is not a trial, or the trial has not reached the first line of its case.
            u32::MAX => 0,
            line => line,
        };
        self.activations.lock().note(opportunity, line);
    }
}

pub(crate) struct FaultSelector(Vec<FaultState>);

impl FaultSelector {
    pub(crate) fn new(config: &Config) -> FaultSelector {
        let choice = |planted: &FaultSpec| FaultState {
            spec: planted.clone(),
            opportunities: AtomicU64::new(0),
            activations: Mutex::new(FaultActivations::new(planted.fault)),
        };
        FaultSelector(config.faults.iter().map(choice).collect())
    }

    fn choice(&self, fault: Fault) -> Option<&FaultState> {
        self.0.iter().find(|choice| choice.spec.fault == fault)
    }

    /// Counts an opportunity, and returns the fault if it takes effect at this opportunity. The decision depends only
    /// on the seed, the fault and the number of earlier opportunities. `sanitizer` provides the current line of the
    /// case.
    pub(crate) fn active_fault(&self, fault: Fault, sanitizer: &Sanitizer) -> Option<&FaultSpec> {
        let choice = self.choice(fault)?;
        let opportunity = choice.opportunities.fetch_add(1, Ordering::Relaxed);
        let takes = choice.spec.takes_effect_at(opportunity);
        takes.then(|| {
            choice.record_activation(opportunity, sanitizer);
            &choice.spec
        })
    }

    /// Returns the fault with its parameters if it is injected. Unlike `active_fault`, does not count an opportunity.
    pub(crate) fn injected(&self, fault: Fault) -> Option<&FaultSpec> {
        self.choice(fault).map(|choice| &choice.spec)
    }
}

/// Counts an opportunity, and returns true if the fault takes effect at this opportunity.
pub(crate) fn is_active(fault: Fault) -> bool {
    active_fault(fault).is_some()
}

/// Counts an opportunity, and returns the fault with its parameters if it takes effect at this opportunity.
pub(crate) fn active_fault(fault: Fault) -> Option<&'static FaultSpec> {
    FaultSelector::current().active_fault(fault, Sanitizer::current())
}

/// Returns true if the fault takes effect at the opportunity with this number. The function is for opportunities that
/// may be checked more than once. Each check that returns true is recorded.
pub(crate) fn is_active_at(fault: Fault, opportunity: u64) -> bool {
    let choice = FaultSelector::current()
        .choice(fault)
        .filter(|choice| choice.spec.takes_effect_at(opportunity));
    choice.inspect(|choice| choice.record_activation(opportunity, Sanitizer::current())).is_some()
}

/// Returns the fault with its parameters if it is injected. Unlike `active_fault`, does not count an opportunity.
pub(crate) fn injected(fault: Fault) -> Option<&'static FaultSpec> {
    FaultSelector::current().injected(fault)
}

/// Returns a list of [`FaultActivations`] as JSON, which states how often each injected fault has taken effect so far.
#[unsafe(no_mangle)]
extern "C" fn rocrepro_device_acts() -> *const c_char {
    let acts = |choice: &FaultState| choice.activations.lock().clone();
    let all: Vec<FaultActivations> = FaultSelector::current().0.iter().map(acts).collect();
    let json = serde_json::to_string(&all).unwrap_or_default();
    // The string is leaked, because the caller may keep it. A process calls this function about once.
    CString::new(json).unwrap_or_default().into_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<const N: usize>(faults: [FaultSpec; N]) -> FaultSelector {
        FaultSelector::new(&Config { faults: faults.into(), ..Config::default() })
    }

    #[test]
    fn each_fault_counts_its_own_opportunities() {
        let half = |fault| FaultSpec { probability: 0.5, ..FaultSpec::from(fault) };
        let chooser = with([half(Fault::CopyZero), half(Fault::CopyDrop)]);
        for opportunity in 0..100 {
            let taken = chooser.active_fault(Fault::CopyZero, Sanitizer::current()).is_some();
            assert_eq!(taken, half(Fault::CopyZero).takes_effect_at(opportunity));
            if opportunity % 3 == 0 {
                chooser.active_fault(Fault::CopyDrop, Sanitizer::current());
            }
        }
    }

    #[test]
    fn absent_fault_never_acts() {
        let chooser = with([FaultSpec::from(Fault::CopyDrop)]);
        assert_eq!(chooser.active_fault(Fault::CopyZero, Sanitizer::current()), None);
    }
}
