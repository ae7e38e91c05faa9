use std::{fmt, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// When the emulated device carries out the work that the host has handed over. A program whose result differs
/// between two of these is racy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Schedule {
    /// As soon as it can; queues and copy engines run at the same time as each other and the host.
    #[default]
    Eager,
    /// As late as the interface allows: nothing is carried out before somebody waits for it, and then nothing that the
    /// wait does not need.
    Lazy,
    /// One of the legal orders of queues, copy engines, host and waves, chosen by this seed.
    Seeded(u64),
    /// As [`Schedule::Eager`], but with turns of so many instructions for the waves of a workgroup, instead of a few: a race
    /// between waves may show in numbers on long or on short ones alone.
    Waves(NonZeroU64),
    /// As [`Schedule::Eager`], but what memory gives reaches the registers of a kernel only when it waits for that: a
    /// missing wait shows in numbers.
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

/// The text names no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSchedule(pub String);

impl fmt::Display for UnknownSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no schedule; there are eager, lazy, late-results, seeded=N and waves=N (N from 1 on)",
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
    fn a_schedule_is_read_back_as_it_is_shown() {
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
