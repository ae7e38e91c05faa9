//! The processes that a session started: the kernel log speaks of them by their numbers, and one that could not be killed may still use
//! its GPU.

use std::{collections::BTreeSet, fs};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use supervise::Observed;

/// The processes that a session started.
#[derive(Default)]
pub struct Processes {
    all: Mutex<BTreeSet<u32>>,
    /// With the first lock of the GPU that each was on.
    stuck: Mutex<Vec<(String, Stuck)>>,
}

/// A process that outlived SIGKILL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    pub(crate) pid: i32,
    /// When it was started, by which it is told from a later one of its number.
    started: String,
}

impl Stuck {
    /// A process of this number, where there is one.
    pub(crate) fn of(pid: i32) -> Option<Stuck> {
        Some(Stuck { pid, started: runs_since(pid)? })
    }

    /// Whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        runs_since(self.pid).as_ref() == Some(&self.started)
    }
}

impl Processes {
    /// Takes note of one that is over, or could not be ended, on the GPU with this lock.
    pub fn note(&self, seen: &Observed, lock: Option<&str>) {
        self.all.lock().extend(seen.pid);
        let survived = seen.left_behind.iter().filter(|process| process.survived);
        let stuck =
            survived.filter_map(|process| Some((lock?.to_owned(), Stuck::of(process.pid)?)));
        self.stuck.lock().extend(stuck);
    }

    /// Returns their ids.
    pub fn all(&self) -> BTreeSet<u32> {
        self.all.lock().clone()
    }

    /// Those that could not be killed on the GPU with this lock and that nobody has asked for yet.
    pub(crate) fn take_stuck(&self, lock: &str) -> Vec<Stuck> {
        let mut stuck = self.stuck.lock();
        let taken = stuck.extract_if(.., |(on, _)| on == lock);
        taken.map(|(_, stuck)| stuck).collect()
    }
}

/// When a process was started, in the words of proc_pid_stat(5); none where it is gone, or has let go of all that it held.
fn runs_since(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A name may hold spaces and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!["Z", "X"].contains(&state)).then(|| fields.nth(18).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_runs_until_it_has_let_go() {
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
        // It is nobody's any more, and not yet waited for.
        while runs_since(pid).is_some() {}
        assert!(!stuck.is_there());
        child.wait().unwrap();
        assert_eq!(runs_since(pid), None);
    }
}
