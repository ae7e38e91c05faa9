//! Tries the system calls that runs need, once before a trial.
//!
//! A container or a batch system may forbid some calls by a seccomp filter, which all children inherit. Without this
//! check a compiler in a worker crashes when it asks for its folder, and leftover processes are not found. A filter
//! that kills the caller (`SECCOMP_RET_KILL_PROCESS`) ends the process that tries; that cannot be reported.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};

use rustix::process::{PidfdFlags, getpid, pidfd_open, set_child_subreaper};

/// A needed system call, the reason, and a function that tries it.
struct Needed {
    name: &'static str,
    /// Consequence, which completes the sentence "without it ...".
    otherwise: &'static str,
    attempt: fn() -> io::Result<()>,
}

/// System calls that this process and every worker or program need.
const NEEDED: [Needed; 3] = [
    Needed {
        name: "getcwd",
        otherwise: "compilers and runtimes fail",
        attempt: || match std::env::current_dir() {
            // The folder was removed or its name is hidden, but the call itself works.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => Ok(()),
            found => found.map(drop),
        },
    },
    Needed {
        name: "getdents64",
        otherwise: "no folder can be listed",
        attempt: || match fs::read_dir("/") {
            Ok(mut entries) => entries.next().transpose().map(drop),
            // `getdents64` was not called.
            Err(_) => Ok(()),
        },
    },
    Needed {
        name: "prctl",
        otherwise: "processes that are left behind cannot be found and ended",
        attempt: become_subreaper,
    },
];

/// System call that only the supervising process needs.
const WATCHING: Needed = Needed {
    name: "pidfd_open",
    otherwise: "the end of a process cannot be waited for (Linux 5.3 has it)",
    attempt: || Ok(pidfd_open(getpid(), PidfdFlags::empty()).map(drop)?),
};

/// A needed system call that fails on this machine.
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

/// Tries the system calls that a worker or a program needs.
///
/// # Errors
/// Returns the first call that fails.
pub(crate) fn try_those_of_a_child() -> Result<(), ForbiddenCall> {
    NEEDED.iter().try_for_each(Needed::succeeds)
}

/// Tries the system calls that this process and its children need.
///
/// # Errors
/// Returns the first call that fails.
pub fn try_system_calls() -> Result<(), ForbiddenCall> {
    NEEDED.iter().chain([&WATCHING]).try_for_each(Needed::succeeds)
}

impl Needed {
    fn succeeds(&self) -> Result<(), ForbiddenCall> {
        let Needed { name, otherwise, attempt } = *self;
        attempt().map_err(|error| ForbiddenCall { name, otherwise, error })
    }
}

/// Makes this process the parent of orphaned descendants.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}
