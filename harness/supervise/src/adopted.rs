//! Processes that left the group of their child and outlived it: a double fork, a session of their own.
//!
//! A worker is a *subreaper* (`PR_SET_CHILD_SUBREAPER`, which it or its starter sets), so that those become its own children while it
//! lives. This process is one too, and gets them when the worker has ended, or at once where a child is no subreaper. Whose they are
//! says a variable that each child is started with and that its own children inherit.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use crate::Process;
use crate::group::{SETTLE, parse_stat};

/// How often a process that is to end is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// The variable that tells whose child a process is.
pub const RUN_VARIABLE: &str = "ROCREPRO_RUN";

/// The leaders of groups whose leavings were not looked at yet, each with the value of its [`RUN_VARIABLE`]. It is locked while one
/// is started, so that nobody takes a child for a stranger before it is in here.
static RUNNING: Mutex<BTreeMap<i32, String>> = Mutex::new(BTreeMap::new());

fn running() -> MutexGuard<'static, BTreeMap<i32, String>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running leader, until it is [cleared](clear).
pub(crate) struct Leader {
    pid: i32,
    run: String,
}

/// Starts a child that leads a group of its own.
pub(crate) fn start(command: &mut Command) -> std::io::Result<(Child, Leader)> {
    let mut running = running();
    // Kernels since 3.4 have it; on others nobody is adopted and nobody found.
    let _ = set_child_subreaper(Some(getpid()));
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let run = format!("{}.{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let child = command.env(RUN_VARIABLE, &run).spawn()?;
    let pid = Pid::from_child(&child).as_raw_pid();
    running.insert(pid, run.clone());
    Ok((child, Leader { pid, run }))
}

/// Ends the processes that a leader which has ended left to this one, and says which they were. Those that do not say whose they
/// are stay until nobody else runs who could have left them. A leader that `stays` could not be killed, nor could its group.
pub(crate) fn clear(leader: Leader, stays: bool, reap: Duration) -> Vec<Process> {
    clear_with(leader, stays, reap, &mut children)
}

fn clear_with(
    leader: Leader,
    stays: bool,
    reap: Duration,
    children: &mut dyn FnMut() -> Vec<Pid>,
) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    // Nobody starts a leader meanwhile.
    let mut running = running();
    if !stays {
        running.remove(&leader.pid);
    }
    let begun = Instant::now();
    loop {
        let (mut left, settled) = strangers(&running, children());
        left.retain(|(pid, _)| match run_of(*pid) {
            Some(run) if run == leader.run => true,
            Some(run) if running.values().any(|other| *other == run) => false,
            _ => running.is_empty(),
        });
        if left.is_empty() && settled {
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

/// Those of `children` that live and that this process did not start. Dead ones are reaped. Whether that is all: one that has died
/// since the children were listed may have left children of its own, which are on no list yet.
fn strangers(running: &BTreeMap<i32, String>, children: Vec<Pid>) -> (Vec<(Pid, String)>, bool) {
    if children.is_empty() {
        return (Vec::new(), true);
    }
    // In a namespace of its own, `getpgrp` has no number for a group from outside; what is read here agrees with itself.
    let own =
        fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Some(parse_stat(&stat)?.2));
    let mut living = Vec::new();
    let mut settled = true;
    for pid in children {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let Some((name, state, group)) = parse_stat(&stat) else {
            settled = false;
            continue;
        };
        if Some(group) == own
            || running.contains_key(&group)
            || running.contains_key(&pid.as_raw_pid())
        {
            continue;
        }
        if matches!(state, "Z" | "X") {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            settled = false;
        } else {
            living.push((pid, name.to_owned()));
        }
    }
    (living, settled)
}

/// What a process was started with as its [`RUN_VARIABLE`]; none where it does not say.
fn run_of(pid: Pid) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(RUN_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The children of this process, of whichever thread. A thread that ends hands its own to another whose list may have been read
/// already, so the lists are read until they stay the same.
fn children() -> Vec<Pid> {
    let mut before = children_now();
    loop {
        let now = children_now();
        if now == before {
            return now;
        }
        before = now;
    }
}

fn children_now() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| -> Vec<Pid> {
        list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    };
    lists.flat_map(pids).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    use super::*;

    /// A process that ends between the list of children and the look at it hands over its own after the list was read.
    #[test]
    fn who_was_left_by_one_that_died_during_the_look_is_found() {
        let mut command = Command::new("sh");
        // Both leave the group; the first ends and leaves the second.
        command.args(["-c", "setsid sh -c 'sleep 605 & exit 0' >/dev/null 2>&1 & wait"]);
        command.stdin(Stdio::null());
        command.process_group(0);
        let (mut child, leader) = start(&mut command).unwrap();
        child.wait().unwrap();
        let mut ended = Command::new("true").process_group(0).spawn().unwrap();
        let dead = Pid::from_child(&ended);
        // Another test may reap it, which is a death as well.
        let stat = format!("/proc/{}/stat", dead.as_raw_pid());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(PAUSE);
        }
        let mut early = Some(vec![dead]);
        let mut lists = || early.take().unwrap_or_else(children);
        let found = clear_with(leader, false, Duration::from_secs(10), &mut lists);
        let found: Vec<_> = found.iter().map(|p| (p.name.as_str(), p.survived)).collect();
        assert_eq!(found, [("sleep", false)]);
        let _ = ended.wait();
    }
}
