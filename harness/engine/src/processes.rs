//! The processes of a session, which the kernel log names and which may outlive SIGKILL.

use std::{collections::BTreeSet, fs};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use supervise::Observed;

/// The processes that a session started.
#[derive(Default)]
pub struct Processes {
    all: Mutex<BTreeSet<u32>>,
    /// Unkillable processes, each with the first lock of its GPU.
    stuck: Mutex<Vec<(String, Stuck)>>,
}

/// A process that outlived SIGKILL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    pub(crate) pid: i32,
    /// Start time, because process ids are reused.
    started: String,
}

impl Stuck {
    pub(crate) fn of(pid: i32) -> Option<Stuck> {
        Some(Stuck { pid, started: runs_since(pid)? })
    }

    pub(crate) fn is_there(&self) -> bool {
        runs_since(self.pid).as_ref() == Some(&self.started)
    }
}

impl Processes {
    /// Records a process on the GPU with this lock.
    pub fn note(&self, seen: &Observed, lock: Option<&str>) {
        self.all.lock().extend(seen.pid);
        let survived = seen.left_behind.iter().filter(|process| process.survived);
        let stuck =
            survived.filter_map(|process| Some((lock?.to_owned(), Stuck::of(process.pid)?)));
        self.stuck.lock().extend(stuck);
    }

    /// Returns the ids of all processes.
    pub fn all(&self) -> BTreeSet<u32> {
        self.all.lock().clone()
    }

    /// Removes and returns the unkillable processes of a GPU.
    pub(crate) fn take_stuck(&self, lock: &str) -> Vec<Stuck> {
        let mut stuck = self.stuck.lock();
        let taken = stuck.extract_if(.., |(on, _)| on == lock);
        taken.map(|(_, stuck)| stuck).collect()
    }
}

/// Returns the start time of a process that has not ended, see proc_pid_stat(5).
fn runs_since(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A name may contain spaces and parentheses.
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
        let stuck = Stuck::of(pid).unwrap();
        assert!(stuck.started.parse::<u64>().unwrap() > 0 && stuck.is_there());
        assert!(!Stuck { pid, started: "7".to_owned() }.is_there());
        let processes = Processes::default();
        processes.stuck.lock().push(("a".to_owned(), stuck.clone()));
        assert_eq!(processes.take_stuck("b"), []);
        assert_eq!(processes.take_stuck("a"), std::slice::from_ref(&stuck));
        assert_eq!(processes.take_stuck("a"), []);
        drop(child.stdin.take());
        // The process is a zombie until its parent waits.
        while runs_since(pid).is_some() {}
        assert!(!stuck.is_there());
        child.wait().unwrap();
        assert_eq!(runs_since(pid), None);
    }
}
