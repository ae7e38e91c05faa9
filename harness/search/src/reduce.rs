//! Minimises something that fails, possibly only sometimes.
//!
//! [`reduce`] works on any type with edits that make it smaller ([`Space`]) and requests one run at a time, so it
//! does not depend on processes or clocks. Delta debugging (Zeller and Hildebrandt, IEEE TSE 28, 2002) tries
//! arbitrary subsets; this search follows a [`Tree`] of edits that the space provides: everything at once, then
//! related edits, then single edits, and sizes by bisection. A candidate that is not well-formed costs no run.
//!
//! An intermittent failure keeps its rate: a smaller candidate is accepted once its runs favour the rate of the start
//! over half of it (Wald's sequential test).
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

/// Outcome of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The failure that the search is for.
    Same,
    /// No failure.
    Pass,
    /// Another failure, with its signature.
    Other(String),
    /// A failure, with its signature, of a candidate that is itself invalid, and the reason.
    Invalid(String, InvalidReason),
    /// No verdict, for example because of trouble of the machine.
    NoVerdict,
}

/// Reason why a failing candidate is invalid, so that its failure proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidReason {
    /// The candidate also fails where it must pass.
    Elsewhere,
    /// The candidate states an expected value that may depend on what was changed.
    Answer,
    /// A kernel of the candidate accesses memory out of bounds.
    Kernel,
}

/// Edits in the order in which they are worth trying.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree<E> {
    /// One edit in several strengths, the strongest first. A failure that survives one usually survives the weaker
    /// ones.
    Edit(Vec<E>),
    /// All children at once, then one half and the other, and so on.
    Halves(Vec<Tree<E>>),
    /// All children at once, then each in turn.
    Each(Vec<Tree<E>>),
    /// Each child in turn; an attempt at everything uses the first child only.
    Turn(Vec<Tree<E>>),
}

impl<E: Clone> Tree<E> {
    /// Returns the edits that an attempt at everything applies.
    fn strongest(&self) -> Vec<E> {
        match self {
            Tree::Edit(levels) => levels.first().cloned().into_iter().collect(),
            Tree::Halves(children) | Tree::Each(children) => {
                children.iter().flat_map(Tree::strongest).collect()
            }
            Tree::Turn(children) => children.first().map(Tree::strongest).unwrap_or_default(),
        }
    }

    /// Returns each edit with its strengths.
    fn leaves(&self) -> Vec<&[E]> {
        match self {
            Tree::Edit(levels) => vec![levels],
            Tree::Halves(children) | Tree::Each(children) | Tree::Turn(children) => {
                children.iter().flat_map(Tree::leaves).collect()
            }
        }
    }
}

/// Result of applying edits.
#[derive(Clone, Debug)]
pub enum Made<C> {
    /// A smaller candidate.
    Candidate(C),
    /// No change: the edits do not apply, or no longer do.
    Unchanged,
    /// A candidate that cannot be run, and the reason.
    IllFormed(String),
}

/// Search space: candidates and the edits between them.
pub trait Space {
    /// An input that can be run.
    type Candidate: Clone;
    /// A change that makes a candidate smaller or simpler. Every sequence of edits must end.
    type Edit: Clone;

    /// Returns the edits that apply to a candidate.
    fn edits(&self, candidate: &Self::Candidate) -> Tree<Self::Edit>;
    /// Applies edits one after the other and skips those that do not apply.
    fn apply(&self, candidate: &Self::Candidate, edits: &[Self::Edit]) -> Made<Self::Candidate>;
    /// Returns a text that is equal for candidates that behave the same.
    fn key(&self, candidate: &Self::Candidate) -> String;
}

/// Runs candidates.
pub trait Runner<C> {
    /// Runs a candidate once in a fresh process. `None` ends the search with the best result so far.
    fn run(&mut self, candidate: &C, key: &str) -> Option<Seen>;
    /// Called for each smaller candidate that the search accepts.
    fn accepted(&mut self, _candidate: &C) {}
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct Reduced<C, E> {
    /// Smallest candidate that failed.
    pub candidate: C,
    /// True if every remaining single edit was shown to make the failure go away. False if the runner ended the
    /// search.
    pub complete: bool,
    /// Number of runs of all candidates.
    pub runs: u32,
    /// Counts of the smallest candidate's runs.
    pub with: Counts,
    /// Results of all edits that remain.
    pub needed: Vec<RejectedEdit<E>>,
    /// Other failures by signature: their number, and the first candidate that showed the failure.
    pub others: BTreeMap<String, (u32, C)>,
}

/// An edit that was rejected, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedEdit<E> {
    /// The edit.
    pub edit: E,
    /// Result of the edit.
    pub without: Rejection,
}

/// Reason why an edit was rejected.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// The candidate cannot be run, for this reason.
    IllFormed(String),
    /// The candidate does not fail, according to these counts; the list has other failures that occurred instead.
    Runs(Counts, Vec<SubstituteFailure>),
}

/// Failure that occurred instead of the one that the search is for.
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
struct Stopped;

/// Reduces `start`, which must fail at least sometimes, until no single edit keeps the failure.
pub fn reduce<S: Space>(
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

struct Search<'s, S: Space> {
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

impl<S: Space> Search<'_, S> {
    /// Reduces `start`. Repeats the reduction while the result turns out to fail less often than `start`.
    fn run(&mut self, start: &S::Candidate) -> Result<(), Stopped> {
        loop {
            (self.current, self.key) = (start.clone(), self.space.key(start));
            self.sampler.estimate_rate(&self.current, &self.key, self.runner)?;
            // The counts of this attempt are kept, so the next attempt decides differently.
            if self.descend()? {
                return Ok(());
            }
        }
    }

    /// Reduces the current candidate. Returns false if the result turns out to fail less often than the start.
    fn descend(&mut self) -> Result<bool, Stopped> {
        let mut tree = self.space.edits(&self.current);
        // If all edits at once are accepted, the result has new edits in an order of their own.
        while self.attempt(&tree.strongest())? == Attempt::Accepted {
            tree = self.space.edits(&self.current);
        }
        self.visit(&tree)?;
        loop {
            self.singles()?;
            if !self.sampler.check_result(&self.current, &self.key, self.runner)? {
                return Ok(false);
            }
            if !self.confirm()? {
                return Ok(true);
            }
        }
    }

    /// Applies edits and accepts the candidate if it still fails.
    fn attempt(&mut self, edits: &[S::Edit]) -> Result<Attempt, Stopped> {
        let candidate = match self.space.apply(&self.current, edits) {
            Made::Candidate(candidate) => candidate,
            Made::Unchanged => return Ok(Attempt::Unchanged),
            Made::IllFormed(_) => return Ok(Attempt::Rejected),
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

    /// Tries the edits of a tree in its order.
    fn visit(&mut self, tree: &Tree<S::Edit>) -> Result<(), Stopped> {
        if let Tree::Turn(children) = tree {
            return children.iter().try_for_each(|child| self.visit(child));
        }
        let attempt = self.attempt(&tree.strongest())?;
        match tree {
            Tree::Edit(levels) if attempt == Attempt::Rejected => self.levels(levels),
            Tree::Halves(children) if attempt == Attempt::Rejected && children.len() > 1 => {
                let (first, second) = children.split_at(children.len() / 2);
                for half in [first, second] {
                    match half {
                        [one] => self.visit(one)?,
                        many => self.visit(&Tree::Halves(many.to_vec()))?,
                    }
                }
                Ok(())
            }
            Tree::Halves(children) if attempt == Attempt::Rejected => {
                children.iter().try_for_each(|child| self.visit(child))
            }
            Tree::Each(children) => children.iter().try_for_each(|child| self.visit(child)),
            _ => Ok(()),
        }
    }

    /// Finds the strongest level that keeps the failure, given that the first level does not.
    fn levels(&mut self, levels: &[S::Edit]) -> Result<(), Stopped> {
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

    /// Tries single edits until no single edit keeps the failure.
    fn singles(&mut self) -> Result<(), Stopped> {
        loop {
            let before = self.key.clone();
            let tree = self.space.edits(&self.current);
            for levels in tree.leaves() {
                if let Some(strongest) = levels.first()
                    && self.attempt(std::slice::from_ref(strongest))? == Attempt::Rejected
                {
                    self.levels(levels)?;
                }
            }
            if self.key == before {
                return Ok(());
            }
        }
    }

    /// Repeats the rejections that the result depends on, with as many passes as its failure rate requires. Returns
    /// true if one of them was wrong.
    fn confirm(&mut self) -> Result<bool, Stopped> {
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

    /// Returns the well-formed candidates that are one edit away: the strongest level of each edit, and the weakest.
    fn rejected(&self) -> Vec<(S::Candidate, String)> {
        let tree = self.space.edits(&self.current);
        let mut found: Vec<(S::Candidate, String)> = Vec::new();
        for levels in tree.leaves() {
            for edit in ends(levels) {
                if let Made::Candidate(candidate) =
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

    /// Returns why each remaining edit was rejected.
    fn needed(&self) -> Vec<RejectedEdit<S::Edit>> {
        let tree = self.space.edits(&self.current);
        let mut needed: Vec<RejectedEdit<S::Edit>> = Vec::new();
        let mut keys = Vec::new();
        for levels in tree.leaves() {
            let mut found = None;
            for edit in ends(levels) {
                let without = match self.space.apply(&self.current, std::slice::from_ref(edit)) {
                    Made::Unchanged => continue,
                    Made::IllFormed(why) => {
                        if found.is_none() {
                            found = Some((edit, Rejection::IllFormed(why)));
                        }
                        continue;
                    }
                    Made::Candidate(candidate) => {
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

/// Returns the strongest and the weakest level, or a single level if they are equal.
fn ends<E>(levels: &[E]) -> impl Iterator<Item = &E> {
    let last = if levels.len() > 1 { levels.last() } else { None };
    levels.first().into_iter().chain(last)
}
