//! The processes that a session started: the kernel log speaks of them by their numbers, and one that could not be killed may still use
//! its GPU.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Mutex, PoisonError},
};

use supervise::Observed;

#[derive(Default)]
pub(crate) struct Processes {
    all: Mutex<BTreeSet<u32>>,
    stuck: Mutex<Vec<Stuck>>,
}

/// A process that outlived SIGKILL.
struct Stuck {
    /// The first lock of the GPU that it was on.
    lock: String,
    pid: i32,
    /// When it was started, by which it is told from a later one of its number.
    started: String,
}

impl Processes {
    /// Takes note of one that is over, or could not be ended, on the GPU with this lock.
    pub(crate) fn note(&self, seen: &Observed, lock: Option<&str>) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).extend(seen.pid);
        let survived = seen.left_behind.iter().filter(|process| process.survived);
        let stuck = survived.filter_map(|process| {
            let started = runs_since(process.pid)?;
            Some(Stuck { lock: lock?.to_owned(), pid: process.pid, started })
        });
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).extend(stuck);
    }

    pub(crate) fn all(&self) -> BTreeSet<u32> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether one that could not be killed is still there.
    pub(crate) fn stay_on(&self, lock: &str) -> bool {
        let stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck
            .iter()
            .any(|one| one.lock == lock && runs_since(one.pid).as_ref() == Some(&one.started))
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
        let since = runs_since(pid).unwrap();
        assert!(since.parse::<u64>().unwrap() > 0);
        let stuck = |started: &str| {
            let one = Stuck { lock: "a".into(), pid, started: started.to_owned() };
            Processes { stuck: Mutex::new(vec![one]), ..Processes::default() }
        };
        assert!(stuck(&since).stay_on("a") && !stuck(&since).stay_on("b"));
        assert!(!stuck("7").stay_on("a"));
        drop(child.stdin.take());
        // It is nobody's any more, and not yet waited for.
        while runs_since(pid).is_some() {}
        assert!(!stuck(&since).stay_on("a"));
        child.wait().unwrap();
        assert_eq!(runs_since(pid), None);
    }
}
