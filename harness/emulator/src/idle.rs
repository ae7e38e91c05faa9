//! Detects that the process is idle: all other threads sleep, and the host makes no calls to this library.

use std::time::{Duration, Instant};

/// Number of consecutive checks that must find all threads asleep. A single check is not enough, because a thread that
/// briefly waits for a lock sleeps, too.
const REQUIRED_CHECKS: u32 = 3;

/// Time without a call to this library after which the process is treated as idle even if threads run, because a thread
/// may spin on memory that the device writes.
const MAX_SPIN_TIME: Duration = Duration::from_secs(3);
/// Processor time that the process may spend in the Linux kernel, without a call to this library, before it is treated
/// as idle. One of its threads then yields in a loop, like HIP in `hipStreamDestroy`. A thread that computes spends
/// little time in the Linux kernel.
const MAX_YIELD_TIME: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct IdleDetector {
    calls: u64,
    asleep: u32,
    since: Option<(Instant, Duration)>,
}

impl IdleDetector {
    pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(2);

    /// Makes one check, and returns true if the process is now considered idle. `quiet` is true if the device has work
    /// that it may execute. `calls` is a counter that changes with each call by the host.
    pub(crate) fn check_idle(&mut self, quiet: bool, calls: u64) -> bool {
        if !quiet || calls != self.calls {
            *self = IdleDetector { calls, ..IdleDetector::default() };
            return false;
        }
        let in_kernel = time_in_kernel();
        let (since, in_kernel_then) =
            *self.since.get_or_insert_with(|| (Instant::now(), in_kernel));
        self.asleep = if others_sleep() { self.asleep + 1 } else { 0 };
        let spins = since.elapsed() > MAX_SPIN_TIME
            || in_kernel.saturating_sub(in_kernel_then) > MAX_YIELD_TIME;
        let rests = self.asleep >= REQUIRED_CHECKS || spins;
        if rests {
            *self = IdleDetector { calls, ..IdleDetector::default() };
        }
        rests
    }
}

fn time_in_kernel() -> Duration {
    // SAFETY: all zeros are a valid value of this plain C type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the type that the call fills in.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time = usage.ru_stime;
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Returns true if all other threads sleep, according to `/proc/self/task/*/stat`.
fn others_sleep() -> bool {
    // SAFETY: the call has no preconditions.
    let own = unsafe { libc::gettid() }.to_string();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.flatten().filter(|task| *task.file_name() != *own).all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The name of the thread, in parentheses before the state, may itself contain parentheses. Therefore the last
        // closing parenthesis is used.
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['S', 'Z', 'X']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yielding_process_counts_as_idle() {
        let mut idle = IdleDetector::default();
        assert!(!idle.check_idle(true, 0));
        assert!(!idle.check_idle(true, 0), "no thread has yielded yet");
        let before = time_in_kernel();
        while time_in_kernel() <= before + MAX_YIELD_TIME {
            std::thread::yield_now();
        }
        assert!(idle.check_idle(true, 0));
    }

    #[test]
    fn calls_and_finished_work_reset_idleness() {
        let mut idle = IdleDetector::default();
        assert!(!idle.check_idle(false, 0));
        assert!(!idle.check_idle(true, 1), "a call was made");
        idle.asleep = REQUIRED_CHECKS;
        assert!(!idle.check_idle(false, 1), "the device has no work");
        assert_eq!(idle.asleep, 0);
    }
}
