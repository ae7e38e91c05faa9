use serde::{Deserialize, Serialize};

use crate::{Arch, Fault};

/// The environment variable through which the command configures the emulated device: the JSON of
/// a [`Config`]. Without it the device is a healthy gfx1151.
pub const CONFIG_VARIABLE: &str = "ROCREPRO_DEVICE";

/// The symbol `const char *rocrepro_device_identity(void)` that only the emulated device exports.
/// It returns the JSON of an [`Identity`]; where it is missing, the device is not ours.
pub const IDENTITY_SYMBOL: &str = "rocrepro_device_identity";

/// How the emulated device is set up for one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The architecture that the agent reports and whose instructions it executes.
    pub arch: Arch,
    /// Device memory, in bytes.
    pub memory: u64,
    /// Planted faults; none on a healthy device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Planted>,
}

impl Default for Config {
    fn default() -> Self {
        Config { arch: Arch::Gfx1151, memory: 4 << 30, faults: Vec::new() }
    }
}

/// One planted fault with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planted {
    /// Which fault.
    pub fault: Fault,
    /// Probability that an opportunity to misbehave is taken, in 0..=1.
    #[serde(default = "always")]
    pub probability: f64,
    /// Seed of the choice; the same seed misbehaves at the same opportunities.
    #[serde(default)]
    pub seed: u64,
}

fn always() -> f64 {
    1.0
}

impl From<Fault> for Planted {
    /// The fault at every opportunity.
    fn from(fault: Fault) -> Self {
        Planted { fault, probability: 1.0, seed: 0 }
    }
}

/// What the emulated device says of itself to a program that asks for [`IDENTITY_SYMBOL`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of the emulated device.
    pub version: String,
    /// The configuration in force.
    pub config: Config,
}
