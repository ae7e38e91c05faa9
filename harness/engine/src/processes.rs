//! Keeps a list of the processes that a session started. The Linux kernel's log may name them, and some may outlive
//! SIGKILL.

use std::{collections::BTreeSet, fs};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use supervise::Observed;

/// The processes that a session has started.
#[derive(Default)]
pub struct Processes {
    all: Mutex<BTreeSet<u32>>,
    /// Processes that outlived SIGKILL, each with the first lock of the GPU that it still uses.
    stuck: Mutex<Vec<(String, Stuck)>>,
}

/// A process that outlived SIGKILL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    pub(crate) pid: i32,
    /// Start time of the process, which distinguishes it from a later process with the same id.
    started: String,
}

impl Stuck {
    pub(crate) fn from_pid(pid: i32) -> Option<Stuck> {
        Some(Stuck { pid, started: start_time(pid)? })
    }

    pub(crate) fn is_running(&self) -> bool {
        start_time(self.pid).as_ref() == Some(&self.started)
    }
}

impl Processes {
    /// Adds an observed process to the list. Processes that the observed process left behind and that outlived SIGKILL
    /// are stored together with `lock`, the first lock of the GPU.
    pub fn add(&self, seen: &Observed, lock: Option<&str>) {
        self.all.lock().extend(seen.pid);
        let survived = seen.left_behind.iter().filter(|process| process.survived);
        let stuck =
            survived.filter_map(|process| Some((lock?.to_owned(), Stuck::from_pid(process.pid)?)));
        self.stuck.lock().extend(stuck);
    }

    /// Returns the ids of all processes that the session started.
    pub fn all(&self) -> BTreeSet<u32> {
        self.all.lock().clone()
    }

    /// Removes and returns the processes on a GPU that outlived SIGKILL. `lock` is the GPU's first lock.
    pub(crate) fn take_stuck(&self, lock: &str) -> Vec<Stuck> {
        let mut stuck = self.stuck.lock();
        let taken = stuck.extract_if(.., |(on, _)| on == lock);
        taken.map(|(_, stuck)| stuck).collect()
    }
}

/// Returns the start time of a process from its `stat` file, see proc_pid_stat(5); `None` if the process has ended.
fn start_time(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of a process may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!["Z", "X"].contains(&state)).then(|| fields.nth(18).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn zombie_counts_as_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let stuck = Stuck::from_pid(pid).unwrap();
        assert!(stuck.started.parse::<u64>().unwrap() > 0 && stuck.is_running());
        assert!(!Stuck { pid, started: "7".to_owned() }.is_running());
        let processes = Processes::default();
        processes.stuck.lock().push(("a".to_owned(), stuck.clone()));
        assert_eq!(processes.take_stuck("b"), []);
        assert_eq!(processes.take_stuck("a"), std::slice::from_ref(&stuck));
        assert_eq!(processes.take_stuck("a"), []);
        drop(child.stdin.take());
        // The process is a zombie until its parent waits.
        while start_time(pid).is_some() {}
        assert!(!stuck.is_running());
        child.wait().unwrap();
        assert_eq!(start_time(pid), None);
    }
}
