use serde::{Deserialize, Serialize};

use crate::Identity;

/// The environment variable that names the file to which the emulated device adds a [`Witness`], one line of JSON, in each process
/// that initialises it. A program need not know of it, and neither need its children.
pub const WITNESS_VARIABLE: &str = "ROCREPRO_DEVICE_WITNESS";

/// What the emulated device says of a process that uses it: proof that its work reached this device, from these libraries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// The process.
    pub pid: u32,
    /// The device's own statement.
    pub identity: Identity,
    /// Libraries of ROCm that were mapped when the device was initialised.
    pub libraries: Vec<Mapped>,
}

/// A library in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// File name, such as `libamdhip64.so.7`.
    pub name: String,
    /// The path by which the process knows it.
    pub path: String,
    /// GNU build id in hexadecimal; none where the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}
