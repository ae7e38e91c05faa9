//! Tries the system calls that the supervisor and its children need, once before a trial.
//!
//! A container or a batch system may forbid some system calls by a seccomp filter, which all children inherit. If
//! `getcwd` is forbidden, a compiler in a worker crashes; if `prctl` is forbidden, leftover processes are not found. A
//! filter that kills the caller (`SECCOMP_RET_KILL_PROCESS`) ends this process at the first forbidden call. This cannot
//! be reported.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};

use rustix::process::{getpid, set_child_subreaper};

/// A system call that is needed, with a function that tries it.
struct NeededCall {
    name: &'static str,
    /// Consequence if the system call fails. It completes the sentence "without it ...".
    otherwise: &'static str,
    attempt: fn() -> io::Result<()>,
}

/// System calls that this process and every worker or program need. `pidfd_open` is not in the list, because a thread
/// can wait for a child instead.
const NEEDED_CALLS: [NeededCall; 3] = [
    NeededCall {
        name: "getcwd",
        otherwise: "compilers and runtimes fail",
        attempt: || match std::env::current_dir() {
            // The current folder was removed or its path is hidden, but the system call itself works.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => Ok(()),
            found => found.map(drop),
        },
    },
    NeededCall {
        name: "getdents64",
        otherwise: "no folder can be listed",
        attempt: || match fs::read_dir("/") {
            Ok(mut entries) => entries.next().transpose().map(drop),
            // The folder could not be opened, so `getdents64` was not called.
            Err(_) => Ok(()),
        },
    },
    NeededCall {
        name: "prctl",
        otherwise: "processes that are left running cannot be found and killed",
        attempt: become_subreaper,
    },
];

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
            "the system call `{name}` fails on this machine ({error}), perhaps because of a seccomp filter; without \
             it {otherwise}"
        )
    }
}

impl std::error::Error for ForbiddenCall {}

/// Tries the system calls that this process and its children need.
///
/// # Errors
/// Returns the first call that fails.
pub fn try_system_calls() -> Result<(), ForbiddenCall> {
    NEEDED_CALLS.iter().try_for_each(NeededCall::succeeds)
}

impl NeededCall {
    fn succeeds(&self) -> Result<(), ForbiddenCall> {
        let NeededCall { name, otherwise, attempt } = *self;
        attempt().map_err(|error| ForbiddenCall { name, otherwise, error })
    }
}

/// Makes this process the parent of orphaned descendants.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}
