//! Minimisation of something that fails, perhaps now and then.
//!
//! [`reduce`] works on anything with edits that make it smaller ([`Space`]) and asks for one run at a time, so it knows
//! neither processes nor clocks. Delta debugging (Zeller and Hildebrandt, IEEE TSE 28, 2002) tries arbitrary subsets; this
//! search tries edits in the order of a [`Tree`] that the space gives: everything at once, then what belongs together, then
//! single edits, and sizes by bisection. A candidate that is not well-formed costs no run.
//!
//! What fails now and then stays as frequent as it was: a smaller candidate is taken once its runs speak for the rate of the start and
//! against half of it (Wald's sequential test).
//!
//! The same answers lead to the same questions, so a search is resumed by answering from a journal first.

mod ddmin;
mod sampler;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::sampler::{Decision, Sampler};
pub use self::{
    ddmin::{Tests, ddmin},
    sampler::{Counts, Settings},
};

/// What one run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The failure in question.
    Same,
    /// No failure.
    Pass,
    /// Another failure, by its signature.
    Other(String),
    /// A failure, by its signature, of something that is itself wrong, and why.
    Own(String, Wrong),
    /// Nothing: the machine was in the way.
    NoVerdict,
}

/// Why a failure is no news: what failed is itself wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// It fails where it must pass, too.
    Elsewhere,
    /// It states an answer that may rest on what was changed.
    Answer,
    /// A kernel of its own touches memory that it may not.
    Kernel,
}

/// Edits in the order in which they are worth trying.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree<E> {
    /// One edit in several strengths, the strongest first. A failure that survives one survives the weaker ones, mostly.
    Edit(Vec<E>),
    /// All at once, then one half and the other, and so on.
    Halves(Vec<Tree<E>>),
    /// All at once, then each in turn.
    Each(Vec<Tree<E>>),
    /// Each in turn; only the first one belongs to an attempt at everything.
    Turn(Vec<Tree<E>>),
}

impl<E: Clone> Tree<E> {
    fn strongest(&self) -> Vec<E> {
        match self {
            Tree::Edit(levels) => levels.first().cloned().into_iter().collect(),
            Tree::Halves(children) | Tree::Each(children) => {
                children.iter().flat_map(Tree::strongest).collect()
            }
            Tree::Turn(children) => children.first().map(Tree::strongest).unwrap_or_default(),
        }
    }

    fn leaves(&self) -> Vec<&[E]> {
        match self {
            Tree::Edit(levels) => vec![levels],
            Tree::Halves(children) | Tree::Each(children) | Tree::Turn(children) => {
                children.iter().flat_map(Tree::leaves).collect()
            }
        }
    }
}

/// What edits lead to.
#[derive(Clone, Debug)]
pub enum Made<C> {
    /// Something smaller.
    Candidate(C),
    /// What it was before: the edits do not apply, or no longer.
    Unchanged,
    /// Something that cannot be run, and why.
    IllFormed(String),
}

/// Candidates and the edits between them.
pub trait Space {
    /// Something that can be run.
    type Candidate: Clone;
    /// A change to something smaller or simpler. Any sequence of edits must come to an end.
    type Edit: Clone;

    /// The edits that a candidate offers.
    fn edits(&self, candidate: &Self::Candidate) -> Tree<Self::Edit>;
    /// Applies edits, one after the other; those that do not apply are left out.
    fn apply(&self, candidate: &Self::Candidate, edits: &[Self::Edit]) -> Made<Self::Candidate>;
    /// The same text for candidates that behave the same.
    fn key(&self, candidate: &Self::Candidate) -> String;
}

/// Runs candidates.
pub trait Runner<C> {
    /// One run in a fresh process; None to end the search with what there is.
    fn run(&mut self, candidate: &C, key: &str) -> Option<Seen>;
    /// Told of every step to something smaller.
    fn accepted(&mut self, _candidate: &C) {}
}

/// The end of a search.
#[derive(Clone, Debug)]
pub struct Reduced<C, E> {
    /// The smallest candidate that failed.
    pub candidate: C,
    /// Whether every single edit of it was shown to make the failure go away; else the runner ended the search.
    pub complete: bool,
    /// Runs of all candidates.
    pub runs: u32,
    /// Runs of the smallest candidate.
    pub with: Counts,
    /// What every edit that is left leads to.
    pub needed: Vec<Needed<E>>,
    /// Other failures, by signature: how often, and the first candidate that showed it.
    pub others: BTreeMap<String, (u32, C)>,
}

/// Why an edit was not made.
#[derive(Clone, Debug, PartialEq)]
pub struct Needed<E> {
    /// The edit.
    pub edit: E,
    /// What it leads to.
    pub without: Without,
}

/// What an edit leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Without {
    /// Something that cannot be run, and why.
    IllFormed(String),
    /// Something that does not fail, as far as these runs tell, and what failed in its place.
    Runs(Counts, Vec<Instead>),
}

/// Another failure than the one in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// Its signature.
    pub signature: String,
    /// Runs that gave it.
    pub count: u32,
    /// Why what was run is itself wrong; none where it is not.
    pub own: Option<Wrong>,
}

/// The runner ended the search.
struct Stopped;

/// Reduces `start`, which must fail now and then, as far as single edits go.
pub fn reduce<S: Space>(
    space: &S,
    start: S::Candidate,
    settings: Settings,
    runner: &mut dyn Runner<S::Candidate>,
) -> Reduced<S::Candidate, S::Edit> {
    let key = space.key(&start);
    let sampler = Sampler::new(settings);
    let mut search = Search { space, current: start.clone(), key, sampler, runner };
    let complete = search.all(&start).is_ok();
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

/// What became of an attempt.
#[derive(PartialEq)]
enum Attempt {
    Accepted,
    Rejected,
    Unchanged,
}

impl<S: Space> Search<'_, S> {
    fn all(&mut self, start: &S::Candidate) -> Result<(), Stopped> {
        loop {
            (self.current, self.key) = (start.clone(), self.space.key(start));
            self.sampler.first(&self.current, &self.key, self.runner)?;
            // What was learnt is kept, so that a second search takes another way.
            if self.descend()? {
                return Ok(());
            }
        }
    }

    /// Reduces; false where the result turns out to fail less often than the start.
    fn descend(&mut self) -> Result<bool, Stopped> {
        let mut tree = self.space.edits(&self.current);
        // Where everything at once succeeds, new edits open up that are worth their own order.
        while self.attempt(&tree.strongest())? == Attempt::Accepted {
            tree = self.space.edits(&self.current);
        }
        self.visit(&tree)?;
        loop {
            self.singles()?;
            if !self.sampler.last(&self.current, &self.key, self.runner)? {
                return Ok(false);
            }
            if !self.confirm()? {
                return Ok(true);
            }
        }
    }

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
                self.sampler.moved(&key);
                (self.current, self.key) = (candidate, key);
                Ok(Attempt::Accepted)
            }
            Decision::Gone => Ok(Attempt::Rejected),
        }
    }

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

    /// Finds the strongest level that keeps the failure, given that the first one does not.
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

    /// Tries single edits until none is left that keeps the failure.
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

    /// Repeats the rejections that the result rests on, with as many passes as its failure rate asks for. True where one of
    /// them was wrong.
    fn confirm(&mut self) -> Result<bool, Stopped> {
        let candidates = self.rejected();
        let elements = candidates.len() as u32;
        for (candidate, key) in candidates {
            let decision = self.sampler.confirm(&candidate, &key, elements, self.runner)?;
            if decision == Decision::Fails {
                self.runner.accepted(&candidate);
                self.sampler.moved(&key);
                (self.current, self.key) = (candidate, key);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The well-formed candidates one edit away: the strongest level of each edit, and the weakest.
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

    fn needed(&self) -> Vec<Needed<S::Edit>> {
        let tree = self.space.edits(&self.current);
        let mut needed: Vec<Needed<S::Edit>> = Vec::new();
        let mut keys = Vec::new();
        for levels in tree.leaves() {
            let mut found = None;
            for edit in ends(levels) {
                let without = match self.space.apply(&self.current, std::slice::from_ref(edit)) {
                    Made::Unchanged => continue,
                    Made::IllFormed(why) => {
                        if found.is_none() {
                            found = Some((edit, Without::IllFormed(why)));
                        }
                        continue;
                    }
                    Made::Candidate(candidate) => {
                        let key = self.space.key(&candidate);
                        if key == self.key || keys.contains(&key) {
                            continue;
                        }
                        let counts = self.sampler.counts(&key);
                        let instead = self.sampler.instead(&key);
                        keys.push(key);
                        Without::Runs(counts, instead)
                    }
                };
                found = Some((edit, without));
            }
            needed.extend(found.map(|(edit, without)| Needed { edit: edit.clone(), without }));
        }
        needed
    }
}

/// The strongest level and the weakest.
fn ends<E>(levels: &[E]) -> impl Iterator<Item = &E> {
    let last = if levels.len() > 1 { levels.last() } else { None };
    levels.first().into_iter().chain(last)
}
