//! Supervises one child from its start to the end of its last descendant.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::adopted;
use crate::ended;
use crate::group::{self, SETTLE_TIME, SendSignal, wait_ready};
use crate::pipes::{Pipes, READ_BYTES, WakeSource};
use crate::processor_time;
use crate::silence::Silence;
use crate::stacks;
use crate::suspended::{self, Clock, ProcessCheck};
use crate::{Cancel, ChildEnd, Limits, Line, Log, Observed, StopReason, Usage};

/// Time for which reading continues after the leader has ended, if other processes keep its pipes open. Everything that
/// the leader itself wrote is in the pipes at that time and is always read.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Maximum time between SIGTERM and SIGKILL if the user cancels the run. It is short because the user waits for the
/// end.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// Multiple of [`Limits::reap`] that the supervisor waits at most for a process that was sent SIGKILL, if one of its
/// threads can run. On a busy machine, such a process waits for a processor before it ends.
const MAX_REAP_FACTOR: u32 = 6;

/// Time between two checks of whether a process that was sent SIGKILL can run.
const REAP_PAUSE: Duration = Duration::from_millis(200);

/// State of a child. Times are relative to its start.
#[derive(Clone, Copy)]
enum Phase {
    Running,
    Terminating {
        reason: StopReason,
        until: Duration,
    },
    /// SIGKILL was sent. The supervisor gives up at the time `until`, or at `last` if a thread of the child can still
    /// run.
    Killing {
        reason: StopReason,
        until: Duration,
        last: Duration,
    },
    Draining {
        end: LeaderEnd,
        until: Duration,
    },
}

/// The way in which the leader ended: by itself, or because the supervisor stopped it; `Stuck` if it did not end.
#[derive(Clone, Copy)]
enum LeaderEnd {
    ByItself,
    Stopped { reason: StopReason, forced: bool },
    Stuck { reason: StopReason },
}

/// Starts the program `command` as the leader of a new process group, writes `input` and a newline to its standard
/// input, and returns when the child has ended or could not be killed. If `input` is empty, the child gets an empty
/// standard input. Each event line is passed to `on_line` in this thread as soon as it is read. While `on_line` runs,
/// nothing is read and no limit is enforced.
///
/// When the leader has exited by itself, the other members of its group have the time [`Limits::after`] to end before
/// SIGKILL. After any other end of the leader they have 200 ms. The same applies to descendants that left the group.
/// This process becomes a subreaper to find them.
///
/// Every error is part of the result. The function replaces the streams and the process group that the caller set in
/// `command`.
///
/// # Panics
/// Panics if `on_line` panics. The standard input of the child is then closed, and the child is not reaped.
pub fn run(
    command: Command,
    input: &[u8],
    limits: &Limits,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(&Line),
) -> Observed {
    run_with(command, input, limits, cancel, on_line, group::send)
}

fn run_with(
    mut command: Command,
    input: &[u8],
    limits: &Limits,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(&Line),
    send: SendSignal,
) -> Observed {
    let start = Instant::now();
    let unstarted = |ended| Observed {
        pid: None,
        ended,
        lines: Vec::new(),
        torn: Vec::new(),
        stderr: Log::default(),
        stacks: Vec::new(),
        wall: start.elapsed(),
        usage: None,
        left_behind: Vec::new(),
    };
    if cancel.is_cancelled() {
        return unstarted(ChildEnd::Stopped { reason: StopReason::Cancelled, forced: false });
    }
    command.process_group(0);
    // A child without orders has an empty standard input, because reading from an open pipe would never end.
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, leader) = match adopted::start(&mut command) {
        Ok(started) => started,
        Err(error) => return unstarted(ChildEnd::SpawnFailed(error)),
    };

    let pid = Pid::from_child(&child);
    let orders = [input, b"\n"].concat();
    let mut pipes = Pipes::new(&mut child, &orders);
    let watched = watch(pid, &mut pipes, start, limits, cancel, on_line, send);
    let (ended, usage, stacks) = match watched {
        Ok((LeaderEnd::Stuck { reason }, stacks)) => {
            (ChildEnd::CouldNotBeKilled { reason }, None, stacks)
        }
        Ok((end, stacks)) => match reap(pid) {
            Ok((status, usage)) => (describe(end, status), Some(usage), stacks),
            Err(error) => (ChildEnd::Lost(error), None, stacks),
        },
        Err(error) => {
            send(pid, Signal::KILL);
            reap_unwatched(&mut child, limits.reap);
            (ChildEnd::Lost(error), None, Vec::new())
        }
    };
    let wall = start.elapsed();
    drop(pipes.stdin);
    let after = if matches!(ended, ChildEnd::Exited(_)) { limits.after } else { SETTLE_TIME };
    let over = Instant::now();
    let mut left_behind = group::kill_group(pid, after, limits.reap, cancel, send);
    adopted::wait_for_orphans(&leader, after.saturating_sub(over.elapsed()), cancel);
    // A process that could not be killed is still a member of this group and must not be reported twice.
    let stays = left_behind.iter().any(|process| process.survived);
    left_behind.extend(adopted::kill_orphans(leader, stays, limits.reap));
    Observed {
        pid: Some(child.id()),
        ended,
        lines: pipes.lines.finished,
        torn: pipes.lines.torn,
        stderr: pipes.log,
        stacks,
        wall,
        usage,
        left_behind,
    }
}

/// Reads, writes and sends signals until the leader has ended, without reaping it. Returns how the leader ended, and
/// the call stacks of its threads if a time limit was reached.
fn watch(
    pid: Pid,
    pipes: &mut Pipes<'_>,
    start: Instant,
    limits: &Limits,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(&Line),
    send: SendSignal,
) -> io::Result<(LeaderEnd, Vec<String>)> {
    let leader = match ended::end_descriptor(pid) {
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {
            return Err(reaped_by_the_kernel());
        }
        opened => opened?,
    };
    pipes.set_nonblocking()?;
    // The pipe usually has room for the whole order.
    pipes.write();
    let mut buffer = vec![0; READ_BYTES];
    let mut phase = Phase::Running;
    let mut stacks = Vec::new();
    let mut silence = Silence::new(limits.quiet);
    let progress = limits.progress.as_deref();
    let shortest = limits.total.min(limits.quiet);
    let mut clock = Clock::new(shortest, suspended::suspended_time());
    loop {
        let mut sources = pipes.sources();
        let until = match phase {
            Phase::Running => {
                sources.push((WakeSource::Cancel, cancel.wake(), PollFlags::IN));
                clock.wall(limits.total.min(silence.next())).min(clock.next())
            }
            Phase::Terminating { until, .. } => {
                if !cancel.is_cancelled() {
                    sources.push((WakeSource::Cancel, cancel.wake(), PollFlags::IN));
                }
                until
            }
            Phase::Killing { until, .. } => until,
            Phase::Draining { end, .. } if sources.is_empty() => return Ok((end, stacks)),
            Phase::Draining { until, .. } => until,
        };
        if !matches!(phase, Phase::Draining { .. }) {
            sources.push((WakeSource::Child, leader.as_fd(), PollFlags::IN));
        }
        let ready = wait_ready(&sources, start.checked_add(until))?;
        pipes.serve(&ready, &mut buffer, start, on_line);

        let ended = ready.contains(&WakeSource::Child);
        let now = start.elapsed();
        let drain = now.saturating_add(DRAIN_TIME);
        phase = match phase {
            Phase::Running if ended => Phase::Draining { end: LeaderEnd::ByItself, until: drain },
            Phase::Running => {
                if now >= clock.next() {
                    let suspension = suspended::tree_suspension(pid);
                    let work = group::work(pid);
                    let cpu = work.as_ref().map(|work| work.cpu);
                    let queued = work.iter().flat_map(|work| work.queued.values().copied()).max();
                    let queued = queued.unwrap_or_default();
                    clock.record_check(
                        now,
                        ProcessCheck {
                            suspension,
                            cpu,
                            queued,
                            asleep: suspended::suspended_time(),
                        },
                    );
                }
                // A program also reports its progress on standard error.
                let of_stderr = progress.map_or(Duration::ZERO, |_| pipes.stderr_at);
                let last = pipes.lines.last_at().max(of_stderr);
                let (counted, line) = (clock.counted(now), clock.line(last));
                let silent =
                    silence.update(counted, line, || processor_time::processor_use(pid, progress));
                let due = limits.due(counted, silent, pipes.lines.flooded, cancel);
                let due = due.or(clock.suspended_for(shortest).map(StopReason::Suspended));
                match due {
                    Some(reason) => {
                        let over = matches!(reason, StopReason::Total | StopReason::Quiet);
                        let suspension = over.then(|| suspended::group_suspension(pid)).flatten();
                        let reason = suspension.map_or(reason, StopReason::Suspended);
                        let reads = !limits.looker.is_empty();
                        if reads && matches!(reason, StopReason::Total | StopReason::Quiet) {
                            stacks = stacks::thread_stacks(pid, &limits.looker, cancel, run);
                        }
                        let now = start.elapsed();
                        send(pid, Signal::TERM);
                        Phase::Terminating { reason, until: now.saturating_add(limits.grace) }
                            .after_cancellation(now, cancel)
                    }
                    None => Phase::Running,
                }
            }
            Phase::Terminating { reason, .. } if ended => {
                // The other members of the group received the signal too and may still be cleaning up.
                Phase::Draining { end: LeaderEnd::Stopped { reason, forced: false }, until: drain }
            }
            Phase::Terminating { reason, until } if now >= until => {
                send(pid, Signal::KILL);
                let last = now.saturating_add(limits.reap.saturating_mul(MAX_REAP_FACTOR));
                Phase::Killing { reason, until: now.saturating_add(limits.reap), last }
            }
            Phase::Killing { reason, .. } if ended => {
                Phase::Draining { end: LeaderEnd::Stopped { reason, forced: true }, until: drain }
            }
            Phase::Killing { reason, until, last } if now >= until => {
                if now < last && group::can_run(pid) {
                    let until = now.saturating_add(REAP_PAUSE).min(last);
                    Phase::Killing { reason, until, last }
                } else {
                    return Ok((LeaderEnd::Stuck { reason }, stacks));
                }
            }
            Phase::Draining { end, until } if now >= until => return Ok((end, stacks)),
            waiting => waiting.after_cancellation(now, cancel),
        };
    }
}

impl Phase {
    /// If cancellation was requested, shortens the time until a child that was sent SIGTERM is sent SIGKILL.
    fn after_cancellation(self, now: Duration, cancel: &Cancel) -> Phase {
        match self {
            Phase::Terminating { reason, until } if cancel.is_cancelled() => {
                Phase::Terminating { reason, until: until.min(now.saturating_add(CANCEL_GRACE)) }
            }
            phase => phase,
        }
    }
}

impl Limits {
    /// Returns the reason why a running child must end now, or `None` if it may continue. `now` is the time since its
    /// start that counts toward the limits, and `silent` is the duration of its silence. `flooded` is true if it wrote
    /// more than [`Lines`](crate::lines::Lines) can keep.
    fn due(
        &self,
        now: Duration,
        silent: Duration,
        flooded: bool,
        cancel: &Cancel,
    ) -> Option<StopReason> {
        if cancel.is_cancelled() {
            Some(StopReason::Cancelled)
        } else if flooded {
            Some(StopReason::Flooded)
        } else if now >= self.total {
            Some(StopReason::Total)
        } else if silent >= self.quiet {
            Some(StopReason::Quiet)
        } else {
            None
        }
    }
}

/// Reaps a child that has ended, and returns its status and usage.
fn reap(pid: Pid) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is a valid one, as it consists of integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let reaped = loop {
        // SAFETY: both pointers are to live locals of the types that wait4(2) fills in.
        let result =
            unsafe { libc::wait4(pid.as_raw_pid(), &mut status, libc::WNOHANG, &mut usage) };
        match result {
            -1 => {
                let error = io::Error::last_os_error();
                if error.raw_os_error() == Some(libc::ECHILD) {
                    return Err(reaped_by_the_kernel());
                } else if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            pid => break pid,
        }
    };
    if reaped == 0 {
        // Linux reports the end of a traced process to the tracer before it reports it to the parent.
        return Err(io::Error::new(
            ErrorKind::WouldBlock,
            "the process ended under the control of a debugger",
        ));
    }
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec.unsigned_abs(), 1000 * time.tv_usec.unsigned_abs() as u32)
    };
    let usage = Usage {
        user_cpu: time(usage.ru_utime),
        system_cpu: time(usage.ru_stime),
        max_rss_bytes: 1024 * usage.ru_maxrss.unsigned_abs(),
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// Returns the error for a child whose exit status Linux did not keep, for example because SIGCHLD is ignored; see
/// NOTES of `wait4(2)`.
fn reaped_by_the_kernel() -> io::Error {
    io::Error::other("SIGCHLD is ignored in this process, so no exit status is kept")
}

/// Reaps a child that was sent SIGKILL and cannot be polled, because no file descriptor for it is available. Gives up
/// after `limit`.
fn reap_unwatched(child: &mut Child, limit: Duration) {
    let start = Instant::now();
    while let Ok(None) = child.try_wait()
        && start.elapsed() < limit
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn describe(end: LeaderEnd, status: ExitStatus) -> ChildEnd {
    match (end, status.code(), status.signal()) {
        (LeaderEnd::Stopped { reason, forced }, ..) => ChildEnd::Stopped { reason, forced },
        (LeaderEnd::Stuck { reason }, ..) => ChildEnd::CouldNotBeKilled { reason },
        (LeaderEnd::ByItself, Some(code), _) => ChildEnd::Exited(code),
        (LeaderEnd::ByItself, None, signal) => {
            // A child has either an exit status or a signal, because stopped and continued children are not waited for.
            ChildEnd::Signalled { signal: signal.unwrap_or(0), core: status.core_dumped() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::MAX;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Checks which limit is reached at `now`, in seconds, for a child that has been silent for `silent` seconds.
    fn check(
        (total, quiet): (Duration, Duration),
        silent: u64,
        now: u64,
        expected: Option<StopReason>,
    ) {
        let limits = Limits { total, quiet, ..Limits::default() };
        let due = limits.due(seconds(now), seconds(silent), false, &Cancel::new().unwrap());
        assert_eq!(due, expected, "{limits:?}, silent for {silent} s, {now} s");
    }

    #[test]
    fn limits_end_a_child_when_reached() {
        let limits = (seconds(60), seconds(10));
        check(limits, 9, 9, None);
        check(limits, 10, 10, Some(StopReason::Quiet));
        check(limits, 1, 59, None);
        check(limits, 1, 60, Some(StopReason::Total));
        check(limits, 99, 99, Some(StopReason::Total));
        check((NEVER, seconds(10)), 10, 15, Some(StopReason::Quiet));
        check((seconds(60), NEVER), 59, 59, None);
        check((NEVER, NEVER), 1 << 40, 1 << 40, None);
    }

    #[test]
    fn child_that_signals_do_not_reach_could_not_be_killed() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let limits = Limits {
            total: Duration::from_millis(100),
            grace: Duration::from_millis(100),
            reap: Duration::from_millis(100),
            ..Limits::default()
        };
        let cancel = Cancel::new().unwrap();
        let lost: SendSignal = |_, _| {};
        let seen = run_with(command, b"", &limits, &cancel, &mut |_| {}, lost);
        let stuck = matches!(seen.ended, ChildEnd::CouldNotBeKilled { reason: StopReason::Total });
        assert!(stuck, "{seen:?}");
        assert_eq!(seen.usage, None);
        let child = seen.pid.unwrap() as i32;
        let left: Vec<_> = seen.left_behind.iter().map(|p| (p.pid, p.survived)).collect();
        assert_eq!(left, [(child, true)]);
        end(child);
    }

    #[test]
    fn killed_child_that_can_run_has_more_time_to_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let limits = Limits {
            total: Duration::from_millis(100),
            grace: Duration::from_millis(100),
            reap: Duration::from_millis(100),
            ..Limits::default()
        };
        let cancel = Cancel::new().unwrap();
        let lost: SendSignal = |_, _| {};
        let seen = run_with(command, b"", &limits, &cancel, &mut |_| {}, lost);
        let stuck = matches!(seen.ended, ChildEnd::CouldNotBeKilled { reason: StopReason::Total });
        assert!(stuck, "{seen:?}");
        assert!(seen.wall >= Duration::from_millis(800), "{seen:?}");
        end(seen.pid.unwrap() as i32);
    }

    fn end(child: i32) {
        let child = Pid::from_raw(child).unwrap();
        group::send(child, Signal::KILL);
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
    }
}
