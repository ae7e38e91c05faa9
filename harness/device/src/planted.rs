use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{Fault, Values, library_function, restriction};

/// Mixes the bits of a value: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// An injected fault with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// The fault.
    pub fault: Fault,
    /// Probability that the fault takes effect at one opportunity: above 0 and at most 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// Scope of one random decision: a single opportunity, or the whole process.
    #[serde(default, skip_serializing_if = "DecisionScope::is_call")]
    pub per: DecisionScope,
    /// Seed of the random decisions. With equal seeds, a fault takes effect at the same opportunities.
    #[serde(default)]
    pub seed: u64,
    /// The only opportunity at which the fault may take effect, counted from 1. `None` means all opportunities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<u64>,
    /// Values of parameters that differ from their defaults. The key is the name of the [parameter](Fault::parameters).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, ParameterValue>,
}

/// Value of one parameter of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// A number.
    Number(u64),
    /// One of the names that the parameter allows.
    Name(String),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Number(number) => number.fmt(f),
            ParameterValue::Name(name) => name.fmt(f),
        }
    }
}

impl ParameterValue {
    fn parse(text: &str) -> ParameterValue {
        text.parse().map_or_else(|_| ParameterValue::Name(text.to_owned()), ParameterValue::Number)
    }

    fn fits(&self, values: Values) -> bool {
        match (self, values) {
            (ParameterValue::Number(n), Values::Number { least, most, .. }) => {
                (least..=most).contains(n)
            }
            (ParameterValue::Name(name), Values::Name { of, .. }) => {
                of.all().contains(&name.as_str())
            }
            _ => false,
        }
    }
}

/// Scope of one random decision about a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionScope {
    /// One decision for each copy, dispatch or allocation on the device, or for each call of the plan.
    #[default]
    Call,
    /// One decision for the whole process. This imitates, for example, a bug that occurs in one of five fresh
    /// processes.
    Process,
}

impl DecisionScope {
    fn is_call(&self) -> bool {
        *self == DecisionScope::Call
    }
}

fn always() -> f64 {
    1.0
}

impl From<Fault> for FaultSpec {
    /// Returns the fault with probability 1 and default parameters.
    fn from(fault: Fault) -> Self {
        FaultSpec {
            fault,
            probability: 1.0,
            per: DecisionScope::Call,
            seed: 0,
            only: None,
            with: BTreeMap::new(),
        }
    }
}

impl FaultSpec {
    /// Returns true if the two faults are equal. The last bit of the probability is ignored, because converting a fault
    /// to JSON and back may change it.
    pub fn is_same(&self, other: &FaultSpec) -> bool {
        let FaultSpec { fault, probability, per, seed, only, with } = self;
        let others = (&other.fault, &other.per, &other.seed, &other.only, &other.with);
        (fault, per, seed, only, with) == others && (probability - other.probability).abs() < 1e-9
    }

    /// Returns the value of a numeric parameter; 0 if the fault has no such parameter.
    pub fn amount(&self, parameter: &str) -> u64 {
        match (self.with.get(parameter), self.values(parameter)) {
            (Some(ParameterValue::Number(number)), _) => *number,
            (None, Some(Values::Number { usual, .. })) => usual,
            _ => 0,
        }
    }

    /// Returns the value of a name parameter; empty if the fault has no such parameter.
    pub fn which(&self, parameter: &str) -> &str {
        match (self.with.get(parameter), self.values(parameter)) {
            (Some(ParameterValue::Name(name)), _) => name,
            (None, Some(Values::Name { usual, .. })) => usual,
            _ => "",
        }
    }

    fn values(&self, parameter: &str) -> Option<Values> {
        let all = self.fault.parameters().iter();
        all.copied().find(|p| p.name == parameter).map(|p| p.values)
    }

    /// Returns the fault to inject in process `n` of several processes. A fault with a probability below 1 gets a
    /// different seed in each process. Otherwise it would take effect at the same opportunities in all processes.
    #[must_use]
    pub fn for_run(&self, n: u64) -> FaultSpec {
        let certain = self.probability >= 1.0;
        let seed = if certain { self.seed } else { self.seed.wrapping_add(n) };
        FaultSpec { seed, ..self.clone() }
    }

    /// Returns true if the fault takes effect at this opportunity, counted from 0 in each process. The result depends
    /// only on the fault, its seed and the number of the opportunity.
    pub fn takes_effect_at(&self, opportunity: u64) -> bool {
        if self.only.is_some_and(|only| only != opportunity + 1) {
            return false;
        }
        let (key, limit) = self.draws();
        let draw = if self.per == DecisionScope::Process { 0 } else { opportunity };
        mix(key ^ draw) >> 11 < limit
    }

    /// Returns the key and the limit of the random decisions: the fault takes effect at opportunity `n`, counted from
    /// 0, if the upper 53 bits of `mix(key ^ n)` are below the limit.
    pub fn draws(&self) -> (u64, u64) {
        let name = self.fault.name().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        // A double represents 53 bits exactly, so a fault with probability 1 always takes effect.
        (mix(self.seed ^ name), (self.probability * (1u64 << 53) as f64).ceil() as u64)
    }

    /// Sets the parameter `name` to `value`. The parameter is one of the fault's own, or `probability`, `per`, `seed`
    /// or `only`.
    ///
    /// # Errors
    /// Describes the mistake and the valid values. The fault is unchanged after an error.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "probability" => {
                let read = value.parse().ok().filter(|number| is_probability(*number));
                self.probability = read.ok_or_else(|| self.bad(name, value, PROBABILITY))?;
            }
            "seed" => {
                let read = value.parse().ok();
                self.seed =
                    read.ok_or_else(|| self.bad(name, value, format_args!("0 to {}", u64::MAX)))?;
            }
            "only" => {
                let read = value.parse().ok().filter(|number| *number > 0);
                let read = read.ok_or_else(|| self.bad(name, value, "a number, counted from 1"))?;
                self.only = Some(read);
            }
            "per" => {
                self.per = match value {
                    "process" => DecisionScope::Process,
                    "call" => DecisionScope::Call,
                    _ => return Err(self.bad(name, value, "call or process")),
                };
            }
            _ => {
                let amount = ParameterValue::parse(value);
                self.wrong(name, &amount).map_or(Ok(()), Err)?;
                self.with.insert(name.to_owned(), amount);
            }
        }
        Ok(())
    }

    fn bad(&self, name: &str, value: impl fmt::Display, meant: impl fmt::Display) -> String {
        format!("`{name}={value}` of `{}`: write {meant}", self.fault)
    }

    /// Returns a description of the mistake if the fault has no parameter `name`, or if `amount` is not a valid value
    /// of that parameter; `None` if both are valid.
    fn wrong(&self, name: &str, amount: &ParameterValue) -> Option<String> {
        match self.values(name) {
            None => Some(format!("`{}` has no parameter `{name}`; {}", self.fault, self.offered())),
            Some(values) if !amount.fits(values) => {
                Some(self.bad(name, amount, values.near(&amount.to_string())))
            }
            Some(_) => {
                let function = library_function(&amount.to_string())?;
                let reason = restriction(self.fault, function, None)?;
                Some(format!("`{name}={amount}` of `{}`: {reason}", self.fault))
            }
        }
    }

    /// Describes the fault in a sentence with the values of its parameters. The sentence includes the probability if it
    /// is below 1.
    pub fn about(&self) -> String {
        let mut about = self.fault.about().to_owned();
        for parameter in self.fault.parameters() {
            let value = match parameter.values {
                Values::Name { .. } => self.which(parameter.name).to_owned(),
                Values::Number { .. } => self.amount(parameter.name).to_string(),
            };
            about = about.replace(&format!("`{}`", parameter.name), &format!("`{value}`"));
        }
        if self.probability < 1.0 {
            let per =
                if self.per == DecisionScope::Process { "processes" } else { "opportunities" };
            about += &format!(" It takes effect at {} of all {per}.", self.probability);
        }
        about
    }

    /// Returns the names and values of the parameters that differ from their defaults, as [`set`](Self::set) accepts
    /// them.
    pub fn parameters(&self) -> Vec<(&str, String)> {
        let own = self.with.iter().map(|(name, value)| (name.as_str(), value.to_string()));
        let mut all: Vec<_> = own.collect();
        if self.probability < 1.0 {
            all.push(("probability", self.probability.to_string()));
            if self.per == DecisionScope::Process {
                all.push(("per", "process".to_owned()));
            }
            all.push(("seed", self.seed.to_string()));
        }
        all.extend(self.only.map(|only| ("only", only.to_string())));
        all
    }

    /// Lists all mistakes in the parameters: unknown names, and values that are out of range or have no effect.
    pub fn mistakes(&self) -> Vec<String> {
        let own = self.with.iter().filter_map(|(name, amount)| self.wrong(name, amount));
        let never = !is_probability(self.probability);
        let never = never.then(|| self.bad("probability", self.probability, PROBABILITY));
        let none = (self.only == Some(0)).then(|| self.bad("only", 0, "a number, counted from 1"));
        own.chain(never).chain(none).collect()
    }

    fn offered(&self) -> String {
        let own = self.fault.parameters().iter();
        let own = own.map(|p| format!("{}={}", p.name, p.values.usual()));
        let all: Vec<String> = own
            .chain(["probability=0.2", "per=process", "seed=7", "only=3"].map(str::to_owned))
            .collect();
        format!("write {}", all.join(", "))
    }
}

const PROBABILITY: &str = "a number above 0 and at most 1";

fn is_probability(number: f64) -> bool {
    number > 0.0 && number <= 1.0
}

/// Formats the fault for the command line: `copy.late,ms=50,probability=0.2,seed=7`.
impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        self.parameters().iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

/// Error for a text that is not a valid fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseFaultError {
    /// The name of the fault is unknown.
    Fault(String),
    /// The parameters contain these mistakes. Each description lists the valid values.
    Parameters(Vec<String>),
}

impl fmt::Display for ParseFaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseFaultError::Fault(name) => write!(f, "unknown fault `{name}`"),
            ParseFaultError::Parameters(mistakes) => f.write_str(&mistakes.join("\n")),
        }
    }
}

impl std::error::Error for ParseFaultError {}

impl FromStr for FaultSpec {
    type Err = ParseFaultError;

    /// Parses a fault in the form in which [`Display`](fmt::Display) formats it, for example `copy.late,ms=50`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let fault: Fault = name.parse().map_err(|_| ParseFaultError::Fault(name.to_owned()))?;
        let mut planted = FaultSpec::from(fault);
        let mut seen = BTreeSet::new();
        let mut mistakes = Vec::new();
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                mistakes.push(format!("`{part}` in `{text}`: {}", planted.offered()));
                continue;
            };
            if !seen.insert(name) {
                mistakes.push(format!("`{name}` of `{fault}` is given twice"));
            }
            mistakes.extend(planted.set(name, value).err());
        }
        if mistakes.is_empty() { Ok(planted) } else { Err(ParseFaultError::Parameters(mistakes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_contains_parameter_values() {
        let about = |text: &str| text.parse::<FaultSpec>().unwrap().about();
        assert_eq!(about("call.hang"), "A call of `hipFreeAsync` never returns.");
        assert_eq!(
            about("call.refused,call=hipMalloc,probability=0.25"),
            "A call of `hipMalloc` fails with `hipErrorInvalidValue` without a reason. It takes effect at 0.25 of all opportunities."
        );
        for fault in Fault::ALL {
            let about = FaultSpec::from(*fault).about();
            for parameter in fault.parameters() {
                assert!(!about.contains(&format!("`{}`", parameter.name)), "{about}");
            }
        }
    }

    #[test]
    fn injected_fault_round_trips_through_text() {
        for text in [
            "copy.zero",
            "copy.late,ms=50",
            "copy.zero,probability=0.25,seed=7",
            "launch.slow,factor=3,ms=9,probability=0.5,per=process,seed=1",
            "copy.zero,only=2",
        ] {
            assert_eq!(text.parse::<FaultSpec>().unwrap().to_string(), text);
        }
        let late: FaultSpec = "copy.late".parse().unwrap();
        assert_eq!((late.amount("ms"), late.amount("bytes")), (20, 0));
    }

    /// One fault at calls of the plan and one fault on the device. Both use the same code for random decisions.
    const KINDS: [Fault; 2] = [Fault::GraphLaunchLost, Fault::CopyZero];

    #[test]
    fn seed_decides_and_probability_holds() {
        #[track_caller]
        fn check(probability: f64, expected: std::ops::RangeInclusive<usize>) {
            for fault in KINDS {
                let planted = |seed| FaultSpec { probability, seed, ..FaultSpec::from(fault) };
                let draws =
                    |seed| (0..1000).map(|n| planted(seed).takes_effect_at(n)).collect::<Vec<_>>();
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
    fn per_process_faults_act_always_or_never() {
        for fault in KINDS {
            let planted = FaultSpec {
                probability: 0.5,
                per: DecisionScope::Process,
                ..FaultSpec::from(fault)
            };
            let all = |run| (0..20).all(|n| planted.for_run(run).takes_effect_at(n));
            let any = |run| (0..20).any(|n| planted.for_run(run).takes_effect_at(n));
            assert!((0..100).all(|run| all(run) == any(run)), "{fault}");
            let affected = (0..100).filter(|run| all(*run)).count();
            assert!((30..70).contains(&affected), "{fault}: {affected} of 100");
        }
    }

    #[test]
    fn only_selects_one_opportunity() {
        let planted: FaultSpec = "copy.zero,only=3".parse().unwrap();
        assert_eq!((0..9).filter(|n| planted.takes_effect_at(*n)).collect::<Vec<_>>(), [2]);
        assert!("copy.zero,only=0".parse::<FaultSpec>().is_err());
    }

    #[test]
    fn reports_mistakes_with_valid_values() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(text.parse::<FaultSpec>().unwrap_err().to_string(), expected);
        }
        check("copy.none", "unknown fault `copy.none`");
        check(
            "copy.late,m=5",
            "`copy.late` has no parameter `m`; write ms=20, probability=0.2, per=process, seed=7, only=3",
        );
        check(
            "copy.zero,often",
            "`often` in `copy.zero,often`: write probability=0.2, per=process, seed=7, only=3",
        );
        check("copy.late,ms=soon", "`ms=soon` of `copy.late`: write 1 to 3600000");
        for probability in ["0", "-0.5", "2", "NaN", "inf"] {
            check(
                &format!("copy.zero,probability={probability}"),
                &format!(
                    "`probability={probability}` of `copy.zero`: write a number above 0 and at most 1"
                ),
            );
        }
        check("copy.late,ms=5,ms=6", "`ms` of `copy.late` is given twice");
        check(
            "call.crash,call=hipStreamWaitEvents",
            "`call=hipStreamWaitEvents` of `call.crash`: write hipStreamWaitEvent, hipStreamWaitEvent_spt, \
             hipStreamWaitValue32 or another one: `rocrepro case explain --faults` has all",
        );
        check(
            "call.refused,status=hipErrorNotReddy",
            "`status=hipErrorNotReddy` of `call.refused`: write hipErrorNotReady, hipErrorNotMapped, \
             hipErrorNotFound or another one: `rocrepro case explain --faults` has all",
        );
        check(
            "call.refused,call=hipGetErrorName",
            "`call=hipGetErrorName` of `call.refused`: the function returns no status",
        );
        check(
            "copy.late,ms=x,foo=3,probability=7,per=week,seed=-1",
            "`ms=x` of `copy.late`: write 1 to 3600000\n\
             `copy.late` has no parameter `foo`; write ms=20, probability=0.2, per=process, seed=7, only=3\n\
             `probability=7` of `copy.late`: write a number above 0 and at most 1\n\
             `per=week` of `copy.late`: write call or process\n\
             `seed=-1` of `copy.late`: write 0 to 18446744073709551615",
        );
    }

    #[test]
    fn parameters_accept_exactly_their_range() {
        for fault in Fault::ALL {
            for parameter in fault.parameters() {
                let takes = |value: &str| {
                    format!("{fault},{}={value}", parameter.name).parse::<FaultSpec>().is_ok()
                };
                let usual = parameter.values.usual();
                assert!(takes(&usual), "{fault}: {usual}");
                match parameter.values {
                    Values::Number { least, most, .. } => {
                        assert!(takes(&least.to_string()) && takes(&most.to_string()), "{fault}");
                        assert!(!takes(&(most + 1).to_string()), "{fault}");
                        assert!(least == 0 || !takes(&(least - 1).to_string()), "{fault}");
                        assert!(!takes("some"), "{fault}");
                    }
                    Values::Name { of, .. } => {
                        for name in of.all() {
                            let function = library_function(name);
                            let restricted =
                                function.and_then(|f| restriction(*fault, f, None)).is_some();
                            assert_eq!(takes(name), !restricted, "{fault}: {name}");
                        }
                        assert!(!takes("some") && !takes("1"), "{fault}");
                    }
                }
            }
        }
    }

    #[test]
    fn configuration_is_checked_like_text() {
        let late = |json: &str| serde_json::from_str::<FaultSpec>(json).unwrap().mistakes();
        assert_eq!(late(r#"{"fault": "copy.late", "with": {"ms": 5}}"#), [""; 0]);
        let mistakes =
            late(r#"{"fault": "copy.late", "probability": 2, "with": {"ms": 0, "s": "x"}}"#);
        assert_eq!(mistakes.len(), 3, "{mistakes:?}");
    }
}
