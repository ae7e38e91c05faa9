use plan::{Event, Phase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many calls a phase made and how long they took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseUse {
    /// The phase.
    #[schemars(with = "String")]
    pub phase: Phase,
    /// Calls that returned.
    pub calls: u64,
    /// Time in these calls, in nanoseconds; that of calls on two threads at once counts twice.
    pub ns: u64,
}

/// The phases that a worker entered, in order.
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

/// Time in the calls of the body, what a case is about, in nanoseconds. Loading, compiling, set-up and reading the results are no
/// part of it.
pub fn body_ns(phases: &[PhaseUse]) -> u64 {
    phases.iter().filter(|used| used.phase == Phase::Body).map(|used| used.ns).sum()
}
