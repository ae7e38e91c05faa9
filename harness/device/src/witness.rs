use serde::{Deserialize, Serialize};

use crate::Identity;

/// Environment variable with the name of a file to which the emulated device appends one [`Witness`] per process, as a
/// line of JSON. The device appends it in each process that initialises it, and in each process that loads HIP or
/// another HSA runtime but never initialises the device. The variable is inherited, so child processes of a program are
/// covered without changes to the program.
pub const WITNESS_VARIABLE: &str = "ROCREPRO_DEVICE_WITNESS";

/// Environment variable of programs with the build id of the requested stack's libamdhip64; empty if that library has
/// no build id. A process that uses a libamdhip64 with another build id reports this on standard error. A process that
/// loads HIP but never initialises the device reports that, too, unless [`WITNESS_VARIABLE`] is set.
pub const RUNTIME_VARIABLE: &str = "ROCREPRO_DEVICE_RUNTIME";

/// Environment variable of programs with the path of `rocrepro`, which reads the call stacks of a process that crashes.
/// Without the variable, the call stacks are not read.
pub const CRASH_READER_VARIABLE: &str = "ROCREPRO_CRASH_READER";

/// Environment variable of programs with the path of the file to which the call stacks of a crash are appended, as a
/// line of JSON. Without the variable, they are printed on standard error.
pub const CRASH_FILE_VARIABLE: &str = "ROCREPRO_CRASH_FILE";

/// Report of the emulated device about a process that has loaded it: whether the process initialised the device, and
/// which ROCm libraries the process used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// Process id.
    pub pid: u32,
    /// Identity and configuration of the device.
    pub identity: Identity,
    /// True if the process initialised the device. If such a process has loaded more ROCm libraries since, it writes
    /// another report when it ends. A process that did not initialise the device writes a report only if it loaded HIP
    /// or another HSA runtime, when it ends.
    pub reached: bool,
    /// ROCm libraries that were mapped when the device wrote the report.
    pub libraries: Vec<Mapped>,
    /// HSA runtimes other than this device whose code was mapped when the device wrote the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Mapped>,
}

impl Witness {
    /// Returns the HIP runtime of the process, if it had loaded one.
    pub fn hip(&self) -> Option<&Mapped> {
        self.libraries.iter().find(|library| library.name.starts_with("libamdhip64"))
    }
}

/// A library in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// File name, such as `libamdhip64.so.7`.
    pub name: String,
    /// Path in the process.
    pub path: String,
    /// GNU build id in hexadecimal, if the file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}
