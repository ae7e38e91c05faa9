//! Defines the files of an evidence folder that contain the results of `rocrepro minimise`.

use serde::{Deserialize, Serialize};

use super::{Evidence, OtherFailure, Rate, Setting};

/// Result of `rocrepro minimise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MinimiseEvidence {
    /// Name of the trial that was reduced.
    pub trial: String,
    /// SHA-256 digest of the plan and the program of the trial. A trial with the same name but another digest belongs
    /// to another case, or to another version of the case.
    #[serde(default)]
    pub digest: String,
    /// Signature of the failure, which was kept during the reduction.
    pub signature: String,
    /// Injected fault with its parameters, as the user typed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Stack and device on which the trial was reduced.
    pub on: Setting,
    /// Number of calls in the original plan.
    pub calls_before: u32,
    /// Number of calls in the reduced plan.
    pub calls_after: u32,
    /// Number of processes that were started.
    pub runs: u32,
    /// Failure rate of the minimal case.
    #[serde(default)]
    pub rate: Rate,
    /// Remaining elements of the case, each with the results of running the case without it.
    pub elements: Vec<NeededElement>,
    /// Failures with other signatures that occurred during the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherFailure>,
    /// Text of the minimal case, which is also stored as [`CASE_FILE`](super::CASE_FILE).
    pub yaml: String,
    /// Configuration on which every candidate had to pass. `None` if no such configuration was found. The reduced case
    /// may then be invalid itself instead of showing a bug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<PassingRuns>,
}

/// Result of running a case on a configuration on which it must pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassingRuns {
    /// Configuration: another release, or the device without the injected faults.
    pub on: Setting,
    /// Failure rate on that configuration.
    pub rate: Rate,
    /// Calls before the failing call whose results differ between the two configurations, each with both results. The
    /// later calls therefore start from different states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
}

/// Element of the minimal case, with the results that show that the failure needs the element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeededElement {
    /// Description of the element, for example `sync of stream s0`.
    pub what: String,
    /// Line of the element in the minimal case; 0 if the element has no line.
    #[serde(default)]
    pub line: u32,
    /// Failure rate with the element.
    pub with: Rate,
    /// Failure rate without the element. If its number of runs is zero, the removal was not tried.
    pub without: Rate,
    /// Other failures that occurred without the element, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<ReplacementFailure>,
    /// Reason why the element cannot be removed: the remaining case would be invalid. `None` if the removal was tried,
    /// or if the search ended earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
}

/// A failure that occurred without an element of the minimal case and that has another signature than the reduced
/// failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplacementFailure {
    /// Signature of the failure.
    pub signature: String,
    /// Number of runs that failed with this signature.
    pub count: u32,
    /// Reason why the case without the element is itself invalid; `None` if it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<InvalidVariant>,
}

/// Reason why the case without one of its elements is invalid. A failure of such a case says nothing about ROCm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidVariant {
    /// The case without the element also fails on the configuration on which it must pass.
    Elsewhere,
    /// The case without the element states an expected result that may depend on the element.
    Answer,
    /// A kernel of the case without the element accesses memory out of bounds.
    Kernel,
}

impl InvalidVariant {
    /// Returns the label with which a table marks failures that have this reason.
    pub fn label(self) -> &'static str {
        match self {
            InvalidVariant::Elsewhere => "own: also fails elsewhere",
            InvalidVariant::Answer => "own: expects a result of a removed call",
            InvalidVariant::Kernel => "own: kernel out of bounds",
        }
    }
}

impl NeededElement {
    /// Returns true if the case also fails without the element, but less often. The search keeps such an element.
    pub fn makes_it_more_frequent(&self) -> bool {
        self.without.failed > 0
    }

    /// Splits the elements into those whose removal was tried, those that cannot be removed, and those whose removal
    /// the search did not try.
    pub fn split_by_evidence(elements: &[NeededElement]) -> [Vec<&NeededElement>; 3] {
        let tried = |needed: &&NeededElement| needed.without.runs > 0;
        let (tested, others): (Vec<_>, Vec<_>) = elements.iter().partition(tried);
        let (structural, open) = others.into_iter().partition(|n| n.impossible.is_some());
        [tested, structural, open]
    }
}

impl Evidence for MinimiseEvidence {
    const FILE: &'static str = "minimise.json";

    fn trial(&self) -> &str {
        &self.trial
    }
}

/// Result of `rocrepro minimise` for a program. The text of the shorter program is a file in the evidence folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinimisedProgram {
    /// Name of the trial whose program was shortened.
    pub trial: String,
    /// SHA-256 digest of the plan and the program of the trial. A trial with the same name but another digest belongs
    /// to another case, or to another version of the case.
    #[serde(default)]
    pub digest: String,
    /// Signature of the failure, which was kept while the program was shortened.
    pub signature: String,
    /// Stack and device on which the program was shortened.
    pub on: Setting,
    /// Name of the file in the evidence folder that contains the shorter program.
    pub file: String,
    /// Number of lines of the original program.
    pub lines_before: usize,
    /// Number of lines of the shorter program.
    pub lines: usize,
    /// Number of shorter programs that were tried.
    pub tries: u32,
    /// Failure rate of the shorter program.
    pub rate: Rate,
    /// Configuration on which the shorter program passes, for example `on debian:5.7.1`. `None` if no such
    /// configuration was found; the program itself may then be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<String>,
    /// Name of the external reducer that ran first, and true if that reducer ended by itself. `None` if no external
    /// reducer ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reducer: Option<(String, bool)>,
    /// Text of a version of the program without checks, if the failure is a crash. This version dies in the same way,
    /// and runs to its end on the configuration on which the shorter program passes. A complete run without checks
    /// proves nothing, so all results in this file are those of the program with its checks. `None` if no such version
    /// was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_checks: Option<String>,
    /// True if no further line can be removed. False if the search ended earlier.
    pub complete: bool,
}

impl Evidence for MinimisedProgram {
    const FILE: &'static str = "minimised-program.json";

    fn trial(&self) -> &str {
        &self.trial
    }
}
