//! Plans as what a search reduces: every candidate is written as a case, read and lowered again, so it has passed the static
//! checks and is what a reader of the case would run.

use std::{collections::BTreeSet, rc::Rc};

use case::{Case, Header, Kernels, Lowered, Trial, lower, write};
use device::{Place, Planted};
use judge::{Kind, Outcome};
use plan::{Call, Plan, Step, may_succeed};
use rewrite::reduce::{Edit, apply, reductions};
use search::reduce::{Made, Space, Tree};

/// Plans that fail in one way.
pub(super) struct Plans {
    /// The case that candidates are of.
    pub(super) id: String,
    /// Kernels that a reader of the case has.
    pub(super) kernels: Kernels,
    /// What candidates say besides their steps.
    pub(super) header: Header,
    /// The planted faults.
    pub(super) faults: Vec<Planted>,
    /// The failure in question, once it is known.
    pub(super) signature: Option<String>,
    /// The step of the edited plan at which it is seen, where that is known.
    pub(super) failing: Option<u32>,
    /// Steps without which the status or value that the failing step expects is not the right one.
    pub(super) kept: BTreeSet<u32>,
}

/// A plan, as it is edited and as it is run.
#[derive(Clone)]
pub(crate) struct Candidate(Rc<Inner>);

struct Inner {
    /// With the ids of the plan that the search began with.
    plan: Plan,
    text: String,
    key: String,
    case: Case,
    trial: Trial,
    lowered: Lowered,
}

impl Candidate {
    /// As it is edited.
    pub(super) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// The case.
    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    pub(super) fn case(&self) -> &Case {
        &self.0.case
    }

    pub(super) fn trial(&self) -> &Trial {
        &self.0.trial
    }

    /// As it is run.
    pub(super) fn lowered(&self) -> &Lowered {
        &self.0.lowered
    }

    /// The id that a step of the lowered plan has in the edited one.
    pub(super) fn edited_id(&self, lowered: Option<u32>) -> Option<u32> {
        let lowered = lowered?;
        let mut steps = every(&self.0.plan.body).into_iter().zip(every(&self.0.lowered.plan.body));
        steps.find(|(_, step)| step.id == lowered).map(|(edited, _)| edited.id)
    }

    /// The line of the case at which the first of these steps of the edited plan stands; 0 where none has one.
    pub(super) fn line(&self, ids: &[u32]) -> u32 {
        let mut steps = every(&self.0.plan.body).into_iter().zip(every(&self.0.lowered.plan.body));
        steps.find(|(edited, _)| ids.contains(&edited.id)).map_or(0, |(_, step)| step.line)
    }
}

/// The steps of a body, blocks before what is in them.
pub(super) fn every(steps: &[Step]) -> Vec<&Step> {
    let mut found = Vec::new();
    for step in steps {
        found.push(step);
        if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
            found.extend(every(body));
        }
    }
    found
}

/// Calls of a whole plan, each counted once: what an exported program would make.
pub(super) fn calls(plan: &Plan) -> u32 {
    let blocks = |call: &Call| matches!(call, Call::Repeat { .. } | Call::Thread { .. });
    plan.steps().iter().filter(|s| !blocks(&s.call)).count() as u32
}

impl Plans {
    /// Writes, reads and lowers an edited plan.
    ///
    /// # Errors
    /// The first mistake of one that is not well-formed, or that cannot fail in the way in question.
    pub(super) fn candidate(&self, plan: &Plan) -> Result<Candidate, String> {
        let first = |mistakes: Vec<case::Diagnostic>| {
            mistakes.into_iter().next().map_or_else(String::new, |m| m.message)
        };
        let ids: BTreeSet<u32> = every(&plan.body).iter().map(|s| s.id).collect();
        if ids.is_empty() {
            return Err("no step is left".to_owned());
        }
        // Without it nothing fails in this way, which shows nothing of what else went with it.
        if self.failing.is_some_and(|failing| !ids.contains(&failing)) {
            return Err("the failing call is left out".to_owned());
        }
        let text = write(plan, &self.header, &self.kernels);
        let case = Case::parse(&self.id, &text).map_err(first)?;
        let trial = case.trials().swap_remove(0);
        let lowered = lower(&case, &trial, &self.kernels, &self.faults).map_err(first)?;
        if !self.may_fail(&lowered.plan) {
            return Err("nothing in it can fail in this way".to_owned());
        }
        if !self.kept.is_subset(&ids) {
            return Err("what the failing call expects rests on it".to_owned());
        }
        if let Some(buffer) = never_freed(&lowered.plan) {
            return Err(format!("`{buffer}` is not freed before its memory is wanted back"));
        }
        // The header may change while the plan stays the same.
        let key = plan::digest(write(plan, &Header::default(), &self.kernels).as_bytes());
        let plan = plan.clone();
        Ok(Candidate(Rc::new(Inner { plan, text, key, case, trial, lowered })))
    }

    pub(super) fn run_key(&self, candidate: &Candidate) -> String {
        candidate.0.key.clone()
    }

    /// The failing step of an edited plan, where it expects a certain status or value, compares two buffers, or is itself planted.
    /// The static checks do not know whether the plan is still right when calls around it are gone.
    pub(super) fn expecting<'p>(&self, plan: &'p Plan, first: &Outcome) -> Option<&'p Step> {
        // What dies or hangs is wrong whatever it was expected to answer.
        if !matches!(first.kind, Kind::ApiError | Kind::WrongData) {
            return None;
        }
        let failing = every(&plan.body).into_iter().find(|s| Some(s.id) == self.failing)?;
        let compares = matches!(failing.call, Call::Equal { .. } | Call::Differ { .. });
        (compares
            || !failing.planted.is_empty()
            || failing.returns.is_some()
            || failing.gives.is_some())
        .then_some(failing)
    }

    /// Whether a plan has the call or the check that the signature names, and the planted call. A run would tell as
    /// much, and cost more.
    fn may_fail(&self, plan: &Plan) -> bool {
        let steps = plan.steps();
        let at_call = self.faults.iter().any(|f| f.fault.place() == Place::Call);
        if at_call && steps.iter().all(|s| s.planted.is_empty()) {
            return false;
        }
        let Some(signature) = &self.signature else { return true };
        let mut parts = signature.split(':');
        let (kind, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match kind {
            "wrong-data" => steps.iter().any(|s| match &s.call {
                Call::Check { buffer } => buffer == name,
                Call::Equal { a, .. } | Call::Differ { a, .. } => a == name,
                Call::Guards { buffer } => name.strip_suffix(".guards") == Some(buffer),
                _ => false,
            }),
            "api-error" | "unexpected-value" | "leak" if name.starts_with("hip") => {
                steps.iter().any(|s| judge::api(&s.call, plan) == name)
            }
            _ => true,
        }
    }
}

/// A buffer that is allocated by a step and not freed, in a plan that wants its memory back.
fn never_freed(plan: &Plan) -> Option<&str> {
    let steps = every(&plan.body);
    let wanted = steps.iter().any(|s| matches!(s.call, Call::MemGetInfo) && s.gives.is_some());
    let freed = |name: &str| {
        steps.iter().any(|s| matches!(&s.call, Call::Free { buffer, .. } if buffer == name))
    };
    steps.iter().filter(|_| wanted).find_map(|s| match &s.call {
        Call::Alloc { buffer, .. } if may_succeed(s) && !freed(buffer) => Some(buffer.as_str()),
        _ => None,
    })
}

impl Space for Plans {
    type Candidate = Candidate;
    type Edit = Edit;

    fn edits(&self, candidate: &Candidate) -> Tree<Edit> {
        reductions(candidate.plan(), self.failing)
    }

    fn apply(&self, candidate: &Candidate, edits: &[Edit]) -> Made<Candidate> {
        let plan = apply(candidate.plan(), edits);
        if plan == *candidate.plan() {
            return Made::Unchanged;
        }
        match self.candidate(&plan) {
            Ok(candidate) => Made::Candidate(candidate),
            Err(why) => Made::IllFormed(why),
        }
    }

    fn key(&self, candidate: &Candidate) -> String {
        self.run_key(candidate)
    }
}
