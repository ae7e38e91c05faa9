//! Errors of a search.

use std::{io, path::PathBuf};

use engine::{FailedOperation, FailureClass, stop::chain};
use supervise::JournalError;
use thiserror::Error;

/// The reason why the points that the user named do not make an axis.
#[derive(Debug, Error)]
pub(crate) enum AxisError {
    /// The option, its value, and the reason why the value is not valid.
    #[error("`{0} {1}`: {2}")]
    Option(&'static str, String, String),
    #[error("`{0} {1}` is not one of {2}")]
    NotListed(&'static str, String, String),
    /// The download source of the second search has no build that corresponds to a nightly build; the text explains
    /// why.
    #[error("{0}")]
    NoPush(String),
    #[error("{0} and {1} correspond to the same build of {3}, so no search is possible: {2}")]
    SamePush(String, String, String, String),
    #[error("the good and the bad end are both {0}; a search needs two points")]
    OnePoint(String),
    #[error("cannot start `{0}`, which lists versions: {1}")]
    PythonNotStarted(&'static str, io::Error),
    #[error("pip finds no versions of `{0}` for {1}: {2}")]
    NoVersions(String, &'static str, String),
}

impl FailedOperation for AxisError {
    fn class(&self) -> FailureClass {
        match self {
            Self::PythonNotStarted(..) | Self::NoVersions(..) => FailureClass::NoVerdict,
            _ => FailureClass::Usage,
        }
    }
}

/// Options that contradict each other, or that the subject of the search does not allow.
#[derive(Debug, Error)]
pub(crate) enum OptionError {
    #[error("`--match`: {0}")]
    Match(regex::Error),
    #[error("`{0}` matches {1} trials; choose one, for example {2}")]
    SeveralTrials(String, usize, String),
    #[error("`--program` cannot be used with versions of a package")]
    ProgramAndPackage,
    #[error("a command runs without the emulated device, so no fault can be injected")]
    FaultsOfCommand,
    #[error("versions of a package cannot be searched together with another source")]
    SourceAndPackage,
    #[error("a bisect between builds needs both --good and --bad")]
    NoEnds,
    #[error("`--packages` needs versions of a package (`pypi:NAME`)")]
    PackagesOfNothing,
    /// `--fixed` requires a bad end that comes before the good end, but it comes after the good end.
    #[error("with --fixed the bad end must come before the good end, but {0} comes after {1}")]
    NotFixed(String, String),
    #[error(
        "`{0}` has no program whose `packages` contain {1}, so the version of {1} has no effect"
    )]
    UnrelatedPackage(String, String),
    /// The case and the name of an axis that it does not have. The last text suggests an axis.
    #[error("{0} has no axis `{1}`; {2}")]
    UnknownAxis(String, String, String),
    #[error("--cross exchanges components of builds, but this axis does not consist of builds")]
    CrossWithoutBuilds,
    #[error("`{0}` is not a folder: {1}")]
    NotFolder(String, io::Error),
}

impl FailedOperation for OptionError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::ProgramAndPackage => "write the program and its arguments after `--`",
            Self::FaultsOfCommand => "use --program",
            Self::SourceAndPackage => "use only one `--source`",
            Self::NoEnds => "for example `--good debian:6.4.3 --bad debian:7.2.4`",
            Self::PackagesOfNothing => {
                "`--packages` adds further packages to the environment of each version"
            }
            Self::NotFixed(..) => "remove --fixed, or swap --good and --bad",
            Self::CrossWithoutBuilds => "remove --cross",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// An error that ends a search.
#[derive(Debug, Error)]
pub(crate) enum SearchError {
    /// The search was stopped for this reason, and it can be resumed.
    #[error("{0}")]
    Interrupted(String),
    #[error("{}", chain(.0))]
    JournalNotOpened(JournalError),
    #[error("{}", chain(.0))]
    NotWritten(JournalError),
    #[error("`{}`: {}", .0.display(), .1)]
    UnreadableLine(PathBuf, String),
    #[error("`{}` is not the journal of a bisect", .0.display())]
    NotJournal(PathBuf),
    #[error("observation {0} of the journal is about {1}, but the search needs {2}")]
    OtherDecision(usize, String, String),
    #[error("`{}` already contains a bisect", .0.display())]
    Exists(PathBuf),
    /// The folder contains another search. The texts are its subject, axis, good end and bad end.
    #[error("`{}` contains another bisect: {} on {} from {} to {}", .folder.display(), .texts[0], .texts[1], .texts[2], .texts[3])]
    Other { folder: PathBuf, texts: [String; 4] },
    #[error("cannot read `{}`: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    #[error(
        "`{path}` was changed after this bisect started: its sha256 was {before} and is now {now}"
    )]
    FileChanged { path: String, now: String, before: String },
    #[error(
        "{build} was republished: its sha256 was {before} when this bisect ran it and is now {now}"
    )]
    Republished { build: String, now: String, before: String },
    #[error("cannot open `{}`: {}", .0.display(), .1)]
    LockFile(PathBuf, io::Error),
    /// Another search has locked the folder or the GPU.
    #[error("{} (`{}`)", .0, .1.display())]
    Locked(&'static str, PathBuf),
    #[error("cannot find the rocrepro executable: {0}")]
    OwnProgram(io::Error),
    #[error("cannot create a temporary file: {0}")]
    NoTemporaryFile(io::Error),
    /// The point that the first text names cannot be prepared, so its run time cannot be measured. The second text is
    /// the reason.
    #[error("{0}: {1}")]
    Untestable(String, String),
    #[error("{0} does not pass, so its run time cannot be measured: {1}")]
    NotPassing(String, String),
}

impl FailedOperation for SearchError {
    fn class(&self) -> FailureClass {
        match self {
            Self::JournalNotOpened(_)
            | Self::UnreadableLine(..)
            | Self::NotJournal(_)
            | Self::Exists(_)
            | Self::Other { .. }
            | Self::Unreadable(..)
            | Self::FileChanged { .. } => FailureClass::Usage,
            _ => FailureClass::NoVerdict,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Interrupted(_) => {
                "the observations are kept; repeat the command with --resume to continue"
            }
            Self::Exists(_) => "continue it with --resume, or choose another folder with --out",
            Self::FileChanged { .. } | Self::Republished { .. } => {
                "results of the two versions must not be mixed; start a new bisect with --out"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
