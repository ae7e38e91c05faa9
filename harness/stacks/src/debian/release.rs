//! Table of the ROCm releases that Debian packages. To add a release, add an entry here and a lock file.

use std::fmt;

use crate::{Extra, Version};

/// A ROCm release that Debian packages.
#[derive(Debug)]
pub struct Release {
    /// ROCm version of the HIP runtime.
    pub version: &'static str,
    /// Debian suites to read. Packages are preferably taken from the first suite.
    pub suites: &'static [&'static str],
    /// Packages to install, without their dependencies, as apt's patterns `name=version`. If several suites are read,
    /// the list also contains comgr and hsa, because apt would otherwise select those of another release.
    pub packages: &'static [&'static str],
    /// Extras that the release offers.
    pub extras: &'static [ExtraPackages],
    /// Extras that a new stack contains if none are requested.
    pub standard: &'static [Extra],
    /// Text of the release's lock file: a [`crate::ReleaseLock`] in JSON.
    pub lock: &'static str,
}

/// The packages that provide an [`Extra`] in one release.
#[derive(Debug)]
pub struct ExtraPackages {
    /// Extra that the packages provide.
    pub extra: Extra,
    /// Debian suites to read in addition to [`Release::suites`].
    pub suites: &'static [&'static str],
    /// Packages to install, as patterns in the format of [`Release::packages`]. Dependencies from the suite
    /// experimental are listed too, because apt never selects a package from that suite automatically.
    pub packages: &'static [&'static str],
    /// Additional packages that are installed if the stack contains both this extra and [`Extra::Dev`].
    pub headers: &'static [&'static str],
    /// Additional packages that are installed if the stack contains both this extra and [`Extra::Tests`].
    pub tests: &'static [&'static str],
}

/// Package of a library that annotates traces. The math libraries of release 7.2.4 are linked to it.
const ROCTX: &str = "libroctx64-4=7.2.4*";

/// Suite that still contains libraries of release 6.4.3 that were removed from forky.
const SID: &[&str] = &["sid"];

/// Returns the packages of an extra that is a library: `packages` are the library and its dependencies from the same
/// release, `headers` its header files.
const fn library(
    extra: Extra,
    packages: &'static [&'static str],
    headers: &'static [&'static str],
) -> ExtraPackages {
    ExtraPackages { extra, suites: &[], packages, headers, tests: &[] }
}

/// Returns the packages of an extra that consists only of header files.
const fn headers(extra: Extra, packages: &'static [&'static str]) -> ExtraPackages {
    library(extra, packages, &[])
}

impl ExtraPackages {
    const fn in_suites(self, suites: &'static [&'static str]) -> Self {
        Self { suites, ..self }
    }

    const fn tested(self, tests: &'static [&'static str]) -> Self {
        Self { tests, ..self }
    }
}

/// Extras that a new stack contains by default. Only hipRAND is included, because many cases need it and it is small.
const STANDARD: &[Extra] = &[Extra::Hiprand];

/// Packages that are not installed although other packages depend on them: 800 MB of test data of MIOpen, which no
/// program needs.
pub(crate) const NEEDLESS: &[&str] = &["libmiopen-tests-data"];

/// All releases that Debian packages, the oldest first.
pub const RELEASES: &[Release] = &[
    Release {
        version: "5.2.3",
        // hipRAND is left out of this release, because seeding one of its generators takes seconds on the emulated
        // device.
        standard: &[],
        lock: include_str!("../../locks/5.2.3.json"),
        suites: &["bookworm"],
        packages: &["libamdhip64-5=5.2.3*"],
        extras: &[
            ExtraPackages {
                extra: Extra::Dev,
                suites: &[],
                packages: &[
                    "libamdhip64-dev=5.2.3*",
                    "clang-15",
                    "clang-tools-15",
                    "lld-15",
                    "rocm-device-libs",
                ],
                headers: &[],
                tests: &[],
            },
            ExtraPackages {
                extra: Extra::Hiprand,
                suites: &[],
                packages: &["libhiprand1", "librocrand1"],
                headers: &["libhiprand-dev"],
                tests: &[],
            },
        ],
    },
    Release {
        version: "5.7.1",
        standard: STANDARD,
        lock: include_str!("../../locks/5.7.1.json"),
        suites: &["trixie"],
        packages: &["libamdhip64-5=5.7.1*"],
        extras: &[
            ExtraPackages {
                extra: Extra::Dev,
                suites: &[],
                packages: &[
                    "libamdhip64-dev=5.7.1*",
                    "clang-17",
                    "clang-tools-17",
                    "lld-17",
                    "rocm-device-libs-17",
                ],
                headers: &[],
                tests: &[],
            },
            ExtraPackages {
                extra: Extra::Hiprand,
                suites: &[],
                packages: &["libhiprand1", "librocrand1"],
                headers: &["libhiprand-dev"],
                tests: &[],
            },
            ExtraPackages {
                extra: Extra::Rocblas,
                suites: &[],
                packages: &["librocblas0"],
                headers: &["librocblas-dev"],
                tests: &[],
            },
        ],
    },
    Release {
        version: "6.4.3",
        standard: STANDARD,
        lock: include_str!("../../locks/6.4.3.json"),
        suites: &["forky"],
        packages: &["libamdhip64-6=6.4.3*", "libhiprtc6=6.4.3*"],
        extras: &[
            ExtraPackages {
                extra: Extra::Dev,
                suites: &[],
                packages: &[
                    "libamdhip64-dev=6.4.3*",
                    "clang-21",
                    "clang-tools-21",
                    "lld-21",
                    "rocm-device-libs-21",
                ],
                headers: &[],
                tests: &[],
            },
            // These libraries were removed from forky. Their builds in sid use libamdhip64.so.6. RCCL is left out,
            // because sid contains the RCCL of release 5.4.3.
            ExtraPackages {
                extra: Extra::Hiprand,
                suites: SID,
                packages: &["libhiprand1=6.4*", "librocrand1=6.4*"],
                headers: &["libhiprand-dev=6.4*", "librocrand-dev=6.4*"],
                tests: &[],
            },
            ExtraPackages {
                extra: Extra::Hipblaslt,
                suites: SID,
                packages: &["libhipblaslt1=7.1*"],
                headers: &["libhipblaslt-dev=7.1*", "libhipblas-common-dev=7.1*"],
                tests: &[],
            },
            ExtraPackages {
                extra: Extra::Rocblas,
                suites: &[],
                packages: &["librocblas4=6.4*"],
                headers: &["librocblas-dev=6.4*"],
                tests: &[],
            },
            library(Extra::Hipblas, &["libhipblas2=6.4*"], &["libhipblas-dev=6.4*"]),
            library(Extra::Hipfft, &["libhipfft0=6.4*"], &["libhipfft-dev=6.4*"]).in_suites(SID),
            library(Extra::Hipsolver, &["libhipsolver0=6.4*"], &["libhipsolver-dev=6.4*"])
                .in_suites(SID),
            library(Extra::Hipsparse, &["libhipsparse1=6.4*"], &["libhipsparse-dev=6.4*"])
                .in_suites(SID),
            library(
                Extra::Llama,
                &["libggml0-backend-hip", "libllama0", "llama.cpp-tools", "llama.cpp-tests"],
                &[],
            ),
            library(Extra::Miopen, &["libmiopen1=6.4*"], &["libmiopen-dev=6.4*"]).in_suites(SID),
            library(Extra::Rocfft, &["librocfft0=6.4*"], &["librocfft-dev=6.4*"]),
            library(Extra::RocmSmi, &["librocm-smi64-1=6.4*"], &["librocm-smi-dev=6.4*"]),
            headers(Extra::Hipcub, &["libhipcub-dev=6.4*"]),
            headers(Extra::Rocprim, &["librocprim-dev=6.4*"]),
            library(Extra::Rocsolver, &["librocsolver0=6.4*"], &["librocsolver-dev=6.4*"]),
            library(Extra::Rocsparse, &["librocsparse1=6.4*"], &["librocsparse-dev=6.4*"]),
            headers(Extra::Rocthrust, &["librocthrust-dev=6.4*"]),
            library(Extra::Roctx, &["libroctx64-4=6.4*"], &["libroctx-dev=6.4*"]),
        ],
    },
    Release {
        version: "7.2.4",
        standard: STANDARD,
        lock: include_str!("../../locks/7.2.4.json"),
        suites: &["sid", "experimental"],
        packages: &[
            "libamdhip64-7=7.2.4*",
            "libhiprtc7=7.2.4*",
            "libamd-comgr3=7.2.4*",
            "libhsa-runtime64-1=7.2.4*",
        ],
        extras: &[
            ExtraPackages {
                extra: Extra::Dev,
                suites: &[],
                packages: &[
                    "libamdhip64-dev=7.2.4*",
                    "libhiprtc-builtins7=7.2.4*",
                    "libamd-comgr-dev=7.2.4*",
                    "libhsa-runtime-dev=7.2.4*",
                    "clang-22",
                    "clang-tools-22",
                    "lld-22",
                    "rocm-device-libs-22=7.2.4*",
                ],
                headers: &[],
                tests: &[],
            },
            ExtraPackages {
                extra: Extra::Hiprand,
                suites: &[],
                packages: &["libhiprand1=7.2.4*", "librocrand1=7.2.4*"],
                headers: &["libhiprand-dev=7.2.4*", "librocrand-dev=7.2.4*"],
                tests: &["libhiprand1-tests=7.2.4*", "librocrand1-tests=7.2.4*"],
            },
            ExtraPackages {
                extra: Extra::Hipblaslt,
                suites: &[],
                packages: &["libhipblaslt1=7.2.4*"],
                headers: &["libhipblaslt-dev=7.2.4*", "libhipblas-common-dev=7.2.4*"],
                tests: &[
                    "libhipblaslt1-tests=7.2.4*",
                    "libhipblaslt1-tests-data=7.2.4*",
                    "librocm-smi64-7=7.2.4*",
                ],
            },
            ExtraPackages {
                extra: Extra::Rocblas,
                suites: &[],
                packages: &["librocblas5=7.2.4*", "libroctx64-4=7.2.4*"],
                headers: &["librocblas-dev=7.2.4*"],
                tests: &[
                    "librocblas5-tests=7.2.4*",
                    "librocblas5-tests-data=7.2.4*",
                    "librocm-smi64-7=7.2.4*",
                ],
            },
            library(
                Extra::Hipblas,
                &["libhipblas3=7.2.4*", "librocblas5=7.2.4*", "librocsolver0=7.2.4*", ROCTX],
                &[
                    "libhipblas-dev=7.2.4*",
                    "libhipblas-common-dev=7.2.4*",
                    "librocblas-dev=7.2.4*",
                    "librocsolver-dev=7.2.4*",
                ],
            )
            .tested(&["libhipblas3-tests=7.2.4*", "libhipblas3-tests-data=7.2.4*"]),
            library(
                Extra::Hipcc,
                &[
                    "hipcc=7.2.4*",
                    "rocm-device-libs-22=7.2.4*",
                    "libamdhip64-dev=7.2.4*",
                    "libhiprtc-builtins7=7.2.4*",
                    "libamd-comgr-dev=7.2.4*",
                    "libhsa-runtime-dev=7.2.4*",
                ],
                &[],
            ),
            headers(
                Extra::Hipcub,
                &[
                    "libhipcub-dev=7.2.4*",
                    "librocprim-dev=7.2.4*",
                    "libamdhip64-dev=7.2.4*",
                    "libhiprtc-builtins7=7.2.4*",
                    "libamd-comgr-dev=7.2.4*",
                    "libhsa-runtime-dev=7.2.4*",
                ],
            )
            .tested(&["libhipcub-tests=7.2.4*"]),
            library(
                Extra::Hipfft,
                &["libhipfft0=7.2.4*", "librocfft0=7.2.4*"],
                &["libhipfft-dev=7.2.4*", "libhipfftw0=7.2.4*"],
            )
            .tested(&[
                "libhipfft0-tests=7.2.4*",
                "libhipfft-dev=7.2.4*",
                "libhipfftw0=7.2.4*",
                "libamdhip64-dev=7.2.4*",
                "libhiprtc-builtins7=7.2.4*",
                "libamd-comgr-dev=7.2.4*",
                "libhsa-runtime-dev=7.2.4*",
                "libhiprand1=7.2.4*",
                "librocrand1=7.2.4*",
            ]),
            library(
                Extra::Hipsolver,
                &["libhipsolver1=7.2.4*", "librocblas5=7.2.4*", "librocsolver0=7.2.4*", ROCTX],
                &["libhipsolver-dev=7.2.4*", "librocblas-dev=7.2.4*", "librocsolver-dev=7.2.4*"],
            )
            .tested(&[
                "libhipsolver1-tests=7.2.4*",
                "libhipsolver1-tests-data=7.2.4*",
                "libhipsparse4=7.2.4*",
                "librocsparse1=7.2.4*",
            ]),
            library(
                Extra::Hipsparse,
                &["libhipsparse4=7.2.4*", "librocsparse1=7.2.4*", ROCTX],
                &["libhipsparse-dev=7.2.4*"],
            )
            .tested(&["libhipsparse4-tests=7.2.4*"]),
            library(
                Extra::Miopen,
                &["libmiopen1=7.2.4*", "libhiprtc-builtins7=7.2.4*", "librocblas5=7.2.4*", ROCTX],
                &["libmiopen-dev=7.2.4*"],
            )
            .tested(&["libmiopen1-tests=7.2.4*", "librocrand1=7.2.4*"]),
            library(
                Extra::Rccl,
                &["librccl1=7.2.4*", "librocm-smi64-7=7.2.4*"],
                &["librccl-dev=7.2.4*"],
            )
            .tested(&["librccl1-tests=7.2.4*"]),
            library(Extra::Rocfft, &["librocfft0=7.2.4*"], &["librocfft-dev=7.2.4*"])
                .tested(&["librocfft0-tests=7.2.4*"]),
            library(
                Extra::RocmSmi,
                &["librocm-smi64-7=7.2.4*"],
                &["librocm-smi-dev=7.2.4*", "liboam-dev=7.2.4*"],
            ),
            headers(
                Extra::Rocprim,
                &[
                    "librocprim-dev=7.2.4*",
                    "libamdhip64-dev=7.2.4*",
                    "libhiprtc-builtins7=7.2.4*",
                    "libamd-comgr-dev=7.2.4*",
                    "libhsa-runtime-dev=7.2.4*",
                ],
            )
            .tested(&["librocprim-tests=7.2.4*"]),
            library(
                Extra::Rocsolver,
                &["librocsolver0=7.2.4*", "librocblas5=7.2.4*", ROCTX],
                &["librocsolver-dev=7.2.4*", "librocblas-dev=7.2.4*"],
            )
            .tested(&["librocsolver0-tests=7.2.4*"]),
            library(
                Extra::Rocsparse,
                &["librocsparse1=7.2.4*", ROCTX],
                &["librocsparse-dev=7.2.4*"],
            )
            .tested(&["librocsparse1-tests=7.2.4*", "librocsparse1-tests-data=7.2.4*"]),
            headers(
                Extra::Rocthrust,
                &[
                    "librocthrust-dev=7.2.4*",
                    "librocprim-dev=7.2.4*",
                    "libamdhip64-dev=7.2.4*",
                    "libhiprtc-builtins7=7.2.4*",
                    "libamd-comgr-dev=7.2.4*",
                    "libhsa-runtime-dev=7.2.4*",
                ],
            )
            .tested(&["librocthrust-tests=7.2.4*"]),
            headers(Extra::Rocwmma, &["librocwmma-dev=7.2.4*"]).tested(&[
                "librocwmma-tests=7.2.4*",
                "librocwmma-tests-validate=7.2.4*",
                "librocblas5=7.2.4*",
                ROCTX,
            ]),
            library(Extra::Roctx, &[ROCTX], &["libroctx-dev=7.2.4*"]),
            ExtraPackages {
                extra: Extra::Tests,
                suites: &[],
                packages: &[],
                headers: &[],
                tests: &[],
            },
        ],
    },
];

impl Release {
    /// Returns the newest release in the table.
    pub fn latest() -> &'static Self {
        &RELEASES[RELEASES.len() - 1]
    }

    /// Returns the release with exactly this version; `None` if the table does not contain it.
    pub fn find(version: &Version) -> Option<&'static Self> {
        RELEASES.iter().find(|release| release.version() == *version)
    }

    /// Returns [`Release::version`] as a parsed version.
    pub fn version(&self) -> Version {
        Version::from_prefix(self.version).expect("the table contains valid versions")
    }

    /// Returns the packages of an extra in this release; `None` if the release does not offer it.
    pub fn extra(&self, extra: Extra) -> Option<&'static ExtraPackages> {
        self.extras.iter().find(|packages| packages.extra == extra)
    }

    pub(crate) fn runtime(&self) -> &'static str {
        self.packages[0].split('=').next().unwrap_or_default()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "debian:{}", self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_and_names_the_runtime_first() {
        for pair in RELEASES.windows(2) {
            assert!(pair[0].version() < pair[1].version());
        }
        for release in RELEASES {
            assert!(release.runtime().starts_with("libamdhip64-"), "{release}");
            assert_eq!(release.version().to_string(), release.version);
            assert!(release.standard.iter().all(|e| release.extra(*e).is_some()), "{release}");
        }
    }

    #[test]
    fn extras_name_the_suites_that_their_release_lacks() {
        let release = RELEASES.iter().find(|release| release.version == "6.4.3").unwrap();
        let suites = |extra: Extra| release.extra(extra).unwrap().suites;
        assert_eq!(suites(Extra::Hipfft), ["sid"]);
        assert_eq!(suites(Extra::Miopen), ["sid"]);
        assert!(suites(Extra::Hipblas).is_empty());
    }
}
