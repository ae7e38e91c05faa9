//! Reads the call stacks of a child that reached a time limit: for each thread, its call stack and the function of the
//! Linux kernel in which it waits.
//!
//! The child may be malicious, and so may the files that it has mapped. This process only copies memory and registers
//! of the child, and sends the copies to another process, which runs [`unwind_copies`]. That process reads the files
//! and unwinds the call stacks, under limits that the operating system enforces.

mod copies;
mod crash;
mod looker;
mod modules;
mod stopped;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::{Cancel, ChildEnd, Limits, Line, Observed, StopReason, group};
use copies::{CopiedProcess, CopiedThread, Copies, Registers};
use stopped::Stopped;

pub use copies::Call;
pub use crash::{CrashStacks, ThreadCalls, read_crash};
pub use looker::unwind_copies;

/// Maximum number of processes that are examined; a program may have started many.
const PROCESSES: usize = 16;

/// Maximum number of threads of one process that are examined.
const THREADS: usize = 64;

/// Time limit for stopping all threads, one after the other.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of the process that unwinds the call stacks in the copies.
const UNWIND_TIMEOUT: Duration = Duration::from_secs(12);

/// Maximum number of bytes that are copied from a process's list of mappings.
const MAPS_BYTES: u64 = 4 << 20;

/// Maximum number of bytes that are copied from a thread's stack.
const STACK_BYTES: usize = 64 << 10;

/// Maximum number of bytes that are copied altogether. Threads beyond that are listed without their call stacks.
const COPIED_BYTES: usize = 32 << 20;

/// A thread of the child, and what is known about it.
struct Thread {
    pid: i32,
    tid: i32,
    name: String,
    state: String,
    /// Name of the Linux kernel's function in which the thread sleeps; empty or `0` if Linux does not report it.
    waits: String,
    /// True if the thread's registers and stack were copied.
    is_copied: bool,
}

/// Type of the function [`run`](crate::run). `run` calls this module and passes itself, because this module uses it to
/// start the process that unwinds the call stacks.
type Run = fn(Command, &[u8], &Limits, &Cancel, &mut dyn FnMut(&Line)) -> Observed;

/// Returns one line for each thread in the process group, beginning with the leader's first thread. If the call stacks
/// of some threads could not be read, a line with the reason comes first. Each thread is stopped for a moment to copy
/// its registers and stack, and then continues. `looker` is the command line of a process that runs
/// [`unwind_copies`].
pub(crate) fn thread_stacks(
    leader: Pid,
    looker: &[OsString],
    cancel: &Cancel,
    run: Run,
) -> Vec<String> {
    let mut pids = group::member_pids(leader);
    pids.sort_unstable_by_key(|pid| (*pid != leader.as_raw_pid(), *pid));
    pids.truncate(PROCESSES);
    let until = Instant::now() + STOP_TIMEOUT;
    let (mut threads, mut copies, mut more) = (Vec::new(), Copies::default(), Vec::new());
    for pid in pids {
        let left_out = copy(pid, None, &mut threads, &mut copies, &|| {
            !cancel.is_cancelled() && Instant::now() < until
        });
        if left_out > 0 {
            more.push(format!("process {pid} has {left_out} more threads"));
        }
    }
    let copied = threads.iter().filter(|thread| thread.is_copied).count();
    let (calls, failed) = match copied {
        0 => (Vec::new(), None),
        _ => calls(&copies, looker, cancel, run),
    };
    let lacking = copied.saturating_sub(calls.len());
    let failed =
        failed.map(|why| format!("the calls of {lacking} threads could not be read: {why}"));
    let mut calls = calls.into_iter();
    let line = |thread: &Thread| {
        let calls = thread.is_copied.then(|| calls.next()).flatten();
        describe(thread, &calls.unwrap_or_default())
    };
    let lines: Vec<String> = threads.iter().map(line).collect();
    failed.into_iter().chain(lines).chain(more).collect()
}

/// Copies the threads of a process, and returns the number of those that were left out. Threads are stopped only while
/// `goes_on` returns true. Appends the threads to `threads` and the copied bytes to `copies`. `known`, if given, is the
/// id of a thread that waits in a signal handler, and its registers from before the signal.
fn copy(
    pid: i32,
    known: Option<(i32, Registers)>,
    threads: &mut Vec<Thread>,
    copies: &mut Copies,
    goes_on: &dyn Fn() -> bool,
) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut tids: Vec<i32> =
        tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    let known_tid = known.map(|(tid, _)| tid);
    tids.sort_unstable_by_key(|&tid| (Some(tid) != known_tid, tid));
    let left_out = tids.len().saturating_sub(THREADS);
    tids.truncate(THREADS);
    let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).ok();
    let memory = open("mem");
    let before = copies.bytes.len();
    let room = (COPIED_BYTES - before) as u64;
    // If the process has ended, there is nothing to copy.
    let maps =
        open("maps").map(|maps| maps.take(MAPS_BYTES.min(room)).read_to_end(&mut copies.bytes));
    let mut process = CopiedProcess { pid, maps: copies.bytes.len() - before, threads: Vec::new() };
    for tid in tids {
        // The thread chooses its name, which need not be UTF-8.
        let file = |name: &str| {
            let bytes = fs::read(format!("/proc/{pid}/task/{tid}/{name}"))?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (Ok(name), Ok(stat)) = (file("comm"), file("stat")) else { continue };
        let Some((_, state, _)) = group::parse_stat(&stat) else { continue };
        let waits = file("wchan").unwrap_or_default();
        // A thread in an uninterruptible wait cannot be stopped.
        let stops = maps.is_some() && state != "D" && goes_on();
        let stopped = stops.then(|| Stopped::stop(tid)).flatten();
        let given = known.filter(|(known, _)| *known == tid).map(|(_, registers)| registers);
        let registers = given.or_else(|| stopped.as_ref().and_then(Stopped::registers));
        let copied = registers.zip(memory.as_ref()).map(|(registers, memory)| {
            let mut stack = vec![0; STACK_BYTES.min(COPIED_BYTES - copies.bytes.len())];
            let bytes = memory.read_at(&mut stack, registers.stack).unwrap_or_default();
            copies.bytes.extend_from_slice(&stack[..bytes]);
            CopiedThread { registers, bytes }
        });
        let is_copied = copied.is_some();
        process.threads.extend(copied);
        let (name, state) = (name.trim_end().to_owned(), state.to_owned());
        threads.push(Thread { pid, tid, name, state, waits, is_copied });
    }
    copies.processes.push(process);
    left_out
}

/// Returns the call stack of each copied thread, in the order of the threads, and the reason if some are missing.
fn calls(
    copies: &Copies,
    looker: &[OsString],
    cancel: &Cancel,
    run: Run,
) -> (Vec<Vec<Call>>, Option<String>) {
    let Some((program, arguments)) = looker.split_first() else {
        return (Vec::new(), Some("no program that can read them was found".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    let limits = Limits {
        total: UNWIND_TIMEOUT,
        quiet: Duration::MAX,
        grace: Duration::ZERO,
        reap: Duration::from_secs(1),
        ..Limits::default()
    };
    let seen = run(command, &copies.to_orders(), &limits, cancel, &mut |_| {});
    let calls = seen.lines.iter().filter_map(|line| serde_json::from_slice(&line.text).ok());
    let calls = calls.collect();
    let by = "the process that reads them";
    let why = match seen.ended {
        ChildEnd::Exited(0) => return (calls, None),
        ChildEnd::Exited(code) => {
            format!("{by} exited with {code}: {}", seen.stderr.to_text().trim())
        }
        ChildEnd::Signalled { signal: libc::SIGXCPU, .. } => {
            format!("{by} took {} s of processor time", looker::CPU_SECONDS)
        }
        ChildEnd::Signalled { signal: libc::SIGABRT, .. } => {
            format!("{by} needed more than {} MiB of memory", looker::MEMORY_BYTES >> 20)
        }
        ChildEnd::Signalled { signal, .. } => format!("signal {signal} ended {by}"),
        ChildEnd::Stopped { reason: StopReason::Total, .. } => {
            format!("{by} took {} s", UNWIND_TIMEOUT.as_secs())
        }
        ChildEnd::Stopped { reason: StopReason::Cancelled, .. } => {
            "the run was cancelled".to_owned()
        }
        ChildEnd::SpawnFailed(error) => format!("{by} could not be started: {error}"),
        ended => format!("{by} could not be watched to its end: {ended:?}"),
    };
    (calls, Some(why))
}

/// Describes what one thread does, in one line.
fn describe(thread: &Thread, calls: &[Call]) -> String {
    let Thread { pid, tid, name, state, waits, .. } = thread;
    // Linux writes `0` if it does not report where a thread sleeps.
    let does = match (state.as_str(), waits.as_str()) {
        ("R", _) => "runs".to_owned(),
        ("D", "" | "0") => "sleeps in the kernel and ignores signals".to_owned(),
        ("D", waits) => format!("sleeps in the kernel's {waits} and ignores signals"),
        ("T" | "t", _) => "is stopped".to_owned(),
        (_, "" | "0") => "sleeps".to_owned(),
        (_, waits) => format!("sleeps in the kernel's {waits}"),
    };
    let calls = match calls {
        [] => String::new(),
        calls => {
            let calls: Vec<String> = calls.iter().map(Call::to_string).collect();
            format!("; {}", calls.join(" < "))
        }
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
        let call = |name: &str| Call {
            file: "a.so".to_owned(),
            function: Some(name.to_owned()),
            ..Call::default()
        };
        let calls: Vec<Call> = calls.iter().map(|name| call(name)).collect();
        let (name, state, waits) = ("a b".to_owned(), state.to_owned(), waits.to_owned());
        let thread = Thread { pid: 7, tid: 8, name, state, waits, is_copied: true };
        assert_eq!(describe(&thread, &calls), expected);
    }

    #[test]
    fn describes_threads() {
        check("R", "0", &[], "process 7, thread 8 `a b` runs");
        check(
            "S",
            "futex_do_wait",
            &["read", "main"],
            "process 7, thread 8 `a b` sleeps in the kernel's futex_do_wait; read (a.so) < main (a.so)",
        );
        check(
            "D",
            "amdgpu_fence_wait",
            &[],
            "process 7, thread 8 `a b` sleeps in the kernel's amdgpu_fence_wait and ignores signals",
        );
        check("T", "", &[], "process 7, thread 8 `a b` is stopped");
        check("S", "0", &[], "process 7, thread 8 `a b` sleeps");
    }

    /// On machines without `pidfd_open`, a thread waits for the end of the child. It must not mistake a stop for the
    /// end.
    #[test]
    fn stopped_child_has_not_ended() {
        let mut sleep = Command::new("sleep");
        sleep.arg("613").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = sleep.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let ended = ended::wait_in_thread(pid).unwrap();
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
