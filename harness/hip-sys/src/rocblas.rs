use std::ffi::{c_int, c_void};

use crate::{Missing, Shared, loader::functions};

functions! {
    /// rocBLAS. Signatures: rocblas/internal/rocblas-auxiliary.h of ROCm 7.2.4. Status codes are `rocblas_status`.
    pub struct Rocblas;
    fn rocblas_create_handle(handle: *mut *mut c_void) -> c_int;
    fn rocblas_destroy_handle(handle: *mut c_void) -> c_int;
}

impl Rocblas {
    /// The sonames of 7.x, 6.x, 5.6 to 5.7 and earlier 5.x.
    pub const SONAMES: [&str; 4] =
        ["librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0"];

    /// Opens `librocblas`.
    ///
    /// # Errors
    /// It is not there.
    pub fn load() -> Result<Self, Missing> {
        Shared::open("librocblas", &Self::SONAMES).map(Self::resolve)
    }
}

/// The name of a `rocblas_status` (rocblas/internal/rocblas-types.h).
pub fn status_name(status: c_int) -> String {
    match status {
        0 => "rocblas_status_success",
        1 => "rocblas_status_invalid_handle",
        2 => "rocblas_status_not_implemented",
        3 => "rocblas_status_invalid_pointer",
        4 => "rocblas_status_invalid_size",
        5 => "rocblas_status_memory_error",
        6 => "rocblas_status_internal_error",
        7 => "rocblas_status_perf_degraded",
        8 => "rocblas_status_size_query_mismatch",
        9 => "rocblas_status_size_increased",
        10 => "rocblas_status_size_unchanged",
        11 => "rocblas_status_invalid_value",
        12 => "rocblas_status_continue",
        13 => "rocblas_status_check_numerics_fail",
        14 => "rocblas_status_excluded_from_build",
        15 => "rocblas_status_arch_mismatch",
        other => return format!("rocblas_status({other})"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_headers_names() {
        assert_eq!(status_name(0), "rocblas_status_success");
        assert_eq!(status_name(15), "rocblas_status_arch_mismatch");
        assert_eq!(status_name(-1), "rocblas_status(-1)");
    }
}
