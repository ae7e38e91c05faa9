//! The search space of short programs: plans that are edited in ways that keep the reason why the failing call fails.

use std::collections::BTreeSet;

use plan::{Plan, Version};
use rewrite::{ShortenEdit, premise::Premises};
use search::reduce::{EditResult, EditTree, SearchSpace};

use super::header;
use crate::{Job, Session};

/// The search space of plans that are printed as short programs.
pub(super) struct Programs<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) version: &'a Version,
    pub(super) session: &'a Session,
    pub(super) failing: Option<u32>,
    /// The calls on which the expected result of the failing call depends. They are kept if the failure is a wrong
    /// result.
    pub(super) premise: Premises,
    /// Ids of the steps that wrote the checked data. They are kept if the failure is wrong data.
    pub(super) writers: BTreeSet<u32>,
}

impl Programs<'_> {
    pub(super) fn print(
        &self,
        plan: &Plan,
        tested: Vec<String>,
        wrong: Vec<String>,
    ) -> Result<String, String> {
        let header = header(self.session, self.job, tested, wrong);
        export::print_short(plan, self.version, &header, self.failing)
    }
}

impl SearchSpace for Programs<'_> {
    type Candidate = Plan;
    type Edit = ShortenEdit;

    fn edits(&self, plan: &Plan) -> EditTree<ShortenEdit> {
        rewrite::shorten_edits(plan, self.failing)
    }

    fn apply(&self, plan: &Plan, edits: &[ShortenEdit]) -> EditResult<Plan> {
        let mut smaller = plan.clone();
        edits.iter().for_each(|edit| rewrite::apply_shorten_edit(&mut smaller, edit));
        if smaller == *plan {
            return EditResult::Unchanged;
        }
        if !rewrite::has_steps(&smaller, &self.writers) {
            return EditResult::IllFormed(
                "the check is about data that a removed step wrote".to_owned(),
            );
        }
        let lost = self.premise.lost(&smaller, self.failing).map(|lost| lost.to_string());
        match lost.or_else(|| rewrite::used_before_creation(&smaller)) {
            Some(why) => EditResult::IllFormed(why),
            None => match self.print(&smaller, Vec::new(), Vec::new()) {
                Ok(_) => EditResult::Candidate(smaller),
                Err(why) => EditResult::IllFormed(why),
            },
        }
    }

    fn key(&self, plan: &Plan) -> String {
        self.print(plan, Vec::new(), Vec::new()).unwrap_or_default()
    }
}
