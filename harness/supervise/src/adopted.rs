//! Processes that left the group of their child and outlived it: a double fork, a session of their own.
//!
//! A worker is a *subreaper* (`PR_SET_CHILD_SUBREAPER`, which its starter sets), so that those become its own children while it
//! lives. This process is one too, and gets them when the worker has ended. A child of this process that it did not start and that
//! is in no group of a running worker was therefore left by a worker that has ended.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, kill_process, set_child_subreaper, waitpid,
};

use crate::Process;
use crate::group::{SETTLE, parse_stat};

/// How often a process that is to end is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// The leaders of the groups that run. It is locked while one is started, so that nobody takes a child for a stranger
/// before it is in here.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running leader; no longer one when this is dropped.
pub(crate) struct Leader(i32);

impl Drop for Leader {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// Starts a child that leads a group of its own.
pub(crate) fn start(command: &mut Command) -> std::io::Result<(Child, Leader)> {
    let mut running = running();
    // Kernels since 3.4 have it; on others nobody is adopted and nobody found.
    let _ = set_child_subreaper(Some(getpid()));
    let child = command.spawn()?;
    let pid = Pid::from_child(&child).as_raw_pid();
    running.insert(pid);
    Ok((child, Leader(pid)))
}

/// Ends the processes that workers which have ended left to this one, and says which they were.
pub(crate) fn clear(reap: Duration) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    // Nobody starts a leader meanwhile. Others that end wait here, and what they left is found by whoever comes first.
    let running = running();
    let begun = Instant::now();
    loop {
        let left = strangers(&running);
        if left.is_empty() {
            return found;
        }
        let over = begun.elapsed();
        for (pid, name) in &left {
            // It is a child that nobody has waited for, so its number is still its own.
            if over >= SETTLE && !found.iter().any(|known| known.pid == pid.as_raw_pid()) {
                found.push(Process { pid: pid.as_raw_pid(), name: name.clone(), survived: false });
                let _ = kill_process(*pid, Signal::KILL);
            }
        }
        if over >= SETTLE.saturating_add(reap) {
            for process in &mut found {
                process.survived = left.iter().any(|(pid, _)| pid.as_raw_pid() == process.pid);
            }
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Living children that this process did not start. Dead ones are reaped.
fn strangers(running: &BTreeSet<i32>) -> Vec<(Pid, String)> {
    let own = getpgrp().as_raw_pid();
    let mut living = Vec::new();
    for pid in children() {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let Some((name, state, group)) = parse_stat(&stat) else { continue };
        if group == own || running.contains(&group) || running.contains(&pid.as_raw_pid()) {
            continue;
        }
        if matches!(state, "Z" | "X") {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        } else {
            living.push((pid, name.to_owned()));
        }
    }
    living
}

/// The children of this process, of whichever thread.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| -> Vec<Pid> {
        list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    };
    lists.flat_map(pids).collect()
}
