//! Observations of points.

use ::search::bisect::Event;
use serde::{Deserialize, Serialize};

/// An observation of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointObservation {
    #[serde(flatten)]
    pub(crate) event: Event,
    /// The point's name.
    pub(crate) label: String,
    /// The signature of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) signature: String,
    /// Why a point cannot be tested, or what a run showed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// Of the archives that an obtained build came in, in hexadecimal, with commas between.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) sha256: String,
}
