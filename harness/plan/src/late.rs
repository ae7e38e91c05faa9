//! Delay injection: makes work late on purpose, because on hardware a missing synchronisation has an effect only if
//! work happens to be late. A delay is a kernel that spins for a short time. The delays run before the copies, memsets,
//! launches, host functions and graph launches of the body, on the stream of the delayed call.

use std::{fmt, str::FromStr};

use device::mix;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Call, DEFAULT_STREAM, WorkStream};

/// Delay injection with pseudo-random delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DelayInjection {
    /// Seed of the delays. Equal seeds result in equal delays.
    pub seed: u64,
}

/// Minimum and maximum of a delay, in microseconds. The minimum exceeds the duration of a small copy. The maximum
/// exceeds the time that most calls take on the host.
const MIN_MICROS: f64 = 50.0;
const MAX_MICROS: f64 = 5000.0;

impl DelayInjection {
    /// Returns the delay before execution number `occurrence` of the step with the id `step`, in microseconds. One
    /// delay in four is 0; the others are between 50 and 5000.
    pub fn micros(self, step: u32, occurrence: u32) -> u32 {
        let place = u64::from(step) << 32 | u64::from(occurrence);
        let drawn = mix(self.seed ^ mix(place));
        if drawn.is_multiple_of(4) {
            return 0;
        }
        // The logarithms of the delays are uniformly distributed, because the duration of the racing work is unknown.
        let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
        (MIN_MICROS * (MAX_MICROS / MIN_MICROS).powf(share)) as u32
    }

    /// Returns the delay injection for the n-th repetition of a trial. Each repetition has a seed of its own.
    pub fn for_run(self, n: u64) -> DelayInjection {
        DelayInjection { seed: self.seed.wrapping_add(n) }
    }
}

/// Returns the stream on which the work of a call can be delayed. Returns `None` for calls of hipRAND, hipBLASLt and
/// rocBLAS, event records, allocations and frees, [`Call::Poison`], and calls that enqueue no work.
pub fn delayed_stream(call: &Call) -> Option<&str> {
    match call.work_stream() {
        WorkStream::NullStream => Some(DEFAULT_STREAM),
        WorkStream::Stream(stream) => Some(stream),
        WorkStream::NoStream
        | WorkStream::Library(_)
        | WorkStream::Generator(_)
        | WorkStream::Mark(_)
        | WorkStream::Pool { .. }
        | WorkStream::NearestTo(_) => None,
    }
}

impl fmt::Display for DelayInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seeded={}", self.seed)
    }
}

impl FromStr for DelayInjection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seed = text.strip_prefix("seeded=").and_then(|seed| seed.parse().ok());
        let seed = seed.ok_or_else(|| {
            format!("invalid delay injection `{text}`; write `seeded=7` with a whole number")
        })?;
        Ok(DelayInjection { seed })
    }
}

impl Serialize for DelayInjection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DelayInjection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_depend_on_the_seed() {
        let late = DelayInjection { seed: 7 };
        let draw = |late: DelayInjection| {
            (0..4000).map(|n| late.micros(n % 40, n / 40)).collect::<Vec<_>>()
        };
        let lengths = draw(late);
        assert_eq!(lengths, draw(late));
        assert_ne!(lengths, draw(late.for_run(1)));
        let share = |such: fn(u32) -> bool| {
            lengths.iter().filter(|l| such(**l)).count() as f64 / lengths.len() as f64
        };
        assert!(lengths.iter().all(|l| *l == 0 || (50..=5000).contains(l)));
        assert!((share(|l| l == 0) - 0.25).abs() < 0.03);
        // Delays from 50 to 500 µs must be as frequent as those from 500 to 5000 µs.
        assert!(
            (share(|l| (50..500).contains(&l)) - share(|l| (500..5000).contains(&l))).abs() < 0.05
        );
    }

    #[test]
    fn rejects_delays_without_seed() {
        assert_eq!("seeded=7".parse(), Ok(DelayInjection { seed: 7 }));
        assert_eq!(DelayInjection { seed: 7 }.to_string(), "seeded=7");
        for text in ["", "7", "seeded", "seeded=", "seeded=-1", "seeded=x", "random"] {
            assert!(text.parse::<DelayInjection>().is_err(), "{text}");
        }
    }
}
