//! The failure to write an issue.

use stacks::Hint;
use thiserror::Error;

use crate::{Stop, stop::explained};

/// The failure to write an issue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IssueError {
    /// No run failed.
    #[error("no run failed")]
    NoFailure,
    /// The trial differs from the case, but ROCm does not promise what the case expects.
    #[error(
        "{trial} differs from what the case expects, and no document promises that ({difference}); a difference is not reported as \
         a fault"
    )]
    Difference {
        /// The trial.
        trial: String,
        /// The description of the difference in the case.
        difference: String,
    },
    /// The case of a program does not have a program.
    #[error("the case has no program")]
    NoProgram,
    /// A further release is not valid.
    #[error("`--also {text}`: {error}")]
    Release {
        /// The release, as typed.
        text: String,
        /// The mistake.
        error: String,
    },
    /// The user stopped the report.
    #[error("interrupted")]
    Interrupted,
    /// The sanitizer finds an error of the program.
    #[error("no issue was written, because the sanitizer finds an error in {what} itself: {found}")]
    OwnMistake {
        /// The program, or the kernel of a case.
        what: &'static str,
        /// The message of the sanitizer.
        found: String,
        /// The command that shows the error.
        again: String,
    },
}

impl Hint for IssueError {
    fn hint(&self) -> Option<String> {
        let IssueError::OwnMistake { again, .. } = self else { return None };
        Some(format!("`{again}` shows it; `--anyway` writes the issue all the same"))
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
