//! Names of the statuses that the libraries declare in their headers, for checks of `returns` and of signatures.

use std::sync::LazyLock;

struct Statuses {
    /// Prefix of the verbs that call functions of this library.
    verbs: &'static str,
    names: &'static [&'static str],
}

pub(super) fn for_verb(verb: &str) -> &'static [&'static str] {
    let found = OTHERS.iter().find(|statuses| verb.starts_with(statuses.verbs));
    found.map_or(&HIP, |statuses| statuses.names)
}

/// Returns the names of the statuses that a function can return. The prefix of the function's name determines the
/// library.
pub(crate) fn for_function(api: &str) -> impl Iterator<Item = &'static str> {
    let prefixes = ["hiprand", "hipblasLt", "rocblas_", ""];
    let which = prefixes.iter().position(|prefix| api.starts_with(prefix));
    let all = OTHERS.iter().map(|statuses| statuses.names).chain([&HIP[..]]);
    all.enumerate()
        .filter(move |(n, _)| which.is_none_or(|which| which == *n))
        .flat_map(|(_, names)| names)
        .copied()
}

/// Statuses of HIP.
static HIP: LazyLock<Vec<&str>> =
    LazyLock::new(|| device::hip_statuses().iter().map(|(name, _)| *name).collect());

/// Verbs and statuses of the libraries other than HIP. Sources: hiprand.h, hipblas-common.h and rocblas-types.h of
/// 7.2.4.
const OTHERS: &[Statuses] = &[
    Statuses {
        verbs: "rand_",
        names: &[
            "HIPRAND_STATUS_ALLOCATION_FAILED",
            "HIPRAND_STATUS_ARCH_MISMATCH",
            "HIPRAND_STATUS_DOUBLE_PRECISION_REQUIRED",
            "HIPRAND_STATUS_INITIALIZATION_FAILED",
            "HIPRAND_STATUS_INTERNAL_ERROR",
            "HIPRAND_STATUS_LAUNCH_FAILURE",
            "HIPRAND_STATUS_LENGTH_NOT_MULTIPLE",
            "HIPRAND_STATUS_NOT_IMPLEMENTED",
            "HIPRAND_STATUS_NOT_INITIALIZED",
            "HIPRAND_STATUS_OUT_OF_RANGE",
            "HIPRAND_STATUS_PREEXISTING_FAILURE",
            "HIPRAND_STATUS_SUCCESS",
            "HIPRAND_STATUS_TYPE_ERROR",
            "HIPRAND_STATUS_VERSION_MISMATCH",
        ],
    },
    Statuses {
        verbs: "blaslt_",
        names: &[
            "HIPBLAS_STATUS_ALLOC_FAILED",
            "HIPBLAS_STATUS_ARCH_MISMATCH",
            "HIPBLAS_STATUS_EXECUTION_FAILED",
            "HIPBLAS_STATUS_HANDLE_IS_NULLPTR",
            "HIPBLAS_STATUS_INTERNAL_ERROR",
            "HIPBLAS_STATUS_INVALID_ENUM",
            "HIPBLAS_STATUS_INVALID_VALUE",
            "HIPBLAS_STATUS_MAPPING_ERROR",
            "HIPBLAS_STATUS_NOT_INITIALIZED",
            "HIPBLAS_STATUS_NOT_SUPPORTED",
            "HIPBLAS_STATUS_SUCCESS",
            "HIPBLAS_STATUS_UNKNOWN",
        ],
    },
    Statuses {
        verbs: "rocblas_",
        names: &[
            "rocblas_status_arch_mismatch",
            "rocblas_status_check_numerics_fail",
            "rocblas_status_continue",
            "rocblas_status_excluded_from_build",
            "rocblas_status_internal_error",
            "rocblas_status_invalid_handle",
            "rocblas_status_invalid_pointer",
            "rocblas_status_invalid_size",
            "rocblas_status_invalid_value",
            "rocblas_status_memory_error",
            "rocblas_status_not_implemented",
            "rocblas_status_perf_degraded",
            "rocblas_status_size_increased",
            "rocblas_status_size_query_mismatch",
            "rocblas_status_size_unchanged",
            "rocblas_status_success",
        ],
    },
];
