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

    /// Every processor on which a HIP runtime may run, oldest first; those that can be emulated are among them. Hardware that
    /// LLVM has not named yet is not.
    ///
    /// Source: LLVM's AMDGPU usage guide, "Processors", from gfx700 on, without the names of R600 and of generic targets: no
    /// device calls itself by these.
    pub const PROCESSORS: &[&str] = &[
        "gfx700", "gfx701", "gfx702", "gfx703", "gfx704", "gfx705", "gfx801", "gfx802", "gfx803",
        "gfx805", "gfx810", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a",
        "gfx90c", "gfx940", "gfx941", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012",
        "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036",
        "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153",
        "gfx1170", "gfx1171", "gfx1172", "gfx1200", "gfx1201", "gfx1250", "gfx1251", "gfx1310",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emulated_is_a_processor() {
        for arch in Arch::ALL {
            assert!(Arch::PROCESSORS.contains(&arch.name()), "{arch}");
        }
    }
}
