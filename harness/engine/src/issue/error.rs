//! Errors of writing an issue.

use stacks::Hint;
use thiserror::Error;

use crate::{Stop, stop::explained};

/// An error that prevents an issue from being written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IssueError {
    /// No run of the trials failed.
    #[error("no run failed")]
    NoFailure,
    /// The trial differs from what the case expects, but no document of ROCm promises the expected behaviour.
    #[error(
        "{trial} differs from the expectation of its case, but no document promises the expected behaviour \
         ({difference}); rocrepro does not report such a difference as a bug"
    )]
    Difference {
        /// Id of the trial.
        trial: String,
        /// The description of the difference in the case.
        difference: String,
    },
    /// The case should have a program and has none.
    #[error("the case has no program")]
    NoProgram,
    /// One of the further releases that the user named is not valid.
    #[error("`--also {text}`: {error}")]
    Release {
        /// The release, as typed.
        text: String,
        /// The mistake in the text.
        error: String,
    },
    /// The user interrupted the report.
    #[error("interrupted")]
    Interrupted,
    /// The sanitizer finds an error in the program itself.
    #[error("no issue was written, because the sanitizer found an error in {what} itself: {found}")]
    OwnMistake {
        /// The faulty code: the program, or a kernel of the case.
        what: &'static str,
        /// The message of the sanitizer.
        found: String,
        /// The command line that shows the error.
        again: String,
    },
}

impl Hint for IssueError {
    fn hint(&self) -> Option<String> {
        let IssueError::OwnMistake { again, .. } = self else { return None };
        Some(format!(
            "run `{again}` to see the error, or use `--anyway` to write the issue nevertheless"
        ))
    }
}

impl From<IssueError> for Stop {
    fn from(error: IssueError) -> Stop {
        use IssueError::*;
        let message = format!("error: {}", explained(&error));
        match error {
            Difference { .. } | Release { .. } => Stop::usage(message),
            Interrupted => Stop::no_verdict(error),
            _ => Stop::no_verdict(message),
        }
    }
}
