//! Prints matrix products that hipBLASLt and rocBLAS compute.

use plan::{Dtype, MatmulProblem, Operands};

use crate::helpers::Helper;

pub(crate) const fn element(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float",
        Dtype::F16 => "Half",
        Dtype::Bf16 => "Bfloat16",
        Dtype::F64 => "double",
        Dtype::I8 => "int8_t",
        Dtype::I32 => "int32_t",
    }
}

/// Returns the helper that defines the C++ type of an element; `None` if C++17 itself has such a type.
pub(crate) const fn element_helper(dtype: Dtype) -> Option<Helper> {
    match dtype {
        Dtype::F16 => Some(Helper::Half),
        Dtype::Bf16 => Some(Helper::Bfloat16),
        Dtype::F32 | Dtype::F64 | Dtype::I8 | Dtype::I32 => None,
    }
}

/// Returns a line of C++ that computes a matrix product on the host. `expected_bytes` takes the name of a buffer and
/// returns the name of the C++ variable with its expected bytes.
pub(crate) fn on_host(
    problem: &MatmulProblem,
    operands: &Operands,
    mut expected_bytes: impl FnMut(&str) -> String,
) -> String {
    let (input, output) = (element(problem.dtype), element(problem.dtype.output()));
    let (a, b, d) =
        (expected_bytes(&operands.a), expected_bytes(&operands.b), expected_bytes(&operands.d));
    let bias = match &operands.bias {
        Some(bias) => format!("as<{output}>({})", expected_bytes(bias)),
        None => format!("static_cast<{output}*>(nullptr)"),
    };
    format!(
        "matmul_on_host(as<{output}>({d}), as<{input}>({a}), as<{input}>({b}), {bias}, {}, {}, {}, {}, {});",
        problem.m, problem.n, problem.k, problem.transpose_a, problem.transpose_b
    )
}

/// Returns the arguments that describe a matrix product, in the order of the parameters of the hipBLASLt helpers.
pub(crate) fn arguments(problem: &MatmulProblem) -> String {
    format!(
        "{}, {}, {}, {}, {}, {}, {}",
        problem.m,
        problem.n,
        problem.k,
        operation(problem.transpose_a),
        operation(problem.transpose_b),
        types(problem.dtype),
        problem.bias
    )
}

fn operation(transposed: bool) -> &'static str {
    if transposed { "HIPBLAS_OP_T" } else { "HIPBLAS_OP_N" }
}

/// Returns the C++ names of four types, separated by commas: the type of the matrices A and B, that of the matrix D,
/// that of alpha and beta, and that of the computation.
fn types(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "HIP_R_32F, HIP_R_32F, HIP_R_32F, HIPBLAS_COMPUTE_32F",
        Dtype::F16 => "HIP_R_16F, HIP_R_16F, HIP_R_32F, HIPBLAS_COMPUTE_32F",
        Dtype::Bf16 => "HIP_R_16BF, HIP_R_16BF, HIP_R_32F, HIPBLAS_COMPUTE_32F",
        Dtype::F64 => "HIP_R_64F, HIP_R_64F, HIP_R_64F, HIPBLAS_COMPUTE_64F",
        Dtype::I8 | Dtype::I32 => "HIP_R_8I, HIP_R_32I, HIP_R_32I, HIPBLAS_COMPUTE_32I",
    }
}

/// Returns the arguments that describe a matrix product to rocBLAS.
pub(crate) fn rocblas_arguments(problem: &MatmulProblem) -> String {
    let operation = |transposed| {
        if transposed { "rocblas_operation_transpose" } else { "rocblas_operation_none" }
    };
    let (types, one) = match problem.dtype {
        Dtype::F32 => {
            ("rocblas_datatype_f32_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r", "1.0f")
        }
        Dtype::F16 => {
            ("rocblas_datatype_f16_r, rocblas_datatype_f16_r, rocblas_datatype_f32_r", "1.0f")
        }
        Dtype::Bf16 => {
            ("rocblas_datatype_bf16_r, rocblas_datatype_bf16_r, rocblas_datatype_f32_r", "1.0f")
        }
        Dtype::F64 => {
            ("rocblas_datatype_f64_r, rocblas_datatype_f64_r, rocblas_datatype_f64_r", "1.0")
        }
        Dtype::I8 | Dtype::I32 => {
            ("rocblas_datatype_i8_r, rocblas_datatype_i32_r, rocblas_datatype_i32_r", "int32_t(1)")
        }
    };
    format!(
        "{}, {}, {}, {}, {}, {types}, {one}",
        problem.m,
        problem.n,
        problem.k,
        operation(problem.transpose_a),
        operation(problem.transpose_b)
    )
}
