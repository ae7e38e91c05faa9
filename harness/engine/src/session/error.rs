//! Errors of opening a session.

use std::{io, path::PathBuf};

use device::Level;
use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// An error that prevents a session from being opened on an existing stack and device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The options for the emulated device contradict each other.
    #[error("{0}")]
    DeviceOptions(String),
    /// The level at which the device is emulated (`hsa` or `thunk`) does not support the ROCm release.
    #[error("`level={level}` of the emulated device works only with ROCm {supported}, but {found}")]
    LevelRelease {
        /// The level.
        level: Level,
        /// The only supported release.
        supported: Box<str>,
        /// A clause with the release of the stack.
        found: Box<str>,
    },
    /// Code of untrusted cases would run without confinement.
    #[error("the exported program of an untrusted case would run without confinement")]
    Untrusted,
    /// The option applies to GPUs and has no effect on the emulated device.
    #[error("`{0}` chooses GPUs of this machine, but the trials run on the emulated device")]
    GpuOption(&'static str),
    /// No file descriptor is available.
    #[error("{0}")]
    NoDescriptor(io::Error),
    /// Several GPUs are chosen, but the results of the runs are compared with each other.
    #[error("this command compares runs with each other, so it needs one GPU, but {0} are chosen")]
    SeveralGpus(usize),
    /// More trials are to run at the same time than there are GPUs.
    #[error("`--jobs {jobs}`: each chosen GPU ({gpus}) runs one trial at a time")]
    TooManyJobs {
        /// Number of trials to run at the same time.
        jobs: usize,
        /// The names of the GPUs, as one text for a message.
        gpus: String,
    },
    /// The folder is on a file system from which programs cannot be run.
    #[error(
        "`{}` is on a file system that is mounted noexec, so no program or library there can be run",
        folder.display()
    )]
    Noexec {
        /// Path of the folder.
        folder: PathBuf,
        /// Advice for the user.
        hint: &'static str,
    },
    /// rocrepro's own executable cannot be read.
    #[error("cannot read this program's own file: {0}")]
    OwnProgram(io::Error),
    /// rocrepro's own executable was replaced by another build.
    #[error(
        "`{}` was replaced by another build of rocrepro, which a launcher would start",
        path.display()
    )]
    Replaced {
        /// Path of the executable.
        path: PathBuf,
    },
    /// The temporary folder of workers cannot be created.
    #[error("cannot create `{}`: {error}", folder.display())]
    NoTemporaryFolder {
        /// Path of the folder.
        folder: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

impl FailedOperation for SessionError {
    fn class(&self) -> FailureClass {
        match self {
            SessionError::DeviceOptions(_)
            | SessionError::LevelRelease { .. }
            | SessionError::Untrusted
            | SessionError::GpuOption(_)
            | SessionError::SeveralGpus(_)
            | SessionError::TooManyJobs { .. } => FailureClass::Usage,
            _ => FailureClass::NoVerdict,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SessionError::Noexec { hint, .. } => Some((*hint).to_owned()),
            SessionError::SeveralGpus(_) => Some("choose one with `--cards`".to_owned()),
            SessionError::TooManyJobs { .. } => Some(
                "remove `--jobs`, or remove `--cards` so that trials share all GPUs".to_owned(),
            ),
            SessionError::Untrusted => Some("if you trust it, add `--trust`".to_owned()),
            SessionError::GpuOption(_) => Some("use `--device gpu`".to_owned()),
            SessionError::Replaced { .. } => Some("start the command again".to_owned()),
            _ => None,
        }
    }
}
