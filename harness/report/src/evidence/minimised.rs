//! Results of minimisations.

use serde::{Deserialize, Serialize};

use super::{Evidence, OtherFailure, Rate, Setting};

/// Result of `rocrepro minimise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Minimised {
    /// The trial that was reduced.
    pub trial: String,
    /// The signature that was kept.
    pub signature: String,
    /// Injected fault with its parameters, as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Stack and device on which the trial was reduced.
    pub on: Setting,
    /// Number of calls in the original plan.
    pub calls_before: u32,
    /// Number of calls in the reduced plan.
    pub calls_after: u32,
    /// Number of processes started.
    pub runs: u32,
    /// Failure rate of the minimal case.
    #[serde(default)]
    pub rate: Rate,
    /// Remaining elements, each with the results of runs without the element.
    pub elements: Vec<Needed>,
    /// Other failures that occurred during the search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherFailure>,
    /// The minimal case, as in [`CASE_FILE`](super::CASE_FILE).
    pub yaml: String,
    /// Configuration on which every candidate had to pass. With `None` no such configuration was found, so the reduced
    /// case may be invalid itself instead of showing a bug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<Passes>,
}

/// Runs of a configuration on which the case must pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passes {
    /// The configuration: another release, or the device without the injected faults.
    pub on: Setting,
    /// Rate of failures on that configuration.
    pub rate: Rate,
    /// Calls before the failing one that have another result on that configuration, each with both results. Later calls
    /// then start from another state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
}

/// Element of the minimal case, and the evidence that the failure needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    /// Description, for example `sync of stream s0`.
    pub what: String,
    /// Line in the minimal case; 0 if the element has no line.
    #[serde(default)]
    pub line: u32,
    /// Rate of failures with the element.
    pub with: Rate,
    /// Rate of failures without the element. Zero runs mean that removal was not tried.
    pub without: Rate,
    /// Other failures that occurred without the element, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<Instead>,
    /// Reason why the element cannot be removed: the remaining case would be invalid. `None` if removal was tried, or
    /// if the search ended before an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
}

/// Failure of a variant of the minimal case that differs from the failure being reduced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instead {
    /// Signature of the failure.
    pub signature: String,
    /// Number of runs that failed with this signature.
    pub count: u32,
    /// Reason why the variant itself is invalid; `None` if it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<InvalidVariant>,
}

/// Reason why a failure of a variant says nothing about ROCm: the variant itself is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidVariant {
    /// The variant also fails on the configuration on which it must pass.
    Elsewhere,
    /// The variant states an expected result that may depend on what was removed.
    Answer,
    /// A kernel of the variant accesses memory out of bounds.
    Kernel,
}

impl InvalidVariant {
    /// Returns the label of this reason in a table.
    pub fn mark(self) -> &'static str {
        match self {
            InvalidVariant::Elsewhere => "own: fails elsewhere too",
            InvalidVariant::Answer => "own: states an answer",
            InvalidVariant::Kernel => "own: kernel out of bounds",
        }
    }
}

impl Needed {
    /// Returns true if the case also fails without the element, but less frequently. Such an element is kept.
    pub fn makes_it_more_frequent(&self) -> bool {
        self.without.failed > 0
    }

    /// Splits the elements into those whose removal was tried, those that cannot be removed, and those that the search
    /// did not try.
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

/// Result of `rocrepro minimise` for a program. Its text is a file of the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinimisedProgram {
    /// The trial whose program was shortened.
    pub trial: String,
    /// The signature that was kept.
    pub signature: String,
    /// Stack and device on which the program was shortened.
    pub on: Setting,
    /// File name of the shorter program in the folder.
    pub file: String,
    /// Number of lines of the original program.
    pub lines_before: usize,
    /// Number of lines of the shorter program.
    pub lines: usize,
    /// Number of texts that were tried.
    pub tries: u32,
    /// Rate of failures of the shorter program.
    pub rate: Rate,
    /// The configuration on which it passes, for example `on debian:5.7.1`. `None` if none was found; then the program
    /// itself may be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<String>,
    /// The external reducer that ran first; true if it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reducer: Option<(String, bool)>,
    /// True if no further line can be removed. False if the search ended early.
    pub complete: bool,
}

impl Evidence for MinimisedProgram {
    const FILE: &'static str = "minimised-program.json";
}
