//! Bindings to rocBLAS, and the sequence of calls that a matrix product needs.

use std::ffi::{c_int, c_void};

use crate::{LoadError, MatrixPointers, MatrixProduct, SharedLibrary, loader::functions};

functions! {
    /// The library rocBLAS. Its functions are declared in rocblas/internal/rocblas-auxiliary.h of ROCm 7.2.4. Status
    /// codes are `rocblas_status`.
    pub struct Rocblas;
    fn rocblas_create_handle(handle: *mut *mut c_void) -> c_int;
    fn rocblas_destroy_handle(handle: *mut c_void) -> c_int;
    fn rocblas_set_stream(handle: *mut c_void, stream: *mut c_void) -> c_int;
    fn rocblas_gemm_ex(
        handle: *mut c_void,
        transpose_a: c_int,
        transpose_b: c_int,
        m: i32,
        n: i32,
        k: i32,
        alpha: *const c_void,
        a: *const c_void,
        a_type: c_int,
        a_leading: i32,
        b: *const c_void,
        b_type: c_int,
        b_leading: i32,
        beta: *const c_void,
        c: *const c_void,
        c_type: c_int,
        c_leading: i32,
        d: *mut c_void,
        d_type: c_int,
        d_leading: i32,
        compute_type: c_int,
        algorithm: c_int,
        solution: i32,
        flags: u32,
    ) -> c_int;
}

/// `rocblas_operation` (rocblas/internal/rocblas-types.h).
const OPERATION_NONE: c_int = 111;
const OPERATION_TRANSPOSE: c_int = 112;
/// `rocblas_gemm_algo_standard` (rocblas/internal/rocblas-types.h).
const GEMM_ALGO_STANDARD: c_int = 0;

impl Rocblas {
    /// Sonames of the library in ROCm 7.x, 6.x, 5.6 to 5.7 and earlier 5.x.
    pub const SONAMES: [&str; 4] =
        ["librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0"];

    /// Opens `librocblas`.
    ///
    /// # Errors
    /// Fails if the library cannot be opened.
    pub fn load() -> Result<Self, LoadError> {
        SharedLibrary::open("librocblas", &Self::SONAMES).map(Self::resolve)
    }

    /// Computes D = op(A) op(B) with `rocblas_gemm_ex` in a stream. Ignores the bias of the product, because
    /// `rocblas_gemm_ex` cannot add one. Returns the status of the first failed call, or success.
    ///
    /// # Errors
    /// Fails if the release lacks a function.
    ///
    /// # Safety
    /// `handle` must have been created by `rocblas_create_handle` and must not have been destroyed. `stream` must be
    /// null or an existing stream. The matrices must be device addresses with the sizes that the product requires.
    pub unsafe fn multiply(
        &self,
        handle: *mut c_void,
        operation: &MatrixProduct,
        matrices: &MatrixPointers,
        stream: *mut c_void,
    ) -> Result<c_int, LoadError> {
        // SAFETY: the caller guarantees that the handle and the stream are valid.
        let status = unsafe { self.rocblas_set_stream(handle, stream) }?;
        if status != 0 {
            return Ok(status);
        }
        let op = |transpose| if transpose { OPERATION_TRANSPOSE } else { OPERATION_NONE };
        let [m, n, k] = [operation.m as i32, operation.n as i32, operation.k as i32];
        let (input, output) = (data_type(operation.input), data_type(operation.output));
        let [one, zero] = operation.one_and_zero();
        // SAFETY: the caller guarantees that the handle and the matrices are valid. Alpha and beta have the compute
        // type.
        unsafe {
            self.rocblas_gemm_ex(
                handle,
                op(operation.transpose_a),
                op(operation.transpose_b),
                m,
                n,
                k,
                one.as_ptr().cast(),
                matrices.a,
                input,
                if operation.transpose_a { k } else { m },
                matrices.b,
                input,
                if operation.transpose_b { n } else { k },
                zero.as_ptr().cast(),
                matrices.d,
                output,
                m,
                matrices.d,
                output,
                m,
                data_type(operation.scale),
                GEMM_ALGO_STANDARD,
                0,
                0,
            )
        }
    }
}

/// Converts a `hipDataType` to the corresponding `rocblas_datatype` (rocblas/internal/rocblas-types.h).
fn data_type(hip: c_int) -> c_int {
    match hip {
        MatrixProduct::R_16F => 150,
        MatrixProduct::R_64F => 152,
        MatrixProduct::R_8I => 160,
        MatrixProduct::R_32I => 162,
        MatrixProduct::R_16BF => 168,
        _ => 151,
    }
}

/// Returns the name of a `rocblas_status` (rocblas/internal/rocblas-types.h).
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
    fn statuses_have_the_names_of_the_header() {
        assert_eq!(status_name(0), "rocblas_status_success");
        assert_eq!(status_name(15), "rocblas_status_arch_mismatch");
        assert_eq!(status_name(-1), "rocblas_status(-1)");
    }
}
