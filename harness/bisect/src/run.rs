//! One run of a point.

use judge::Kind as Outcome;
use report::Record;

pub(crate) enum RunResult {
    Passed,
    Failed {
        signature: String,
        kind: Outcome,
        /// True if the runtime found its device.
        started: bool,
    },
    Untestable,
    /// The machine is at fault, so the run says nothing about any build.
    Trouble,
}

pub(crate) struct Run {
    pub(crate) shown: RunResult,
    pub(crate) why: String,
    /// The time that `--regress perf` compares, in seconds.
    pub(crate) time: f64,
    pub(crate) record: Option<Record>,
}

/// The reason why a point could not be prepared.
pub(crate) enum Refused {
    Unusable(String),
    Trouble(String),
}
