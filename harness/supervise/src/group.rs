//! Sends signals to the process group of a child. Finds and kills the members of the group after its leader has ended.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group,
};

use crate::Cancel;
use crate::ended;
use crate::work::ProcessorUse;

/// Time that the other processes of a group have to end by themselves after the end of the leader. Processes of a
/// pipeline, and processes that a signal to the group has killed, end shortly after the leader.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(200);

/// A process that a supervised child left running, in the child's process group or outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Command name that the Linux kernel keeps, at most 15 bytes; see `proc_pid_comm(5)`.
    pub name: String,
    /// Command line, one text for each word; see `/proc/PID/cmdline` in `proc_pid_cmdline(5)`. A process that was
    /// forked and started no other program has the command line of its parent.
    pub command: Vec<String>,
    /// True if the process still existed after SIGKILL and the wait of [`Limits::reap`].
    ///
    /// [`Limits::reap`]: crate::Limits::reap
    pub survived: bool,
}

/// Function that sends a signal to a process group. Tests pass a function that drops the signal, which simulates an
/// uninterruptible child.
pub(crate) type SendSignal = fn(Pid, Signal);

/// Sends a signal to a process group. The leader must not have been reaped, or a member must be alive. Otherwise Linux
/// may have reused the id of the group.
pub(crate) fn send(group: Pid, signal: Signal) {
    // The last member may have ended in the meantime. A member that this process may not signal, because it runs as
    // another user, is reported as a survivor.
    let _ = kill_process_group(group, signal);
}

/// Waits until one of `sources` is ready, or until the time `until`; `None` means without a time limit. A source is a
/// name, a file descriptor and the events to wait for. Returns the names of the sources that are ready. A file
/// descriptor whose other end is closed counts as ready.
pub(crate) fn wait_ready<T: Copy>(
    sources: &[(T, BorrowedFd<'_>, PollFlags)],
    until: Option<Instant>,
) -> io::Result<Vec<T>> {
    let mut polled: Vec<_> =
        sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let ready = sources.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
    Ok(ready.map(|((name, ..), _)| *name).collect())
}

/// Waits up to `settle` until the members of a group have ended, or until a request to cancel. Kills the other members,
/// waits up to `reap` for their end, and returns them. The leader must have been reaped, unless it could not be killed.
///
/// Linux does not reuse the id of a group that has members. The signal could reach another group only if, in the
/// moments between the check and the kill, the last member ended and all other process ids were used up.
pub(crate) fn kill_group(
    group: Pid,
    settle: Duration,
    reap: Duration,
    cancel: &Cancel,
    send: SendSignal,
) -> Vec<Process> {
    // This call takes a microsecond; reading /proc takes milliseconds on a large machine.
    if test_kill_process_group(group) == Err(Errno::SRCH) {
        return Vec::new();
    }
    wait_ended(members(group), group, settle, Some(cancel));
    let left = members(group);
    if left.is_empty() {
        return Vec::new();
    }
    let mut processes: Vec<Process> = left.iter().map(|(process, _)| process.clone()).collect();
    send(group, Signal::KILL);
    let survivors = wait_ended(left, group, reap, None);
    for process in &mut processes {
        process.survived = survivors.contains(&process.pid);
    }
    processes
}

pub(crate) fn member_pids(group: Pid) -> Vec<i32> {
    members(group).iter().map(|(process, _)| process.pid).collect()
}

/// A process, and a file descriptor that becomes ready when the process has ended. The descriptor is `None` if Linux
/// does not support such descriptors.
type GroupMember = (Process, Option<OwnedFd>);

/// Returns the members of a group that have not ended, including a living leader.
fn members(group: Pid) -> Vec<GroupMember> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        living_member(pid, group)?;
        let fd = match pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
            Ok(fd) => Some(fd),
            Err(error) if ended::is_unavailable(error) => None,
            Err(_) => return None,
        };
        // The name is read again, because only now does the open descriptor guarantee that the id belongs to the same
        // process.
        let name = living_member(pid, group)?;
        Some((Process { pid, name, command: command_line(pid), survived: false }, fd))
    })
    .collect()
}

/// Returns the words of a process's command line. The list is empty if the process has ended.
pub(crate) fn command_line(pid: i32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    let words =
        text.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    if text.is_empty() { Vec::new() } else { words.collect() }
}

/// Returns the name of a process if the process is a member of the group and has not ended.
fn living_member(pid: i32, group: Pid) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (name, state, of) = parse_stat(&stat)?;
    (of == group.as_raw_pid() && !matches!(state, "Z" | "X")).then(|| name.to_owned())
}

/// Returns true if a thread of a process runs or waits for a processor.
pub(crate) fn can_run(pid: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid()));
    threads.into_iter().flatten().flatten().any(|thread| {
        let stat = fs::read(thread.path().join("stat")).unwrap_or_default();
        parse_stat(&String::from_utf8_lossy(&stat)).is_some_and(|(_, state, _)| state == "R")
    })
}

/// Maximum number of threads of one process whose times are read. Reading the times of many threads that all compute
/// would take too long.
pub(crate) const THREADS: usize = 64;

/// Returns the processor use of a process and its first 64 threads, or `None` if Linux does not report it.
pub(crate) fn work(pid: Pid) -> Option<ProcessorUse> {
    let process = format!("/proc/{}", pid.as_raw_pid());
    let stat = fs::read(format!("{process}/stat")).ok()?;
    let (cpu, pages) = parse_work(&String::from_utf8_lossy(&stat))?;
    let threads = fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
    let queued = threads.take(THREADS).filter_map(|thread| {
        let statistics = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((thread.file_name().into_string().ok()?, parse_queued(&statistics)?))
    });
    Some(ProcessorUse { cpu, queued: queued.collect(), pages, activity: None })
}

/// Parses the second number of `/proc/PID/task/TID/schedstat`: the time that the thread has waited on a run queue, in
/// nanoseconds (Documentation/scheduler/sched-stats.rst). A kernel without these statistics writes 0.
fn parse_queued(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Parses a line of `/proc/PID/stat`. Returns the sum of `utime` and `stime`, and the number of page reads from disk
/// (`majflt`).
fn parse_work(stat: &str) -> Option<(Duration, u64)> {
    let (user, system) = parse_times(stat)?;
    let (_, after) = stat.rsplit_once(')')?;
    Some((user + system, after.split_ascii_whitespace().nth(9)?.parse().ok()?))
}

/// Parses the processor times in user mode and in system calls, `utime` and `stime`, of a line of `/proc/PID/stat` or
/// `/proc/PID/task/TID/stat`.
pub(crate) fn parse_times(stat: &str) -> Option<(Duration, Duration)> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut times = after.split_ascii_whitespace().skip(11).map(|ticks| ticks.parse::<u64>().ok());
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let mut time = || Some(Duration::from_millis(times.next()?? * 1000 / per_second));
    Some((time()?, time()?))
}

/// Parses name, state and process group of a line of `/proc/PID/stat`; see `proc_pid_stat(5)`. The name may contain
/// spaces and parentheses, so it ends at the last `)`.
pub(crate) fn parse_stat(stat: &str) -> Option<(&str, &str, i32)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((name, state, group))
}

/// Parses the start time of a process, in clock ticks since boot: field 22 of a line of `/proc/PID/stat`; see
/// `proc_pid_stat(5)`.
pub(crate) fn parse_start(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Time between two checks of processes for which no descriptor is available.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until all members of a group have ended, at most for `limit`, or until a request to cancel. Returns the ids of
/// the members that have not ended.
fn wait_ended(
    mut running: Vec<GroupMember>,
    group: Pid,
    limit: Duration,
    cancel: Option<&Cancel>,
) -> Vec<i32> {
    let until = Instant::now().checked_add(limit);
    while !running.is_empty() {
        let mut sources: Vec<_> = running
            .iter()
            .filter_map(|(p, fd)| Some((p.pid, fd.as_ref()?.as_fd(), PollFlags::IN)))
            .collect();
        let all_are_watched = sources.len() == running.len();
        // No process has the id 0.
        sources.extend(cancel.map(|cancel| (0, cancel.wake(), PollFlags::IN)));
        let look = Instant::now().checked_add(POLL_INTERVAL).filter(|_| !all_are_watched);
        let next = [look, until].into_iter().flatten().min();
        // Polling fails only if the kernel is out of memory.
        let Ok(ended) = wait_ready(&sources, next) else { break };
        if ended.contains(&0)
            || ended.is_empty() && until.is_some_and(|until| Instant::now() >= until)
        {
            break;
        }
        running.retain(|(process, fd)| match fd {
            Some(_) => !ended.contains(&process.pid),
            None => living_member(process.pid, group).is_some(),
        });
    }
    running.iter().map(|(process, _)| process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stat: &str, expected: Option<(&str, &str, i32)>) {
        assert_eq!(parse_stat(stat), expected, "{stat}");
    }

    #[test]
    fn parses_stat_lines() {
        check("42 (sh) S 1 41 40 0 -1 4194304", Some(("sh", "S", 41)));
        check("42 (a) b (c) D 1 7 7 0", Some(("a) b (c", "D", 7)));
        check("42 () Z 1 7", Some(("", "Z", 7)));
        check("42 (sh) S 1", None);
        check("", None);
    }

    #[test]
    fn parses_processor_times() {
        let line = "42 (a) b (c) R 1 7 7 0 -1 4194560 1 2 3 4 30 12 0 0 20 0 1 0 100";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(parse_work(line), Some((Duration::from_millis(42 * 1000 / ticks), 3)));
        assert_eq!(parse_start(line), Some(100));
        assert_eq!(parse_start("42 (sh) R 1 7"), None);
        assert_eq!(parse_work("42 (sh) R 1 7"), None);
        assert_eq!(parse_queued("981 2000000 5\n"), Some(Duration::from_millis(2)));
        assert_eq!(parse_queued(""), None);
    }

    #[test]
    fn waiting_for_a_processor_is_measured() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let all = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap());
        let spin = || {
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        let mut both = [spin(), spin()];
        let pids = [Pid::from_child(&both[0]), Pid::from_child(&both[1])];
        pids.iter().for_each(|pid| sched_setaffinity(Some(*pid), &one).unwrap());
        let begun = Instant::now();
        let waited = |pid: Pid| {
            let all = work(pid).map(|work| work.queued).unwrap_or_default();
            all.into_values().any(|queued| queued >= Duration::from_millis(50))
        };
        while !pids.into_iter().any(waited) && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = pids.map(waited);
        for child in &mut both {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(seen.contains(&true), "neither waited for the other");
    }
}
