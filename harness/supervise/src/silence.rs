//! How long a child has been silent.

use std::time::Duration;

/// How often the processor time of a silent child is looked at, at least four times within the limit.
const PAUSE: Duration = Duration::from_millis(200);

/// A child that uses less of a processor than one part in so many is at rest.
const AT_REST: u32 = 20;

/// The silence of a child since its last line. A child at rest is silent by the clock. One that computes is silent by its own
/// processor time: on a machine with too much to do it would else be taken for one that hangs. Times are counted from the
/// child's start.
pub(crate) struct Silence {
    pause: Duration,
    /// Up to the last look.
    lasted: Duration,
    /// The last look, and the child's processor time then.
    at: Duration,
    cpu: Duration,
}

impl Silence {
    pub(crate) fn new(limit: Duration) -> Silence {
        let pause = if limit == Duration::MAX { limit } else { PAUSE.min(limit / 4) };
        Silence { pause, lasted: Duration::ZERO, at: Duration::ZERO, cpu: Duration::ZERO }
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Duration {
        self.at.saturating_add(self.pause)
    }

    /// How long the child had been silent at the last look. Looks again where it is time to; `cpu` is the child's processor
    /// time, without which the clock counts.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        last_line: Duration,
        cpu: impl FnOnce() -> Option<Duration>,
    ) -> Duration {
        if now < self.next() {
            return if last_line > self.at { Duration::ZERO } else { self.lasted };
        }
        if last_line > self.at {
            self.lasted = Duration::ZERO;
        }
        let passed = now.saturating_sub(self.at.max(last_line));
        let cpu = cpu().unwrap_or(self.cpu);
        let used = cpu.saturating_sub(self.cpu);
        self.lasted += if used * AT_REST < passed { passed } else { used.min(passed) };
        (self.at, self.cpu) = (now, cpu);
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
            lasted = silence.look(ms(*now), ms(*last_line), || cpu.map(ms));
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
    fn a_line_ends_the_silence() {
        check(&[(1000, 0, Some(0)), (1100, 1050, Some(0))], 0);
        check(&[(1000, 0, Some(0)), (2000, 1500, Some(0))], 500);
        check(&[(1000, 0, Some(0)), (2000, 1500, Some(0)), (3000, 1500, Some(0))], 1500);
    }
}
