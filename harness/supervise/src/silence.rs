//! Measures for how long a child has printed nothing, with a clock that takes the load of the machine into account.

use std::time::Duration;

use crate::work::{Activity, ProcessorUse};

/// Maximum time between two checks of a silent child's processor time. If a quarter of the limit of silence is shorter,
/// a check is made after that quarter.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Divisor of the elapsed time: a child that uses less than this part of a processor, 1/20, is idle.
const IDLE_DIVISOR: u32 = 20;

/// Divisor of the processor time in user mode of threads other than the progress threads (see
/// [`Limits::progress`](crate::Limits::progress)): a quarter of this time counts as silence. An endless loop is
/// therefore found only after four times the limit of silence, or when the limit of the total time is reached.
const COMPUTING_DIVISOR: u32 = 4;

/// Silence of a child since its last line. For an idle child the elapsed time counts, without the time that it waited
/// for a processor. For a child that computes, or whose pages are still being read from a disk, only its own processor
/// time counts. Otherwise a child on an overloaded machine would be reported as hung. Times are relative to the start
/// of the child.
pub(crate) struct Silence {
    pause: Duration,
    /// Duration of the silence at the last check.
    lasted: Duration,
    /// Time of the last check. `work` is the processor use at that time.
    at: Duration,
    work: ProcessorUse,
}

impl Silence {
    pub(crate) fn new(limit: Duration) -> Silence {
        let pause = if limit == Duration::MAX { limit } else { CHECK_INTERVAL.min(limit / 4) };
        Silence { pause, lasted: Duration::ZERO, at: Duration::ZERO, work: ProcessorUse::default() }
    }

    /// Returns the time of the next check.
    pub(crate) fn next(&self) -> Duration {
        self.at.saturating_add(self.pause)
    }

    /// Returns for how long the child had been silent at the last check; zero if it has printed a line since. If a
    /// check is due at the time `now`, makes this check first. `last_line` is the time of the child's last line. `work`
    /// measures the processor use of the child; if it returns `None`, the elapsed time counts as silence.
    pub(crate) fn update(
        &mut self,
        now: Duration,
        last_line: Duration,
        work: impl FnOnce() -> Option<ProcessorUse>,
    ) -> Duration {
        if now < self.next() {
            return if last_line > self.at { Duration::ZERO } else { self.lasted };
        }
        if last_line > self.at {
            self.lasted = Duration::ZERO;
        }
        let passed = now.saturating_sub(self.at.max(last_line));
        let work = work().unwrap_or_else(|| self.work.clone());
        let used = work.cpu.saturating_sub(self.work.cpu);
        let waited = work.waited(&self.work);
        let reads = work.pages > self.work.pages;
        // Linux reports the time of a wait when the wait has ended, which may be several checks later.
        self.lasted = self.lasted.saturating_sub(waited.saturating_sub(passed));
        let idle = || passed.saturating_sub(waited);
        self.lasted = match (&work.activity, &self.work.activity) {
            (Some(now), before) => {
                let start = Activity::default();
                let before = before.as_ref().unwrap_or(&start);
                let (user, system) = now.computed(before);
                if now.progressed(before) * IDLE_DIVISOR >= passed {
                    Duration::ZERO
                } else if (user + system) * IDLE_DIVISOR < passed && !reads {
                    self.lasted + idle()
                } else if system > user {
                    self.lasted + system.min(passed)
                } else {
                    self.lasted + user.min(passed) / COMPUTING_DIVISOR
                }
            }
            (None, _) if used * IDLE_DIVISOR < passed && !reads => self.lasted + idle(),
            (None, _) => self.lasted + used.min(passed),
        };
        (self.at, self.work) = (now, work);
        self.lasted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Compares the silence after a series of checks. Each check consists of its time, the time of the last line and
    /// the processor time, in milliseconds.
    fn check(looks: &[(u64, u64, Option<u64>)], expected: u64) {
        let mut silence = Silence::new(ms(10_000));
        let mut lasted = Duration::ZERO;
        for (now, last_line, cpu) in looks {
            let work = || cpu.map(|cpu| ProcessorUse { cpu: ms(cpu), ..ProcessorUse::default() });
            lasted = silence.update(ms(*now), ms(*last_line), work);
        }
        assert_eq!(lasted, ms(expected), "{looks:?}");
    }

    #[test]
    fn silence_of_an_idle_child_is_elapsed_time() {
        check(&[(200, 0, Some(150)), (1200, 0, Some(160)), (2200, 0, Some(170))], 2150);
        check(&[(1000, 0, None), (2000, 0, None)], 2000);
        // The second check is not due yet, so it changes nothing.
        check(&[(1000, 0, Some(0)), (1100, 0, Some(0))], 1000);
    }

    #[test]
    fn silence_of_a_computing_child_is_its_processor_time() {
        check(&[(1000, 0, Some(100)), (2000, 0, Some(300))], 300);
        // Two threads compute, but the silence is not longer than the elapsed time.
        check(&[(1000, 0, Some(2000)), (2000, 0, Some(4000))], 2000);
    }

    #[test]
    fn waiting_for_a_processor_is_not_silence() {
        let mut silence = Silence::new(ms(10_000));
        let mut check = |now, cpu, queued: &[(&str, u64)], expected| {
            let queued = queued.iter().map(|(thread, time)| ((*thread).to_owned(), ms(*time)));
            let work =
                ProcessorUse { cpu: ms(cpu), queued: queued.collect(), ..ProcessorUse::default() };
            let lasted = silence.update(ms(now), Duration::ZERO, || Some(work));
            assert_eq!(lasted, ms(expected), "at {now}");
        };
        check(1000, 0, &[("1", 990)], 10);
        check(2000, 500, &[("1", 1480)], 510);
        // Two threads wait for a processor at the same time, and one of them sleeps in between.
        check(3000, 510, &[("1", 1500), ("2", 300)], 1210);
        check(4000, 510, &[("1", 1500), ("2", 600)], 1910);
        // A thread that has ended is missing in the second list.
        check(5000, 510, &[("1", 1500)], 2910);
    }

    #[test]
    fn wait_for_a_processor_that_lasts_for_several_checks_is_not_silence() {
        let mut silence = Silence::new(ms(10_000));
        let mut check = |now, cpu, queued, expected| {
            let queued = BTreeMap::from([("1".to_owned(), ms(queued))]);
            let work = ProcessorUse { cpu: ms(cpu), queued, ..ProcessorUse::default() };
            let lasted = silence.update(ms(now), Duration::ZERO, || Some(work));
            assert_eq!(lasted, ms(expected), "at {now}");
        };
        // The child sleeps for one second and then waits for two.
        check(1000, 0, 0, 1000);
        check(2000, 0, 0, 2000);
        check(3000, 0, 0, 3000);
        check(3200, 9, 2000, 1200);
        // The next wait ends with more computing.
        check(4200, 9, 2000, 2200);
        check(4400, 99, 3100, 1390);
    }

    #[test]
    fn child_that_reads_pages_from_disk_is_not_idle() {
        let mut silence = Silence::new(ms(10_000));
        let mut check = |now, cpu, pages, expected| {
            let work = || Some(ProcessorUse { cpu: ms(cpu), pages, ..ProcessorUse::default() });
            assert_eq!(silence.update(ms(now), Duration::ZERO, work), ms(expected), "at {now}");
        };
        check(1000, 10, 5, 10);
        check(2000, 20, 6, 20);
        // Without further page reads the child counts as idle.
        check(3000, 30, 6, 1020);
    }

    #[test]
    fn line_ends_the_silence() {
        check(&[(1000, 0, Some(0)), (1100, 1050, Some(0))], 0);
        check(&[(1000, 0, Some(0)), (2000, 1500, Some(0))], 500);
        check(&[(1000, 0, Some(0)), (2000, 1500, Some(0)), (3000, 1500, Some(0))], 1500);
    }

    /// Checks the silence at each second. Each check has the processor times of a thread whose work is progress, and
    /// of another thread in user mode and in system calls, all in milliseconds since the start.
    fn check_program(looks: &[(u64, u64, u64)], expected: u64) {
        let mut silence = Silence::new(ms(10_000));
        let mut lasted = Duration::ZERO;
        for (second, (progress, user, system)) in (1..).zip(looks) {
            let activity = Activity {
                progress: BTreeMap::from([("7".to_owned(), ms(*progress))]),
                others: BTreeMap::from([("8".to_owned(), (ms(*user), ms(*system)))]),
            };
            let work =
                || Some(ProcessorUse { activity: Some(activity), ..ProcessorUse::default() });
            lasted = silence.update(ms(1000 * second), Duration::ZERO, work);
        }
        assert_eq!(lasted, ms(expected), "{looks:?}");
    }

    #[test]
    fn work_of_the_device_is_not_silence() {
        check_program(&[(900, 0, 0), (1800, 0, 0), (2700, 0, 0)], 0);
        check_program(&[(0, 0, 0), (0, 0, 0), (50, 0, 0)], 0);
        // A thread that only looks for work now and then is at rest.
        check_program(&[(40, 0, 0), (80, 0, 0), (120, 0, 0)], 3000);
        check_program(&[(900, 0, 0), (900, 0, 0), (900, 0, 0)], 2000);
    }

    #[test]
    fn loop_of_a_program_is_found_after_four_times_the_limit() {
        check_program(&[(0, 0, 0), (0, 0, 0)], 2000);
        check_program(&[(0, 1000, 0), (0, 2000, 0)], 500);
        // Four threads compute, and the silence is not longer than that of one.
        check_program(&[(0, 4000, 0), (0, 8000, 0)], 500);
        // A thread that waits actively by yielding to others does not compute.
        check_program(&[(0, 300, 700), (0, 600, 1400)], 1400);
    }
}
