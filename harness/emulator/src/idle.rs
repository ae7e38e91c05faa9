//! Whether the process has come to rest: every other thread sleeps, and no call of this library is made.

use std::time::{Duration, Instant};

/// How many looks in a row must find everybody asleep; a thread that only waits for a lock sleeps too.
const LOOKS: u32 = 3;

/// Without a call for this long the process counts as at rest even while threads run: one may spin on memory that the
/// device is to write.
const SPINNING: Duration = Duration::from_secs(3);
/// And with so much time in the kernel, where threads yield in a loop, as HIP's do in `hipStreamDestroy`: one that computes is
/// hardly there.
const YIELDING: Duration = Duration::from_millis(200);

/// What was seen at the looks before.
#[derive(Default)]
pub(crate) struct Idle {
    calls: u64,
    asleep: u32,
    since: Option<(Instant, Duration)>,
}

impl Idle {
    /// Time between two looks.
    pub(crate) const LOOK: Duration = Duration::from_millis(2);

    /// Whether the process rests, by another look. `quiet` tells whether there is anything to do at all, and `calls`
    /// changes with each call of the host.
    pub(crate) fn has_lasted(&mut self, quiet: bool, calls: u64) -> bool {
        if !quiet || calls != self.calls {
            *self = Idle { calls, ..Idle::default() };
            return false;
        }
        let in_kernel = time_in_kernel();
        let (since, in_kernel_then) =
            *self.since.get_or_insert_with(|| (Instant::now(), in_kernel));
        self.asleep = if others_sleep() { self.asleep + 1 } else { 0 };
        let spins =
            since.elapsed() > SPINNING || in_kernel.saturating_sub(in_kernel_then) > YIELDING;
        let rests = self.asleep >= LOOKS || spins;
        if rests {
            *self = Idle { calls, ..Idle::default() };
        }
        rests
    }
}

/// Processor time that the process has spent in the kernel so far.
fn time_in_kernel() -> Duration {
    // SAFETY: all zeros are a value of this plain C type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is that of a live value of the type that the call writes.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time = usage.ru_stime;
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Whether all threads but this one sleep, by the state that `/proc/self/task/*/stat` gives.
fn others_sleep() -> bool {
    // SAFETY: the call has no preconditions.
    let own = unsafe { libc::gettid() }.to_string();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.flatten().filter(|task| *task.file_name() != *own).all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The name of the thread stands in parentheses before the state, and may hold any byte but its own end.
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['S', 'Z', 'X']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_yields_in_a_loop_waits() {
        let mut idle = Idle::default();
        assert!(!idle.has_lasted(true, 0));
        assert!(!idle.has_lasted(true, 0), "nobody has yielded yet");
        let before = time_in_kernel();
        while time_in_kernel() <= before + YIELDING {
            std::thread::yield_now();
        }
        assert!(idle.has_lasted(true, 0));
    }

    #[test]
    fn calls_and_work_that_is_done_end_a_rest() {
        let mut idle = Idle::default();
        assert!(!idle.has_lasted(false, 0));
        assert!(!idle.has_lasted(true, 1), "a call was made");
        idle.asleep = LOOKS;
        assert!(!idle.has_lasted(false, 1), "there is nothing to do");
        assert_eq!(idle.asleep, 0);
    }
}
