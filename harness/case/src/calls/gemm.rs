//! Matrix multiplications and the numbers that go into them.

use plan::{Call, Dtype, MatmulProblem, Operands};

use super::Args;

/// The types of a problem.
const DTYPES: &[(&str, Dtype)] = &[
    ("f32", Dtype::F32),
    ("f16", Dtype::F16),
    ("bf16", Dtype::Bf16),
    ("f64", Dtype::F64),
    ("i8", Dtype::I8),
];

/// The types of numbers: those of the factors, and that of the sums of 8-bit products.
const NUMBERS: &[(&str, Dtype)] = &[
    ("f32", Dtype::F32),
    ("f16", Dtype::F16),
    ("bf16", Dtype::Bf16),
    ("f64", Dtype::F64),
    ("i8", Dtype::I8),
    ("i32", Dtype::I32),
];

pub(super) fn fill(args: &mut Args) -> Option<Call> {
    let (buffer, node) = (args.buffer("buffer"), args.required("numbers")?);
    let dtype = args.reader.choice(node, "`numbers`", NUMBERS)?;
    // The stamp is the step's own id, given when the plan is finished.
    Some(Call::FillNumbers { buffer: buffer?, dtype, stamp: 0 })
}

pub(super) fn read(args: &mut Args, verb: &str) -> Option<Call> {
    let (handle, mut problem) = (args.name("handle"), problem(args)?);
    if verb == "blaslt_heuristic" {
        problem.bias = args.flag("bias")?;
        return Some(Call::BlasltHeuristic { handle: handle?, problem });
    }
    let [a, b, d] = ["a", "b", "d"].map(|key| args.buffer(key));
    let bias = match args.fields.get("bias") {
        Some(_) => Some(args.buffer("bias")?),
        None => None,
    };
    problem.bias = bias.is_some();
    let operands = Operands { a: a?, b: b?, d: d?, bias };
    let (handle, stream) = (handle?, args.stream()?);
    Some(match verb {
        "rocblas_gemm" => Call::RocblasGemm { handle, problem, operands, stream },
        _ => Call::BlasltMatmul { handle, problem, operands, stream },
    })
}

/// The problem, without its bias.
fn problem(args: &mut Args) -> Option<MatmulProblem> {
    let transposes = [
        ("nn", (false, false)),
        ("nt", (false, true)),
        ("tn", (true, false)),
        ("tt", (true, true)),
    ];
    let dtype = args.required("dtype")?;
    let dtype = args.reader.choice(dtype, "`dtype`", DTYPES)?;
    let (transpose_a, transpose_b) = args.choice_or("transpose", &transposes, (false, false))?;
    let [m, n, k] = ["m", "n", "k"].map(|key| size(args, key));
    Some(MatmulProblem { dtype, m: m?, n: n?, k: k?, transpose_a, transpose_b, bias: false })
}

/// A dimension; the libraries count in 32 bits.
fn size(args: &mut Args, key: &str) -> Option<u64> {
    let size = args.number(key)?;
    if !(1..1 << 31).contains(&size) {
        args.reader.mistake(args.at(key), format!("`{key}` must be 1 to 2147483647, not {size}"));
        return None;
    }
    Some(size)
}
