//! Errors of exporting a trial as a program, and of verifying the program.

use std::{io, path::PathBuf};

use device::Fault;
use stacks::Hint;
use thiserror::Error;

use crate::{Stop, stop::explained};

/// An error that prevents a trial from being exported, or its program from being verified.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// An injected fault has a probability below 1, which an exported program cannot reproduce.
    #[error("exported programs cannot inject a fault with a probability: `{0}`")]
    RareFault(Fault),
    /// The plan of the trial cannot be written as a program.
    #[error("{trial} cannot be exported: {why}")]
    NotPrintable {
        /// Id of the trial.
        trial: String,
        /// The reason why it cannot be printed.
        why: String,
    },
    /// The folder of the program cannot be created.
    #[error("cannot create a folder for the program: {0}")]
    NoFolder(io::Error),
    /// A file of the program's folder cannot be written.
    #[error("cannot write `{}`: {error}", path.display())]
    CannotWrite {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The trial or its program has no verdict.
    #[error("{trial}: {why}")]
    NoVerdict {
        /// Id of the trial.
        trial: String,
        /// The reason why a verdict is missing.
        why: String,
    },
    /// The compiler rejects the program.
    #[error("{trial} does not compile:\n{log}")]
    DoesNotCompile {
        /// Id of the trial.
        trial: String,
        /// The messages of the compiler.
        log: String,
    },
    /// The configuration of the emulated device cannot be serialised.
    #[error("the device cannot be configured: {0}")]
    DeviceConfig(serde_json::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    NoThread(io::Error),
    /// The user interrupted the run of the trial.
    #[error("interrupted")]
    Interrupted,
    /// The user interrupted the run of the program.
    #[error("interrupted; run the trial again with `{again}`")]
    ProgramInterrupted {
        /// The command line that runs the trial.
        again: String,
    },
}

impl Hint for ExportError {
    fn hint(&self) -> Option<String> {
        let rare = matches!(self, ExportError::RareFault(_));
        rare.then(|| "remove `probability` from the fault".to_owned())
    }
}

impl From<ExportError> for Stop {
    fn from(error: ExportError) -> Stop {
        use ExportError::*;
        match error {
            RareFault(_) | NotPrintable { .. } => {
                Stop::usage(format!("error: {}", explained(&error)))
            }
            Interrupted | ProgramInterrupted { .. } => Stop::no_verdict(error),
            _ => Stop::no_verdict(format!("error: {}", explained(&error))),
        }
    }
}
