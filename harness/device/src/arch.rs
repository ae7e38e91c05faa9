use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// An AMD GPU architecture that the emulated device can be, by its LLVM processor name.
///
/// Source for wave sizes and target features: LLVM's AMDGPU usage guide, "Processors".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// Vega 20 (Radeon VII, MI50).
    Gfx906,
    /// CDNA 2 (MI210, MI250).
    Gfx90a,
    /// CDNA 3 (MI300).
    Gfx942,
    /// RDNA 2 (RX 6800).
    Gfx1030,
    /// RDNA 3 (RX 7900).
    Gfx1100,
    /// RDNA 3.5 (Strix Halo).
    Gfx1151,
    /// RDNA 4 (RX 9070).
    Gfx1201,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: [Arch; 7] = [
        Arch::Gfx906,
        Arch::Gfx90a,
        Arch::Gfx942,
        Arch::Gfx1030,
        Arch::Gfx1100,
        Arch::Gfx1151,
        Arch::Gfx1201,
    ];

    /// The LLVM processor name, such as `gfx1151`.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx906 => "gfx906",
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
            Arch::Gfx1030 => "gfx1030",
            Arch::Gfx1100 => "gfx1100",
            Arch::Gfx1151 => "gfx1151",
            Arch::Gfx1201 => "gfx1201",
        }
    }

    /// The name with the target features that the device has switched on or off, as a code object
    /// is matched against it: `gfx90a:sramecc+:xnack-`.
    pub const fn target_id(self) -> &'static str {
        match self {
            Arch::Gfx906 => "gfx906:sramecc+:xnack-",
            Arch::Gfx90a => "gfx90a:sramecc+:xnack-",
            Arch::Gfx942 => "gfx942:sramecc+:xnack-",
            other => other.name(),
        }
    }

    /// Whether it shares memory with the host processor.
    pub const fn is_apu(self) -> bool {
        matches!(self, Arch::Gfx1151)
    }

    /// Lanes in a wave unless a kernel asks otherwise: 64 on GCN and CDNA, 32 on RDNA.
    pub const fn wave_size(self) -> u32 {
        match self {
            Arch::Gfx906 | Arch::Gfx90a | Arch::Gfx942 => 64,
            _ => 32,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is not that of an architecture that can be emulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownArch(pub String);

impl fmt::Display for UnknownArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Arch::ALL.iter().map(|a| a.name()).collect();
        write!(f, "no emulated architecture is called `{}`; there are {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownArch {}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Arch::ALL.into_iter().find(|a| a.name() == s).ok_or_else(|| UnknownArch(s.to_owned()))
    }
}
