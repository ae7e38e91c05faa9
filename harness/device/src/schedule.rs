use std::{fmt, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Rule that decides when, and in which order, the emulated device executes submitted work. A program whose result
/// depends on the schedule has a race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Schedule {
    /// Work is executed as soon as possible. Queues and copy engines run concurrently with each other and with the
    /// host.
    #[default]
    Eager,
    /// Work is executed as late as HSA allows: when the host waits for it. Then only the work on which the wait depends
    /// is executed.
    Lazy,
    /// Queues, copy engines, the host and waves proceed in an order that the seed selects among those that HSA allows.
    Seeded(u64),
    /// Like [`Schedule::Eager`], but each wave of a workgroup executes this many instructions before the next wave
    /// continues. The other schedules use a small number. A race between waves may change results only if this number
    /// is large, or only if it is small.
    Waves(NonZeroU64),
    /// Like [`Schedule::Eager`], but a loaded value reaches its register only when the kernel waits for the load. A
    /// missing wait then changes results.
    LateResults,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Eager => f.write_str("eager"),
            Schedule::Lazy => f.write_str("lazy"),
            Schedule::Seeded(seed) => write!(f, "seeded={seed}"),
            Schedule::Waves(turn) => write!(f, "waves={turn}"),
            Schedule::LateResults => f.write_str("late-results"),
        }
    }
}

/// Error for a text that is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSchedule(pub String);

impl fmt::Display for UnknownSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a schedule; the schedules are eager, lazy, late-results, seeded=N and waves=N (N from 1 on)",
            self.0
        )
    }
}

impl std::error::Error for UnknownSchedule {}

impl FromStr for Schedule {
    type Err = UnknownSchedule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seeded = |text: &str| text.strip_prefix("seeded=")?.parse().ok().map(Schedule::Seeded);
        let waves = |text: &str| text.strip_prefix("waves=")?.parse().ok().map(Schedule::Waves);
        match text {
            "eager" => Ok(Schedule::Eager),
            "lazy" => Ok(Schedule::Lazy),
            "late-results" => Ok(Schedule::LateResults),
            other => seeded(other)
                .or_else(|| waves(other))
                .ok_or_else(|| UnknownSchedule(other.to_owned())),
        }
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_round_trips_through_text() {
        let waves = Schedule::Waves(NonZeroU64::MIN);
        let seeded = Schedule::Seeded(7);
        for schedule in [Schedule::Eager, Schedule::Lazy, Schedule::LateResults, seeded, waves] {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        for text in ["", "late", "seeded", "seeded=", "seeded=-1", "seeded=x", "waves=0"] {
            assert_eq!(text.parse::<Schedule>(), Err(UnknownSchedule(text.to_owned())));
        }
    }
}
