//! Keeps the worker of a case from elsewhere to what it needs: files by Landlock, system calls by seccomp, sizes by limits.
//!
//! What follows from it is a list of promises in SECURITY.md, each of which a test tries to break from within such a worker
//! (`harness/cli/tests/cli/escapes.rs`).

mod calls;

use std::{fs, os::fd::RawFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use plan::{Confinement, Event};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is asked of the kernel: Landlock as of Linux 6.12. An older one does what it can.
const ASKED: ABI = ABI::V6;

/// More threads than a worker starts; the limit counts those of all programs of the user.
const THREADS: u64 = 1024;

/// Confines this thread, and all that it starts from now on. Reports how far the kernel enforces that. `pipe` stays open, and the
/// standard three.
pub(crate) fn confine(to: &Confinement, pipe: RawFd) -> Event {
    close_inherited(pipe);
    freeze_limits();
    let files = restrict_files(to);
    let calls =
        calls::restrict(!to.devices.is_empty()).map_err(|error| format!("seccomp: {error}"));
    let why = [files.err(), calls.err()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Event::Confined { complete: why.is_empty(), devices: to.devices.clone(), why }
}

fn restrict_files(to: &Confinement) -> Result<(), String> {
    let status = || -> Result<_, Box<dyn std::error::Error>> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(ASKED))?
            .handle_access(AccessNet::from_all(ASKED))?
            .scope(Scope::from_all(ASKED))?
            .create()?;
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        // Neither links nor pipes: what reads such a folder later might follow the one, and wait for the other.
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
        Ok(RulesetStatus::FullyEnforced) => Ok(()),
        Ok(RulesetStatus::PartiallyEnforced) => {
            Err("the Landlock of this kernel is older and enforces only a part".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => {
            Err("this kernel has no Landlock, or it is switched off".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The thunk below a GPU's libhsa-runtime64 makes files in `/dev/shm` and removes them.
const SHARED_MEMORY: BitFlags<AccessFs> =
    landlock::make_bitflags!(AccessFs::{MakeReg | RemoveFile | Truncate});

fn allow(
    mut rules: RulesetCreated,
    paths: &[String],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    for path in paths {
        let (Ok(place), Ok(about)) = (PathFd::new(path), fs::metadata(path)) else { continue };
        let access = if about.is_dir() { access } else { access & AccessFs::from_file(ASKED) };
        rules = rules.add_rule(PathBeneath::new(&place, access))?;
        // A rule is about an inode. Of a file in `/proc` the kernel makes another one when it is looked up again, unless it is open.
        std::mem::forget(place);
    }
    Ok(rules)
}

/// Closes what a shell or a launcher had open when it started this: a rule does not reach a file that is open already.
fn close_inherited(pipe: RawFd) {
    let pipe = pipe.unsigned_abs();
    for (first, last) in [(3, pipe - 1), (pipe + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: no other value of this process owns a descriptor yet, but for the pipe and the standard three.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// Makes every limit one that cannot be lifted again, and adds one of threads. Best effort: the filter refuses to change limits, too.
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
        let _ = setrlimit(resource, Rlimit { current: limit, maximum: limit });
    }
}

/// Processes and threads of the whole machine, see proc_loadavg(5): `0.01 0.02 0.00 1/234 5678`.
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
