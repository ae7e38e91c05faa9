use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Fault;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One planted fault with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planted {
    /// Which fault.
    pub fault: Fault,
    /// Probability that an opportunity to misbehave is taken, above 0 and at most 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// What an opportunity is.
    #[serde(default, skip_serializing_if = "Per::is_call")]
    pub per: Per,
    /// Seed of the choice; the same seed misbehaves at the same opportunities.
    #[serde(default)]
    pub seed: u64,
    /// The fault's own numbers where they are not the usual ones, by the name of the [parameter](Fault::parameters).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, u64>,
}

/// What one draw of a fault's probability is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Each copy, dispatch or allocation of the device that could go wrong, or each call of the plan.
    #[default]
    Call,
    /// The whole process, as a bug that shows in one of five fresh processes.
    Process,
}

impl Per {
    fn is_call(&self) -> bool {
        *self == Per::Call
    }
}

fn always() -> f64 {
    1.0
}

impl From<Fault> for Planted {
    /// The fault at every opportunity.
    fn from(fault: Fault) -> Self {
        Planted { fault, probability: 1.0, per: Per::Call, seed: 0, with: BTreeMap::new() }
    }
}

impl Planted {
    /// The value of one of the fault's own parameters; 0 for one that it does not have.
    pub fn amount(&self, parameter: &str) -> u64 {
        let usual = || self.fault.parameters().iter().find(|p| p.name == parameter);
        self.with.get(parameter).copied().or_else(|| Some(usual()?.default)).unwrap_or(0)
    }

    /// The fault as it is planted in the n-th of several processes: with the seed of the first, one of less than full
    /// probability would misbehave at the same opportunities again.
    #[must_use]
    pub fn of_run(&self, n: u64) -> Planted {
        let certain = self.probability >= 1.0;
        let seed = if certain { self.seed } else { self.seed.wrapping_add(n) };
        Planted { seed, ..self.clone() }
    }

    /// Whether it misbehaves at the opportunity of this number, counted from 0 in each process. Nothing but the fault, its seed
    /// and the number decides.
    pub fn takes(&self, opportunity: u64) -> bool {
        let name = self.fault.name().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        let draw = if self.per == Per::Process { 0 } else { opportunity };
        let hash = mix(mix(self.seed ^ name) ^ draw);
        // 53 bits are what a double holds exactly, so a probability of 1 always misbehaves.
        ((hash >> 11) as f64) < self.probability * (1u64 << 53) as f64
    }

    /// Sets a parameter by its name: one of the fault's own, or `probability`, `per` or `seed`.
    ///
    /// # Errors
    /// What is wrong, and what could be written.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let before = self.clone();
        let (fault, offered) = (self.fault, self.offered());
        let bad = || format!("`{name}={value}` of `{fault}`: {offered}");
        match (name, value) {
            ("probability", _) => {
                self.probability = value.parse().map_err(|_| bad())?;
            }
            ("seed", _) => self.seed = value.parse().map_err(|_| bad())?,
            ("per", "process") => self.per = Per::Process,
            ("per", "call") => self.per = Per::Call,
            ("per", _) => return Err(bad()),
            _ => {
                let value = value.parse().map_err(|_| bad())?;
                self.with.insert(name.to_owned(), value);
            }
        }
        let Some(mistake) = self.mistake() else { return Ok(()) };
        // What is wrong with this parameter is not told of the next one too.
        *self = before;
        Err(mistake)
    }

    /// The parameters that are not the usual ones, by name, as [`set`](Self::set) takes them.
    pub fn parameters(&self) -> Vec<(&str, String)> {
        let own = self.with.iter().map(|(name, value)| (name.as_str(), value.to_string()));
        let mut all: Vec<_> = own.collect();
        if self.probability < 1.0 {
            all.push(("probability", self.probability.to_string()));
            if self.per == Per::Process {
                all.push(("per", "process".to_owned()));
            }
            all.push(("seed", self.seed.to_string()));
        }
        all
    }

    /// What is wrong with it, if anything: a parameter that the fault does not have, a probability that is none or with which it
    /// never misbehaves.
    pub fn mistake(&self) -> Option<String> {
        let known = |name: &str| self.fault.parameters().iter().any(|p| p.name == name);
        if let Some(unknown) = self.with.keys().find(|name| !known(name)) {
            return Some(format!(
                "`{}` has no parameter `{unknown}`; {}",
                self.fault,
                self.offered()
            ));
        }
        let sound = self.probability > 0.0 && self.probability <= 1.0;
        (!sound).then(|| format!("`{}`: the probability must be above 0 and at most 1", self.fault))
    }

    fn offered(&self) -> String {
        let own = self.fault.parameters().iter().map(|p| format!("{}={}", p.name, p.default));
        let all: Vec<String> = own
            .chain(["probability=0.2".to_owned(), "per=process".to_owned(), "seed=7".to_owned()])
            .collect();
        format!("write {}", all.join(", "))
    }
}

/// As it is written on the command line: `copy.late,ms=50,probability=0.2,seed=7`.
impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        self.parameters().iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

/// The text is no planted fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadPlanted {
    /// The name is not in the catalogue.
    Fault(String),
    /// A parameter is wrong; what it is and what could be written.
    Parameter(String),
}

impl fmt::Display for BadPlanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPlanted::Fault(name) => write!(f, "no fault is called `{name}`"),
            BadPlanted::Parameter(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BadPlanted {}

impl FromStr for Planted {
    type Err = BadPlanted;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let fault: Fault = name.parse().map_err(|_| BadPlanted::Fault(name.to_owned()))?;
        let mut planted = Planted::from(fault);
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                BadPlanted::Parameter(format!("`{part}` in `{text}`: {}", planted.offered()))
            })?;
            planted.set(name, value).map_err(BadPlanted::Parameter)?;
        }
        Ok(planted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_fault_is_read_back_as_it_is_shown() {
        for text in [
            "copy.zero",
            "copy.late,ms=50",
            "copy.zero,probability=0.25,seed=7",
            "launch.slow,factor=3,ms=9,probability=0.5,per=process,seed=1",
        ] {
            assert_eq!(text.parse::<Planted>().unwrap().to_string(), text);
        }
        let late: Planted = "copy.late".parse().unwrap();
        assert_eq!((late.amount("ms"), late.amount("bytes")), (20, 0));
    }

    /// A fault at calls and one of the device are drawn alike.
    const KINDS: [Fault; 2] = [Fault::GraphLaunchLost, Fault::CopyZero];

    #[test]
    fn the_seed_decides_and_the_probability_is_kept() {
        #[track_caller]
        fn check(probability: f64, expected: std::ops::RangeInclusive<usize>) {
            for fault in KINDS {
                let planted = |seed| Planted { probability, seed, ..Planted::from(fault) };
                let draws = |seed| (0..1000).map(|n| planted(seed).takes(n)).collect::<Vec<_>>();
                let taken = draws(1).into_iter().filter(|taken| *taken).count();
                assert!(expected.contains(&taken), "{fault} {probability}: {taken} of 1000");
                assert_eq!(draws(7), draws(7));
                assert!(*expected.start() == *expected.end() || draws(7) != draws(8));
            }
        }
        check(0.01, 1..=30);
        check(0.5, 400..=600);
        check(1.0, 1000..=1000);
    }

    #[test]
    fn a_process_has_the_fault_or_has_it_not() {
        for fault in KINDS {
            let planted = Planted { probability: 0.5, per: Per::Process, ..Planted::from(fault) };
            let all = |run| (0..20).all(|n| planted.of_run(run).takes(n));
            let any = |run| (0..20).any(|n| planted.of_run(run).takes(n));
            assert!((0..100).all(|run| all(run) == any(run)), "{fault}");
            let affected = (0..100).filter(|run| all(*run)).count();
            assert!((30..70).contains(&affected), "{fault}: {affected} of 100");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(text.parse::<Planted>().unwrap_err().to_string(), expected);
        }
        check("copy.none", "no fault is called `copy.none`");
        check(
            "copy.late,m=5",
            "`copy.late` has no parameter `m`; write ms=20, probability=0.2, per=process, seed=7",
        );
        check(
            "copy.zero,often",
            "`often` in `copy.zero,often`: write probability=0.2, per=process, seed=7",
        );
        check(
            "copy.late,ms=soon",
            "`ms=soon` of `copy.late`: write ms=20, probability=0.2, per=process, seed=7",
        );
        for probability in ["0", "-0.5", "2", "NaN", "inf"] {
            check(
                &format!("copy.zero,probability={probability}"),
                "`copy.zero`: the probability must be above 0 and at most 1",
            );
        }
    }
}
