//! How long a child has been silent.

use std::{collections::BTreeMap, time::Duration};

/// How often the processor time of a silent child is looked at, at least four times within the limit.
const PAUSE: Duration = Duration::from_millis(200);

/// A child that uses less of a processor than one part in so many is at rest.
const AT_REST: u32 = 20;

/// What a child has had of the processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Time in which each of its threads could have run, and others did.
    pub(crate) queued: BTreeMap<String, Duration>,
    /// Pages that it got from a disk.
    pub(crate) pages: u64,
}

impl Work {
    /// The longest time since `before` in which one thread waited for its turn.
    fn waited(&self, before: &Work) -> Duration {
        let since = |(thread, queued): (&String, &Duration)| {
            queued.saturating_sub(before.queued.get(thread).copied().unwrap_or_default())
        };
        self.queued.iter().map(since).max().unwrap_or_default()
    }
}

/// The silence of a child since its last line. A child at rest is silent by the clock, but for the time in which it waited for its turn.
/// One that computes, or whose code still comes from a disk, is silent by its own processor time: on a machine with too much to do any of
/// these would else be taken for one that hangs. Times are counted from the child's start.
pub(crate) struct Silence {
    pause: Duration,
    /// Up to the last look.
    lasted: Duration,
    /// The last look, and what the child had had then.
    at: Duration,
    work: Work,
}

impl Silence {
    pub(crate) fn new(limit: Duration) -> Silence {
        let pause = if limit == Duration::MAX { limit } else { PAUSE.min(limit / 4) };
        Silence { pause, lasted: Duration::ZERO, at: Duration::ZERO, work: Work::default() }
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Duration {
        self.at.saturating_add(self.pause)
    }

    /// How long the child had been silent at the last look. Looks again where it is time to; without the child's `work` the
    /// clock counts.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        last_line: Duration,
        work: impl FnOnce() -> Option<Work>,
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
        let reads = work.pages > self.work.pages;
        self.lasted += match used * AT_REST < passed && !reads {
            true => passed.saturating_sub(work.waited(&self.work)),
            false => used.min(passed),
        };
        (self.at, self.work) = (now, work);
        self.lasted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The silence at the end of looks at the time, with the last line, with the processor time, all in milliseconds.
    fn check(looks: &[(u64, u64, Option<u64>)], expected: u64) {
        let mut silence = Silence::new(ms(10_000));
        let mut lasted = Duration::ZERO;
        for (now, last_line, cpu) in looks {
            let work = || cpu.map(|cpu| Work { cpu: ms(cpu), ..Work::default() });
            lasted = silence.look(ms(*now), ms(*last_line), work);
        }
        assert_eq!(lasted, ms(expected), "{looks:?}");
    }

    #[test]
    fn a_child_at_rest_is_silent_by_the_clock() {
        check(&[(200, 0, Some(150)), (1200, 0, Some(160)), (2200, 0, Some(170))], 2150);
        check(&[(1000, 0, None), (2000, 0, None)], 2000);
        // Too early for another look.
        check(&[(1000, 0, Some(0)), (1100, 0, Some(0))], 1000);
    }

    #[test]
    fn a_child_that_computes_is_silent_by_its_own_time() {
        check(&[(1000, 0, Some(100)), (2000, 0, Some(300))], 300);
        // Two threads make no more silence than there is.
        check(&[(1000, 0, Some(2000)), (2000, 0, Some(4000))], 2000);
    }

    #[test]
    fn a_turn_that_does_not_come_is_no_rest() {
        let mut silence = Silence::new(ms(10_000));
        let mut check = |now, cpu, queued: &[(&str, u64)], expected| {
            let queued = queued.iter().map(|(thread, time)| ((*thread).to_owned(), ms(*time)));
            let work = Work { cpu: ms(cpu), queued: queued.collect(), pages: 0 };
            let lasted = silence.look(ms(now), Duration::ZERO, || Some(work));
            assert_eq!(lasted, ms(expected), "at {now}");
        };
        check(1000, 0, &[("1", 990)], 10);
        check(2000, 500, &[("1", 1480)], 510);
        // Two threads wait at the same time, and one of them sleeps in between.
        check(3000, 510, &[("1", 1500), ("2", 300)], 1210);
        check(4000, 510, &[("1", 1500), ("2", 600)], 1910);
        // The time of a thread that has ended is no longer there.
        check(5000, 510, &[("1", 1500)], 2910);
    }

    #[test]
    fn who_gets_pages_from_a_disk_is_not_at_rest() {
        let mut silence = Silence::new(ms(10_000));
        let mut check = |now, cpu, pages, expected| {
            let work = || Some(Work { cpu: ms(cpu), pages, ..Work::default() });
            assert_eq!(silence.look(ms(now), Duration::ZERO, work), ms(expected), "at {now}");
        };
        check(1000, 10, 5, 10);
        check(2000, 20, 6, 20);
        // No page more: it rests.
        check(3000, 30, 6, 1020);
    }

    #[test]
    fn a_line_ends_the_silence() {
        check(&[(1000, 0, Some(0)), (1100, 1050, Some(0))], 0);
        check(&[(1000, 0, Some(0)), (2000, 1500, Some(0))], 500);
        check(&[(1000, 0, Some(0)), (2000, 1500, Some(0)), (3000, 1500, Some(0))], 1500);
    }
}
