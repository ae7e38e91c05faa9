//! The identity of a failure beyond its signature: the call that fails, and the call before it.

use judge::{Kind, Outcome, api};
use plan::{DEFAULT_STREAM, Plan, Step};
use rewrite::related;

use super::candidate::{Candidate, all_steps, is_block};

/// The location of a failure in a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FailureLocation {
    /// Id of the failing step in the edited plan; `None` if the failure is outside of the body.
    step: Option<u32>,
    /// If the failure is a wrong status or value: the function of the last earlier call on the same stream or object,
    /// because the right result of the failing call depends on that call.
    before: Option<&'static str>,
}

impl FailureLocation {
    pub(super) fn new(candidate: &Candidate, outcome: &Outcome) -> FailureLocation {
        let step = candidate.edited_id(outcome.at.step);
        let before = match outcome.kind {
            Kind::ApiError => step.and_then(|step| predecessor(candidate.plan(), step)),
            _ => None,
        };
        FailureLocation { step, before }
    }

    pub(super) fn matches(&self, candidate: &Candidate, outcome: &Outcome) -> bool {
        *self == FailureLocation::new(candidate, outcome)
    }
}

/// Returns the function of the last call before a step that uses the same stream, event, graph or handle; `None` if no
/// earlier call does.
fn predecessor(plan: &Plan, failing: u32) -> Option<&'static str> {
    let steps = all_steps(&plan.body);
    let at = steps.iter().position(|step| step.id == failing)?;
    let call = &steps[at].call;
    let same = |step: &&&Step| {
        let stream = call.stream().filter(|stream| *stream != DEFAULT_STREAM);
        !is_block(&step.call)
            && (stream.is_some() && step.call.stream() == stream || related(call, &step.call))
    };
    steps[..at].iter().rev().find(same).map(|step| api(&step.call, plan))
}
