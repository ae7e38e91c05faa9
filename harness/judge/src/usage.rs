use plan::{Event, Phase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number and total duration of the calls that a worker made in one phase of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseUse {
    /// Phase in which the calls were made.
    #[schemars(with = "String")]
    pub phase: Phase,
    /// Number of calls that returned.
    pub calls: u64,
    /// Total time in the calls, in nanoseconds. If two threads are in calls at the same time, the time counts twice.
    pub ns: u64,
}

/// Returns the number and duration of the calls in each phase that a worker entered, in order.
pub fn phases(events: &[Event]) -> Vec<PhaseUse> {
    let mut all: Vec<PhaseUse> = Vec::new();
    for event in events {
        match event {
            Event::Phase { phase } => all.push(PhaseUse { phase: *phase, calls: 0, ns: 0 }),
            Event::End { ns, .. } => {
                if let Some(current) = all.last_mut() {
                    current.calls += 1;
                    current.ns = current.ns.saturating_add(*ns);
                }
            }
            _ => {}
        }
    }
    all
}

/// Returns the total time in the calls of the body, in nanoseconds. Loading, compiling, set-up and reading the results
/// are not included.
pub fn body_ns(phases: &[PhaseUse]) -> u64 {
    phases.iter().filter(|used| used.phase == Phase::Body).map(|used| used.ns).sum()
}
