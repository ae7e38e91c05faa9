//! Bindings to hipBLASLt, and the sequences of calls that a matrix product needs.

use std::ffi::{c_int, c_void};

use crate::{LoadError, SharedLibrary, loader::functions};

functions! {
    /// The library hipBLASLt. Its functions are declared in hipblaslt/hipblaslt.h of ROCm 7.2.4. Status codes are
    /// `hipblasStatus_t`.
    pub struct Blaslt;
    fn hipblasLtCreate(handle: *mut *mut c_void) -> c_int;
    fn hipblasLtDestroy(handle: *mut c_void) -> c_int;
    fn hipblasLtMatrixLayoutCreate(layout: *mut *mut c_void, data_type: c_int, rows: u64, columns: u64, leading: i64) -> c_int;
    fn hipblasLtMatrixLayoutDestroy(layout: *mut c_void) -> c_int;
    fn hipblasLtMatmulDescCreate(description: *mut *mut c_void, compute_type: c_int, scale_type: c_int) -> c_int;
    fn hipblasLtMatmulDescSetAttribute(description: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize) -> c_int;
    fn hipblasLtMatmulDescDestroy(description: *mut c_void) -> c_int;
    fn hipblasLtMatmulPreferenceCreate(preference: *mut *mut c_void) -> c_int;
    fn hipblasLtMatmulPreferenceSetAttribute(preference: *mut c_void, attribute: c_int, value: *const c_void, bytes: usize) -> c_int;
    fn hipblasLtMatmulPreferenceDestroy(preference: *mut c_void) -> c_int;
    fn hipblasLtMatmulAlgoGetHeuristic(
        handle: *mut c_void,
        description: *mut c_void,
        a: *mut c_void,
        b: *mut c_void,
        c: *mut c_void,
        d: *mut c_void,
        preference: *mut c_void,
        requested: c_int,
        results: *mut HeuristicResult,
        returned: *mut c_int,
    ) -> c_int;
    fn hipblasLtMatmul(
        handle: *mut c_void,
        description: *mut c_void,
        alpha: *const c_void,
        a: *const c_void,
        a_layout: *mut c_void,
        b: *const c_void,
        b_layout: *mut c_void,
        beta: *const c_void,
        c: *const c_void,
        c_layout: *mut c_void,
        d: *mut c_void,
        d_layout: *mut c_void,
        algorithm: *const c_void,
        workspace: *mut c_void,
        workspace_bytes: usize,
        stream: *mut c_void,
    ) -> c_int;
}

/// `hipblasLtMatmulHeuristicResult_t` (hipblaslt/hipblaslt.h). This crate uses only its size, 56 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct HeuristicResult {
    algorithm: [u8; 16],
    algorithm_workspace: usize,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// A matrix product D = op(A) op(B) [+ bias], column-major and without padding. The element types are `hipDataType`
/// (hip/library_types.h); the compute type is `hipblasComputeType_t` (hipblas-common/hipblas-common.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixProduct {
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Columns of op(A) and rows of op(B).
    pub k: u64,
    /// True if A is transposed.
    pub transpose_a: bool,
    /// True if B is transposed.
    pub transpose_b: bool,
    /// True if a bias vector is added. Its elements have the type of D.
    pub bias: bool,
    /// Element type of A and B (`hipDataType`).
    pub input: c_int,
    /// Element type of C and D (`hipDataType`).
    pub output: c_int,
    /// Type of the factors alpha and beta (`hipDataType`).
    pub scale: c_int,
    /// Type in which the sums are accumulated (`hipblasComputeType_t`).
    pub compute: c_int,
}

impl MatrixProduct {
    /// `HIP_R_32F` (hip/library_types.h).
    pub const R_32F: c_int = 0;
    /// `HIP_R_64F` (hip/library_types.h).
    pub const R_64F: c_int = 1;
    /// `HIP_R_16F` (hip/library_types.h).
    pub const R_16F: c_int = 2;
    /// `HIP_R_8I` (hip/library_types.h).
    pub const R_8I: c_int = 3;
    /// `HIP_R_32I` (hip/library_types.h).
    pub const R_32I: c_int = 10;
    /// `HIP_R_16BF` (hip/library_types.h).
    pub const R_16BF: c_int = 14;
    /// `HIPBLAS_COMPUTE_32F` (hipblas-common/hipblas-common.h).
    pub const COMPUTE_32F: c_int = 2;
    /// `HIPBLAS_COMPUTE_64F` (hipblas-common/hipblas-common.h).
    pub const COMPUTE_64F: c_int = 7;
    /// `HIPBLAS_COMPUTE_32I` (hipblas-common/hipblas-common.h).
    pub const COMPUTE_32I: c_int = 9;

    /// Returns alpha = 1 and beta = 0 as bytes of the type `scale`.
    pub(crate) fn one_and_zero(&self) -> [[u8; 8]; 2] {
        let one = match self.scale {
            Self::R_64F => 1f64.to_bits(),
            Self::R_32I => 1,
            _ => 1f32.to_bits().into(),
        };
        [one.to_le_bytes(), [0; 8]]
    }
}

/// `HIPBLAS_OP_N` and `HIPBLAS_OP_T` (hipblas-common/hipblas-common.h).
const OP_N: i32 = 111;
const OP_T: i32 = 112;
/// `HIPBLASLT_MATMUL_DESC_TRANSA` and other attributes of a matrix product, `HIPBLASLT_MATMUL_DESC_*`
/// (hipblaslt/hipblaslt.h).
const DESC_TRANSA: c_int = 0;
const DESC_TRANSB: c_int = 1;
const DESC_EPILOGUE: c_int = 2;
const DESC_BIAS_POINTER: c_int = 3;
const DESC_BIAS_DATA_TYPE: c_int = 4;
/// `HIPBLASLT_EPILOGUE_BIAS` (hipblaslt/hipblaslt.h).
const EPILOGUE_BIAS: u32 = 4;
/// `HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES` (hipblaslt/hipblaslt.h).
const PREF_MAX_WORKSPACE_BYTES: c_int = 1;
/// Maximum size of the workspace in bytes. The samples of hipBLASLt use the same value.
const WORKSPACE_BYTES: u64 = 32 << 20;
/// `HIPBLAS_STATUS_NOT_SUPPORTED` (hipblas-common/hipblas-common.h).
const NOT_SUPPORTED: c_int = 7;
/// Maximum number of algorithms that a query may return.
const REQUESTED: usize = 8;

impl Blaslt {
    /// Sonames of the library in ROCm 7.x and 6.x.
    pub const SONAMES: [&str; 2] = ["libhipblaslt.so.1", "libhipblaslt.so.0"];

    /// Opens `libhipblaslt`.
    ///
    /// # Errors
    /// Fails if the library cannot be opened.
    pub fn load() -> Result<Self, LoadError> {
        SharedLibrary::open("libhipblaslt", &Self::SONAMES).map(Self::resolve)
    }

    /// Queries the algorithms for a matrix product. Returns the status of the first failed call, or success, and the
    /// number of algorithms, which is at most 8.
    ///
    /// # Errors
    /// Fails if the release lacks a function.
    ///
    /// # Safety
    /// `handle` must have been created by `hipblasLtCreate` and must not have been destroyed.
    pub unsafe fn heuristic(
        &self,
        handle: *mut c_void,
        operation: &MatrixProduct,
    ) -> Result<(c_int, c_int), LoadError> {
        let mut descriptors = Descriptors { library: self, made: Vec::new() };
        let mut query = || -> Result<c_int, Failure> {
            let problem = descriptors.describe(operation, None)?;
            // SAFETY: the caller guarantees that the handle is valid. The library creates the other objects in this
            // method.
            Ok(unsafe { descriptors.query(handle, &problem, WORKSPACE_BYTES) }?.1)
        };
        match query() {
            Ok(count) => Ok((0, count)),
            Err(Failure::Status(status)) => Ok((status, 0)),
            Err(Failure::LoadError(missing)) => Err(missing),
        }
    }

    /// Computes a matrix product with the first algorithm that the heuristic returns for a workspace of 0 bytes.
    /// Returns the status of the first failed call, `HIPBLAS_STATUS_NOT_SUPPORTED` if the heuristic returns no
    /// algorithm, or success.
    ///
    /// # Errors
    /// Fails if the release lacks a function.
    ///
    /// # Safety
    /// `handle` must have been created by `hipblasLtCreate` and must not have been destroyed. `stream` must be null or
    /// an existing stream. The matrices must be device addresses with the sizes that the product requires.
    pub unsafe fn multiply(
        &self,
        handle: *mut c_void,
        operation: &MatrixProduct,
        matrices: &MatrixPointers,
        stream: *mut c_void,
    ) -> Result<c_int, LoadError> {
        let mut descriptors = Descriptors { library: self, made: Vec::new() };
        let mut multiply = || -> Result<(), Failure> {
            let problem = descriptors.describe(operation, Some(matrices.bias))?;
            // SAFETY: the caller guarantees that the handle is valid. The library creates the other objects in this
            // method.
            let (results, count) = unsafe { descriptors.query(handle, &problem, 0) }?;
            if count == 0 {
                return Err(Failure::Status(NOT_SUPPORTED));
            }
            let [one, zero] = operation.one_and_zero();
            let Problem { description, a, b, c, d } = problem;
            // SAFETY: the caller guarantees that the handle, the stream and the matrices are valid. The descriptors and
            // the algorithm are valid until the end of this method.
            succeed(unsafe {
                self.hipblasLtMatmul(
                    handle,
                    description,
                    one.as_ptr().cast(),
                    matrices.a,
                    a,
                    matrices.b,
                    b,
                    zero.as_ptr().cast(),
                    matrices.d,
                    c,
                    matrices.d,
                    d,
                    (&raw const results[0]).cast(),
                    std::ptr::null_mut(),
                    0,
                    stream,
                )
            })
        };
        match multiply() {
            Ok(()) => Ok(0),
            Err(Failure::Status(status)) => Ok(status),
            Err(Failure::LoadError(missing)) => Err(missing),
        }
    }
}

/// Device addresses of the matrices of a product.
#[derive(Clone, Copy, Debug)]
pub struct MatrixPointers {
    /// Address of A.
    pub a: *const c_void,
    /// Address of B.
    pub b: *const c_void,
    /// Address of D.
    pub d: *mut c_void,
    /// Address of the bias vector, or null.
    pub bias: *const c_void,
}

enum Failure {
    Status(c_int),
    LoadError(LoadError),
}

impl From<LoadError> for Failure {
    fn from(missing: LoadError) -> Self {
        Failure::LoadError(missing)
    }
}

fn succeed(status: Result<c_int, LoadError>) -> Result<(), Failure> {
    match status? {
        0 => Ok(()),
        status => Err(Failure::Status(status)),
    }
}

type Destroy = unsafe fn(&Blaslt, *mut c_void) -> Result<c_int, LoadError>;

/// Descriptors of hipBLASLt for a matrix product. They are destroyed in the reverse order of their creation.
struct Descriptors<'a> {
    library: &'a Blaslt,
    made: Vec<(*mut c_void, Destroy)>,
}

impl Drop for Descriptors<'_> {
    fn drop(&mut self) {
        for (descriptor, destroy) in self.made.drain(..).rev() {
            // SAFETY: the library created the descriptor. It is passed to the destructor of its type and is not used
            // again. If the release lacks the destructor, the descriptor leaks.
            let _ = unsafe { destroy(self.library, descriptor) };
        }
    }
}

impl Descriptors<'_> {
    fn keep(&mut self, descriptor: *mut c_void, destroy: Destroy) -> *mut c_void {
        self.made.push((descriptor, destroy));
        descriptor
    }

    fn layout(
        &mut self,
        data_type: c_int,
        rows: u64,
        columns: u64,
    ) -> Result<*mut c_void, Failure> {
        let mut layout = std::ptr::null_mut();
        // SAFETY: the result is written to a local variable, and the sizes are plain numbers.
        succeed(unsafe {
            self.library.hipblasLtMatrixLayoutCreate(
                &mut layout,
                data_type,
                rows,
                columns,
                rows as i64,
            )
        })?;
        Ok(self.keep(layout, Blaslt::hipblasLtMatrixLayoutDestroy))
    }

    fn set<T>(&self, description: *mut c_void, attribute: c_int, value: T) -> Result<(), Failure> {
        // SAFETY: this library created the description, and T is the type that the header specifies for the attribute.
        succeed(unsafe {
            self.library.hipblasLtMatmulDescSetAttribute(
                description,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }

    /// Creates the descriptors of a matrix product. `bias` is the address of the bias vector. It is `None` if the
    /// caller only queries algorithms and does not compute the product.
    fn describe(
        &mut self,
        operation: &MatrixProduct,
        bias: Option<*const c_void>,
    ) -> Result<Problem, Failure> {
        let MatrixProduct { m, n, k, .. } = *operation;
        let (a_rows, a_columns) = if operation.transpose_a { (k, m) } else { (m, k) };
        let (b_rows, b_columns) = if operation.transpose_b { (n, k) } else { (k, n) };
        let a = self.layout(operation.input, a_rows, a_columns)?;
        let b = self.layout(operation.input, b_rows, b_columns)?;
        let c = self.layout(operation.output, m, n)?;
        let d = self.layout(operation.output, m, n)?;

        let mut description = std::ptr::null_mut();
        // SAFETY: the result is written to a local variable.
        succeed(unsafe {
            self.library.hipblasLtMatmulDescCreate(
                &mut description,
                operation.compute,
                operation.scale,
            )
        })?;
        let description = self.keep(description, Blaslt::hipblasLtMatmulDescDestroy);
        let op = |transpose| if transpose { OP_T } else { OP_N };
        self.set(description, DESC_TRANSA, op(operation.transpose_a))?;
        self.set(description, DESC_TRANSB, op(operation.transpose_b))?;
        if operation.bias {
            self.set(description, DESC_EPILOGUE, EPILOGUE_BIAS)?;
            self.set(description, DESC_BIAS_DATA_TYPE, operation.output)?;
            if let Some(bias) = bias {
                self.set(description, DESC_BIAS_POINTER, bias)?;
            }
        }
        Ok(Problem { description, a, b, c, d })
    }

    /// Queries algorithms that need a workspace of at most `workspace` bytes. Returns the buffer with the results, and
    /// the number of results.
    ///
    /// # Safety
    /// The handle must be valid.
    unsafe fn query(
        &mut self,
        handle: *mut c_void,
        problem: &Problem,
        workspace: u64,
    ) -> Result<([HeuristicResult; REQUESTED], c_int), Failure> {
        let mut preference = std::ptr::null_mut();
        // SAFETY: the result is written to a local variable.
        succeed(unsafe { self.library.hipblasLtMatmulPreferenceCreate(&mut preference) })?;
        let preference = self.keep(preference, Blaslt::hipblasLtMatmulPreferenceDestroy);
        // SAFETY: the preference was created above, and the header specifies the type uint64_t for the attribute.
        succeed(unsafe {
            self.library.hipblasLtMatmulPreferenceSetAttribute(
                preference,
                PREF_MAX_WORKSPACE_BYTES,
                (&raw const workspace).cast(),
                size_of_val(&workspace),
            )
        })?;

        let mut results = [HeuristicResult::default(); REQUESTED];
        let mut count = 0;
        // SAFETY: the caller guarantees that the handle is valid. All descriptors are valid, and the buffer has space
        // for the requested number of results.
        succeed(unsafe {
            self.library.hipblasLtMatmulAlgoGetHeuristic(
                handle,
                problem.description,
                problem.a,
                problem.b,
                problem.c,
                problem.d,
                preference,
                REQUESTED as c_int,
                results.as_mut_ptr(),
                &mut count,
            )
        })?;
        Ok((results, count))
    }
}

struct Problem {
    description: *mut c_void,
    a: *mut c_void,
    b: *mut c_void,
    c: *mut c_void,
    d: *mut c_void,
}

/// Returns the name of a `hipblasStatus_t` (hipblas-common/hipblas-common.h).
pub fn status_name(status: c_int) -> String {
    match status {
        0 => "HIPBLAS_STATUS_SUCCESS",
        1 => "HIPBLAS_STATUS_NOT_INITIALIZED",
        2 => "HIPBLAS_STATUS_ALLOC_FAILED",
        3 => "HIPBLAS_STATUS_INVALID_VALUE",
        4 => "HIPBLAS_STATUS_MAPPING_ERROR",
        5 => "HIPBLAS_STATUS_EXECUTION_FAILED",
        6 => "HIPBLAS_STATUS_INTERNAL_ERROR",
        7 => "HIPBLAS_STATUS_NOT_SUPPORTED",
        8 => "HIPBLAS_STATUS_ARCH_MISMATCH",
        9 => "HIPBLAS_STATUS_HANDLE_IS_NULLPTR",
        10 => "HIPBLAS_STATUS_INVALID_ENUM",
        11 => "HIPBLAS_STATUS_UNKNOWN",
        other => return format!("hipblasStatus_t({other})"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_names_of_the_header() {
        assert_eq!(status_name(7), "HIPBLAS_STATUS_NOT_SUPPORTED");
        assert_eq!(status_name(12), "hipblasStatus_t(12)");
    }

    #[test]
    fn heuristic_result_has_the_size_in_the_header() {
        assert_eq!(size_of::<HeuristicResult>(), 56);
    }
}
