use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Generation};

/// Declares the architectures. Each row contains the properties of one architecture that are equal in all its products.
macro_rules! architectures {
    ($($(#[$about:meta])* $arch:ident $name:literal $generation:ident, $machine:literal $(or $generic:literal)? $(, $property:ident)*;)+) => {
        /// An AMD GPU architecture that the emulated device can imitate, named as LLVM names the processor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Arch {
            $($(#[$about])* $arch,)+
        }

        impl Arch {
            /// All architectures, oldest first.
            pub const ALL: &[Arch] = &[$(Arch::$arch),+];

            /// Returns the LLVM processor name, for example `gfx1151`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Arch::$arch => $name,)+
                }
            }

            const fn generation(self) -> Generation {
                match self {
                    $(Arch::$arch => Generation::$generation,)+
                }
            }

            /// Returns the `EF_AMDGPU_MACH_*` numbers of the code objects that run on this architecture: its own number
            /// and, if LLVM has a generic target for it, the number of that target.
            pub const fn machines(self) -> &'static [u32] {
                match self {
                    $(Arch::$arch => &[$machine $(, $generic)?],)+
                }
            }

            fn properties(self) -> &'static [Property] {
                match self {
                    $(Arch::$arch => &[$(Property::$property),*],)+
                }
            }
        }
    };
}

/// Properties that can differ between architectures of one generation.
#[derive(PartialEq, Eq)]
enum Property {
    /// The GPU shares memory with the host processor.
    Apu,
    /// Memory and registers have error correction, and a page fault cannot be retried.
    Ecc,
    /// The host can access all device memory: in ordinary servers, the card has a BAR as large as its memory.
    LargeBar,
}

// Source: LLVM's AMDGPU usage guide, "Processors" and the table of e_flags. For the source of `LargeBar` see
// [`Arch::has_large_bar`].
architectures! {
    /// Vega 20 (Radeon VII, MI50).
    Gfx906 "gfx906" Gcn5, 0x02f or 0x051, Ecc, LargeBar;
    /// CDNA 1 (MI100).
    Gfx908 "gfx908" Cdna1, 0x030, Ecc, LargeBar;
    /// CDNA 2 (MI210, MI250).
    Gfx90a "gfx90a" Cdna2, 0x03f, Ecc, LargeBar;
    /// CDNA 3 (MI300).
    Gfx942 "gfx942" Cdna3, 0x04c or 0x05f, Ecc, LargeBar;
    /// CDNA 4 (MI350).
    Gfx950 "gfx950" Cdna4, 0x04f or 0x05f, Ecc, LargeBar;
    /// RDNA 2 (RX 6800).
    Gfx1030 "gfx1030" Rdna2, 0x036 or 0x053;
    /// RDNA 3 (RX 7900).
    Gfx1100 "gfx1100" Rdna3, 0x041 or 0x054;
    /// RDNA 3 (RX 7800).
    Gfx1101 "gfx1101" Rdna3, 0x046 or 0x054;
    /// RDNA 3 (RX 7600).
    Gfx1102 "gfx1102" Rdna3, 0x047 or 0x054;
    /// RDNA 3 (Radeon 780M).
    Gfx1103 "gfx1103" Rdna3, 0x044 or 0x054, Apu;
    /// RDNA 3.5 (Radeon 890M, Strix Point).
    Gfx1150 "gfx1150" Rdna3_5, 0x043 or 0x054, Apu;
    /// RDNA 3.5 (Radeon 8060S, Strix Halo).
    Gfx1151 "gfx1151" Rdna3_5, 0x04a or 0x054, Apu;
    /// RDNA 3.5 (Radeon 860M, Krackan Point).
    Gfx1152 "gfx1152" Rdna3_5, 0x055 or 0x054, Apu;
    /// RDNA 4 (RX 9060).
    Gfx1200 "gfx1200" Rdna4, 0x048 or 0x059;
    /// RDNA 4 (RX 9070).
    Gfx1201 "gfx1201" Rdna4, 0x04e or 0x059;
    /// GFX12.5, to the extent that LLVM 22 describes it.
    Gfx1250 "gfx1250" Gfx12_5, 0x049, Ecc, LargeBar;
}

/// All values of [`Arch::PROCESSORS`], each with a flag that is true if the processor supports images.
///
/// Sources: LLVM's AMDGPU usage guide, "Processors", from gfx700 on, without R600 and without generic targets, because
/// no device reports the name of a generic target. For images: ROCr's `isa_has_image_support`, which returns false for
/// GFX9.4 and GFX9.5, and LLVM 22, whose assembler rejects image instructions for gfx1250 and gfx1251.
#[rustfmt::skip]
const PROCESSORS: &[(&str, bool)] = &[
    ("gfx700", true), ("gfx701", true), ("gfx702", true), ("gfx703", true), ("gfx704", true),
    ("gfx705", true), ("gfx801", true), ("gfx802", true), ("gfx803", true), ("gfx805", true),
    ("gfx810", true), ("gfx900", true), ("gfx902", true), ("gfx904", true), ("gfx906", true),
    ("gfx908", true), ("gfx909", true), ("gfx90a", true), ("gfx90c", true), ("gfx940", false),
    ("gfx941", false), ("gfx942", false), ("gfx950", false), ("gfx1010", true), ("gfx1011", true),
    ("gfx1012", true), ("gfx1013", true), ("gfx1030", true), ("gfx1031", true), ("gfx1032", true),
    ("gfx1033", true), ("gfx1034", true), ("gfx1035", true), ("gfx1036", true), ("gfx1100", true),
    ("gfx1101", true), ("gfx1102", true), ("gfx1103", true), ("gfx1150", true), ("gfx1151", true),
    ("gfx1152", true), ("gfx1153", true), ("gfx1170", true), ("gfx1171", true), ("gfx1172", true),
    ("gfx1200", true), ("gfx1201", true), ("gfx1250", false), ("gfx1251", false), ("gfx1310", true),
];

impl Arch {
    /// All processors on which a HIP runtime may run, oldest first. The list includes processors that cannot be
    /// emulated. Hardware without a name in LLVM is missing.
    pub const PROCESSORS: &[&str] = &{
        let mut names = [""; PROCESSORS.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = PROCESSORS[at].0;
            at += 1;
        }
        names
    };

    /// Size of the largest LDS of all architectures, in bytes.
    pub const LARGEST_LDS: u32 = {
        let (mut largest, mut at) = (0, 0);
        while at < Self::ALL.len() {
            let bytes = Self::ALL[at].facts().lds_bytes;
            if bytes > largest {
                largest = bytes;
            }
            at += 1;
        }
        largest
    };

    /// Returns the oldest architecture of each generation, starting with the oldest generation.
    pub fn of_each_generation() -> impl Iterator<Item = Arch> {
        let new = |at: usize| {
            Self::ALL[..at].iter().all(|old| old.generation() != Self::ALL[at].generation())
        };
        (0..Self::ALL.len()).filter(move |at| new(*at)).map(|at| Self::ALL[at])
    }

    /// Returns true if the processor with this name supports images, which HIP's arrays and textures need; `None` if
    /// the processor is unknown.
    pub fn has_images(processor: &str) -> Option<bool> {
        PROCESSORS.iter().find(|(name, _)| *name == processor).map(|(_, images)| *images)
    }

    /// Returns the facts that this architecture shares with all architectures of its generation, for example the wave
    /// sizes.
    pub const fn facts(self) -> &'static Facts {
        self.generation().facts()
    }

    /// Returns the target id, for example `gfx90a:sramecc+:xnack-`: the processor name and its target features. The
    /// loader compares it with the target id of a code object.
    pub fn target_id(self) -> String {
        let features = if self.has_ecc() { ":sramecc+:xnack-" } else { "" };
        format!("{}{features}", self.name())
    }

    /// Returns true if the GPU shares memory with the host processor.
    pub fn is_apu(self) -> bool {
        self.has(Property::Apu)
    }

    /// Returns the default number of lanes in a wave: 64 on GCN and CDNA, 32 on RDNA.
    pub const fn wave_size(self) -> u32 {
        self.facts().wave_sizes[0]
    }

    /// Returns true if memory and registers have error correction.
    pub fn has_ecc(self) -> bool {
        self.has(Property::Ecc)
    }

    /// Returns true if the host of an ordinary machine can access all memory of the card directly.
    ///
    /// Instinct cards have a BAR as large as their memory:
    /// [UCX](https://github.com/openucx/ucx/wiki/Build-and-run-ROCM-UCX-OpenMPI) requires such a BAR of the MI series,
    /// and [Open MPI](https://github.com/open-mpi/ompi/pull/12982) expects one of data centre cards. A Radeon card has
    /// such a BAR only if the machine's firmware resizes the BAR, and according to Open MPI, some firmware does not.
    /// `large-bar=yes` emulates a machine whose firmware does.
    ///
    /// The memory of an APU is memory of the host, which can access all of it: `gmc_v11_0_mc_init` sets the aperture to
    /// all of the VRAM ([Linux](https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/amdgpu/gmc_v11_0.c)).
    pub fn has_large_bar(self) -> bool {
        self.has(Property::LargeBar) || self.is_apu()
    }

    fn has(self, property: Property) -> bool {
        self.properties().contains(&property)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for a name that does not denote an architecture that can be emulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownArch(pub String);

impl fmt::Display for UnknownArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Arch::ALL.iter().map(|a| a.name()).collect();
        write!(
            f,
            "unknown architecture `{}`; the emulated device supports {}",
            self.0,
            known.join(", ")
        )
    }
}

impl std::error::Error for UnknownArch {}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Arch::ALL.iter().copied().find(|a| a.name() == s).ok_or_else(|| UnknownArch(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_architectures_are_processors() {
        for arch in Arch::ALL.iter().copied() {
            assert!(Arch::PROCESSORS.contains(&arch.name()), "{arch}");
            assert_eq!(Arch::has_images(arch.name()), Some(arch.facts().has_images), "{arch}");
        }
        assert_eq!(Arch::has_images("gfx1"), None);
    }
}
