use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Fault;

/// One planted fault with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planted {
    /// Which fault.
    pub fault: Fault,
    /// Probability that an opportunity to misbehave is taken, in 0..=1.
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
    /// Each copy, dispatch or allocation that could go wrong.
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

    /// What is wrong with it, if anything: a parameter that the fault does not have, a probability that is none.
    pub fn mistake(&self) -> Option<String> {
        let known = |name: &str| self.fault.parameters().iter().any(|p| p.name == name);
        if let Some(unknown) = self.with.keys().find(|name| !known(name)) {
            return Some(format!(
                "`{}` has no parameter `{unknown}`; {}",
                self.fault,
                self.offered()
            ));
        }
        let sound = (0.0..=1.0).contains(&self.probability);
        (!sound).then(|| format!("`{}`: the probability is not in 0..=1", self.fault))
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
        for (name, value) in &self.with {
            write!(f, ",{name}={value}")?;
        }
        if self.probability < 1.0 {
            write!(f, ",probability={}", self.probability)?;
            if self.per == Per::Process {
                f.write_str(",per=process")?;
            }
            write!(f, ",seed={}", self.seed)?;
        }
        Ok(())
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
            let bad =
                || BadPlanted::Parameter(format!("`{part}` in `{text}`: {}", planted.offered()));
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            match name {
                "probability" => planted.probability = value.parse().map_err(|_| bad())?,
                "seed" => planted.seed = value.parse().map_err(|_| bad())?,
                "per" if value == "process" => planted.per = Per::Process,
                "per" if value == "call" => planted.per = Per::Call,
                own => {
                    let value = value.parse().map_err(|_| bad())?;
                    planted.with.insert(own.to_owned(), value);
                }
            }
        }
        match planted.mistake() {
            Some(mistake) => Err(BadPlanted::Parameter(mistake)),
            None => Ok(planted),
        }
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
        check("copy.zero,probability=2", "`copy.zero`: the probability is not in 0..=1");
    }
}
