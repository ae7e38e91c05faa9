//! Basic system calls that runs cannot do without, tried once before a trial.
//!
//! A container or a batch system may forbid some by a seccomp filter, which all children inherit. Without this look a
//! compiler in a worker crashes where it asks for its folder, and processes that a worker leaves stay unseen.
//! A filter that kills the caller (`SECCOMP_RET_KILL_PROCESS`) ends the process that tries; it cannot be reported.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};

use rustix::process::{getpid, set_child_subreaper};

/// A system call that is needed, the reason, and an attempt to make it.
struct Needed {
    name: &'static str,
    /// Ends the sentence "without it".
    otherwise: &'static str,
    attempt: fn() -> io::Result<()>,
}

/// The calls that this process and every worker or program need. Where `pidfd_open` fails, a thread waits for each child instead.
const NEEDED: [Needed; 3] = [
    Needed {
        name: "getcwd",
        otherwise: "compilers and runtimes fail",
        attempt: || match std::env::current_dir() {
            // The folder was removed, or its name is hidden: the call itself works.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => Ok(()),
            found => found.map(drop),
        },
    },
    Needed {
        name: "getdents64",
        otherwise: "no folder can be listed",
        attempt: || match fs::read_dir("/") {
            Ok(mut entries) => entries.next().transpose().map(drop),
            // It was not called.
            Err(_) => Ok(()),
        },
    },
    Needed {
        name: "prctl",
        otherwise: "processes that are left behind cannot be found and ended",
        attempt: become_subreaper,
    },
];

/// A system call that is needed and fails here.
#[derive(Debug)]
pub struct ForbiddenCall {
    name: &'static str,
    otherwise: &'static str,
    error: io::Error,
}

impl fmt::Display for ForbiddenCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForbiddenCall { name, otherwise, error } = self;
        write!(
            f,
            "the system call `{name}` fails here ({error}), perhaps by a seccomp filter; without it {otherwise}"
        )
    }
}

impl std::error::Error for ForbiddenCall {}

/// Tries the calls that this process and its children need.
///
/// # Errors
/// The first that fails.
pub fn try_system_calls() -> Result<(), ForbiddenCall> {
    NEEDED.iter().try_for_each(Needed::succeeds)
}

impl Needed {
    fn succeeds(&self) -> Result<(), ForbiddenCall> {
        let Needed { name, otherwise, attempt } = *self;
        attempt().map_err(|error| ForbiddenCall { name, otherwise, error })
    }
}

/// Makes this process the parent of those that are left behind by its descendants.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}
