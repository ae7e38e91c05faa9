//! Errors of minimising a trial.

use std::{io, path::PathBuf};

use stacks::Hint;
use supervise::JournalError;
use thiserror::Error;

use crate::{Stop, stop::explained};

/// An error that prevents a trial from being minimised.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MinimiseError {
    /// No trial is selected.
    #[error("no trial")]
    NoTrial,
    /// The trial passes in every run.
    #[error("nothing to minimise: {0}")]
    NothingFails(String),
    /// No run of the trial has a verdict.
    #[error("{0}")]
    NoVerdict(String),
    /// The user interrupted the search before it had a result.
    #[error("interrupted before anything failed")]
    Interrupted,
    /// The user stopped the search.
    #[error("interrupted; the smallest case so far is `{}`", path.display())]
    InterruptedSearch {
        /// The smallest case so far.
        path: PathBuf,
    },
    /// The smallest case so far cannot be written.
    #[error("cannot write `{}`: {error}", path.display())]
    CannotWrite {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The plan of the trial cannot be written as a case.
    #[error("the trial cannot be written as a case: {0}")]
    NotACase(String),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(JournalError),
    /// The journal belongs to another search.
    #[error("`{}` is the journal of another search: {trial} on {stack}, perhaps with other faults or another version \
        of rocrepro", path.display())]
    OtherJournal {
        /// Path of the journal.
        path: PathBuf,
        /// Id of the trial of the other search.
        trial: String,
        /// Name of the stack of the other search.
        stack: String,
    },
    /// The journal of an earlier search cannot be removed.
    #[error("cannot remove `{}`: {error}", path.display())]
    CannotRemove {
        /// Path of the journal.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The search for a shorter program keeps no journal, so it cannot be resumed.
    #[error("the search for a shorter program has no journal to resume")]
    NothingToResume,
    /// Both cases with steps and cases with programs are selected.
    #[error("`{0}` has steps, but other selected cases are programs")]
    MixedCases(String),
    /// The program fails only in some runs, or in different ways.
    #[error(
        "it failed as `{signature}` in {failed} of {runs} runs; minimise can shorten only a program that fails in the same way \
         every time"
    )]
    FailsSometimes {
        /// Signature of the most frequent failure.
        signature: String,
        /// Number of runs with this failure.
        failed: u32,
        /// Number of all runs.
        runs: u32,
    },
    /// The failure is known only by the exit status of the program.
    #[error(
        "only `{0}` is known about the failure, so a shorter program may fail for another reason"
    )]
    OnlyExitStatus(String),
    /// The body of the case is a command, which has no source to shorten.
    #[error("`{0}` is a command, so it has no text that minimise could shorten")]
    Command(String),
    /// The external reducer cannot be run.
    #[error("{step} for {reducer}: {error}")]
    Reducer {
        /// Name of the reducer.
        reducer: &'static str,
        /// The operation that failed.
        step: &'static str,
        /// The cause.
        error: io::Error,
    },
}

impl Hint for MinimiseError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            MinimiseError::NothingFails(_) => {
                "choose another stack with --rocm, or inject a fault with --fault"
            }
            MinimiseError::InterruptedSearch { .. } => "`--resume` continues the search",
            MinimiseError::OtherJournal { .. } => "omit `--resume` to start over",
            MinimiseError::MixedCases(_) => "minimise the two kinds in separate commands",
            MinimiseError::OnlyExitStatus(_) => {
                "let the program check with the helper, or print the error as its last line"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<MinimiseError> for Stop {
    fn from(error: MinimiseError) -> Stop {
        use MinimiseError::*;
        if matches!(error, Interrupted | InterruptedSearch { .. }) {
            return Stop::no_verdict(explained(&error));
        }
        let message = format!("error: {}", explained(&error));
        match error {
            NoTrial | NothingFails(_) => Stop::nothing(message),
            OtherJournal { .. }
            | CannotRemove { .. }
            | NothingToResume
            | MixedCases(_)
            | Command(_) => Stop::usage(message),
            _ => Stop::no_verdict(message),
        }
    }
}
