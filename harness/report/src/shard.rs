//! Divides the trials of a run into shards, which run separately, for example on several machines.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MAX_SHARDS: u32 = 10_000;

/// One of several parts into which the trials of a run are divided, for example `2/5`: the second of five.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Shard {
    /// Number of the shard, counted from 1.
    pub number: u32,
    /// Number of shards into which the trials are divided.
    pub of: u32,
}

impl Shard {
    pub(crate) fn all(self) -> impl Iterator<Item = Shard> {
        (1..=self.of).map(move |number| Shard { number, of: self.of })
    }

    /// Returns true if a trial belongs to the shard. The result depends only on the trial's name, so a trial does not
    /// move to another shard when other trials are added or removed.
    pub fn contains(self, trial: &str) -> bool {
        // The hash is 64-bit FNV-1a (Fowler, Noll, Vo). It is mixed afterwards, because its low bits depend only on the
        // last letters.
        let hash = trial.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        device::mix(hash) % u64::from(self.of) == u64::from(self.number - 1)
    }
}

impl Shard {
    /// Returns the shard if its number is 1 to `of`.
    ///
    /// # Errors
    /// A message that contains the invalid numbers.
    pub(crate) fn validated(self) -> Result<Shard, String> {
        let Shard { number, of } = self;
        match of {
            of if of > MAX_SHARDS => Err(format!("a run has at most {MAX_SHARDS} shards")),
            of if (1..=of).contains(&number) => Ok(self),
            of => Err(format!("shard {number} of {of} does not exist")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Shard { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        match parsed {
            Some(shard) => shard.validated(),
            None => {
                Err("write the number of the shard and of all shards, such as `2/5`".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_is_in_exactly_one_shard() {
        for of in [1, 2, 3, 7] {
            let shards: Vec<Shard> = Shard { number: 1, of }.all().collect();
            let mut sizes = vec![0; of as usize];
            for n in 0..700 {
                let name = format!("copies/small-sizes[bytes={n},host=pageable]");
                let holding: Vec<_> = shards.iter().filter(|s| s.contains(&name)).collect();
                assert_eq!(holding.len(), 1, "{name}");
                sizes[holding[0].number as usize - 1] += 1;
            }
            let even = 700 / of;
            assert!(sizes.iter().all(|n| (even * 3 / 4..=even * 4 / 3).contains(n)), "{sizes:?}");
        }
        for wrong in ["0/2", "3/2", "2", "a/b", "1/0", ""] {
            wrong.parse::<Shard>().expect_err(wrong);
        }
    }
}
