//! Measures the processor time of a child and its descendants.

use std::fs;

use rustix::process::Pid;

use crate::group::{self, THREADS, parse_stat, parse_times};
use crate::work::{Activity, ProcessorUse};

/// Maximum number of processes that one check examines, because a program may have started many.
const PROCESSES: usize = 16;

/// Measures the processor time of a program and of at most 15 descendants, with at most 64 threads in each process.
fn activity(leader: Pid, progress: &str) -> Activity {
    let mut activity = Activity::default();
    for pid in process_tree(leader) {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads.take(THREADS) {
            let stat = fs::read(thread.path().join("stat")).unwrap_or_default();
            let stat = String::from_utf8_lossy(&stat);
            let (Some((name, ..)), Some((user, system)), Ok(id)) =
                (parse_stat(&stat), parse_times(&stat), thread.file_name().into_string())
            else {
                continue;
            };
            if name.starts_with(progress) {
                activity.progress.insert(id, user + system);
            } else {
                activity.others.insert(id, (user, system));
            }
        }
    }
    activity
}

/// Returns the ids of a process and its descendants, at most 16.
pub(crate) fn process_tree(leader: Pid) -> Vec<i32> {
    let mut family = vec![leader.as_raw_pid()];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied().filter(|_| family.len() < PROCESSES) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks.take(PROCESSES) {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            family.extend(
                children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()),
            );
        }
    }
    family.truncate(PROCESSES);
    family
}

/// Returns the processor use of a child, from which [`Silence`](crate::silence::Silence) computes how long the child
/// has been silent. `progress` is [`Limits::progress`](crate::Limits::progress). Returns `None` if Linux does not
/// report the processor time.
pub(crate) fn processor_use(leader: Pid, progress: Option<&str>) -> Option<ProcessorUse> {
    let mut work = group::work(leader)?;
    work.activity = progress.map(|progress| activity(leader, progress));
    Some(work)
}
