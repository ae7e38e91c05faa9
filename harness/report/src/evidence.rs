//! The files of an evidence folder: what each command found out about one failing trial, kept for the report.
//!
//! One folder is about one failure. Each file is one JSON object that says on what it was found, so that a report does not mix
//! findings of different releases or devices.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::Record;

/// The minimal case.
pub const CASE_FILE: &str = "case.yaml";
/// Records of the trial, one JSON line each.
pub const RECORDS_FILE: &str = "record.jsonl";
/// The finished report.
pub const REPORT_FILE: &str = "report.md";

/// A file of the evidence folder.
pub trait Evidence: Serialize + DeserializeOwned {
    /// Its name in the folder.
    const FILE: &'static str;

    /// The file's text.
    ///
    /// # Errors
    /// None in practice: every finding can be written as JSON.
    fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads what [`Evidence::to_json`] wrote.
    ///
    /// # Errors
    /// Text that is no such finding.
    fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// Name of the folder where none is given: `rocrepro-` and the last part of the case's id.
pub fn folder_name(case: &str) -> String {
    format!("rocrepro-{}", case.rsplit('/').next().unwrap_or(case))
}

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Version of rocrepro.
    pub rocrepro: String,
    /// RFC 3339 in UTC.
    pub date: String,
    /// The stack as the user names it, such as `debian:7.2.4`.
    pub stack: String,
    /// Its ROCm version, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<String>,
    /// Architecture of the device.
    pub gfx: String,
    /// Whether the device is emulated.
    pub emulated: bool,
    /// Names of the planted faults; a finding with one says nothing about a ROCm release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The command that runs the failing trial once more.
    pub again: String,
}

impl Setting {
    /// The setting of a record.
    pub fn of(record: &Record) -> Setting {
        Setting {
            rocrepro: record.rocrepro.clone(),
            date: record.date.clone(),
            stack: record.stack.spec.clone(),
            rocm: record.stack.rocm.as_ref().map(ToString::to_string),
            gfx: record.device.gfx.clone(),
            emulated: record.device.emulated,
            faults: record.faults.iter().map(ToString::to_string).collect(),
            again: record.again.clone(),
        }
    }
}

/// Failures among runs in fresh processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Runs that failed with the signature in question.
    pub failed: u32,
    /// All runs that gave a verdict.
    pub runs: u32,
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.failed, self.runs)
    }
}

impl Rate {
    /// The exact 95 % interval of the failure probability; none where nothing ran.
    pub fn interval(self) -> Option<(f64, f64)> {
        let Rate { failed: hits, runs } = self;
        (runs > 0).then(|| judge::Rate { hits, runs }.interval())
    }

    /// Whether it is below or above another rate, as far as their intervals tell; equal where they overlap.
    pub fn compared(self, other: Rate) -> Ordering {
        match (self.interval(), other.interval()) {
            (Some((_, high)), Some((low, _))) if high < low => Ordering::Less,
            (Some((low, _)), Some((_, high))) if low > high => Ordering::Greater,
            _ => Ordering::Equal,
        }
    }
}

/// Another failure that was met on the way; it is a bug of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherFailure {
    /// Its signature.
    pub signature: String,
    /// Runs that gave it.
    pub count: u32,
}

/// What `rocrepro minimise` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Minimised {
    /// The trial that was reduced.
    pub trial: String,
    /// The signature that was kept.
    pub signature: String,
    /// The planted fault, with parameters, as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// On what.
    pub on: Setting,
    /// Calls of the plan before.
    pub calls_before: u32,
    /// Calls of the plan after.
    pub calls_after: u32,
    /// Processes started.
    pub runs: u32,
    /// Failure rate of the minimal case.
    #[serde(default)]
    pub rate: Rate,
    /// Each element that is left, and what happens without it.
    pub elements: Vec<Needed>,
    /// Other failures met on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherFailure>,
    /// The minimal case, as in [`CASE_FILE`].
    pub yaml: String,
    /// Where every candidate had to pass; none where no such place was found, so that nothing tells a case that is wrong itself
    /// from one that shows a bug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<Passes>,
}

/// Runs where something must pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// Where: another release, or the device without the planted faults.
    pub on: Setting,
    /// Failures there.
    pub rate: Rate,
    /// Calls before the failing one of which the case wants another answer there, each with both: what follows them then starts from
    /// another state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
}

/// An element of the minimal case, and why it is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    /// In words, such as `sync of stream s0`.
    pub what: String,
    /// Its line in the minimal case; 0 where it has none.
    #[serde(default)]
    pub line: u32,
    /// Failures with it.
    pub with: Rate,
    /// Failures without it; no runs where nothing was tried without it.
    pub without: Rate,
    /// What failed in its place without it, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<Instead>,
    /// Why nothing could be tried: what would be left is no case that could fail in this way. None where it was tried, or was not
    /// come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
}

/// Another failure than the one in question, of a variant of a minimal case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instead {
    /// Its signature.
    pub signature: String,
    /// Runs that gave it.
    pub count: u32,
    /// Why the variant is itself wrong; none where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Wrong>,
}

/// Why a failure of a variant of a case is no news: the variant is itself wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wrong {
    /// It fails where it must pass, too.
    Elsewhere,
    /// It states an answer that may rest on what was changed.
    Answer,
    /// A kernel of its own touches memory that it may not.
    Kernel,
}

impl Wrong {
    /// What marks a failure of this kind.
    pub fn mark(self) -> &'static str {
        match self {
            Wrong::Elsewhere => "own: fails elsewhere too",
            Wrong::Answer => "own: states an answer",
            Wrong::Kernel => "own: kernel out of bounds",
        }
    }
}

impl Needed {
    /// Whether it fails without the element as well, which was kept because it then fails less often.
    pub fn makes_it_more_frequent(&self) -> bool {
        self.without.failed > 0
    }

    /// The elements that were tried, those that cannot go, and those that were not come to.
    pub fn by_proof(elements: &[Needed]) -> [Vec<&Needed>; 3] {
        let tried = |needed: &&Needed| needed.without.runs > 0;
        let (tested, others): (Vec<_>, Vec<_>) = elements.iter().partition(tried);
        let (structural, open) = others.into_iter().partition(|n| n.impossible.is_some());
        [tested, structural, open]
    }
}

impl Evidence for Minimised {
    const FILE: &'static str = "minimise.json";
}

/// What `rocrepro mitigate` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mitigations {
    /// The failing trial.
    pub trial: String,
    /// Its signature.
    pub signature: String,
    /// On what.
    pub on: Setting,
    /// Failures without any mitigation.
    pub base: Rate,
    /// Processes started.
    pub runs: u32,
    /// Every factor that was tried, in order.
    pub factors: Vec<Factor>,
    /// Names of the factors that together make the failure go away, where no single one does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub minimal_set: Vec<String>,
    /// Components that the factors that helped point to, most pointed to first.
    pub points_to: Vec<String>,
    /// Factors that do not apply, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tried: Vec<NotTried>,
}

/// One change of environment or plan, and what it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The variable, or the rewrite.
    pub name: String,
    /// What is changed.
    pub kind: FactorKind,
    /// The variable's value; empty for a rewrite without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it changes, in one sentence.
    pub meaning: String,
    /// Since which release it is there, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Failures with it: of the same signature.
    pub rate: Rate,
    /// What it did.
    pub verdict: FactorVerdict,
    /// The component that it points to when it helps.
    pub component: String,
}

/// What a factor changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorKind {
    /// A variable of the environment.
    Env,
    /// The calls of the plan.
    Rewrite,
    /// A limit of a resource.
    Limit,
}

/// What a factor did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorVerdict {
    /// The failure is gone, as far as the runs tell.
    Helped,
    /// It fails as often as before.
    NoEffect,
    /// It fails, at a quarter of the rate or less.
    Rarer,
    /// It fails in another way.
    ChangedSignature {
        /// The other signature.
        to: String,
    },
    /// With other calls the case fails where it states an answer, which need not be the answer to those calls.
    Wrong {
        /// The signature.
        to: String,
    },
    /// The runs did not decide it.
    Undecided,
}

/// A factor that was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTried {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

impl Evidence for Mitigations {
    const FILE: &'static str = "mitigate.json";
}

/// What `rocrepro bisect` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bisected {
    /// The trial.
    pub trial: String,
    /// What was searched: `debian`, `nightly`, `apt`, `components`, ...
    pub axis: String,
    /// The last build that does not have the failure; none where all have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<String>,
    /// The first build that has it; none where none has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<String>,
    /// The stretch over which the same value fails in some runs and passes in others; none where the step is sharp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<ThresholdBand>,
    /// Runs per build, in the order of the axis.
    pub rates: Vec<BuildRate>,
    /// What the answer does not say, and what else was seen: a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether a fix was looked for: the good build is then the later one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fix: bool,
    /// Probability that the change is here; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The signature that was followed.
    pub signature: String,
    /// On what; `stack` is the first bad build where there is one.
    pub on: Setting,
    /// Components that differ between the two builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The last good build with one component of the first bad one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossed: Vec<Crossed>,
    /// Builds that could not be tested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Commands that repeat the two decisive runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rerun: Vec<String>,
    /// The good and the bad build of the search over whole nights that this one went on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<(String, String)>,
}

impl Bisected {
    /// The folder of a search that went on from another, in the folder of that one.
    pub const FINER: &str = "commits";

    /// Whether it went on from the answer of another search: a later answer has other builds.
    pub fn went_on_from(&self, before: &Bisected) -> bool {
        let ends = before.last_good.clone().zip(before.first_bad.clone());
        ends.is_some() && self.within == ends
    }
}

/// A threshold that is random.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdBand {
    /// The last tested value that never failed.
    pub never: String,
    /// The first value that failed.
    pub first: String,
    /// The first tested value from which on every run failed.
    pub always: String,
}

impl ThresholdBand {
    /// In one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        format!(
            "a random threshold: seen from the good end no run failed up to {}, some failed from {} on, all failed from {} on",
            self.never, self.first, self.always
        )
    }
}

/// The runs of one build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRate {
    /// The build, such as `7.2.4` or `7.15.0a20260901`.
    pub version: String,
    /// Failures with the signature.
    pub rate: Rate,
}

/// A component that differs between the last good and the first bad build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Its name, such as `clr` or `libamdhip64`.
    pub name: String,
    /// Its version, commit or build id in the last good build.
    pub good: String,
    /// The same in the first bad build.
    pub bad: String,
    /// Where the two can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_url: Option<String>,
}

/// Runs of the last good build with one component of the first bad one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossed {
    /// The component: `hip`, `rocr`, `compiler` or `libraries`.
    pub component: String,
    /// The build that it comes from.
    pub of: String,
    /// Failures with the signature.
    pub rate: Rate,
    /// Why the two do not go together, or what else happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A build that could not be tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The build.
    pub version: String,
    /// Why.
    pub why: String,
}

impl Evidence for Bisected {
    const FILE: &'static str = "bisect.json";
}

/// What `rocrepro export` wrote and checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exported {
    /// The trial that was exported.
    pub trial: String,
    /// `hipcc`, `hiprtc` or `python`.
    pub form: String,
    /// The program, relative to the folder.
    pub path: String,
    /// The command that builds it; empty where nothing is built.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The command that runs it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Runs of the built program that showed the reported failure, of all runs; none where it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Rate>,
    /// On what it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Setting>,
    /// How the program itself ended, such as `died of SIGSEGV`, or what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Runs of the program where it must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<Passes>,
    /// Whether program and trial made the same API calls in the same order; none where that was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_equal: Option<bool>,
    /// Runs of programs in which it was made shorter; none where nobody tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// Whether that came to an end before everything was tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
}

impl Evidence for Exported {
    const FILE: &'static str = "export.json";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failed;

    /// Those that the project shows: a search that is not made anew after its form changed is read by nothing else here.
    #[test]
    fn findings_that_are_shown_can_be_read() {
        let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/examples");
        let mut read = 0;
        for example in std::fs::read_dir(shown).unwrap() {
            let folder = example.unwrap().path();
            let mut check = |file: &str, good: fn(&str) -> serde_json::Result<()>| {
                let path = folder.join(file);
                let Ok(text) = std::fs::read_to_string(&path) else { return };
                good(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                read += 1;
            };
            check(Minimised::FILE, |text| Minimised::from_json(text).map(drop));
            check(Mitigations::FILE, |text| Mitigations::from_json(text).map(drop));
            check(Bisected::FILE, |text| Bisected::from_json(text).map(drop));
            check(Exported::FILE, |text| Exported::from_json(text).map(drop));
        }
        assert!(read >= 6, "{read}");
    }

    #[test]
    fn findings_survive_their_file() {
        let on = Setting::of(&failed("copies/plain[bytes=2]"));
        assert!(on.emulated);
        let found = Mitigations {
            trial: "copies/plain[bytes=2]".to_owned(),
            signature: "wrong-data:back:zero".to_owned(),
            on,
            base: Rate { failed: 5, runs: 5 },
            runs: 12,
            factors: vec![Factor {
                name: "HSA_ENABLE_SDMA".to_owned(),
                kind: FactorKind::Env,
                value: "0".to_owned(),
                meaning: "Copies are made by kernels.".to_owned(),
                since: None,
                rate: Rate { failed: 0, runs: 7 },
                verdict: FactorVerdict::ChangedSignature { to: "hang".to_owned() },
                component: "copy engine".to_owned(),
            }],
            minimal_set: Vec::new(),
            points_to: vec!["copy engine".to_owned()],
            not_tried: Vec::new(),
        };
        let text = found.to_json().unwrap();
        assert_eq!(Mitigations::from_json(&text).unwrap(), found);
        assert!(Mitigations::from_json("{}").is_err());
    }

    #[test]
    fn the_folder_is_named_after_the_case() {
        assert_eq!(folder_name("copies/small-sizes"), "rocrepro-small-sizes");
        assert_eq!(folder_name("mine"), "rocrepro-mine");
    }

    #[test]
    fn nothing_ran_bounds_nothing() {
        assert_eq!(Rate::default().interval(), None);
        assert!(Rate { failed: 0, runs: 30 }.interval().is_some_and(|(_, high)| high < 0.12));
    }
}
