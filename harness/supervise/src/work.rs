//! Measures what a program and its descendants compute while the program prints nothing.

use std::{collections::BTreeMap, fs, time::Duration};

use rustix::process::Pid;

use crate::group::{self, THREADS, parse_stat, parse_times};

/// Maximum number of processes that one check examines, because a program may have started many.
const PROCESSES: usize = 16;

/// Processor time of a program and its descendants.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Activity {
    /// Processor time of each thread whose name begins with [`Limits::progress`](crate::Limits::progress), by thread
    /// id.
    pub(crate) progress: BTreeMap<String, Duration>,
    /// Processor time in user mode of each other thread, and its processor time in system calls.
    pub(crate) others: BTreeMap<String, (Duration, Duration)>,
}

impl Activity {
    /// Measures a program and at most 15 of its descendants, with at most 64 threads each.
    pub(crate) fn of(leader: Pid, progress: &str) -> Activity {
        let mut activity = Activity::default();
        for pid in family(leader) {
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

    /// Returns the processor time since `before` of the threads whose work is progress.
    pub(crate) fn progressed(&self, before: &Activity) -> Duration {
        let since = |(thread, time): (&String, &Duration)| {
            time.saturating_sub(before.progress.get(thread).copied().unwrap_or_default())
        };
        self.progress.iter().map(since).sum()
    }

    /// Returns the processor time since `before` of the other threads: in user mode, and in system calls.
    pub(crate) fn computed(&self, before: &Activity) -> (Duration, Duration) {
        let since = |(thread, (user, system)): (&String, &(Duration, Duration))| {
            let (user_before, system_before) =
                before.others.get(thread).copied().unwrap_or_default();
            (user.saturating_sub(user_before), system.saturating_sub(system_before))
        };
        let add = |a: (Duration, Duration), b: (Duration, Duration)| (a.0 + b.0, a.1 + b.1);
        self.others.iter().map(since).fold(Default::default(), add)
    }
}

/// Returns the ids of a process and its descendants, at most 16.
pub(crate) fn family(leader: Pid) -> Vec<i32> {
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

/// Returns the processor use of a child, for the measurement of its silence.
pub(crate) fn of(leader: Pid, progress: Option<&str>) -> Option<crate::silence::Work> {
    let mut work = group::work(leader)?;
    work.activity = progress.map(|progress| Activity::of(leader, progress));
    Some(work)
}
