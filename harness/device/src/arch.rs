use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A generation of AMD GPUs. All its processors execute the same instructions in the same way.
///
/// Source: AMD's ISA guides, one per generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generation {
    /// Vega (GCN 5), 7 nm.
    Gcn5,
    /// CDNA 1, the first with matrix instructions.
    Cdna1,
    /// CDNA 2.
    Cdna2,
    /// CDNA 3.
    Cdna3,
    /// CDNA 4.
    Cdna4,
    /// RDNA 2.
    Rdna2,
    /// RDNA 3.
    Rdna3,
    /// RDNA 3.5: RDNA 3 with floating point in scalar registers.
    Rdna3_5,
    /// RDNA 4.
    Rdna4,
}

impl Generation {
    /// Returns true for GCN and CDNA, whose instructions are GFX9 in LLVM.
    pub const fn is_gfx9(self) -> bool {
        matches!(self, Self::Gcn5 | Self::Cdna1 | Self::Cdna2 | Self::Cdna3 | Self::Cdna4)
    }

    /// Returns true for CDNA 3 and 4, whose instructions are GFX940 in LLVM.
    pub const fn is_gfx940(self) -> bool {
        matches!(self, Self::Cdna3 | Self::Cdna4)
    }

    /// Returns true for RDNA 3 and 3.5, whose instructions are GFX11 in LLVM.
    pub const fn is_gfx11(self) -> bool {
        matches!(self, Self::Rdna3 | Self::Rdna3_5)
    }
}

/// Declares the architectures. Each row contains all properties of an architecture that do not depend on the product.
macro_rules! architectures {
    ($($(#[$about:meta])* $arch:ident $name:literal $generation:ident, $machine:literal $(or $generic:literal)? $(, $fact:ident)*;)+) => {
        /// An AMD GPU architecture that the emulated device can be, by its LLVM processor name.
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

            /// Returns the generation.
            pub const fn generation(self) -> Generation {
                match self {
                    $(Arch::$arch => Generation::$generation,)+
                }
            }

            /// Returns the `EF_AMDGPU_MACH_*` numbers of code objects that run on it: its own and, if it exists, that
            /// of its generic target.
            pub const fn machines(self) -> &'static [u32] {
                match self {
                    $(Arch::$arch => &[$machine $(, $generic)?],)+
                }
            }

            fn facts(self) -> &'static [Fact] {
                match self {
                    $(Arch::$arch => &[$(Fact::$fact),*],)+
                }
            }
        }
    };
}

/// Properties in which architectures of one generation differ.
#[derive(PartialEq, Eq)]
enum Fact {
    /// The GPU shares memory with the host processor.
    Apu,
    /// Memory and registers have error correction, and a page fault cannot be retried.
    Ecc,
    /// The host can access all device memory, because servers give the card a BAR as large as its memory.
    LargeBar,
}

// Source: LLVM's AMDGPU usage guide, "Processors" and the table of e_flags. For `LargeBar` see [`Arch::has_large_bar`].
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
}

impl Arch {
    /// All processors on which a HIP runtime may run, oldest first, including those that can be emulated. Hardware
    /// without a name in LLVM is missing.
    ///
    /// Source: LLVM's AMDGPU usage guide, "Processors", from gfx700 on, without R600 and generic targets, which no
    /// device reports as its name.
    pub const PROCESSORS: &[&str] = &[
        "gfx700", "gfx701", "gfx702", "gfx703", "gfx704", "gfx705", "gfx801", "gfx802", "gfx803",
        "gfx805", "gfx810", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a",
        "gfx90c", "gfx940", "gfx941", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012",
        "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036",
        "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153",
        "gfx1170", "gfx1171", "gfx1172", "gfx1200", "gfx1201", "gfx1250", "gfx1251", "gfx1310",
    ];

    /// Returns the first architecture of each generation, oldest first.
    pub fn of_each_generation() -> impl Iterator<Item = Arch> {
        let new = |at: usize| {
            Self::ALL[..at].iter().all(|old| old.generation() != Self::ALL[at].generation())
        };
        (0..Self::ALL.len()).filter(move |at| new(*at)).map(|at| Self::ALL[at])
    }

    /// Returns true if the processor of this name supports images, on which HIP's arrays and textures depend.
    ///
    /// Source: ROCr's `isa_has_image_support`, which returns false for GFX9.4 and GFX9.5.
    pub fn has_images(processor: &str) -> bool {
        !["gfx94", "gfx95"].iter().any(|start| processor.starts_with(start))
    }

    /// Returns the target id, with which code objects are matched: name and target features, for example
    /// `gfx90a:sramecc+:xnack-`.
    pub fn target_id(self) -> String {
        let features = if self.has_ecc() { ":sramecc+:xnack-" } else { "" };
        format!("{}{features}", self.name())
    }

    /// Returns true if the GPU shares memory with the host processor.
    pub fn is_apu(self) -> bool {
        self.has(Fact::Apu)
    }

    /// Returns the default number of lanes in a wave: 64 on GCN and CDNA, 32 on RDNA.
    pub const fn wave_size(self) -> u32 {
        if self.generation().is_gfx9() { 64 } else { 32 }
    }

    /// Returns true if memory and registers have error correction.
    pub fn has_ecc(self) -> bool {
        self.has(Fact::Ecc)
    }

    /// Returns true if the host of an ordinary machine can access all memory of the card directly.
    ///
    /// Instinct cards have a BAR as large as their memory:
    /// [UCX](https://github.com/openucx/ucx/wiki/Build-and-run-ROCM-UCX-OpenMPI) requires it of the MI series, and
    /// [Open MPI](https://github.com/open-mpi/ompi/pull/12982) expects it of data centre cards. Radeon cards have one
    /// only if the machine's firmware resizes the BAR, which the same source says is not always the case;
    /// `large-bar=yes` emulates such a machine.
    ///
    /// The memory of an APU is memory of the host, which can access all of it: `gmc_v11_0_mc_init` sets the aperture to
    /// all of the VRAM ([Linux](https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/amdgpu/gmc_v11_0.c)).
    pub fn has_large_bar(self) -> bool {
        self.has(Fact::LargeBar) || self.is_apu()
    }

    fn has(self, fact: Fact) -> bool {
        self.facts().contains(&fact)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for a name that is not an architecture that can be emulated.
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
        }
    }
}
