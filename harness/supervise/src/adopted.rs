//! Processes that left the group of their child and outlived it: a double fork, a session of their own.
//!
//! A worker is a *subreaper* (`PR_SET_CHILD_SUBREAPER`, which it or its starter sets), so that those become its own children while it
//! lives. This process is one too, and gets them when the worker has ended, or at once where a child is no subreaper. Whose they are
//! says a variable that each child is started with and that its own children inherit.
//!
//! A program that uses this library may have children of its own, which are none of ours, even in groups of their own. The kernel hands
//! orphans to the first thread that lives, so children of other threads are nobody's leavings; nor is what was there before.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::Process;
use crate::calls::become_subreaper;
use crate::group::{SETTLE, parse_start, parse_stat};

/// How often a process that is to end is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// The variable that tells whose child a process is.
pub const RUN_VARIABLE: &str = "ROCREPRO_RUN";

/// The leaders of groups whose leavings were not looked at yet.
struct Running {
    /// Their process ids, each with the value of its [`RUN_VARIABLE`].
    leaders: BTreeMap<i32, String>,
    /// When the first of them was started, as [`parse_start`] tells it: what was there before is no leaving of theirs.
    since: u64,
}

/// It is locked while one is started, so that nobody takes a child for a stranger before it is in here.
static RUNNING: Mutex<Running> = Mutex::new(Running { leaders: BTreeMap::new(), since: 0 });

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock()
}

/// A running leader, until it is [cleared](clear).
pub(crate) struct Leader {
    pid: i32,
    run: String,
}

/// Starts a child that leads a group of its own.
pub(crate) fn start(command: &mut Command) -> std::io::Result<(Child, Leader)> {
    let mut running = running();
    become_subreaper().map_err(|error| {
        let why = format!("processes that it leaves could not be found, as prctl fails: {error}");
        std::io::Error::new(error.kind(), why)
    })?;
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let run = format!("{}.{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let child = command.env(RUN_VARIABLE, &run).spawn()?;
    let pid = Pid::from_child(&child).as_raw_pid();
    if running.leaders.is_empty() {
        // A child that nobody has waited for has its line, even where it has ended.
        running.since = parse_start(&read_stat(Pid::from_child(&child))).unwrap_or_default();
    }
    running.leaders.insert(pid, run.clone());
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
        running.leaders.remove(&leader.pid);
    }
    let begun = Instant::now();
    loop {
        let (mut left, settled) = strangers(&running, children());
        left.retain(|(pid, _)| match run_of(*pid) {
            Some(run) if run == leader.run => true,
            Some(run) if running.leaders.values().any(|other| *other == run) => false,
            _ => running.leaders.is_empty(),
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
fn strangers(running: &Running, children: Vec<Pid>) -> (Vec<(Pid, String)>, bool) {
    if children.is_empty() {
        return (Vec::new(), true);
    }
    // In a namespace of its own, `getpgrp` has no number for a group from outside; what is read here agrees with itself.
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

/// The line of `/proc/PID/stat`; empty where there is no such process.
fn read_stat(pid: Pid) -> String {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    String::from_utf8_lossy(&stat).into_owned()
}

/// What a process was started with as its [`RUN_VARIABLE`]; none where it does not say.
fn run_of(pid: Pid) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables
        .find_map(|variable| variable.strip_prefix(RUN_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The children of the first thread of this process, which is the one that gets orphans.
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

    /// Those of the program that uses this library: GNU timeout, for one, makes a group of its own.
    #[test]
    fn children_of_somebody_else_are_neither_ended_nor_waited_for() {
        let sleeper = || Command::new("sleep").arg("606").process_group(0).spawn().unwrap();
        let by_another = std::thread::Builder::new().spawn(move || {
            // The first thread gets it when this one has ended, and what clears up in another test must know it.
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
        // It ends when it has a line that says so.
        while !read_stat(listed[1]).contains(") Z ") {
            std::thread::sleep(PAUSE);
        }
        let since = parse_start(&read_stat(listed[1])).unwrap() + 1;
        let running = Running { leaders: BTreeMap::new(), since };
        assert_eq!(strangers(&running, listed.to_vec()), (Vec::new(), true));
        assert!(dead.wait().unwrap().success(), "its status is still there");
        for child in [&mut of_another, &mut before] {
            assert_eq!(child.try_wait().unwrap(), None, "it sleeps");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        super::running().leaders.remove(&leader.pid);
    }
}
