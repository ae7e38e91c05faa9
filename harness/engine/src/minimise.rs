//! Minimisation: the search for a smaller case, or a shorter program, that fails in the same way.
//!
//! [`Minimiser::prepare`] reads [`MinimiseOptions`] and opens the session. [`Minimiser::run`] finds the failure, makes the trial
//! smaller as long as the failure stays, and writes the evidence folder. What to try next is decided in the crate `search`.
//!
//! The body of a case decides the kind of the search. Steps are reduced as a plan: every candidate is a case. A program is reduced
//! as text: by an external reducer, then by lines and blocks.

mod candidate;
mod case;
mod compare;
mod error;
mod identity;
mod program;
mod reducer;
mod runs;

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

/// Options of a minimisation, as a user or a test chose them.
#[derive(Clone, Debug)]
pub struct MinimiseOptions {
    /// The stack and device of the trials.
    pub session: SessionOptions,
    /// Most processes to start.
    pub budget_runs: u32,
    /// Longest time of the search.
    pub budget: Duration,
    /// The release on which every candidate must pass; without one, it is searched among those of this machine.
    pub passes_on: Option<String>,
    /// The external reducer of programs.
    pub reducer: ReducerChoice,
    /// The evidence folder.
    pub out: Option<PathBuf>,
    /// Continues the search whose journal is in the folder.
    pub resume: bool,
}

impl MinimiseOptions {
    /// Returns options with every option except the session at its default.
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
    /// The failure that must stay is known.
    FailureFound {
        /// The signature of the failure.
        signature: &'a str,
    },
    /// A smaller case fails in the same way.
    Smaller {
        /// The signature of the failure.
        signature: &'a str,
        /// Calls of the smaller case.
        calls: u32,
        /// Runs so far.
        runs: u64,
    },
    /// A shorter program fails in the same way.
    ShorterProgram {
        /// The signature of the failure.
        signature: &'a str,
        /// Lines of the shorter program.
        lines: usize,
        /// Programs that were tried so far.
        tries: u32,
    },
}

/// A receiver of the events of a search.
pub type MinimiseReporter<'a> = &'a dyn Fn(MinimiseEvent<'_>);

/// A finished minimisation.
#[derive(Debug)]
pub struct MinimiseResult {
    /// The result for people.
    pub text: String,
    /// True if nothing more can be left out; false if the budget was spent before that was shown.
    pub complete: bool,
}

/// A minimisation that is ready to run.
pub struct Minimiser<'a> {
    options: &'a MinimiseOptions,
    subjects: &'a Subjects<'a>,
    session: Session,
    releases: PassingReleaseSearch,
    /// The trials as plans; none for programs.
    plans: Option<Vec<Job<'a>>>,
}

impl<'a> Minimiser<'a> {
    /// Prepares the minimisation of the first of several trials that fails.
    ///
    /// # Errors
    /// Options or cases that are not valid (usage), or a session that cannot be opened.
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

    /// Searches, and writes the evidence folder.
    ///
    /// # Errors
    /// Nothing that fails (nothing to run), trouble of this machine, or a request to stop (no verdict).
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
