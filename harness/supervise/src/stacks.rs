//! Reads the stacks of a child that reached a time limit: the kernel function in which each thread waits, and its chain
//! of calls.

mod bounded;
mod modules;
mod stopped;

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::group;
use bounded::Budget;
use modules::Modules;
use stopped::Stopped;

/// Maximum number of processes that are examined; a program may have started many.
const PROCESSES: usize = 16;

/// Maximum number of threads of one process that are examined.
const THREADS: usize = 64;

/// Maximum number of calls that are listed for one thread, from the innermost.
const CALLS: usize = 20;

/// Time limit for stopping the threads one after the other, and again for looking up the names of their calls.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of bytes of mapped files that are read for one process. The tables of LLVM's library have
/// 9 MB.
const FILE_BYTES: u64 = 128 << 20;

/// Returns one line for each thread of the group, beginning with the leader's first thread. Each thread is stopped for
/// a moment to read its registers and stack, and then continues.
pub(crate) fn of(leader: Pid) -> Vec<String> {
    let mut pids = group::numbers(leader);
    pids.sort_unstable_by_key(|pid| (*pid != leader.as_raw_pid(), *pid));
    pids.truncate(PROCESSES);
    let until = Instant::now() + PATIENCE;
    pids.into_iter().flat_map(|pid| process(pid, until)).collect()
}

/// Returns one line for each thread of a process. After `until` no more threads are stopped.
fn process(pid: i32, until: Instant) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<i32> =
        tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    let left_out = threads.len().saturating_sub(THREADS);
    threads.truncate(THREADS);
    let budget = Budget::new(FILE_BYTES, until + PATIENCE);
    let modules = Modules::of(pid, budget);
    let looked_at = |tid: i32| {
        let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}"));
        let (name, stat) = (file("comm").ok()?, file("stat").ok()?);
        let (_, state, _) = group::parse_stat(&stat)?;
        let waits = file("wchan").unwrap_or_default();
        // A thread in an uninterruptible wait cannot be stopped.
        let stops = state != "D" && Instant::now() < until;
        let stopped = stops.then(|| Stopped::stop(tid)).flatten();
        let at = stopped.as_ref().and_then(Stopped::registers);
        let calls = at.zip(modules.as_ref());
        let calls = calls.map(|(at, modules)| modules.calls(&at, CALLS)).unwrap_or_default();
        Some((tid, name, state.to_owned(), waits, calls))
    };
    // Looking up names takes longest. All threads are read and released before, so that no thread waits, or lacks its
    // calls, because of another one's names.
    let threads: Vec<_> = threads.into_iter().filter_map(looked_at).collect();
    let line = |(tid, name, state, waits, calls): (i32, String, String, String, Vec<u64>)| {
        let named = |call| modules.as_ref().map(|modules| modules.named(call));
        let calls: Vec<String> = calls.into_iter().filter_map(named).collect();
        describe(pid, tid, name.trim_end(), &state, &waits, &calls)
    };
    let mut lines: Vec<String> = threads.into_iter().map(line).collect();
    if left_out > 0 {
        lines.push(format!("process {pid} has {left_out} more threads"));
    }
    lines
}

/// Describes one thread. `waits` is the kernel function in which it sleeps; empty or `0` if the kernel does not report
/// it.
fn describe(pid: i32, tid: i32, name: &str, state: &str, waits: &str, calls: &[String]) -> String {
    let does = match (state, waits) {
        ("R", _) => "runs".to_owned(),
        ("D", "" | "0") => "sleeps in the kernel and takes no signal".to_owned(),
        ("D", waits) => format!("sleeps in the kernel's {waits} and takes no signal"),
        ("T" | "t", _) => "is stopped".to_owned(),
        (_, "" | "0") => "sleeps".to_owned(),
        (_, waits) => format!("sleeps in the kernel's {waits}"),
    };
    let calls = match calls {
        [] => String::new(),
        calls => format!("; {}", calls.join(" < ")),
    };
    format!("process {pid}, thread {tid} `{name}` {does}{calls}")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::process::{Command, Stdio};

    use rustix::event::PollFlags;

    use super::*;
    use crate::ended;

    #[track_caller]
    fn check(state: &str, waits: &str, calls: &[&str], expected: &str) {
        let calls: Vec<String> = calls.iter().map(|call| (*call).to_owned()).collect();
        assert_eq!(describe(7, 8, "a b", state, waits, &calls), expected);
    }

    #[test]
    fn describes_threads() {
        check("R", "0", &[], "process 7, thread 8 `a b` runs");
        check(
            "S",
            "futex_do_wait",
            &["read", "main"],
            "process 7, thread 8 `a b` sleeps in the kernel's futex_do_wait; read < main",
        );
        check(
            "D",
            "amdgpu_fence_wait",
            &[],
            "process 7, thread 8 `a b` sleeps in the kernel's amdgpu_fence_wait and takes no signal",
        );
        check("T", "", &[], "process 7, thread 8 `a b` is stopped");
        check("S", "0", &[], "process 7, thread 8 `a b` sleeps");
    }

    /// Only kernels without `pidfd_open` need the thread.
    #[test]
    fn stopped_child_has_not_ended() {
        let mut sleep = Command::new("sleep");
        sleep.arg("613").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = sleep.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let ended = ended::by_thread(pid).unwrap();
        let is_ready = |limit| {
            let until = Instant::now() + Duration::from_millis(limit);
            let source = [((), ended.as_fd(), PollFlags::IN)];
            !group::wait_ready(&source, Some(until)).unwrap().is_empty()
        };
        let stopped = Stopped::stop(pid.as_raw_pid()).expect("a parent may look");
        assert!(!is_ready(200));
        drop(stopped);
        assert!(!is_ready(50));
        child.kill().unwrap();
        assert!(is_ready(60_000));
        child.wait().unwrap();
    }
}
