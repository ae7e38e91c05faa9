use std::fmt;

use serde::{Deserialize, Serialize};

/// Layer of AMD's software stack that the emulated device replaces. All software above this layer runs unmodified, as
/// released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The device replaces the HSA runtime, libhsa-runtime64.
    #[default]
    Hsa,
    /// The device replaces the thunk, the library between the released HSA runtime and the driver.
    Thunk,
}

impl Level {
    /// All levels, the default first.
    pub const ALL: &[Level] = &[Level::Hsa, Level::Thunk];

    /// Returns the name of the level on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Hsa => "hsa",
            Level::Thunk => "thunk",
        }
    }

    /// Returns the beginning of the file name of the device's library at this level.
    pub const fn library(self) -> &'static str {
        match self {
            Level::Hsa => "libhsa-runtime64",
            Level::Thunk => "libdtif",
        }
    }

    /// Returns the names and values of the environment variables that make a released HSA runtime use the device's
    /// library.
    ///
    /// At the level of the thunk, the device has no copy engines (SDMA), so the HSA runtime must copy with kernels.
    pub const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Level::Hsa => &[],
            Level::Thunk => &[("HSA_ENABLE_DTIF", "1"), ("HSA_ENABLE_SDMA", "0")],
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
