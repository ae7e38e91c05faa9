//! Which failure it is, beyond its signature: the call that fails, and the call before it.

use judge::{Kind, Outcome, api};
use plan::{Call, DEFAULT_STREAM, Plan, Step};
use rewrite::related;

use super::space::{Candidate, every};

/// Where a trial failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Identity {
    /// The step of the edited plan; none outside of the body.
    step: Option<u32>,
    /// The function called before on the same stream or object, for a status or value that is wrong: what a call must answer
    /// depends on it.
    before: Option<&'static str>,
}

impl Identity {
    pub(super) fn of(candidate: &Candidate, outcome: &Outcome) -> Identity {
        let step = candidate.edited_id(outcome.at.step);
        let before = match outcome.kind {
            Kind::ApiError => step.and_then(|step| predecessor(candidate.plan(), step)),
            _ => None,
        };
        Identity { step, before }
    }

    pub(super) fn fits(&self, candidate: &Candidate, outcome: &Outcome) -> bool {
        *self == Identity::of(candidate, outcome)
    }
}

/// The function of the last call before a step that names the same stream, event, graph or handle.
fn predecessor(plan: &Plan, failing: u32) -> Option<&'static str> {
    let steps = every(&plan.body);
    let at = steps.iter().position(|step| step.id == failing)?;
    let call = &steps[at].call;
    let same = |step: &&&Step| {
        let stream = call.stream().filter(|stream| *stream != DEFAULT_STREAM);
        let blocks = matches!(step.call, Call::Repeat { .. } | Call::Thread { .. });
        !blocks && (stream.is_some() && step.call.stream() == stream || related(call, &step.call))
    };
    steps[..at].iter().rev().find(same).map(|step| api(&step.call, plan))
}
