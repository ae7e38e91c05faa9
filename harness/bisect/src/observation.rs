//! Observations of points.

use ::search::bisect::Event;
use serde::{Deserialize, Serialize};

/// An observation of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointObservation {
    #[serde(flatten)]
    pub(crate) event: Event,
    pub(crate) label: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) signature: String,
    /// Reason why the point cannot be tested, or summary of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// Digests of the build's archives, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) sha256: String,
}
