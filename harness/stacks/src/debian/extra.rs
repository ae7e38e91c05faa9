//! Libraries and tools that a stack can contain in addition to the HIP runtime, and tables of those that well-known
//! programs need.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A library or tool that a stack can contain in addition to the HIP runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extra {
    /// Tools for compiling HIP programs: headers, clang with its linker, the device libraries, and the headers of the
    /// other extras of the stack.
    Dev,
    /// hipBLAS.
    Hipblas,
    /// hipBLASLt.
    Hipblaslt,
    /// The command `hipcc`.
    Hipcc,
    /// The headers of hipCUB.
    Hipcub,
    /// hipFFT and rocFFT.
    Hipfft,
    /// hipRAND and rocRAND.
    Hiprand,
    /// hipSOLVER, rocSOLVER and rocBLAS.
    Hipsolver,
    /// hipSPARSE and rocSPARSE.
    Hipsparse,
    /// llama.cpp as packaged by Debian, with its HIP backend and its tests.
    Llama,
    /// MIOpen.
    Miopen,
    /// RCCL.
    Rccl,
    /// rocBLAS.
    Rocblas,
    /// rocFFT without hipFFT.
    Rocfft,
    /// The library of rocm-smi.
    RocmSmi,
    /// The headers of rocPRIM.
    Rocprim,
    /// rocSOLVER and rocBLAS.
    Rocsolver,
    /// rocSPARSE.
    Rocsparse,
    /// The headers of rocThrust.
    Rocthrust,
    /// roctx, a library that annotates traces.
    Roctx,
    /// The headers of rocWMMA.
    Rocwmma,
    /// AMD's test programs for the other extras of the stack, in `usr/libexec/rocm`.
    Tests,
}

/// Well-known programs with the extras that they need: the libraries to which their PyPI packages are linked, and the
/// tools that they use to compile at run time.
const PROGRAMS: &[(&str, &[Extra])] = &[
    (
        "cupy",
        &[
            Extra::Dev,
            Extra::Hipblas,
            Extra::Hipcc,
            Extra::Hipcub,
            Extra::Hipfft,
            Extra::Hiprand,
            Extra::Hipsparse,
            Extra::Rccl,
            Extra::Rocblas,
            Extra::Rocprim,
            Extra::Rocsolver,
            Extra::Rocthrust,
            Extra::Roctx,
        ],
    ),
    (
        "jax",
        &[
            Extra::Dev,
            Extra::Hipblas,
            Extra::Hipblaslt,
            Extra::Hipfft,
            Extra::Hipsolver,
            Extra::Hipsparse,
            Extra::Miopen,
            Extra::Rccl,
            Extra::Rocblas,
            Extra::RocmSmi,
            Extra::Rocsolver,
        ],
    ),
    (
        "onnxruntime",
        &[
            Extra::Hipblas,
            Extra::Hipblaslt,
            Extra::Hipfft,
            Extra::Hiprand,
            Extra::Miopen,
            Extra::Rccl,
            Extra::Rocblas,
            Extra::RocmSmi,
            Extra::Roctx,
        ],
    ),
    // The extras are those for a PyTorch that is built to use the system's ROCm: the libraries that its build searches
    // for (cmake/public/LoadHIP.cmake). PyTorch wheels that contain ROCm use their own copy.
    (
        "torch",
        &[
            Extra::Hipblas,
            Extra::Hipblaslt,
            Extra::Hipfft,
            Extra::Hiprand,
            Extra::Hipsolver,
            Extra::Hipsparse,
            Extra::Miopen,
            Extra::Rccl,
            Extra::Rocblas,
            Extra::RocmSmi,
            Extra::Rocsolver,
            Extra::Roctx,
        ],
    ),
    // Triton contains its own compiler and linker.
    ("triton", &[]),
];

impl Extra {
    /// All extras, sorted by name.
    pub const ALL: &'static [Self] = &[
        Self::Dev,
        Self::Hipblas,
        Self::Hipblaslt,
        Self::Hipcc,
        Self::Hipcub,
        Self::Hipfft,
        Self::Hiprand,
        Self::Hipsolver,
        Self::Hipsparse,
        Self::Llama,
        Self::Miopen,
        Self::Rccl,
        Self::Rocblas,
        Self::Rocfft,
        Self::RocmSmi,
        Self::Rocprim,
        Self::Rocsolver,
        Self::Rocsparse,
        Self::Rocthrust,
        Self::Roctx,
        Self::Rocwmma,
        Self::Tests,
    ];

    /// Returns the extras that a value of `--with` names: a single extra, or all extras that a well-known program
    /// needs.
    ///
    /// # Errors
    /// The value names neither an extra nor a program.
    pub fn named(text: &str) -> Result<Vec<Self>, String> {
        if let Some((_, extras)) = PROGRAMS.iter().find(|(name, _)| *name == text) {
            return Ok(extras.to_vec());
        }
        text.parse().map(|extra| vec![extra])
    }

    /// Returns true if the extra or one of its dependencies stores its kernels in separate files, one for each
    /// architecture. Only the files for the wanted architectures are unpacked. hipBLAS, the solvers and llama.cpp are
    /// included, because they depend on rocBLAS.
    pub(crate) fn has_kernel_files(self) -> bool {
        match self {
            Self::Hipblas
            | Self::Hipblaslt
            | Self::Hipsolver
            | Self::Llama
            | Self::Miopen
            | Self::Rocblas
            | Self::Rocsolver => true,
            Self::Dev
            | Self::Hipcc
            | Self::Hipcub
            | Self::Hipfft
            | Self::Hiprand
            | Self::Hipsparse
            | Self::Rccl
            | Self::Rocfft
            | Self::RocmSmi
            | Self::Rocprim
            | Self::Rocsparse
            | Self::Rocthrust
            | Self::Roctx
            | Self::Rocwmma
            | Self::Tests => false,
        }
    }

    /// Returns the extra's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Hipblas => "hipblas",
            Self::Hipblaslt => "hipblaslt",
            Self::Hipcc => "hipcc",
            Self::Hipcub => "hipcub",
            Self::Hipfft => "hipfft",
            Self::Hiprand => "hiprand",
            Self::Hipsolver => "hipsolver",
            Self::Hipsparse => "hipsparse",
            Self::Llama => "llama",
            Self::Miopen => "miopen",
            Self::Rccl => "rccl",
            Self::Rocblas => "rocblas",
            Self::Rocfft => "rocfft",
            Self::RocmSmi => "rocm-smi",
            Self::Rocprim => "rocprim",
            Self::Rocsolver => "rocsolver",
            Self::Rocsparse => "rocsparse",
            Self::Rocthrust => "rocthrust",
            Self::Roctx => "roctx",
            Self::Rocwmma => "rocwmma",
            Self::Tests => "tests",
        }
    }
}

impl fmt::Display for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Extra {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|extra| extra.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|extra| extra.name()).collect();
            let programs: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
            format!(
                "unknown library {text:?}; choose from {}, or a group for programs: {}",
                names.join(", "),
                programs.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Release;

    #[test]
    fn extras_parse_by_name() {
        for extra in Extra::ALL {
            assert_eq!(extra.to_string().parse(), Ok(*extra));
            assert_eq!(serde_json::to_string(extra).unwrap(), format!("\"{extra}\""));
            assert_eq!(Extra::named(extra.name()), Ok(vec![*extra]));
        }
        assert!(Extra::ALL.is_sorted_by_key(|extra| extra.name()));
        let unknown = Extra::named("rocfast").unwrap_err();
        assert!(unknown.contains("hipblaslt, hipcc") && unknown.contains("cupy, jax"), "{unknown}");
    }

    #[test]
    fn the_newest_release_has_what_programs_need() {
        for (program, extras) in PROGRAMS {
            assert!(program.parse::<Extra>().is_err(), "{program} is both");
            assert!(extras.is_sorted(), "{program}");
            for extra in *extras {
                assert!(Release::latest().extra(*extra).is_some(), "{program}: {extra}");
            }
        }
    }
}
