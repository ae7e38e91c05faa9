//! Finds and kills the processes of a run, using /proc.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time within which a killed process must disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);

/// Name of the file, in the folder of the run, to which a worker writes its process id.
pub(crate) const WORKER: &str = "worker.pid";

pub(crate) struct RunningCommand<'a> {
    pub(crate) pid: Pid,
    pub(crate) folder: &'a Path,
}

impl RunningCommand<'_> {
    /// Waits until the worker has written its process id, which the action `pid=FILE@POINT` of `c/trouble.c` makes it
    /// do. Returns `None` if the worker never reaches that point of its execution.
    pub(crate) fn worker(&self) -> Option<Pid> {
        let path = self.folder.join(WORKER);
        self.file(&path)
            .then(|| Pid::from_raw(fs::read_to_string(&path).ok()?.parse().ok()?))
            .flatten()
    }

    /// Waits up to 20 s until the run has created a file. Returns true if the file exists.
    pub(crate) fn file(&self, path: &Path) -> bool {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until && !is_dead(self.pid) {
            if path.exists() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        path.exists()
    }

    pub(crate) fn send(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn proc_file_contains(pid: Pid, file: &str, bytes: &[u8]) -> bool {
    let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    text.windows(bytes.len()).any(|window| window == bytes)
}

/// Returns true if a process belongs to the run in a folder, that is, if its environment, arguments or working
/// directory contain the path of the folder.
fn belongs_to(pid: Pid, folder: &Path) -> bool {
    if pid == rustix::process::getpid() {
        return false;
    }
    let name = folder.as_os_str().as_bytes();
    let inside = |link: &str| {
        fs::read_link(format!("/proc/{pid}/{link}")).is_ok_and(|path| path.starts_with(folder))
    };
    proc_file_contains(pid, "environ", name)
        || proc_file_contains(pid, "cmdline", name)
        || inside("cwd")
}

fn is_dead(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_none_or(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('Z' | 'X')))
}

/// Returns the processes of a run that have not ended.
pub(crate) fn alive(folder: &Path) -> Vec<Pid> {
    processes().filter(|&pid| belongs_to(pid, folder) && !is_dead(pid)).collect()
}

/// Waits until the processes of a run have ended. Kills those that remain, and returns descriptions of them.
pub(crate) fn kill_leftovers(folder: &Path) -> Vec<String> {
    let until = Instant::now() + KILL_TIMEOUT;
    loop {
        let left = alive(folder);
        if left.is_empty() {
            return Vec::new();
        }
        if Instant::now() > until {
            let told = left.iter().map(|&pid| describe(pid)).collect();
            left.iter().for_each(|&pid| kill(pid));
            return told;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the child processes of `parent` that have not ended.
pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let is_child = |pid: &Pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ppid = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        ppid == Some(parent.as_raw_pid()) && !is_dead(*pid)
    };
    processes().filter(is_child).collect()
}

pub(crate) fn describe(pid: Pid) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
}

pub(crate) fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}
