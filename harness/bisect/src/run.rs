//! One run of a point, and what it showed.

use judge::Kind as Outcome;
use report::Record;

/// What one run showed.
pub(crate) enum Shown {
    Passed,
    Failed {
        signature: String,
        kind: Outcome,
        /// Whether the runtime came as far as finding its device.
        started: bool,
    },
    /// It says nothing of this build.
    Untestable,
    /// It says nothing of any build: the machine is at fault.
    Trouble,
}

/// One run.
pub(crate) struct Ran {
    pub(crate) shown: Shown,
    pub(crate) why: String,
    /// What `--regress perf` compares, in seconds.
    pub(crate) time: f64,
    pub(crate) record: Option<Record>,
}

/// Why a point is not active.
pub(crate) enum Refused {
    /// This build cannot be tested.
    Unusable(String),
    /// The machine or the network is at fault.
    Trouble(String),
}
