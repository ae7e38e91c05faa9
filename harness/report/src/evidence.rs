//! Defines the files of an evidence folder. Each file contains the result of one command about a failing trial.
//! `rocrepro report` reads all of them.
//!
//! All files in a folder are about the same failure. Each file is one JSON object that includes the release and device,
//! so that a report never mixes results from different releases or devices.

mod minimised;

use std::cmp::Ordering;

use search::fisher::{Count, fisher};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use self::minimised::{
    InvalidVariant, MinimiseEvidence, MinimisedProgram, NeededElement, PassingRuns,
    ReplacementFailure,
};
use crate::Record;

/// File name of the minimal case.
pub const CASE_FILE: &str = "case.yaml";
/// File name of the trial's records, one JSON line each.
pub const RECORDS_FILE: &str = "record.jsonl";
/// File name of the finished issue report.
pub const REPORT_FILE: &str = "report.md";

/// Content of one file of an evidence folder.
pub trait Evidence: Serialize + DeserializeOwned {
    /// Name of the file in the evidence folder.
    const FILE: &'static str;

    /// Returns the name of the trial that the evidence is about.
    fn trial(&self) -> &str;

    /// Serialises the evidence as JSON.
    ///
    /// # Errors
    /// None in practice, because all evidence can be written as JSON.
    fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Parses the text of a file that [`Evidence::to_json`] wrote.
    ///
    /// # Errors
    /// The text is not evidence of this kind.
    fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// Returns the default name of the evidence folder: `rocrepro-` and the last component of the case's name.
pub fn folder_name(case: &str) -> String {
    format!("rocrepro-{}", case.rsplit('/').next().unwrap_or(case))
}

/// Version, stack and device of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Version of rocrepro.
    pub rocrepro: String,
    /// Date of the result, RFC 3339 in UTC.
    pub date: String,
    /// Name of the stack as the user gave it, for example `debian:7.2.4`.
    pub stack: String,
    /// ROCm version of the stack, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<String>,
    /// Architecture of the device, for example `gfx1151`.
    pub gfx: String,
    /// True if the device is emulated.
    pub emulated: bool,
    /// Names of the injected faults. If there are any, the result says nothing about a ROCm release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Command that repeats the failing trial.
    pub again: String,
}

impl Setting {
    /// Copies the version, stack and device from a record.
    pub fn from_record(record: &Record) -> Setting {
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

/// Failure rate: the number of failures in a number of runs, each in a fresh process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Number of failed runs. Usually, only failures with one signature are counted.
    pub failed: u32,
    /// Number of runs that had a verdict.
    pub runs: u32,
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.failed, self.runs)
    }
}

impl Rate {
    /// Returns the exact 95 % interval of the failure probability; `None` if there were no runs.
    pub fn interval(self) -> Option<(f64, f64)> {
        let Rate { failed: hits, runs } = self;
        (runs > 0).then(|| judge::Rate { hits, runs }.interval())
    }

    /// Compares two failure rates by Fisher's exact test. Returns `Equal` if equal probabilities would lead to the
    /// observed numbers of failures, or to less likely ones, in at least 5 % of all experiments.
    pub fn compare(self, other: Rate) -> Ordering {
        let p = fisher(self.count(), other.count());
        let (one, two) = (self.failed * other.runs, other.failed * self.runs);
        if p < 0.05 { one.cmp(&two) } else { Ordering::Equal }
    }

    fn count(self) -> Count {
        Count { failed: self.failed, runs: self.runs }
    }
}

/// A failure that occurred during a search but has another signature. It is probably another bug.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherFailure {
    /// Signature of the failure.
    pub signature: String,
    /// Number of runs that failed with this signature.
    pub count: u32,
}

/// Result of `rocrepro mitigate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mitigations {
    /// The failing trial.
    pub trial: String,
    /// SHA-256 digest of the plan and the program of the trial. A trial with the same name but another digest belongs
    /// to another case, or to another version of the case.
    #[serde(default)]
    pub digest: String,
    /// Signature of the failure.
    pub signature: String,
    /// Stack and device on which the trial ran.
    pub on: Setting,
    /// Failure rate without any mitigation.
    pub base: Rate,
    /// Failures with other signatures in the runs without any mitigation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_others: Vec<OtherFailure>,
    /// Number of processes that were started.
    pub runs: u32,
    /// Factors that were tried, in the order in which they were tried.
    pub factors: Vec<Factor>,
    /// Names of the factors that prevent the failure only if all of them are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub minimal_set: Vec<String>,
    /// Components of ROCm that the effective factors point to, those with the most factors first.
    pub points_to: Vec<String>,
    /// Factors that were not tried, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tried: Vec<NotTried>,
}

/// One change to the environment or to the plan, and its effect on the failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Name of the environment variable, of the resource limit or of the rewrite.
    pub name: String,
    /// Kind of change.
    pub kind: FactorKind,
    /// Value of the environment variable, of the resource limit or of the rewrite; empty for a rewrite without a value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Explanation of the change, in one sentence.
    pub meaning: String,
    /// First ROCm release that supports the change; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Failure rate with the change. A failure with another signature is not counted.
    pub rate: Rate,
    /// Failures with other signatures in the same runs, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherFailure>,
    /// Effect of the change.
    pub verdict: FactorVerdict,
    /// Component of ROCm that an effective change points to.
    pub component: String,
}

/// Kind of change that a factor makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorKind {
    /// Sets an environment variable.
    Env,
    /// Replaces calls of the plan by others.
    Rewrite,
    /// Sets a resource limit.
    Limit,
}

/// Effect of a factor on the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorVerdict {
    /// The failure no longer occurred in any run.
    Helped,
    /// The failure is as frequent as before.
    NoEffect,
    /// The failure still occurs, at a quarter of the rate or less. The difference is significant after correction for
    /// the number of factors.
    Rarer,
    /// The trial fails with another signature, in all runs or in some.
    ChangedSignature {
        /// Signature of the new failure.
        to: String,
    },
    /// The rewritten case fails, but perhaps only because an expected result does not apply to the rewritten calls.
    Wrong {
        /// Signature of the rewritten case's failure.
        to: String,
    },
    /// There were too few runs to determine the effect.
    Undecided,
}

/// A factor that was not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTried {
    /// Name of the factor.
    pub name: String,
    /// Reason why the factor was not tried.
    pub why: String,
}

impl NotTried {
    /// Reason if the search ended before the change was tried.
    pub const SEARCH_ENDED: &str = "the search ended before it was tried";
}

impl Mitigations {
    /// Groups the factors that were not tried by reason. Returns each reason, without its full stop, with the names of
    /// the factors.
    pub(crate) fn not_tried_by_reason(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for NotTried { name, why } in &self.not_tried {
            let why = why.trim_end_matches('.');
            match reasons.iter_mut().find(|(other, _)| *other == why) {
                Some((_, names)) => names.push(name),
                None => reasons.push((why, vec![name])),
            }
        }
        reasons
    }
}

impl Evidence for Mitigations {
    const FILE: &'static str = "mitigate.json";

    fn trial(&self) -> &str {
        &self.trial
    }
}

/// Result of `rocrepro bisect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BisectEvidence {
    /// The failing trial.
    pub trial: String,
    /// Kind of builds or values among which the search ran: `debian`, `nightly`, `apt`, `components` and others.
    pub axis: String,
    /// Last build without the failure; `None` if all tested builds fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<String>,
    /// First build with the failure; `None` if no tested build fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<String>,
    /// Random threshold of a search among the values of a parameter or of an environment variable: the range of values
    /// that fail in some runs and pass in others. `None` for other searches, or if no value has both results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<ThresholdBand>,
    /// Failure rate of each tested build, in the order of the builds.
    pub rates: Vec<BuildRate>,
    /// Caveats about the result and other observations, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// True if the search was for a fix, so that the good build is the later one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fix: bool,
    /// True if builds on the good side of the change failed too, so that the failure only becomes more frequent at the
    /// change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worse: bool,
    /// Probability that the change is between the last good and the first bad build, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Signature of the failure that was searched for.
    pub signature: String,
    /// Configuration of the runs. [`Setting::stack`] is the first bad build if there is one.
    pub on: Setting,
    /// Components that differ between the last good and the first bad build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// Results of running the last good build with one component taken from the first bad build, for each component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossed: Vec<CrossedBuild>,
    /// Builds that could not be tested, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedBuild>,
    /// Commands that repeat the runs of the last good and the first bad build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rerun: Vec<String>,
    /// Good and bad build of the coarser search, among nightly builds, that this search refines. `None` if this search
    /// does not refine another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<(String, String)>,
}

impl BisectEvidence {
    /// Name of the subfolder for the results of a search that refines another one.
    pub const REFINED_FOLDER: &str = "commits";

    /// Returns true if this search refines the result of `before`, which means that it searched between the good and
    /// the bad build of `before`.
    pub fn refines(&self, before: &BisectEvidence) -> bool {
        let ends = before.last_good.clone().zip(before.first_bad.clone());
        ends.is_some() && self.within == ends
    }
}

/// A random threshold: the values in a range fail in some runs and pass in others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdBand {
    /// Last tested value before the range. It failed in no run.
    pub never: String,
    /// First tested value that failed in a run.
    pub first: String,
    /// First tested value after the range. From this value on, every run failed.
    pub always: String,
}

impl ThresholdBand {
    /// Describes the range in one sentence, without a full stop.
    pub fn sentence(&self) -> String {
        format!(
            "the threshold is random: starting at the good end, no run failed up to {}, some failed from {} on, and \
             all failed from {} on",
            self.never, self.first, self.always
        )
    }
}

/// Failure rate of one build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRate {
    /// Name of the build, such as `7.2.4` or `7.15.0a20260901`.
    pub version: String,
    /// Rate of failures with the searched signature.
    pub rate: Rate,
}

/// A component that differs between the last good and the first bad build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Name, for example `clr` or `libamdhip64`.
    pub name: String,
    /// Version, commit or build id in the last good build.
    pub good: String,
    /// Version, commit or build id in the first bad build.
    pub bad: String,
    /// Address of a web page that compares the two versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_url: Option<String>,
}

/// Result of running the last good build with one component taken from the first bad build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossedBuild {
    /// Name of the component: `hip`, `rocr`, `compiler` or `libraries`.
    pub component: String,
    /// Build from which the component was taken.
    pub of: String,
    /// Rate of failures with the searched signature.
    pub rate: Rate,
    /// Reason why the combination could not be tested, or the failure with another signature that it showed; `None` if
    /// there was neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A build that could not be tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedBuild {
    /// Name of the build.
    pub version: String,
    /// Reason why the build could not be tested.
    pub why: String,
}

impl Evidence for BisectEvidence {
    const FILE: &'static str = "bisect.json";

    fn trial(&self) -> &str {
        &self.trial
    }
}

/// Result of `rocrepro export`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportEvidence {
    /// Name of the trial that was exported.
    pub trial: String,
    /// Kind of program: `hipcc`, `hiprtc` or `python`.
    pub form: String,
    /// Path of the program, relative to the evidence folder.
    pub path: String,
    /// Command that builds the program; empty if the program needs no build.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// Command that runs the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Rate at which the program showed the reported failure; `None` if the program was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Rate>,
    /// Stack and device on which the program was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Setting>,
    /// End of the program, for example `died of SIGSEGV`, or its last line of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Result of running the program on a configuration on which it must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<PassingRuns>,
    /// True if program and trial made the same API calls in the same order; `None` if they were not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_equal: Option<bool>,
    /// Number of runs that were spent on shortening the program; `None` if shortening was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u32>,
    /// True if the search for a shorter program was stopped before it had tried everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
}

impl Evidence for ExportEvidence {
    const FILE: &'static str = "export.json";

    fn trial(&self) -> &str {
        &self.trial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failed;

    #[test]
    fn published_examples_can_be_parsed() {
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
            check(MinimiseEvidence::FILE, |text| MinimiseEvidence::from_json(text).map(drop));
            check(Mitigations::FILE, |text| Mitigations::from_json(text).map(drop));
            check(BisectEvidence::FILE, |text| BisectEvidence::from_json(text).map(drop));
            check(ExportEvidence::FILE, |text| ExportEvidence::from_json(text).map(drop));
        }
        assert!(read >= 6, "{read}");
    }

    #[test]
    fn evidence_round_trips_through_json() {
        let on = Setting::from_record(&failed("copies/plain[bytes=2]"));
        assert!(on.emulated);
        let found = Mitigations {
            trial: "copies/plain[bytes=2]".to_owned(),
            digest: String::new(),
            signature: "wrong-data:back:zero".to_owned(),
            on,
            base: Rate { failed: 5, runs: 5 },
            base_others: Vec::new(),
            runs: 12,
            factors: vec![Factor {
                name: "HSA_ENABLE_SDMA".to_owned(),
                kind: FactorKind::Env,
                value: "0".to_owned(),
                meaning: "Copies are made by kernels.".to_owned(),
                since: None,
                rate: Rate { failed: 0, runs: 7 },
                others: vec![OtherFailure { signature: "hang".to_owned(), count: 7 }],
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
    fn folder_is_named_after_the_case() {
        assert_eq!(folder_name("copies/small-sizes"), "rocrepro-small-sizes");
        assert_eq!(folder_name("mine"), "rocrepro-mine");
    }

    #[test]
    fn rate_without_runs_has_no_interval() {
        assert_eq!(Rate::default().interval(), None);
        assert!(Rate { failed: 0, runs: 30 }.interval().is_some_and(|(_, high)| high < 0.12));
    }
}
