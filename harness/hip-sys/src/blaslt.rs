use std::ffi::{c_int, c_void};

use crate::{Missing, Shared, loader::functions};

functions! {
    /// hipBLASLt. Signatures: hipblaslt/hipblaslt.h of ROCm 7.2.4. Status codes are `hipblasStatus_t`.
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

/// `hipblasLtMatmulHeuristicResult_t` (hipblaslt/hipblaslt.h), opaque but for its size of 56 bytes.
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

/// A matrix multiplication D = op(A) op(B) [+ bias], column-major and tightly packed. The types are `hipDataType` (hip/library_types.h),
/// the compute type is `hipblasComputeType_t` (hipblas-common/hipblas-common.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Inner size.
    pub k: u64,
    /// Whether A is transposed.
    pub transpose_a: bool,
    /// Whether B is transposed.
    pub transpose_b: bool,
    /// Whether a bias vector is added, of D's type.
    pub bias: bool,
    /// Type of A and B.
    pub input: c_int,
    /// Type of C and D.
    pub output: c_int,
    /// Type of alpha and beta.
    pub scale: c_int,
    /// Type of the accumulation.
    pub compute: c_int,
}

impl Operation {
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

    /// 1 and 0 in the type of alpha and beta, in the first bytes.
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
/// `HIPBLASLT_MATMUL_DESC_*` (hipblaslt/hipblaslt.h).
const DESC_TRANSA: c_int = 0;
const DESC_TRANSB: c_int = 1;
const DESC_EPILOGUE: c_int = 2;
const DESC_BIAS_POINTER: c_int = 3;
const DESC_BIAS_DATA_TYPE: c_int = 4;
/// `HIPBLASLT_EPILOGUE_BIAS` (hipblaslt/hipblaslt.h).
const EPILOGUE_BIAS: u32 = 4;
/// `HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES` (hipblaslt/hipblaslt.h).
const PREF_MAX_WORKSPACE_BYTES: c_int = 1;
/// The workspace that hipBLASLt's own samples offer, in bytes.
const WORKSPACE_BYTES: u64 = 32 << 20;
/// `HIPBLAS_STATUS_NOT_SUPPORTED` (hipblas-common/hipblas-common.h).
const NOT_SUPPORTED: c_int = 7;
/// How many algorithms a query asks for.
const REQUESTED: usize = 8;

impl Blaslt {
    /// The sonames of 7.x and 6.x.
    pub const SONAMES: [&str; 2] = ["libhipblaslt.so.1", "libhipblaslt.so.0"];

    /// Opens `libhipblaslt`.
    ///
    /// # Errors
    /// It is not there.
    pub fn load() -> Result<Self, Missing> {
        Shared::open("libhipblaslt", &Self::SONAMES).map(Self::resolve)
    }

    /// Asks for algorithms for one problem: the status of the first call that fails, or success, and the number of
    /// algorithms, at most 8.
    ///
    /// # Errors
    /// The release lacks a function.
    ///
    /// # Safety
    /// `handle` comes from `hipblasLtCreate` and was not destroyed.
    pub unsafe fn heuristic(
        &self,
        handle: *mut c_void,
        operation: &Operation,
    ) -> Result<(c_int, c_int), Missing> {
        let mut descriptors = Descriptors { library: self, made: Vec::new() };
        let mut query = || -> Result<c_int, Failure> {
            let problem = descriptors.describe(operation, None)?;
            // SAFETY: the caller vouches for the handle; the rest is made by the library in this call.
            Ok(unsafe { descriptors.query(handle, &problem, WORKSPACE_BYTES) }?.1)
        };
        match query() {
            Ok(count) => Ok((0, count)),
            Err(Failure::Status(status)) => Ok((status, 0)),
            Err(Failure::Missing(missing)) => Err(missing),
        }
    }

    /// Multiplies with the first algorithm that the heuristic offers for no workspace: the status of the first call
    /// that fails, `HIPBLAS_STATUS_NOT_SUPPORTED` where nothing is offered, or success.
    ///
    /// # Errors
    /// The release lacks a function.
    ///
    /// # Safety
    /// `handle` comes from `hipblasLtCreate` and was not destroyed, `stream` is null or a live stream, and the
    /// matrices are device addresses of the problem's sizes.
    pub unsafe fn multiply(
        &self,
        handle: *mut c_void,
        operation: &Operation,
        matrices: &Matrices,
        stream: *mut c_void,
    ) -> Result<c_int, Missing> {
        let mut descriptors = Descriptors { library: self, made: Vec::new() };
        let mut multiply = || -> Result<(), Failure> {
            let problem = descriptors.describe(operation, Some(matrices.bias))?;
            // SAFETY: the caller vouches for the handle; the rest is made by the library in this call.
            let (results, count) = unsafe { descriptors.query(handle, &problem, 0) }?;
            if count == 0 {
                return Err(Failure::Status(NOT_SUPPORTED));
            }
            let [one, zero] = operation.one_and_zero();
            let Problem { description, a, b, c, d } = problem;
            // SAFETY: the caller vouches for the handle, the stream and the matrices; descriptors and algorithm are live.
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
            Err(Failure::Missing(missing)) => Err(missing),
        }
    }
}

/// Where the matrices of a multiplication lie.
#[derive(Clone, Copy, Debug)]
pub struct Matrices {
    /// A.
    pub a: *const c_void,
    /// B.
    pub b: *const c_void,
    /// D.
    pub d: *mut c_void,
    /// The bias, null without one.
    pub bias: *const c_void,
}

enum Failure {
    Status(c_int),
    Missing(Missing),
}

impl From<Missing> for Failure {
    fn from(missing: Missing) -> Self {
        Failure::Missing(missing)
    }
}

fn succeed(status: Result<c_int, Missing>) -> Result<(), Failure> {
    match status? {
        0 => Ok(()),
        status => Err(Failure::Status(status)),
    }
}

type Destroy = unsafe fn(&Blaslt, *mut c_void) -> Result<c_int, Missing>;

/// The descriptors of one query, destroyed in reverse order.
struct Descriptors<'a> {
    library: &'a Blaslt,
    made: Vec<(*mut c_void, Destroy)>,
}

impl Drop for Descriptors<'_> {
    fn drop(&mut self) {
        for (descriptor, destroy) in self.made.drain(..).rev() {
            // SAFETY: made by the library, paired with its own destructor and not used again. A
            // missing destructor leaks the descriptor, which is all that can be done about it.
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
        // SAFETY: the result is a place of its own; sizes are plain numbers.
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
        // SAFETY: the description was made by this library, and the attribute's type is T by the header.
        succeed(unsafe {
            self.library.hipblasLtMatmulDescSetAttribute(
                description,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }

    /// Makes the descriptors of a problem; `bias` is where the bias lies, where that matters.
    fn describe(
        &mut self,
        operation: &Operation,
        bias: Option<*const c_void>,
    ) -> Result<Problem, Failure> {
        let Operation { m, n, k, .. } = *operation;
        let (a_rows, a_columns) = if operation.transpose_a { (k, m) } else { (m, k) };
        let (b_rows, b_columns) = if operation.transpose_b { (n, k) } else { (k, n) };
        let a = self.layout(operation.input, a_rows, a_columns)?;
        let b = self.layout(operation.input, b_rows, b_columns)?;
        let c = self.layout(operation.output, m, n)?;
        let d = self.layout(operation.output, m, n)?;

        let mut description = std::ptr::null_mut();
        // SAFETY: the result is a place of its own.
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

    /// Asks for algorithms that need no more than `workspace` bytes: the answers and their number.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn query(
        &mut self,
        handle: *mut c_void,
        problem: &Problem,
        workspace: u64,
    ) -> Result<([HeuristicResult; REQUESTED], c_int), Failure> {
        let mut preference = std::ptr::null_mut();
        // SAFETY: the result is a place of its own.
        succeed(unsafe { self.library.hipblasLtMatmulPreferenceCreate(&mut preference) })?;
        let preference = self.keep(preference, Blaslt::hipblasLtMatmulPreferenceDestroy);
        // SAFETY: the preference was made above, and the attribute is a uint64_t.
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
        // SAFETY: the handle is the caller's, all descriptors are live, and there is room for what is requested.
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

/// The descriptors of one multiplication, owned by [`Descriptors`].
struct Problem {
    description: *mut c_void,
    a: *mut c_void,
    b: *mut c_void,
    c: *mut c_void,
    d: *mut c_void,
}

/// The name of a `hipblasStatus_t` (hipblas-common/hipblas-common.h).
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
    fn statuses_have_the_headers_names() {
        assert_eq!(status_name(7), "HIPBLAS_STATUS_NOT_SUPPORTED");
        assert_eq!(status_name(12), "hipblasStatus_t(12)");
    }

    #[test]
    fn the_result_has_the_size_of_the_headers_structure() {
        assert_eq!(size_of::<HeuristicResult>(), 56);
    }
}
