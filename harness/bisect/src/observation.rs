//! Observations of a search. An observation is the result of installing a build, or of running the subject of the
//! search once at a point, for example on one build or with one value.

use ::search::bisect::Event;
use serde::{Deserialize, Serialize};

/// One observation: a point was installed, was run, or cannot be tested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointObservation {
    #[serde(flatten)]
    pub(crate) event: Event,
    pub(crate) label: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) signature: String,
    /// The reason why the point cannot be tested, or a summary of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// SHA-256 digests of the build's archives, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) sha256: String,
}
