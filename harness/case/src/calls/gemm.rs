//! Reads matrix products, and steps that fill buffers with small numbers.

use plan::{Call, Choice, Dtype, Keys, MatmulProblem, Name, ObjectKind, Operands};

use super::args::Args;

pub(super) fn fill(args: &mut Args) -> Option<Call> {
    let (buffer, dtype) = (args.buffer("buffer"), args.choice("numbers", None));
    // Placeholder: the stamp becomes the id of the step when the plan is complete.
    Some(Call::FillNumbers { buffer: buffer?, dtype: dtype?, stamp: 0 })
}

/// Reads the keys of a matrix product that hipBLASLt and rocBLAS have in common. Returns the handle of the library, the
/// problem, the operands and the stream.
pub(super) fn product(
    args: &mut Args,
    library: ObjectKind,
) -> Option<(Name, MatmulProblem, Operands, Name)> {
    let (handle, problem) = (args.thing("handle", library), problem(args));
    let [a, b, d] = ["a", "b", "d"].map(|key| args.buffer(key));
    let bias = match args.get("bias") {
        Some(_) => args.buffer("bias").map(Some),
        None => Some(None),
    };
    let (stream, bias, mut problem) = (args.stream("stream"), bias?, problem?);
    problem.bias = bias.is_some();
    let operands = Operands { a: a?, b: b?, d: d?, bias };
    Some((handle?, problem, operands, stream?))
}

/// Reads the sizes and types of a matrix product. The result has no bias; the caller sets it.
pub(super) fn problem(args: &mut Args) -> Option<MatmulProblem> {
    let transposes = [
        ("nn", (false, false)),
        ("nt", (false, true)),
        ("tn", (true, false)),
        ("tt", (true, true)),
    ];
    // `i32` is the output type of `i8` products and cannot be the type of inputs.
    let dtypes: Vec<_> = Dtype::ALL.iter().copied().filter(|(_, d)| *d != Dtype::I32).collect();
    let dtype = args.required("dtype");
    let dtype = dtype.and_then(|node| args.reader.choice(node, "`dtype`", &dtypes));
    let transpose = match args.get("transpose") {
        Some(node) => args.reader.choice(node, "`transpose`", &transposes),
        None => Some((false, false)),
    };
    let [m, n, k] = ["m", "n", "k"].map(|key| size(args, key));
    let (dtype, (transpose_a, transpose_b)) = (dtype?, transpose?);
    Some(MatmulProblem { dtype, m: m?, n: n?, k: k?, transpose_a, transpose_b, bias: false })
}

/// Reads a dimension of a matrix, which must fit into 32 bits, because the libraries store it in 32 bits.
fn size(args: &mut Args, key: &str) -> Option<u64> {
    let size: u64 = args.number(key, None)?;
    if !(1..1 << 31).contains(&size) {
        args.reader.mistake(args.at(key), format!("`{key}` must be 1 to 2147483647, not {size}"));
        return None;
    }
    Some(size)
}
