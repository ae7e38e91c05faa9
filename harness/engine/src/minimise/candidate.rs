//! The search space: smaller plans of a failing trial. Every candidate is written as a case, read and lowered again, so it has
//! passed the static checks, and a reader of the case would run the same calls.

use std::{collections::BTreeSet, rc::Rc};

use case::{Case, Header, Kernels, Lowered, Trial, lower, write};
use device::{Place, Planted};
use judge::{Kind, Outcome};
use plan::{Call, Plan, Step};
use rewrite::{
    premise::Premises,
    reduce::{Edit, apply, reductions},
};
use search::reduce::{Made, Space, Tree};

use crate::Job;

/// The candidates of one search.
pub(super) struct Plans {
    /// Name of the case of every candidate.
    pub(super) id: String,
    /// Kernels available to every reader of the case.
    pub(super) kernels: Kernels,
    /// Header of every candidate.
    pub(super) header: Header,
    /// Injected faults.
    pub(super) faults: Vec<Planted>,
    /// Signature of the failure that must stay, once it is known.
    pub(super) signature: Option<String>,
    /// The step of the edited plan that fails, if it is known.
    pub(super) failing: Option<u32>,
    /// Steps that must stay, because the status or value that the failing step expects depends on them.
    pub(super) kept: BTreeSet<u32>,
    /// The premises of the expected results in the trial, which every candidate must have too.
    pub(super) premises: Premises,
    /// The failing step, if it fails although its call must succeed.
    pub(super) must_succeed: Option<u32>,
    /// Trials that pass, and that every candidate is compared with.
    pub(super) neighbours: Vec<Neighbour>,
}

/// A trial of the case that differs in one axis value and passes. The same reduction of it must pass, too.
pub(super) struct Neighbour {
    /// The difference, for example `host=pinned instead of host=pageable`.
    pub(super) what: String,
    /// The plan, with the same steps as that of the failing trial.
    pub(super) plan: Plan,
}

/// A plan, both as edited and as lowered for a run.
#[derive(Clone)]
pub(super) struct Candidate(Rc<Inner>);

struct Inner {
    /// The edited plan, with step ids of the original plan.
    plan: Plan,
    /// The edits of the original plan.
    edits: Vec<Edit>,
    /// Neighbours of the trial, reduced in the same way, with the difference of each.
    neighbours: Vec<(String, Candidate)>,
    text: String,
    key: String,
    case: Case,
    trial: Trial,
    lowered: Lowered,
}

impl Candidate {
    /// Returns the edited plan.
    pub(super) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Returns the text of the case.
    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the neighbours of the trial, reduced in the same way, with the difference of each.
    pub(super) fn neighbours(&self) -> &[(String, Candidate)] {
        &self.0.neighbours
    }

    /// Returns the first run of the candidate with these injected faults.
    pub(super) fn job(&self, faults: Vec<Planted>) -> Job<'_> {
        let Inner { case, trial, lowered, .. } = &*self.0;
        Job { case, trial, lowered: lowered.clone(), run: 0, faults }
    }

    /// Returns the plan as it is run.
    pub(super) fn lowered(&self) -> &Lowered {
        &self.0.lowered
    }

    /// Converts the id of a step of the lowered plan to its id in the edited plan.
    pub(super) fn edited_id(&self, lowered: Option<u32>) -> Option<u32> {
        let lowered = lowered?;
        let mut steps =
            all_steps(&self.0.plan.body).into_iter().zip(all_steps(&self.0.lowered.plan.body));
        steps.find(|(_, step)| step.id == lowered).map(|(edited, _)| edited.id)
    }

    /// Returns the line of the case that has the first of these steps of the edited plan; 0 if none has a line.
    pub(super) fn line(&self, ids: &[u32]) -> u32 {
        let mut steps =
            all_steps(&self.0.plan.body).into_iter().zip(all_steps(&self.0.lowered.plan.body));
        steps.find(|(edited, _)| ids.contains(&edited.id)).map_or(0, |(_, step)| step.line)
    }
}

/// Returns all steps of a body, each block before its own steps.
pub(super) fn all_steps(steps: &[Step]) -> Vec<&Step> {
    let mut found = Vec::new();
    for step in steps {
        found.push(step);
        if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
            found.extend(all_steps(body));
        }
    }
    found
}

/// Counts the calls in the text of a plan. A call in a loop counts once.
pub(super) fn calls(plan: &Plan) -> u32 {
    plan.steps().iter().filter(|s| !is_block(&s.call)).count() as u32
}

/// Returns true for a step that contains other steps and makes no call of its own.
pub(super) fn is_block(call: &Call) -> bool {
    matches!(call, Call::Repeat { .. } | Call::Thread { .. })
}

impl Plans {
    /// Writes, reads and lowers an edited plan that can fail as the trial does.
    ///
    /// # Errors
    /// The first mistake of a plan that is not well-formed, or the reason why it cannot fail in the same way.
    pub(super) fn candidate(&self, plan: &Plan, edits: Vec<Edit>) -> Result<Candidate, String> {
        let ids: BTreeSet<u32> = all_steps(&plan.body).iter().map(|s| s.id).collect();
        if ids.is_empty() {
            return Err("no step is left".to_owned());
        }
        // Such a plan passes, which proves nothing about the other steps that were left out.
        if self.failing.is_some_and(|failing| !ids.contains(&failing)) {
            return Err("the failing call is left out".to_owned());
        }
        if !self.kept.is_subset(&ids) {
            return Err("the result that the failing call expects depends on it".to_owned());
        }
        if let Some(lost) = self.premises.lost(plan, self.must_succeed) {
            return Err(lost.to_string());
        }
        let mut candidate = self.written(plan, edits)?;
        if !self.may_fail(&candidate.lowered().plan) {
            return Err("no remaining step can produce this failure".to_owned());
        }
        let neighbours = self.neighbours.iter();
        let reduced =
            neighbours.filter_map(|one| Some((one.what.clone(), self.reduced(one, &candidate)?)));
        let reduced = reduced.collect();
        if let Some(inner) = Rc::get_mut(&mut candidate.0) {
            inner.neighbours = reduced;
        }
        Ok(candidate)
    }

    /// Writes, reads and lowers an edited plan.
    ///
    /// # Errors
    /// The first mistake of a plan that is not well-formed.
    fn written(&self, plan: &Plan, edits: Vec<Edit>) -> Result<Candidate, String> {
        let first = |mistakes: Vec<case::Diagnostic>| {
            mistakes.into_iter().next().map_or_else(String::new, |m| m.message)
        };
        let text = write(plan, &self.header, &self.kernels);
        let case = Case::parse(&self.id, &text).map_err(first)?;
        let trial = case.trials().swap_remove(0);
        let lowered = lower(&case, &trial, &self.kernels, &self.faults).map_err(first)?;
        // The key does not depend on the header, which can change between runs of one plan.
        let key = plan::digest(write(plan, &Header::default(), &self.kernels).as_bytes());
        let plan = plan.clone();
        Ok(Candidate(Rc::new(Inner {
            plan,
            edits,
            neighbours: Vec::new(),
            text,
            key,
            case,
            trial,
            lowered,
        })))
    }

    /// Reduces a neighbour as a candidate was reduced. Returns none if the result is not well-formed, or if it is the candidate
    /// itself: then the axis is not part of the candidate.
    pub(super) fn reduced(&self, neighbour: &Neighbour, like: &Candidate) -> Option<Candidate> {
        let edits = like.0.edits.clone();
        let reduced = self.written(&apply(&neighbour.plan, &edits), edits).ok()?;
        (reduced.0.key != like.0.key).then_some(reduced)
    }

    pub(super) fn run_key(&self, candidate: &Candidate) -> String {
        candidate.0.key.clone()
    }

    /// Returns the failing step of an edited plan if it expects a certain status or value, compares two buffers, or has an injected
    /// fault. The static checks cannot decide whether such an expectation still holds when calls around the step are gone.
    pub(super) fn expecting<'p>(&self, plan: &'p Plan, first: &Outcome) -> Option<&'p Step> {
        // A crash or a hang is wrong whatever result the call should have.
        if !matches!(first.kind, Kind::ApiError | Kind::WrongData) {
            return None;
        }
        let failing = all_steps(&plan.body).into_iter().find(|s| Some(s.id) == self.failing)?;
        let compares = matches!(failing.call, Call::Equal { .. } | Call::Differ { .. });
        (compares
            || !failing.planted.is_empty()
            || failing.returns.is_some()
            || failing.gives.is_some())
        .then_some(failing)
    }

    /// Returns true if a plan has the call or the check that the signature names, and the call with the injected fault. A run
    /// would show the same, but takes longer.
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
        let all = [candidate.0.edits.as_slice(), edits].concat();
        match self.candidate(&plan, all) {
            Ok(candidate) => Made::Candidate(candidate),
            Err(why) => Made::IllFormed(why),
        }
    }

    fn key(&self, candidate: &Candidate) -> String {
        self.run_key(candidate)
    }
}
