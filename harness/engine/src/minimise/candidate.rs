//! The search space of a minimisation: smaller plans of a failing trial. Every candidate is written as a case, which is
//! then read and lowered. Therefore it has passed the static checks, and its case file makes the same calls when it is
//! run again.

use std::{collections::BTreeSet, rc::Rc};

use case::{Case, Header, Kernels, Lowered, Trial, lower, write};
use device::{FaultPlace, FaultSpec};
use judge::{Kind, Outcome};
use plan::{Call, Plan, Step};
use rewrite::{
    premise::Premises,
    reduce::{Edit, apply, reductions},
};
use search::reduce::{EditResult, EditTree, SearchSpace};

use crate::Job;

/// The search space of one minimisation.
pub(super) struct PlanSpace {
    /// Name of the case of every candidate.
    pub(super) id: String,
    /// Sources of the GPU kernels that every reader of the case has, because rocrepro contains them.
    pub(super) kernels: Kernels,
    /// Head of every candidate's YAML, before its steps.
    pub(super) header: Header,
    /// Injected faults.
    pub(super) faults: Vec<FaultSpec>,
    /// Signature of the failure that every candidate must show, once it is known.
    pub(super) signature: Option<String>,
    /// Id of the step that fails in the edited plan, if it is known.
    pub(super) failing: Option<u32>,
    /// Ids of steps that must be kept, because the status or value that the failing step expects depends on them.
    pub(super) kept: BTreeSet<u32>,
    /// The calls on which the expected results of the trial depend. Every candidate must have them too.
    pub(super) premises: Premises,
    /// True if the trial itself leaves a capture open. Otherwise a candidate must not leave one open, because then the
    /// calls that destroy the plan's objects would fail.
    pub(super) leaves_capture_open: bool,
    /// Id of the failing step, if it fails although its call must succeed.
    pub(super) must_succeed: Option<u32>,
    /// Passing trials. The edits of each candidate are also made in these trials, which must then still pass.
    pub(super) neighbours: Vec<Neighbour>,
}

/// A passing trial of the case that differs from the failing one in one axis value. If it is reduced in the same way as
/// the candidate, it must still pass.
pub(super) struct Neighbour {
    /// The differing axis value, for example `host=pinned instead of host=pageable`.
    pub(super) what: String,
    /// The plan of this trial. Its steps are the same as those of the failing trial.
    pub(super) plan: Plan,
}

/// A candidate: a plan in two forms, as edited and as lowered for a run.
#[derive(Clone)]
pub(super) struct Candidate(Rc<Inner>);

struct Inner {
    /// The edited plan. It keeps the step ids of the original plan.
    plan: Plan,
    /// The edits that led from the original plan to this one.
    edits: Vec<Edit>,
    /// Passing trials in which the edits of this candidate were made, each with its difference from the failing trial.
    neighbours: Vec<(String, Candidate)>,
    text: String,
    key: String,
    case: Case,
    trial: Trial,
    lowered: Lowered,
}

impl Candidate {
    /// Returns the edited form of the plan.
    pub(super) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Returns the YAML of the case.
    pub(super) fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the passing trials in which the edits of this candidate were made, each with its difference from the
    /// failing trial.
    pub(super) fn neighbours(&self) -> &[(String, Candidate)] {
        &self.0.neighbours
    }

    /// Returns a job for the first run of the candidate, with these injected faults.
    pub(super) fn job(&self, faults: Vec<FaultSpec>) -> Job<'_> {
        let Inner { case, trial, lowered, .. } = &*self.0;
        Job { case, trial, lowered: lowered.clone(), run: 0, faults }
    }

    /// Returns the lowered form of the plan, which is run.
    pub(super) fn lowered(&self) -> &Lowered {
        &self.0.lowered
    }

    /// Converts the id of a step in the lowered plan to its id in the edited plan; `None` if the step is not in the
    /// body of the plan.
    pub(super) fn edited_id(&self, lowered: Option<u32>) -> Option<u32> {
        let lowered = lowered?;
        let mut steps =
            all_steps(&self.0.plan.body).into_iter().zip(all_steps(&self.0.lowered.plan.body));
        steps.find(|(_, step)| step.id == lowered).map(|(edited, _)| edited.id)
    }

    /// Returns the line in the case's YAML of the first step whose id is in `ids`; 0 if none of these steps has a line.
    /// The ids are those of the edited plan.
    pub(super) fn line(&self, ids: &[u32]) -> u32 {
        let mut steps =
            all_steps(&self.0.plan.body).into_iter().zip(all_steps(&self.0.lowered.plan.body));
        steps.find(|(edited, _)| ids.contains(&edited.id)).map_or(0, |(_, step)| step.line)
    }
}

/// Returns all steps of a body. Each loop or thread precedes the steps that it contains.
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

/// Counts the calls in a plan. A call in a loop counts once.
pub(super) fn calls(plan: &Plan) -> u32 {
    plan.steps().iter().filter(|s| !is_block(&s.call)).count() as u32
}

/// Returns true for a block: a step that contains other steps and makes no HIP call itself.
pub(super) fn is_block(call: &Call) -> bool {
    matches!(call, Call::Repeat { .. } | Call::Thread { .. })
}

impl PlanSpace {
    /// Makes a candidate of an edited plan: writes it as a case, reads the case and lowers it. Rejects plans that
    /// cannot fail as the trial does.
    ///
    /// # Errors
    /// The first mistake in a plan that is not well-formed, or the reason why it cannot fail in the same way.
    pub(super) fn candidate(&self, plan: &Plan, edits: Vec<Edit>) -> Result<Candidate, String> {
        let ids: BTreeSet<u32> = all_steps(&plan.body).iter().map(|s| s.id).collect();
        if ids.is_empty() {
            return Err("no step is left".to_owned());
        }
        // A plan without the failing call passes, which says nothing about the other steps that were left out.
        if self.failing.is_some_and(|failing| !ids.contains(&failing)) {
            return Err("the failing call is left out".to_owned());
        }
        if !self.kept.is_subset(&ids) {
            return Err("the result that the failing call expects depends on it".to_owned());
        }
        if let Some(lost) = self.premises.lost(plan, self.must_succeed) {
            return Err(lost.to_string());
        }
        if !self.leaves_capture_open && plan::leaves_capture_open(plan) {
            return Err("a capture would stay open".to_owned());
        }
        let mut candidate = self.lower_edited(plan, edits)?;
        if !self.may_fail(&candidate.lowered().plan) {
            return Err("no remaining step can produce this failure".to_owned());
        }
        let neighbours = self.neighbours.iter();
        let reduced = neighbours
            .filter_map(|one| Some((one.what.clone(), self.reduce_neighbour(one, &candidate)?)));
        let reduced = reduced.collect();
        if let Some(inner) = Rc::get_mut(&mut candidate.0) {
            inner.neighbours = reduced;
        }
        Ok(candidate)
    }

    /// Writes an edited plan as a case, reads the case and lowers it.
    ///
    /// # Errors
    /// The first mistake in a plan that is not well-formed.
    fn lower_edited(&self, plan: &Plan, edits: Vec<Edit>) -> Result<Candidate, String> {
        let first = |mistakes: Vec<case::Diagnostic>| {
            mistakes.into_iter().next().map_or_else(String::new, |m| m.message)
        };
        let text = write(plan, &self.header, &self.kernels);
        let case = Case::parse(&self.id, &text).map_err(first)?;
        let trial = case.trials().swap_remove(0);
        let lowered = lower(&case, &trial, &self.kernels, &self.faults).map_err(first)?;
        // The key must not depend on the head of the case, which can change between runs of one plan.
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

    /// Applies the edits of the candidate `like` to the plan of `neighbour`, a passing trial that differs from the
    /// failing one in the value of one axis. Returns `None` if the edited plan is not well-formed, or if it is the same
    /// as that of `like`, because the edits have removed everything that depends on this axis.
    pub(super) fn reduce_neighbour(
        &self,
        neighbour: &Neighbour,
        like: &Candidate,
    ) -> Option<Candidate> {
        let edits = like.0.edits.clone();
        let reduced = self.lower_edited(&apply(&neighbour.plan, &edits), edits).ok()?;
        (reduced.0.key != like.0.key).then_some(reduced)
    }

    pub(super) fn run_key(&self, candidate: &Candidate) -> String {
        candidate.0.key.clone()
    }

    /// Returns the failing step of an edited plan if the case states its result: if it expects a certain status or
    /// value, compares two buffers, or has an injected fault. `first` is the failure of the original trial. After other
    /// calls were removed, the stated result may be wrong, which the static checks cannot find out.
    pub(super) fn expecting_step<'p>(&self, plan: &'p Plan, first: &Outcome) -> Option<&'p Step> {
        // A crash or a hang is wrong whatever result the call should have.
        if !matches!(first.kind, Kind::ApiError | Kind::WrongData) {
            return None;
        }
        let failing = all_steps(&plan.body).into_iter().find(|s| Some(s.id) == self.failing)?;
        let compares =
            matches!(failing.call, Call::Equal { .. } | Call::Differ { .. } | Call::AtLeast { .. });
        (compares
            || !failing.planted.is_empty()
            || failing.returns.is_some()
            || failing.gives.is_some())
        .then_some(failing)
    }

    /// Returns true if a plan contains the call or the check that the signature names, and the call at which the fault
    /// is injected. A run would show the same, but takes longer.
    fn may_fail(&self, plan: &Plan) -> bool {
        let steps = plan.steps();
        let at_call = self.faults.iter().any(|f| f.fault.place() == FaultPlace::Call);
        if at_call && steps.iter().all(|s| s.planted.is_empty()) {
            return false;
        }
        let Some(signature) = &self.signature else { return true };
        let mut parts = signature.split(':');
        let (kind, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match kind {
            "wrong-data" => steps.iter().any(|s| match &s.call {
                Call::Check { buffer, .. } | Call::AtLeast { buffer, .. } => buffer == name,
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

impl SearchSpace for PlanSpace {
    type Candidate = Candidate;
    type Edit = Edit;

    fn edits(&self, candidate: &Candidate) -> EditTree<Edit> {
        reductions(candidate.plan(), self.failing)
    }

    fn apply(&self, candidate: &Candidate, edits: &[Edit]) -> EditResult<Candidate> {
        let plan = apply(candidate.plan(), edits);
        if plan == *candidate.plan() {
            return EditResult::Unchanged;
        }
        let all = [candidate.0.edits.as_slice(), edits].concat();
        match self.candidate(&plan, all) {
            Ok(candidate) => EditResult::Candidate(candidate),
            Err(why) => EditResult::IllFormed(why),
        }
    }

    fn key(&self, candidate: &Candidate) -> String {
        self.run_key(candidate)
    }
}
