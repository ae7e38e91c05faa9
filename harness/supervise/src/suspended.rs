//! Measures the time in which a child could not make progress, whatever its code does. Possible reasons: the child was
//! stopped, traced or frozen; the machine was suspended; the supervising process did not run; or other processes left
//! the child no processor. Such time does not count toward any limit.
//!
//! A batch system suspends a job by a signal or by its cgroup. The state of a process does not reveal that its cgroup
//! is frozen. The state is `D` with version 1 of cgroups and `S` with version 2, as if the process slept, and only the
//! files of the cgroup report the freeze (<https://docs.kernel.org/admin-guide/cgroup-v1/freezer-subsystem.html>,
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html>, `cgroup.events`).
//!
//! Only processes of this machine are checked. A child that a launcher starts on another machine is not checked.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::{group, processor_time};

/// Maximum time between two checks of a child. If a quarter of the child's shortest time limit is shorter, a check is
/// made after that quarter.
const PAUSE: Duration = Duration::from_millis(200);

/// Minimum delay of a check from which follows that this process did not run. It was stopped or frozen with the child,
/// or its virtual machine was paused, or the child left it no processor.
const LATE_CHECK: Duration = Duration::from_secs(1);

/// Minimum time by which, between two checks, the clock that includes suspended time gains on the clock that does not.
/// If the gain is smaller, the machine is assumed not to have been suspended.
const SUSPEND_THRESHOLD: Duration = Duration::from_millis(100);

/// Divisor of the elapsed time. A child that has used at most this part of one processor waits for a processor because
/// of other processes, and not because of its own threads.
const STARVED_SHARE: u32 = 4;

/// Maximum time of waiting for a processor that is excluded from the limits, as a multiple of the child's shortest
/// limit.
const MAX_STARVED_FACTOR: u32 = 3;

/// Functions of the Linux kernel in which a frozen thread sleeps; see `kernel/freezer.c` and `kernel/signal.c`.
const FREEZERS: [&str; 3] = ["__refrigerator", "do_freezer_trap", "cgroup_enter_frozen"];

/// Reason why a process could not make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// A signal stopped the process: SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU.
    Stopped,
    /// A debugger has stopped the process.
    Traced,
    /// The cgroup of the process is frozen.
    Frozen,
}

impl fmt::Display for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suspension::Stopped => "a signal stopped it",
            Suspension::Traced => "a debugger stopped it",
            Suspension::Frozen => "its cgroup was frozen",
        })
    }
}

/// Returns the reason why a process is suspended, `None` if it is not. The arguments are the state of the process
/// (`proc_pid_stat(5)`), the function of the Linux kernel in which it sleeps, and whether its cgroup is frozen.
fn decide(state: &str, sleeps_in: &str, cgroup_is_frozen: bool) -> Option<Suspension> {
    match state {
        "T" => Some(Suspension::Stopped),
        "t" => Some(Suspension::Traced),
        _ if cgroup_is_frozen || FREEZERS.contains(&sleeps_in) => Some(Suspension::Frozen),
        _ => None,
    }
}

/// Returns true if the text of `freezer.state` or `cgroup.events` says that the cgroup or one of its parents is frozen.
fn says_frozen(text: &str) -> bool {
    text.lines().any(|line| matches!(line.trim(), "FROZEN" | "FREEZING" | "frozen 1"))
}

/// Returns the files that report whether the cgroups in a `/proc/PID/cgroup` are frozen, one file for each hierarchy.
/// `mounts` is the content of a `/proc/PID/mountinfo`.
fn freezer_files(cgroup: &str, mounts: &str) -> Vec<PathBuf> {
    let mount = |version: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let fields: Vec<&str> = before.split(' ').collect();
            let mut after = after.split(' ');
            let (kind, options) = (after.next()?, after.nth(1).unwrap_or_default());
            let has = option.is_empty() || options.split(',').any(|one| one == option);
            (kind == version && has).then(|| (fields.get(3).copied(), fields.get(4).copied()))
        })
    };
    let file = |path: &str, mount: Option<(Option<&str>, Option<&str>)>, name: &str| {
        let (root, folder) = mount?;
        let path = Path::new(path).strip_prefix(root?).unwrap_or(Path::new(path));
        let path = path.strip_prefix("/").unwrap_or(path);
        Some(Path::new(folder?).join(path).join(name))
    };
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        match controllers {
            "" => file(path, mount("cgroup2", ""), "cgroup.events"),
            _ if controllers.split(',').any(|one| one == "freezer") => {
                file(path, mount("cgroup", "freezer"), "freezer.state")
            }
            _ => None,
        }
    };
    cgroup.lines().filter_map(of_line).collect()
}

fn cgroup_is_frozen(pid: i32) -> bool {
    static MOUNTS: OnceLock<String> = OnceLock::new();
    let mounts =
        MOUNTS.get_or_init(|| fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let says = |file: PathBuf| fs::read_to_string(file).is_ok_and(|text| says_frozen(&text));
    freezer_files(&cgroup, mounts).into_iter().any(says)
}

/// Returns the reason why the first suspended process among `pids` is suspended, `None` if no process is.
fn first_suspension(pids: impl IntoIterator<Item = i32>) -> Option<Suspension> {
    pids.into_iter().find_map(|pid| {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (_, state, _) = group::parse_stat(&stat)?;
        let sleeps_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        decide(state, sleeps_in.trim(), cgroup_is_frozen(pid))
    })
}

/// Returns the reason if the leader or another member of its process group is suspended. Reads the entries of all
/// processes in /proc.
pub(crate) fn group_suspension(leader: Pid) -> Option<Suspension> {
    first_suspension(group::member_pids(leader))
}

/// Returns the reason if the leader or one of its descendants is suspended. Checks at most 16 processes.
pub(crate) fn tree_suspension(leader: Pid) -> Option<Suspension> {
    first_suspension(processor_time::process_tree(leader))
}

/// Returns how long the machine has been suspended since boot.
pub(crate) fn suspended_time() -> Duration {
    let now = |clock| {
        let now = clock_gettime(clock);
        Duration::try_from(now).unwrap_or_default()
    };
    // The clock with suspended time is read first, so that the difference is never too large.
    let with = now(ClockId::Boottime);
    with.saturating_sub(now(ClockId::Monotonic))
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessCheck {
    pub(crate) suspension: Option<Suspension>,
    /// Processor time of the child, or `None` if Linux does not report it.
    pub(crate) cpu: Option<Duration>,
    /// Total time for which a thread of the child has waited for a processor: the largest value of all threads.
    pub(crate) queued: Duration,
    /// Total time for which the machine has been suspended since boot, as [`suspended_time`] returns it.
    pub(crate) asleep: Duration,
}

/// Clock of the time that counts toward the limits of a child. All times are relative to the start of the child.
pub(crate) struct Clock {
    pause: Duration,
    /// Time of the last check of the child. `last` is the result of that check.
    at: Duration,
    last: ProcessCheck,
    /// Time that does not count toward the limits.
    excluded: Duration,
    /// Time for which other processes left the child no processor.
    starved: Duration,
    /// Maximum of `starved`.
    most_starved: Duration,
    /// Time for which the child has been suspended without a break. Time in which this process did not run is not
    /// included.
    suspended_for: Duration,
    /// Time at which the child's last line was read: first by the wall clock, then by this clock.
    line: (Duration, Duration),
}

impl Clock {
    /// Returns a clock that starts with the child. `shortest` is the child's shortest limit. `asleep` is the value of
    /// [`suspended_time`] at the start of the child.
    pub(crate) fn new(shortest: Duration, asleep: Duration) -> Clock {
        Clock {
            pause: PAUSE.min(shortest / 4),
            at: Duration::ZERO,
            last: ProcessCheck { asleep, ..ProcessCheck::default() },
            excluded: Duration::ZERO,
            starved: Duration::ZERO,
            most_starved: shortest.saturating_mul(MAX_STARVED_FACTOR),
            suspended_for: Duration::ZERO,
            line: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Returns the time on the wall clock at which the next check is due.
    pub(crate) fn next(&self) -> Duration {
        self.at.saturating_add(self.pause)
    }

    /// Records the result of a check that was made at the time `now`.
    pub(crate) fn record_check(&mut self, now: Duration, look: ProcessCheck) {
        let passed = now.saturating_sub(self.at);
        // A child with many busy threads can keep this process from running. The time that the child used counts.
        let used = look.cpu.unwrap_or_default().saturating_sub(self.last.cpu.unwrap_or_default());
        let expected = passed.min(self.pause.max(used));
        let absent = if passed >= self.pause.saturating_add(LATE_CHECK) {
            passed - expected
        } else {
            Duration::ZERO
        };
        let slept = look.asleep >= self.last.asleep.saturating_add(SUSPEND_THRESHOLD);
        // A process under strace is stopped again and again, but makes progress in between.
        let rests = look.cpu == self.last.cpu;
        let held = look.suspension.is_some() && self.last.suspension.is_some() && rests;
        self.excluded += if held || slept { passed } else { absent };
        self.suspended_for =
            if held { self.suspended_for + passed - absent } else { Duration::ZERO };
        // A child with more busy threads than processors waits for itself, but uses the processors. Linux reports the
        // time of a wait only when the wait has ended.
        if look.cpu.is_some_and(|cpu| cpu.saturating_mul(STARVED_SHARE) <= now) {
            self.starved = self.starved.max(look.queued.min(self.most_starved).min(now));
        }
        (self.at, self.last) = (now, look);
    }

    /// Returns how much of the time so far does not count: the larger one of `excluded` and `starved`. They are not
    /// added, because the child may wait for a processor during another pause.
    fn uncounted(&self) -> Duration {
        self.excluded.max(self.starved)
    }

    /// Returns how much of the time until `now` counts toward the limits.
    pub(crate) fn counted(&self, now: Duration) -> Duration {
        now.saturating_sub(self.uncounted())
    }

    /// Returns the time on the wall clock at which this clock reaches `counted`, if no further time is excluded.
    pub(crate) fn wall(&self, counted: Duration) -> Duration {
        counted.saturating_add(self.uncounted())
    }

    /// Converts the time of the last line from the wall clock to this clock.
    pub(crate) fn line(&mut self, line: Duration) -> Duration {
        if line != self.line.0 {
            self.line = (line, line.saturating_sub(self.uncounted()).max(self.line.1));
        }
        self.line.1
    }

    /// Returns the reason if the child has been suspended for `limit` without a break.
    pub(crate) fn suspended_for(&self, limit: Duration) -> Option<Suspension> {
        self.last.suspension.filter(|_| self.suspended_for >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn recognises_every_cause_of_suspension() {
        for (state, sleeps_in, frozen, expected) in [
            ("S", "futex_do_wait", false, None),
            ("D", "amdgpu_fence_wait", false, None),
            ("R", "0", false, None),
            ("T", "do_signal_stop", false, Some(Suspension::Stopped)),
            ("t", "ptrace_stop", false, Some(Suspension::Traced)),
            ("D", "hrtimer_nanosleep", true, Some(Suspension::Frozen)),
            ("S", "get_signal", true, Some(Suspension::Frozen)),
            ("D", "__refrigerator", false, Some(Suspension::Frozen)),
            ("S", "do_freezer_trap", false, Some(Suspension::Frozen)),
        ] {
            assert_eq!(decide(state, sleeps_in, frozen), expected, "{state} {sleeps_in} {frozen}");
        }
        for (text, expected) in [
            ("THAWED\n", false),
            ("FREEZING\n", true),
            ("FROZEN\n", true),
            ("populated 1\nfrozen 0\n", false),
            ("populated 1\nfrozen 1\n", true),
            ("", false),
        ] {
            assert_eq!(says_frozen(text), expected, "{text}");
        }
    }

    #[test]
    fn finds_the_files_of_both_freezer_versions() {
        let check = |cgroup: &str, mounts: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(freezer_files(cgroup, mounts), expected, "{cgroup}");
        };
        let one = "25 30 0:23 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        check("0::/job_7/step\n", one, &["/sys/fs/cgroup/job_7/step/cgroup.events"]);
        let both = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                    32 30 0:28 /docker/a /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                    33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        check(
            "6:freezer:/docker/a/b\n1:cpu:/c\n0::/\n",
            both,
            &["/sys/fs/cgroup/freezer/b/freezer.state", "/sys/fs/cgroup/unified/cgroup.events"],
        );
        check("6:freezer:/a\n", "", &[]);
        check("", both, &[]);
    }

    /// Makes checks and compares the counted time with the expected one. Each check consists of its time, whether the
    /// child is suspended, its processor time, and the time for which the machine has been suspended so far. All times
    /// are in milliseconds.
    #[track_caller]
    fn check(looks: &[(u64, bool, u64, u64)], expected: u64) -> Clock {
        let mut clock = Clock::new(ms(10_000), ms(5000));
        let mut end = Duration::ZERO;
        for (now, suspended, cpu, asleep) in looks {
            end = ms(*now);
            let suspension = suspended.then_some(Suspension::Frozen);
            let (cpu, asleep) = (Some(ms(*cpu)), ms(5000 + asleep));
            clock.record_check(
                end,
                ProcessCheck { suspension, cpu, asleep, ..ProcessCheck::default() },
            );
        }
        assert_eq!(clock.counted(end), ms(expected), "{looks:?}");
        clock
    }

    #[test]
    fn suspended_time_does_not_count() {
        check(&[(200, false, 0, 0), (400, false, 0, 0)], 400);
        let clock = check(&[(200, true, 0, 0), (400, true, 0, 0), (600, true, 0, 0)], 200);
        assert_eq!(clock.suspended_for(ms(400)), Some(Suspension::Frozen));
        assert_eq!(clock.suspended_for(ms(401)), None);
        let clock = check(&[(200, true, 0, 0), (400, true, 0, 0), (600, false, 0, 0)], 400);
        assert_eq!(clock.suspended_for(Duration::ZERO), None);
        // The child makes progress between the checks, as a traced process does.
        check(&[(200, true, 0, 0), (400, true, 10, 0), (600, true, 20, 0)], 600);
    }

    #[test]
    fn absence_of_the_supervisor_does_not_count() {
        check(&[(200, false, 0, 0), (3_600_000, false, 0, 0)], 400);
        // On a busy machine, the second check is late, but not late enough to show that this process did not run.
        check(&[(200, false, 0, 0), (1000, false, 0, 0)], 1000);
        // This process did not run, so it did not observe whether the child was suspended.
        let clock = check(&[(200, true, 0, 0), (3_600_000, true, 0, 0)], 200);
        assert_eq!(clock.suspended_for(ms(201)), None);
    }

    #[test]
    fn child_that_starves_the_supervisor_uses_up_its_time() {
        check(&[(200, false, 100, 0), (20_200, false, 40_100, 0)], 20_200);
        check(&[(200, false, 100, 0), (20_200, false, 5_100, 0)], 5_200);
    }

    #[test]
    fn time_in_which_others_use_the_processors_does_not_count() {
        let counted = |looks: &[(u64, u64, u64)]| {
            let mut clock = Clock::new(ms(10_000), ms(5000));
            let mut end = Duration::ZERO;
            // Checks that are not late.
            for (now, cpu, queued) in looks {
                for at in (end.as_millis() as u64 / 200 + 1)..=(now / 200) {
                    end = ms(at * 200);
                    let (cpu, queued) = (Some(ms(*cpu)), ms(*queued));
                    clock.record_check(
                        end,
                        ProcessCheck { cpu, queued, asleep: ms(5000), ..ProcessCheck::default() },
                    );
                }
            }
            clock.counted(end)
        };
        assert_eq!(counted(&[(8000, 100, 0)]), ms(8000));
        assert_eq!(counted(&[(8000, 500, 6000)]), ms(2000));
        // The child has used the processors itself.
        assert_eq!(counted(&[(8000, 12_000, 7900)]), ms(8000));
        // At most three times the limit is left out.
        assert_eq!(counted(&[(60_000, 500, 59_000)]), ms(30_000));
    }

    #[test]
    fn suspended_time_of_the_machine_does_not_count() {
        check(&[(200, false, 0, 0), (500, false, 0, 60_000), (700, false, 0, 60_000)], 400);
        check(&[(200, false, 0, 50), (400, false, 0, 50)], 400);
    }

    #[test]
    fn last_line_time_excludes_later_absence() {
        let mut clock = check(&[(200, false, 0, 0)], 200);
        assert_eq!(clock.line(ms(150)), ms(150));
        clock.record_check(
            ms(10_200),
            ProcessCheck { cpu: Some(Duration::ZERO), asleep: ms(5000), ..ProcessCheck::default() },
        );
        assert_eq!(clock.counted(ms(10_200)), ms(400));
        assert_eq!(clock.line(ms(150)), ms(150), "the line came before the absence");
        assert_eq!(clock.line(ms(10_190)), ms(390));
        assert_eq!(clock.wall(ms(500)), ms(10_300));
    }
}
