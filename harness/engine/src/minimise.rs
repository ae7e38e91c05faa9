//! Minimises a failing trial: searches for a smaller case, or a shorter program, that fails in the same way.
//!
//! [`Minimiser::prepare`] reads [`MinimiseOptions`] and opens the session. [`Minimiser::run`] finds the failure, makes
//! the trial smaller as long as it still fails in the same way, and writes the evidence folder. The crate `search`
//! decides what is tried next.
//!
//! The body of a case decides how it is reduced. A case with steps is reduced as a plan, and every candidate is a case.
//! A program is reduced as text: first by an external reducer, then line by line and block by block.

mod candidate;
mod case;
mod compare;
mod controls;
mod error;
mod identity;
mod line_groups;
mod program;
mod reducer;
mod runs;
mod waits;
mod yaml_block;

use std::{path::PathBuf, time::Duration};

pub use self::{
    compare::{Comparison, SimulatedSearches, compare},
    error::MinimiseError,
    reducer::{ASK_ARGUMENT, ReducerChoice, ask},
};
use crate::{
    Job, Session, SessionOptions, Stop, failing_trial::Subjects, jobs_with,
    passing_release::PassingReleaseSearch,
};

/// Options of a minimisation.
#[derive(Clone, Debug)]
pub struct MinimiseOptions {
    /// The stack and device of the trials.
    pub session: SessionOptions,
    /// Largest number of processes that the search may start.
    pub budget_runs: u32,
    /// Time limit of the search.
    pub budget: Duration,
    /// Name of the release on which every candidate must pass. If `None`, such a release is searched among those of
    /// this machine.
    pub passes_on: Option<String>,
    /// The choice of an external reducer for programs.
    pub reducer: ReducerChoice,
    /// The evidence folder; by default it is named after the case.
    pub out: Option<PathBuf>,
    /// True to continue the search whose journal is in the evidence folder.
    pub resume: bool,
}

impl MinimiseOptions {
    /// Returns options for this session, with the defaults for all other options.
    pub fn new(session: SessionOptions) -> MinimiseOptions {
        MinimiseOptions {
            session,
            budget_runs: 5000,
            budget: Duration::from_secs(1800),
            passes_on: None,
            reducer: ReducerChoice::Auto,
            out: None,
            resume: false,
        }
    }
}

/// An event of a running search.
#[derive(Debug)]
#[non_exhaustive]
pub enum MinimiseEvent<'a> {
    /// A trial has ended.
    TrialEnded,
    /// The failure that every candidate must show is known.
    FailureFound {
        /// The signature of the failure.
        signature: &'a str,
    },
    /// A smaller case that fails in the same way was found.
    Smaller {
        /// The signature of the failure.
        signature: &'a str,
        /// Number of calls in the smaller case.
        calls: u32,
        /// Number of runs so far.
        runs: u64,
    },
    /// A shorter program that fails in the same way was found.
    ShorterProgram {
        /// The signature of the failure.
        signature: &'a str,
        /// Number of lines in the shorter program.
        lines: usize,
        /// Number of programs that were tried so far.
        tries: u32,
    },
}

/// A receiver of the events of a search.
pub type MinimiseReporter<'a> = &'a dyn Fn(MinimiseEvent<'_>);

/// A finished minimisation.
#[derive(Debug)]
pub struct MinimiseResult {
    /// The result as text for people.
    pub text: String,
    /// True if the search has shown that nothing more can be left out; false if it reached its budget before.
    pub complete: bool,
}

/// A minimisation that is ready to run.
pub struct Minimiser<'a> {
    options: &'a MinimiseOptions,
    subjects: &'a Subjects<'a>,
    session: Session,
    releases: PassingReleaseSearch,
    /// The trials lowered to plans; `None` if their body is a program.
    plans: Option<Vec<Job<'a>>>,
}

impl<'a> Minimiser<'a> {
    /// Prepares the minimisation of the first failing trial among several.
    ///
    /// # Errors
    /// Returns a usage error for options or cases that are not valid, or an error if the session cannot be opened.
    pub fn prepare(
        options: &'a MinimiseOptions,
        subjects: &'a Subjects<'a>,
    ) -> Result<Minimiser<'a>, Stop> {
        let Subjects { library, selected, faults, .. } = subjects;
        let mut session = options.session.clone();
        let plans = if selected.iter().any(|entry| entry.case.is_program()) {
            if options.resume {
                return Err(MinimiseError::NothingToResume.into());
            }
            if let Some(other) = selected.iter().find(|entry| !entry.case.is_program()) {
                return Err(MinimiseError::MixedCases(other.case.id.clone()).into());
            }
            None
        } else {
            session.hangs_on_purpose = true;
            Some(jobs_with(library, selected, faults)?)
        };
        let named = options.passes_on.clone();
        let releases = PassingReleaseSearch { options: session.clone(), named };
        let session = Session::open_on_one(session)?;
        Ok(Minimiser { options, subjects, session, releases, plans })
    }

    /// Runs the search, and writes its result to the evidence folder.
    ///
    /// # Errors
    /// No failing trial (nothing to run), trouble of this machine, or a request to stop (no verdict).
    pub fn run(
        self,
        cancel: &supervise::Cancel,
        report: MinimiseReporter<'_>,
    ) -> Result<MinimiseResult, Stop> {
        match &self.plans {
            None => program::minimise(&self, cancel, report),
            Some(jobs) => case::minimise(&self, jobs.clone(), cancel, report),
        }
    }
}
