use serde::{Deserialize, Serialize};

use crate::Identity;

/// The environment variable that names the file to which the emulated device adds a [`Witness`], one line of JSON, in each process
/// that initialises it, and in each process that loads HIP or another HSA runtime and ends without that. Neither a program nor its
/// children have to know of it.
pub const WITNESS_VARIABLE: &str = "ROCREPRO_DEVICE_WITNESS";

/// The environment variable that holds the build id of the requested stack's libamdhip64. A process that runs on another one
/// reports that on standard error, unless [`WITNESS_VARIABLE`] is set.
pub const RUNTIME_VARIABLE: &str = "ROCREPRO_DEVICE_RUNTIME";

/// Statement of the emulated device about a process that has it loaded: whether its work reached this device, and from which
/// libraries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// The process.
    pub pid: u32,
    /// The device's own statement.
    pub identity: Identity,
    /// True if the process initialised the device. A process that did not writes its line when it ends, and only if it had loaded
    /// HIP or another HSA runtime.
    pub reached: bool,
    /// Libraries of ROCm that were mapped when the statement was made.
    pub libraries: Vec<Mapped>,
    /// HSA runtimes other than this device whose code was mapped then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Mapped>,
}

impl Witness {
    /// The HIP runtime of the process, if it had loaded one.
    pub fn hip(&self) -> Option<&Mapped> {
        self.libraries.iter().find(|library| library.name.starts_with("libamdhip64"))
    }
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
