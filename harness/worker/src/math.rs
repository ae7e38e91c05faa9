use std::ptr;

use hip_sys::{MatrixPointers, MatrixProduct, RngType};
use plan::{BufferAddress, Call, Dtype, MatmulProblem, Operands, RandKind};

use crate::{
    broken::WorkerError,
    handles::Kind,
    machine::{CallResult, Machine},
    needs::FunctionLibrary,
};

/// Executes a call of hipRAND, hipBLASLt or rocBLAS.
pub(crate) fn call(machine: &Machine<'_>, call: &Call) -> Result<CallResult, WorkerError> {
    match call {
        Call::BlasltCreate { .. }
        | Call::BlasltHeuristic { .. }
        | Call::BlasltMatmul { .. }
        | Call::BlasltDestroy { .. } => blaslt(machine, call),
        Call::RocblasCreate { .. } | Call::RocblasGemm { .. } | Call::RocblasDestroy { .. } => {
            rocblas(machine, call)
        }
        _ => rand(machine, call),
    }
}

fn rand(machine: &Machine<'_>, call: &Call) -> Result<CallResult, WorkerError> {
    let rand = machine.libraries.rand()?;
    let handle = |name: &str| machine.handle(Kind::Generator, name);
    // SAFETY: applies to the whole block. Generators are null or live generators of the library, results are written to
    // separate variables, and the output is inside a buffer of the plan.
    let code = unsafe {
        match call {
            Call::RandCreate { generator, kind, host } => {
                let kind = match kind {
                    RandKind::Xorwow => RngType::Xorwow,
                    RandKind::Mrg32k3a => RngType::Mrg32k3a,
                    RandKind::Philox => RngType::Philox,
                } as i32;
                let mut new = ptr::null_mut();
                let code = if *host {
                    rand.hiprandCreateGeneratorHost(&mut new, kind)?
                } else {
                    rand.hiprandCreateGenerator(&mut new, kind)?
                };
                machine.store_handle(Kind::Generator, generator, new, code);
                code
            }
            Call::RandSeed { generator, seed } => {
                rand.hiprandSetPseudoRandomGeneratorSeed(handle(generator), *seed)?
            }
            Call::RandOffset { generator, offset } => {
                rand.hiprandSetGeneratorOffset(handle(generator), *offset)?
            }
            Call::RandStream { generator, stream } => {
                rand.hiprandSetStream(handle(generator), machine.stream(stream))?
            }
            Call::RandGenerate { generator, to, count } => {
                let to = machine.address(to).cast();
                rand.hiprandGenerate(handle(generator), to, *count as usize)?
            }
            Call::RandDestroy { generator } => {
                let code = rand.hiprandDestroyGenerator(handle(generator))?;
                machine.drop_handle(Kind::Generator, generator, code);
                code
            }
            other => return Err(WorkerError(format!("{other:?} is not a call of hipRAND"))),
        }
    };
    Ok(CallResult::with_status(FunctionLibrary::Rand, code))
}

fn blaslt(machine: &Machine<'_>, call: &Call) -> Result<CallResult, WorkerError> {
    let blaslt = machine.libraries.blaslt()?;
    let handle = |name: &str| machine.handle(Kind::Blaslt, name);
    let mut value = None;
    // SAFETY: applies to the whole block. Handles are null or live handles of the library, results are written to
    // separate variables, and matrices are buffers of the plan, whose sizes the reference model has checked.
    let code = unsafe {
        match call {
            Call::BlasltCreate { handle } => {
                let mut new = ptr::null_mut();
                let code = blaslt.hipblasLtCreate(&mut new)?;
                machine.store_handle(Kind::Blaslt, handle, new, code);
                code
            }
            Call::BlasltHeuristic { handle: name, problem } => {
                let (code, count) = blaslt.heuristic(handle(name), &operation(problem))?;
                value = (code == 0).then(|| count.to_string());
                code
            }
            Call::BlasltMatmul { handle: name, problem, operands, stream } => {
                let (matrices, stream) = (matrices(machine, operands), machine.stream(stream));
                blaslt.multiply(handle(name), &operation(problem), &matrices, stream)?
            }
            Call::BlasltDestroy { handle: name } => {
                let code = blaslt.hipblasLtDestroy(handle(name))?;
                machine.drop_handle(Kind::Blaslt, name, code);
                code
            }
            other => return Err(WorkerError(format!("{other:?} is not a call of hipBLASLt"))),
        }
    };
    Ok(CallResult::with_status(FunctionLibrary::Blaslt, code).with(value))
}

fn rocblas(machine: &Machine<'_>, call: &Call) -> Result<CallResult, WorkerError> {
    let rocblas = machine.libraries.rocblas()?;
    // SAFETY: applies to the whole block. The handle is null or a live handle of the library, results are written to
    // separate variables, and matrices are buffers of the plan, whose sizes the reference model has checked.
    let code = unsafe {
        match call {
            Call::RocblasCreate { handle } => {
                let mut new = ptr::null_mut();
                let code = rocblas.rocblas_create_handle(&mut new)?;
                machine.store_handle(Kind::Rocblas, handle, new, code);
                code
            }
            Call::RocblasGemm { handle, problem, operands, stream } => {
                let handle = machine.handle(Kind::Rocblas, handle);
                let (matrices, stream) = (matrices(machine, operands), machine.stream(stream));
                rocblas.multiply(handle, &operation(problem), &matrices, stream)?
            }
            Call::RocblasDestroy { handle } => {
                let code = rocblas.rocblas_destroy_handle(machine.handle(Kind::Rocblas, handle))?;
                machine.drop_handle(Kind::Rocblas, handle, code);
                code
            }
            other => return Err(WorkerError(format!("{other:?} is not a call of rocBLAS"))),
        }
    };
    Ok(CallResult::with_status(FunctionLibrary::Rocblas, code))
}

fn matrices(machine: &Machine<'_>, operands: &Operands) -> MatrixPointers {
    let address =
        |name: &String| machine.address(&BufferAddress { buffer: name.clone(), offset: 0 });
    MatrixPointers {
        a: address(&operands.a).cast_const(),
        b: address(&operands.b).cast_const(),
        d: address(&operands.d),
        bias: operands.bias.as_ref().map_or(ptr::null(), |bias| address(bias).cast_const()),
    }
}

/// Converts a matrix product of a plan to a [`MatrixProduct`]. The tuple contains the data types of A and B, of C and
/// D, of alpha and beta, and of the accumulation.
fn operation(problem: &MatmulProblem) -> MatrixProduct {
    use MatrixProduct as O;
    let (input, output, scale, compute) = match problem.dtype {
        Dtype::F32 => (O::R_32F, O::R_32F, O::R_32F, O::COMPUTE_32F),
        Dtype::F16 => (O::R_16F, O::R_16F, O::R_32F, O::COMPUTE_32F),
        Dtype::Bf16 => (O::R_16BF, O::R_16BF, O::R_32F, O::COMPUTE_32F),
        Dtype::F64 => (O::R_64F, O::R_64F, O::R_64F, O::COMPUTE_64F),
        // Products of 8-bit integers are stored as 32-bit integers.
        Dtype::I8 | Dtype::I32 => (O::R_8I, O::R_32I, O::R_32I, O::COMPUTE_32I),
    };
    MatrixProduct {
        m: problem.m,
        n: problem.n,
        k: problem.k,
        transpose_a: problem.transpose_a,
        transpose_b: problem.transpose_b,
        bias: problem.bias,
        input,
        output,
        scale,
        compute,
    }
}
