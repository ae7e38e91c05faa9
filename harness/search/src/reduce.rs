//! Minimises a failing candidate of any type. The failure may occur only in some runs.
//!
//! [`reduce`] works on any type with edits that make it smaller ([`SearchSpace`]) and requests one run at a time, so
//! the search does not depend on processes or clocks. Delta debugging (Zeller and Hildebrandt, IEEE TSE 28, 2002) tries
//! arbitrary subsets; this search follows an [`EditTree`] of edits that the space provides: first all edits at once,
//! then groups of related edits, then single edits. Sizes are reduced by bisection. A candidate that is not well-formed
//! costs no run.
//!
//! An intermittent failure must remain as frequent: a smaller candidate is accepted once its runs favour the failure
//! rate of the original over half of that rate (Wald's sequential test).
//!
//! The same outcomes always lead to the same requests, so a search is resumed by replaying outcomes from a journal.

mod ddmin;
mod sampler;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::sampler::{Decision, Sampler};
pub use self::{
    ddmin::{DdminStats, ddmin},
    sampler::{Counts, ReduceSettings},
};

/// Outcome of one run of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateOutcome {
    /// The candidate failed with the signature that the search is about.
    Same,
    /// The candidate passed.
    Pass,
    /// The candidate failed with another signature.
    Other(String),
    /// The candidate failed with this signature, but is itself invalid, for this reason.
    Invalid(String, InvalidReason),
    /// The run has no verdict, for example because of trouble of the machine.
    NoVerdict,
}

/// Reason why a failing candidate is invalid. A failure of an invalid candidate proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidReason {
    /// The candidate also fails on a control, where it must pass.
    Elsewhere,
    /// The candidate states an expected value that may depend on something that an edit changed.
    Answer,
    /// A kernel of the candidate accesses memory out of bounds.
    Kernel,
}

/// Edits of a candidate, in the order in which they are worth trying.
#[derive(Clone, Debug, PartialEq)]
pub enum EditTree<E> {
    /// One edit in several strengths, the strongest first. If the failure survives an edit, it usually survives the
    /// weaker ones too.
    Edit(Vec<E>),
    /// All children at once, then each half of them, then each quarter, and so on.
    Halves(Vec<EditTree<E>>),
    /// All children at once, then each child alone.
    Each(Vec<EditTree<E>>),
    /// Each child alone. When all edits of the tree are tried at once, only the first child is used.
    Turn(Vec<EditTree<E>>),
}

impl<E: Clone> EditTree<E> {
    /// Returns the edits that are applied when the whole tree is tried at once.
    fn strongest(&self) -> Vec<E> {
        match self {
            EditTree::Edit(levels) => levels.first().cloned().into_iter().collect(),
            EditTree::Halves(children) | EditTree::Each(children) => {
                children.iter().flat_map(EditTree::strongest).collect()
            }
            EditTree::Turn(children) => {
                children.first().map(EditTree::strongest).unwrap_or_default()
            }
        }
    }

    /// Returns each edit of the tree as the list of its strengths.
    fn leaves(&self) -> Vec<&[E]> {
        match self {
            EditTree::Edit(levels) => vec![levels],
            EditTree::Halves(children) | EditTree::Each(children) | EditTree::Turn(children) => {
                children.iter().flat_map(EditTree::leaves).collect()
            }
        }
    }
}

/// Result of applying edits to a candidate.
#[derive(Clone, Debug)]
pub enum EditResult<C> {
    /// The smaller candidate.
    Candidate(C),
    /// The candidate is unchanged, because the edits do not apply to it.
    Unchanged,
    /// The changed candidate cannot be run, for this reason.
    IllFormed(String),
}

/// Search space: candidates, and the edits that lead from one candidate to a smaller one.
pub trait SearchSpace {
    /// An input of the test, for example a plan.
    type Candidate: Clone;
    /// A change that makes a candidate smaller or simpler. No candidate can be edited infinitely often.
    type Edit: Clone;

    /// Returns the edits that apply to a candidate.
    fn edits(&self, candidate: &Self::Candidate) -> EditTree<Self::Edit>;
    /// Applies edits one after the other. An edit that does not apply is skipped.
    fn apply(
        &self,
        candidate: &Self::Candidate,
        edits: &[Self::Edit],
    ) -> EditResult<Self::Candidate>;
    /// Returns a text that is equal for two candidates if they behave the same.
    fn key(&self, candidate: &Self::Candidate) -> String;
}

/// Runs the candidates of a search.
pub trait Runner<C> {
    /// Runs a candidate once in a fresh process. `key` is the candidate's [`SearchSpace::key`]. `None` ends the search
    /// with the best result so far.
    fn run(&mut self, candidate: &C, key: &str) -> Option<CandidateOutcome>;
    /// Receives each smaller candidate that the search accepts.
    fn accepted(&mut self, _candidate: &C) {}
}

/// Result of reducing a candidate.
#[derive(Clone, Debug)]
pub struct Reduced<C, E> {
    /// Smallest candidate that failed.
    pub candidate: C,
    /// True if every remaining single edit was shown to make the failure go away. False if the runner ended the
    /// search.
    pub complete: bool,
    /// Total number of runs.
    pub runs: u32,
    /// Outcomes of the smallest candidate's runs.
    pub with: Counts,
    /// Edits that were possible at the end, each with the reason why it was rejected.
    pub needed: Vec<RejectedEdit<E>>,
    /// Failures with other signatures: for each signature, the number of failures and the first candidate that showed
    /// it.
    pub others: BTreeMap<String, (u32, C)>,
}

/// An edit that was rejected, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedEdit<E> {
    /// The rejected edit.
    pub edit: E,
    /// Reason why the edit was rejected.
    pub without: Rejection,
}

/// Reason why an edit was rejected.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// The edited candidate cannot be run, for this reason.
    IllFormed(String),
    /// The edited candidate does not fail often enough: the outcomes of its runs, and the other failures that occurred
    /// instead.
    Runs(Counts, Vec<SubstituteFailure>),
}

/// A failure that occurred instead of the failure that the search is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubstituteFailure {
    /// Signature of the failure.
    pub signature: String,
    /// Number of runs that showed the failure.
    pub count: u32,
    /// Reason why the candidate is itself invalid; `None` if the candidate is valid.
    pub invalid: Option<InvalidReason>,
}

/// Error: the runner ended the search.
struct SearchEnded;

/// Reduces `start`, which must fail at least sometimes, until no single edit keeps the failure.
pub fn reduce<S: SearchSpace>(
    space: &S,
    start: S::Candidate,
    settings: ReduceSettings,
    runner: &mut dyn Runner<S::Candidate>,
) -> Reduced<S::Candidate, S::Edit> {
    let key = space.key(&start);
    let sampler = Sampler::new(settings);
    let mut search = Search { space, current: start.clone(), key, sampler, runner };
    let complete = search.run(&start).is_ok();
    let with = search.sampler.counts(&search.key);
    let needed = search.needed();
    let sampler = search.sampler;
    Reduced {
        candidate: search.current,
        complete,
        runs: sampler.runs,
        with,
        needed,
        others: sampler.others,
    }
}

struct Search<'s, S: SearchSpace> {
    space: &'s S,
    current: S::Candidate,
    key: String,
    sampler: Sampler<S::Candidate>,
    runner: &'s mut dyn Runner<S::Candidate>,
}

#[derive(PartialEq)]
enum Attempt {
    Accepted,
    Rejected,
    Unchanged,
}

impl<S: SearchSpace> Search<'_, S> {
    /// Reduces `start`. If the result turns out to fail less often than `start`, reduces `start` again.
    fn run(&mut self, start: &S::Candidate) -> Result<(), SearchEnded> {
        loop {
            (self.current, self.key) = (start.clone(), self.space.key(start));
            self.sampler.estimate_rate(&self.current, &self.key, self.runner)?;
            // The counts of the last reduction are kept, so the next one decides differently.
            if self.descend()? {
                return Ok(());
            }
        }
    }

    /// Reduces the current candidate. Returns false if the result turns out to fail less often than the original.
    fn descend(&mut self) -> Result<bool, SearchEnded> {
        let mut tree = self.space.edits(&self.current);
        // If all edits at once are accepted, the new candidate has a new tree of edits.
        while self.attempt(&tree.strongest())? == Attempt::Accepted {
            tree = self.space.edits(&self.current);
        }
        self.visit(&tree)?;
        loop {
            self.try_each_edit()?;
            if !self.sampler.check_result(&self.current, &self.key, self.runner)? {
                return Ok(false);
            }
            if !self.confirm()? {
                return Ok(true);
            }
        }
    }

    /// Applies edits to the current candidate. If the new candidate still fails, it becomes the current one.
    fn attempt(&mut self, edits: &[S::Edit]) -> Result<Attempt, SearchEnded> {
        let candidate = match self.space.apply(&self.current, edits) {
            EditResult::Candidate(candidate) => candidate,
            EditResult::Unchanged => return Ok(Attempt::Unchanged),
            EditResult::IllFormed(_) => return Ok(Attempt::Rejected),
        };
        let key = self.space.key(&candidate);
        if key == self.key {
            return Ok(Attempt::Unchanged);
        }
        match self.sampler.decide(&candidate, &key, self.runner)? {
            Decision::Fails => {
                self.runner.accepted(&candidate);
                self.sampler.accept(&key);
                (self.current, self.key) = (candidate, key);
                Ok(Attempt::Accepted)
            }
            Decision::Gone => Ok(Attempt::Rejected),
        }
    }

    /// Tries the edits of a tree, in the order that the kind of the tree determines.
    fn visit(&mut self, tree: &EditTree<S::Edit>) -> Result<(), SearchEnded> {
        if let EditTree::Turn(children) = tree {
            return children.iter().try_for_each(|child| self.visit(child));
        }
        let attempt = self.attempt(&tree.strongest())?;
        match tree {
            EditTree::Edit(levels) if attempt == Attempt::Rejected => self.find_strongest(levels),
            EditTree::Halves(children) if attempt == Attempt::Rejected && children.len() > 1 => {
                let (first, second) = children.split_at(children.len() / 2);
                for half in [first, second] {
                    match half {
                        [one] => self.visit(one)?,
                        many => self.visit(&EditTree::Halves(many.to_vec()))?,
                    }
                }
                Ok(())
            }
            EditTree::Halves(children) if attempt == Attempt::Rejected => {
                children.iter().try_for_each(|child| self.visit(child))
            }
            EditTree::Each(children) => children.iter().try_for_each(|child| self.visit(child)),
            _ => Ok(()),
        }
    }

    /// Finds, by bisection, the strongest form of an edit with which the failure remains. `levels` contains the forms,
    /// the strongest first, which has already been rejected.
    fn find_strongest(&mut self, levels: &[S::Edit]) -> Result<(), SearchEnded> {
        let (mut gone, mut fails) = (0, levels.len());
        while fails - gone > 1 {
            let middle = gone + (fails - gone) / 2;
            match self.attempt(std::slice::from_ref(&levels[middle]))? {
                Attempt::Rejected => gone = middle,
                Attempt::Accepted | Attempt::Unchanged => fails = middle,
            }
        }
        Ok(())
    }

    /// Tries each edit alone, and repeats this until no edit is accepted.
    fn try_each_edit(&mut self) -> Result<(), SearchEnded> {
        loop {
            let before = self.key.clone();
            let tree = self.space.edits(&self.current);
            for levels in tree.leaves() {
                if let Some(strongest) = levels.first()
                    && self.attempt(std::slice::from_ref(strongest))? == Attempt::Rejected
                {
                    self.find_strongest(levels)?;
                }
            }
            if self.key == before {
                return Ok(());
            }
        }
    }

    /// Tests again all rejected candidates that are one edit away from the result, with as many passes as the failure
    /// rate requires, because the result is minimal only if none of them fails. If one of them does fail, makes it the
    /// current candidate and returns true.
    fn confirm(&mut self) -> Result<bool, SearchEnded> {
        let candidates = self.rejected();
        let elements = candidates.len() as u32;
        for (candidate, key) in candidates {
            let decision = self.sampler.confirm(&candidate, &key, elements, self.runner)?;
            if decision == Decision::Fails {
                self.runner.accepted(&candidate);
                self.sampler.accept(&key);
                (self.current, self.key) = (candidate, key);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the well-formed candidates to which one edit leads from the current candidate. Of each edit, only the
    /// strongest and the weakest form are used.
    fn rejected(&self) -> Vec<(S::Candidate, String)> {
        let tree = self.space.edits(&self.current);
        let mut found: Vec<(S::Candidate, String)> = Vec::new();
        for levels in tree.leaves() {
            for edit in extreme_levels(levels) {
                if let EditResult::Candidate(candidate) =
                    self.space.apply(&self.current, std::slice::from_ref(edit))
                {
                    let key = self.space.key(&candidate);
                    if key != self.key && found.iter().all(|(_, other)| *other != key) {
                        found.push((candidate, key));
                    }
                }
            }
        }
        found
    }

    /// Returns the edits that could be applied to the current candidate but were rejected, each with the reason. What
    /// such an edit would remove is needed for the failure.
    fn needed(&self) -> Vec<RejectedEdit<S::Edit>> {
        let tree = self.space.edits(&self.current);
        let mut needed: Vec<RejectedEdit<S::Edit>> = Vec::new();
        let mut keys = Vec::new();
        for levels in tree.leaves() {
            let mut found = None;
            for edit in extreme_levels(levels) {
                let without = match self.space.apply(&self.current, std::slice::from_ref(edit)) {
                    EditResult::Unchanged => continue,
                    EditResult::IllFormed(why) => {
                        if found.is_none() {
                            found = Some((edit, Rejection::IllFormed(why)));
                        }
                        continue;
                    }
                    EditResult::Candidate(candidate) => {
                        let key = self.space.key(&candidate);
                        if key == self.key || keys.contains(&key) {
                            continue;
                        }
                        let counts = self.sampler.counts(&key);
                        let instead = self.sampler.other_failures(&key);
                        keys.push(key);
                        Rejection::Runs(counts, instead)
                    }
                };
                found = Some((edit, without));
            }
            needed
                .extend(found.map(|(edit, without)| RejectedEdit { edit: edit.clone(), without }));
        }
        needed
    }
}

/// Returns the strongest and the weakest form of an edit; a single form if the edit has only one.
fn extreme_levels<E>(levels: &[E]) -> impl Iterator<Item = &E> {
    let last = if levels.len() > 1 { levels.last() } else { None };
    levels.first().into_iter().chain(last)
}
