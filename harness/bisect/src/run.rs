//! One run of the subject at a point, and its result.

use judge::Kind as Outcome;
use report::Record;

pub(crate) enum RunResult {
    Passed,
    Failed {
        signature: String,
        kind: Outcome,
        /// True if the HIP runtime found its device.
        started: bool,
    },
    Untestable,
    /// A problem of the machine prevented the run, so it says nothing about any build.
    Trouble,
}

pub(crate) struct Run {
    pub(crate) result: RunResult,
    pub(crate) why: String,
    /// Run time that `--regress perf` compares, in seconds.
    pub(crate) time: f64,
    pub(crate) record: Option<Record>,
}

/// The reason why a point could not be prepared.
pub(crate) enum PreparationError {
    Unusable(String),
    Trouble(String),
}
