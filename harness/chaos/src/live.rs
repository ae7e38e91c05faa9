//! Processes of a run, found in /proc.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long the kernel may take until a killed process is gone.
const GONE: Duration = Duration::from_secs(3);

/// Where a worker that is waited for writes its number, in the folder of the run.
pub(crate) const WORKER: &str = "worker.pid";

/// A command that runs.
pub(crate) struct Live<'a> {
    /// The command itself.
    pub(crate) pid: Pid,
    /// The folder of its run.
    pub(crate) folder: &'a Path,
}

impl Live<'_> {
    /// Waits until the worker has written its number where `pid=FILE@POINT` told it to; none where it never came so far.
    pub(crate) fn worker(&self) -> Option<Pid> {
        let path = self.folder.join(WORKER);
        self.file(&path)
            .then(|| Pid::from_raw(fs::read_to_string(&path).ok()?.parse().ok()?))
            .flatten()
    }

    /// Waits for a file that the run makes.
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

    /// Sends a signal to the command.
    pub(crate) fn send(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }
}

/// Every process.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// Whether a file of a process in /proc contains these bytes.
fn says(pid: Pid, file: &str, bytes: &[u8]) -> bool {
    let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    text.windows(bytes.len()).any(|window| window == bytes)
}

/// Whether a process belongs to the run of a folder: by its environment, arguments or working directory.
fn is_of(pid: Pid, folder: &Path) -> bool {
    if pid == rustix::process::getpid() {
        return false;
    }
    let name = folder.as_os_str().as_bytes();
    let inside = |link: &str| {
        fs::read_link(format!("/proc/{pid}/{link}")).is_ok_and(|path| path.starts_with(folder))
    };
    says(pid, "environ", name) || says(pid, "cmdline", name) || inside("cwd")
}

fn is_dead(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_none_or(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('Z' | 'X')))
}

/// The processes of a run that do not go away; they are ended.
pub(crate) fn left_of(folder: &Path) -> Vec<String> {
    let until = Instant::now() + GONE;
    loop {
        let left: Vec<Pid> =
            processes().filter(|&pid| is_of(pid, folder) && !is_dead(pid)).collect();
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

/// The living children of a process.
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

/// A process in words.
pub(crate) fn describe(pid: Pid) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
}

/// Ends a process of ours.
pub(crate) fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}
