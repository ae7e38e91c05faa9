//! The failure to write an issue.

use std::io;

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
    /// The program makes no trial.
    #[error("the program makes no trial")]
    NoTrial,
    /// No run of a program gave a verdict.
    #[error("{runs} gave no verdict; {why}; no report was written")]
    NoVerdict {
        /// The runs, counted in words.
        runs: String,
        /// The outcome of one of them.
        why: String,
    },
    /// No run of a program failed.
    #[error("the program passed in {passed} of {runs}, so no report was written")]
    Passed {
        /// Runs that passed.
        passed: u32,
        /// The runs, counted in words.
        runs: String,
    },
    /// A GPU does not report which programs use it.
    #[error("--report needs a device that says which program used it, and a GPU does not")]
    OnGpu,
    /// The program would run outside of a namespace.
    #[error("--report runs the program in a namespace")]
    OutsideNamespace,
    /// A word of the command line is not text.
    #[error("`{0}` is not UTF-8 text, so the report could not show it")]
    NotText(String),
    /// A further release is not valid.
    #[error("`--also {text}`: {error}")]
    Release {
        /// The release, as typed.
        text: String,
        /// The mistake.
        error: String,
    },
    /// The source of the program cannot be shown.
    #[error("`{0}` is not a text file of at most 64 KiB")]
    Source(String),
    /// The program needs a compiler at run time.
    #[error("not run: {0}")]
    NoCompiler(String),
    /// The user stopped the report.
    #[error("interrupted")]
    Interrupted,
    /// A folder cannot be created or found.
    #[error("{folder}: {error}")]
    Folder {
        /// The description of the folder.
        folder: &'static str,
        /// The cause.
        error: io::Error,
    },
}

impl Hint for IssueError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            IssueError::Passed { .. } => "`--repeat N` makes more runs",
            IssueError::OnGpu => "use `--device emulated`",
            IssueError::OutsideNamespace => "leave `--home loader` out",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<IssueError> for Stop {
    fn from(error: IssueError) -> Stop {
        use IssueError::*;
        let message = format!("error: {}", explained(&error));
        match error {
            NoTrial => Stop::nothing(message),
            Difference { .. }
            | OnGpu
            | OutsideNamespace
            | NotText(_)
            | Release { .. }
            | Source(_) => Stop::usage(message),
            Interrupted => Stop::no_verdict(error),
            _ => Stop::no_verdict(message),
        }
    }
}
