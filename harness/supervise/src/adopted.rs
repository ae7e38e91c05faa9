//! Finds and kills processes that left the process group of a child and outlived the child, for example after a double
//! fork or `setsid`.
//!
//! Linux makes such a process, an orphan, a child of its nearest living ancestor that is a *subreaper*
//! (`PR_SET_CHILD_SUBREAPER`). This process makes itself a subreaper, so it becomes the parent of the orphans of an
//! ended child. A worker is a subreaper too, because the worker or its starter sets this. While a worker lives, its
//! orphaned descendants become children of the worker. If a child is not a subreaper, its orphans become children of
//! this process at once.
//!
//! Each child is started with the variable [`RUN_VARIABLE`], which its descendants inherit. The value of the variable
//! identifies the child from which a process descends.
//!
//! A program that uses this library may have children of its own, even in groups of their own. This module does not
//! touch them. Linux makes orphans children of the first living thread of the subreaper. Therefore children of other
//! threads, and processes that are older than the first supervised child, are not leftovers of a supervised child.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::calls::become_subreaper;
use crate::group::{SETTLE_TIME, command_line, parse_start, parse_stat};
use crate::{Cancel, Process};

/// Time between two checks of a process that has to end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Environment variable that identifies the supervised child to which a process belongs.
pub const RUN_VARIABLE: &str = "ROCREPRO_RUN";

/// Leaders of the process groups of supervised children. A leader is listed from its start until the processes that it
/// left running have been killed.
struct RunningLeaders {
    /// Process id of each leader, with the value of its [`RUN_VARIABLE`].
    leaders: BTreeMap<i32, String>,
    /// Start time of the first leader, as [`parse_start`] returns it. Processes that started earlier do not descend
    /// from a leader.
    since: u64,
}

/// The registered leaders. One lock covers the start of a child and its registration here. Otherwise another thread
/// could take the new child for an orphan of an ended leader and kill it.
static RUNNING: Mutex<RunningLeaders> =
    Mutex::new(RunningLeaders { leaders: BTreeMap::new(), since: 0 });

fn running() -> MutexGuard<'static, RunningLeaders> {
    RUNNING.lock()
}

/// A leader of a process group that is registered until [`kill_orphans`] removes it.
pub(crate) struct Leader {
    pid: i32,
    run: String,
}

/// Starts a child that leads its own process group.
pub(crate) fn start(command: &mut Command) -> std::io::Result<(Child, Leader)> {
    let mut running = running();
    become_subreaper().map_err(|error| {
        let why = format!(
            "cannot find the processes that a child leaves running, because prctl failed: {error}"
        );
        std::io::Error::new(error.kind(), why)
    })?;
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let run = format!("{}.{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let child = command.env(RUN_VARIABLE, &run).spawn()?;
    let pid = Pid::from_child(&child).as_raw_pid();
    if running.leaders.is_empty() {
        // A child that has not been reaped still has an entry in /proc, even after it has ended.
        running.since = parse_start(&read_stat(Pid::from_child(&child))).unwrap_or_default();
    }
    running.leaders.insert(pid, run.clone());
    Ok((child, Leader { pid, run }))
}

/// Maximum number of consecutive checks that find orphans of unknown origin, but none of the leader. The supervisor
/// then stops waiting.
const MAX_UNRELATED_CHECKS: u32 = 10;

/// Waits until all orphans that an ended leader left to this process have ended, at most for `limit`, or until a
/// request to cancel. Orphans without a [`RUN_VARIABLE`] are not waited for. Other leaders can be started in the
/// meantime.
pub(crate) fn wait_for_orphans(leader: &Leader, limit: Duration, cancel: &Cancel) {
    let begun = Instant::now();
    let is_own = |pid: &Pid| run_id_of(*pid).as_ref() == Some(&leader.run);
    // While a process starts another program, its environment cannot be read for a moment.
    let mut seen_without = 0;
    while begun.elapsed() < limit && !cancel.is_cancelled() && seen_without < MAX_UNRELATED_CHECKS {
        let (left, settled) = other_orphans(&running(), children());
        if settled && left.is_empty() {
            return;
        }
        let has_own = !settled || left.iter().any(|(pid, _)| is_own(pid));
        seen_without = if has_own { 0 } else { seen_without + 1 };
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Kills the orphans that an ended leader left to this process, and returns them. As long as another leader runs,
/// processes without a [`RUN_VARIABLE`] are not killed, because they may be descendants of that leader. `stays` is true
/// if the leader or its group could not be killed; the leader then stays registered. `reap` is the maximum time to wait
/// for the end of the killed processes.
pub(crate) fn kill_orphans(leader: Leader, stays: bool, reap: Duration) -> Vec<Process> {
    kill_orphans_with(leader, stays, reap, &mut children)
}

fn kill_orphans_with(
    leader: Leader,
    stays: bool,
    reap: Duration,
    children: &mut dyn FnMut() -> Vec<Pid>,
) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    // The lock prevents the start of other leaders until this function returns.
    let mut running = running();
    if !stays {
        running.leaders.remove(&leader.pid);
    }
    let begun = Instant::now();
    loop {
        let (mut left, settled) = other_orphans(&running, children());
        left.retain(|(pid, _)| match run_id_of(*pid) {
            Some(run) if run == leader.run => true,
            Some(run) if running.leaders.values().any(|other| *other == run) => false,
            _ => running.leaders.is_empty(),
        });
        if left.is_empty() && settled {
            return found;
        }
        let over = begun.elapsed();
        for (pid, name) in &left {
            // The process is a child of this process that has not been reaped, so Linux has not reused its id.
            if over >= SETTLE_TIME && !found.iter().any(|known| known.pid == pid.as_raw_pid()) {
                found.push(Process {
                    pid: pid.as_raw_pid(),
                    name: name.clone(),
                    command: command_line(pid.as_raw_pid()),
                    survived: false,
                });
                let _ = kill_process(*pid, Signal::KILL);
            }
        }
        if over >= SETTLE_TIME.saturating_add(reap) {
            for process in &mut found {
                process.survived = left.iter().any(|(pid, _)| pid.as_raw_pid() == process.pid);
            }
            return found;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Kills all children of this process, and their process groups.
pub(crate) fn kill_all() {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for pid in list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        {
            // A child that does not lead a group has no group to kill.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Reaps the ended processes among `children`, and returns ids and names of those that are alive and were not started
/// by this process itself. The second value is false if this list may be incomplete, because a child that ended after
/// the listing may have left children of its own.
fn other_orphans(running: &RunningLeaders, children: Vec<Pid>) -> (Vec<(Pid, String)>, bool) {
    if children.is_empty() {
        return (Vec::new(), true);
    }
    // In a PID namespace, `getpgrp` returns 0 for a group from outside the namespace. /proc/self/stat contains the same
    // numbers as the other files in /proc, which are compared with it.
    let own =
        fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Some(parse_stat(&stat)?.2));
    let mut living = Vec::new();
    let mut settled = true;
    for pid in children {
        let stat = read_stat(pid);
        let Some((name, state, group)) = parse_stat(&stat) else {
            settled = false;
            continue;
        };
        if Some(group) == own
            || running.leaders.contains_key(&group)
            || running.leaders.contains_key(&pid.as_raw_pid())
            || parse_start(&stat).is_none_or(|start| start < running.since)
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

/// Returns the line in `/proc/PID/stat`, or an empty string if the process does not exist.
fn read_stat(pid: Pid) -> String {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    String::from_utf8_lossy(&stat).into_owned()
}

/// Returns the value of [`RUN_VARIABLE`] with which a process was started.
fn run_id_of(pid: Pid) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(RUN_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Returns the children of the first thread of this process, to which Linux gives orphans.
fn children() -> Vec<Pid> {
    let id = std::process::id();
    let list = fs::read_to_string(format!("/proc/self/task/{id}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    use super::*;

    /// A process that ends after the children were listed leaves its own children to this process, and the list does
    /// not contain them.
    #[test]
    fn finds_children_of_a_process_that_died_after_the_listing() {
        let mut command = Command::new("sh");
        // Both shells leave the process group. The first shell ends and leaves the second.
        command.args(["-c", "setsid sh -c 'sleep 605 & exit 0' >/dev/null 2>&1 & wait"]);
        command.stdin(Stdio::null());
        command.process_group(0);
        let (mut child, leader) = start(&mut command).unwrap();
        child.wait().unwrap();
        let mut ended = Command::new("true").process_group(0).spawn().unwrap();
        let dead = Pid::from_child(&ended);
        // If another test reaps the process, this also shows that it has ended.
        let stat = format!("/proc/{}/stat", dead.as_raw_pid());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut early = Some(vec![dead]);
        let mut lists = || early.take().unwrap_or_else(children);
        let found = kill_orphans_with(leader, false, Duration::from_secs(10), &mut lists);
        let found: Vec<_> = found.iter().map(|p| (p.name.as_str(), p.survived)).collect();
        assert_eq!(found, [("sleep", false)]);
        let _ = ended.wait();
    }

    /// Children in other groups belong to the program that uses this library. For example, GNU timeout makes a group of
    /// its own.
    #[test]
    fn foreign_children_are_neither_killed_nor_reaped() {
        let sleeper = || Command::new("sleep").arg("606").process_group(0).spawn().unwrap();
        let by_another = std::thread::Builder::new().spawn(move || {
            // When this thread ends, Linux gives its child to the first thread. `kill_orphans` in another test must not
            // kill that child.
            let mut command = Command::new("sleep");
            let (child, leader) = start(command.arg("606").process_group(0)).unwrap();
            let listed = children().contains(&Pid::from_child(&child));
            (child, leader, listed)
        });
        let (mut of_another, leader, listed) = by_another.unwrap().join().unwrap();
        assert!(!listed, "the first thread did not start it");

        let mut before = sleeper();
        let mut dead = Command::new("true").process_group(0).spawn().unwrap();
        let listed = [&before, &dead].map(Pid::from_child);
        // The state Z in /proc means that the process has ended.
        while !read_stat(listed[1]).contains(") Z ") {
            std::thread::sleep(POLL_INTERVAL);
        }
        let since = parse_start(&read_stat(listed[1])).unwrap() + 1;
        let running = RunningLeaders { leaders: BTreeMap::new(), since };
        assert_eq!(other_orphans(&running, listed.to_vec()), (Vec::new(), true));
        assert!(dead.wait().unwrap().success(), "its status is still there");
        for child in [&mut of_another, &mut before] {
            assert_eq!(child.try_wait().unwrap(), None, "it sleeps");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        super::running().leaders.remove(&leader.pid);
    }
}
