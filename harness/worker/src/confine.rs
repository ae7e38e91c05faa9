//! Restricts the worker of an untrusted case to the files, system calls and resources that it needs. Landlock restricts
//! files, seccomp restricts system calls, and resource limits restrict memory, threads and file sizes.
//!
//! SECURITY.md lists the guarantees. Tests try to break each guarantee from within such a worker
//! (`harness/cli/tests/cli/escapes.rs`).

mod calls;

use std::{fs, os::fd::RawFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use plan::{Confinement, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setpriority_process,
    setrlimit,
};

use crate::broken::WorkerError;

/// Requested Landlock version: that of Linux 6.12. An older Linux enforces only some of the rules of this version.
const REQUESTED_ABI: ABI = ABI::V6;

/// Number of threads that are allowed in addition to those that already exist. The worker starts fewer, but Linux
/// counts the threads of all programs of the user. Linux does not apply the limit to root.
const THREADS: u64 = 1024;

/// Nice value of the worker; see `sched(7)`.
const LOWEST_PRIORITY: i32 = 19;

/// Confines this thread and everything that it starts later. Only `pipe` and the three standard file descriptors stay
/// open. Returns an event that reports how much of the confinement Linux enforces.
///
/// # Errors
/// Returns an error if Linux cannot restrict files or system calls, or if an existing seccomp filter rejects a call
/// that the worker needs. The worker must not continue then: the code of the case could write to the memory of the
/// command, so that the command could not even report the missing confinement.
pub(crate) fn confine(to: &Confinement, pipe: RawFd) -> Result<Event, WorkerError> {
    let impossible = |why: String| {
        WorkerError(format!(
            "the case is not trusted, and this machine cannot confine it: {why}; `--trust` runs it unconfined"
        ))
    };
    end_with_parent().map_err(impossible)?;
    close_inherited(pipe).map_err(impossible)?;
    freeze_limits();
    yield_to_the_command();
    let partial = restrict_files(to).map_err(impossible)?;
    calls::restrict(!to.devices.is_empty())
        .map_err(|error| impossible(format!("seccomp: {error}")))?;
    let why = partial.unwrap_or_default().to_owned();
    Ok(Event::Confined { complete: why.is_empty(), devices: to.devices.clone(), why })
}

/// Restricts access to files. Returns a reason if Linux enforces only some of the rules.
fn restrict_files(to: &Confinement) -> Result<Option<&'static str>, String> {
    let status = || -> Result<_, Box<dyn std::error::Error>> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(REQUESTED_ABI))?
            .handle_access(AccessNet::from_all(REQUESTED_ABI))?
            .scope(Scope::from_all(REQUESTED_ABI))?
            .create()?;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        // The case must not create links and pipes, because a later reader of the folder might follow the link or wait
        // for the pipe.
        let write = read
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir
            | AccessFs::Refer;
        let device = read | AccessFs::WriteFile | AccessFs::IoctlDev | SHARED_MEMORY;
        let rules = allow(rules, &to.readable, read)?;
        let rules = allow(rules, &to.writable, write)?;
        let rules = allow(rules, &to.devices, device)?;
        Ok(rules.restrict_self()?.ruleset)
    };
    match status() {
        Ok(RulesetStatus::FullyEnforced) => Ok(None),
        Ok(RulesetStatus::PartiallyEnforced) => Ok(Some(
            "the Landlock version of this kernel is too old and enforces only some of the rules",
        )),
        Ok(RulesetStatus::NotEnforced) => {
            Err("this kernel does not support Landlock, or Landlock is disabled".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Access rights in `/dev/shm`, where the thunk (the library between libhsa-runtime64 and the driver of a GPU) creates
/// and removes files.
const SHARED_MEMORY: BitFlags<AccessFs> =
    landlock::make_bitflags!(AccessFs::{MakeReg | RemoveFile | Truncate});

fn allow(
    mut rules: RulesetCreated,
    paths: &[String],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    for path in paths {
        let (Ok(place), Ok(about)) = (PathFd::new(path), fs::metadata(path)) else { continue };
        let access =
            if about.is_dir() { access } else { access & AccessFs::from_file(REQUESTED_ABI) };
        rules = rules.add_rule(PathBeneath::new(&place, access))?;
        // A rule applies to an inode. For a file in `/proc`, Linux creates a new inode at each look-up unless the file
        // is open. Therefore the file stays open.
        std::mem::forget(place);
    }
    Ok(rules)
}

/// Asks Linux to kill this process when its parent ends, because untrusted code could stop the thread that otherwise
/// waits for the end of the parent. The seccomp filter, which is installed later, prevents the code from undoing this.
fn end_with_parent() -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("prctl: {error}"))?;
    // If the parent has already ended, the other end of standard input is closed.
    let mut input = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::empty())];
    let ready = poll(&mut input, Some(&Timespec::default()));
    if ready.is_ok() && input[0].revents().contains(PollFlags::HUP) {
        crate::leash::end();
    }
    Ok(())
}

/// Closes file descriptors that were inherited from a shell or a launcher, because Landlock does not restrict files
/// that are already open.
fn close_inherited(pipe: RawFd) -> Result<(), String> {
    let pipe = pipe.unsigned_abs();
    for (first, last) in [(3, pipe - 1), (pipe + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: no other value in this process owns a file descriptor yet, except the pipe and the three standard
            // ones.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            if closed != 0 {
                return Err(format!("close_range: {}", std::io::Error::last_os_error()));
            }
        }
    }
    Ok(())
}

/// Gives this process the smallest share of processor time. Otherwise a case with a thousand busy threads would leave
/// no time for the command, which ends the case. If Linux groups processes by session (autogroup), the value applies
/// only within the session.
fn yield_to_the_command() {
    // A process may always lower its own priority.
    let _ = setpriority_process(None, LOWEST_PRIORITY);
}

/// Sets the hard limit of each resource to its soft limit, and limits the number of threads. Errors are ignored,
/// because the seccomp filter rejects changes of limits anyway.
fn freeze_limits() {
    let tasks = fs::read_to_string("/proc/loadavg").ok().and_then(|line| tasks(&line));
    for resource in [
        Resource::Stack,
        Resource::Core,
        Resource::Nofile,
        Resource::Fsize,
        Resource::As,
        Resource::Data,
        Resource::Nproc,
    ] {
        let mut limit = getrlimit(resource).current;
        if resource == Resource::Nproc
            && let Some(tasks) = tasks
        {
            let most = tasks.saturating_add(THREADS);
            limit = Some(limit.map_or(most, |limit| limit.min(most)));
        }
        // With a limit of one byte, Linux neither writes a core file nor starts the program in `core_pattern`. With a
        // limit of 0, it would start that program.
        if resource == Resource::Core && limit == Some(0) {
            let one = Some(1);
            if setrlimit(resource, Rlimit { current: one, maximum: one }).is_ok() {
                continue;
            }
        }
        let _ = setrlimit(resource, Rlimit { current: limit, maximum: limit });
    }
}

/// Parses the number of all processes and threads on the machine from a line of proc_loadavg(5). For `0.01 0.02 0.00
/// 1/234 5678`, the number is 234.
fn tasks(loadavg: &str) -> Option<u64> {
    loadavg.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_the_tasks_of_the_machine() {
        assert_eq!(super::tasks("0.01 0.02 0.00 1/234 5678\n"), Some(234));
        assert_eq!(super::tasks(""), None);
    }
}
