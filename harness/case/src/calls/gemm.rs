//! Matrix multiplications and the numbers that go into them.

use plan::{Call, Choice, Dtype, Keys, MatmulProblem, Name, Operands};

use super::args::Args;

pub(super) fn fill(args: &mut Args) -> Option<Call> {
    let (buffer, dtype) = (args.buffer("buffer"), args.choice("numbers", None)?);
    // The stamp is the step's own id, given when the plan is finished.
    Some(Call::FillNumbers { buffer: buffer?, dtype, stamp: 0 })
}

/// What both libraries are given to multiply.
pub(super) fn product(args: &mut Args) -> Option<(Name, MatmulProblem, Operands, Name)> {
    let (handle, mut problem) = (args.text("handle"), problem(args)?);
    let [a, b, d] = ["a", "b", "d"].map(|key| args.buffer(key));
    let bias = match args.get("bias") {
        Some(_) => Some(args.buffer("bias")?),
        None => None,
    };
    problem.bias = bias.is_some();
    let operands = Operands { a: a?, b: b?, d: d?, bias };
    Some((handle?, problem, operands, args.stream("stream")?))
}

/// The problem, without its bias.
pub(super) fn problem(args: &mut Args) -> Option<MatmulProblem> {
    let transposes = [
        ("nn", (false, false)),
        ("nt", (false, true)),
        ("tn", (true, false)),
        ("tt", (true, true)),
    ];
    // What is left out of the types is what products are summed in.
    let dtypes: Vec<_> = Dtype::ALL.iter().copied().filter(|(_, d)| *d != Dtype::I32).collect();
    let dtype = args.required("dtype")?;
    let dtype = args.reader.choice(dtype, "`dtype`", &dtypes)?;
    let (transpose_a, transpose_b) = match args.get("transpose") {
        Some(node) => args.reader.choice(node, "`transpose`", &transposes)?,
        None => (false, false),
    };
    let [m, n, k] = ["m", "n", "k"].map(|key| size(args, key));
    Some(MatmulProblem { dtype, m: m?, n: n?, k: k?, transpose_a, transpose_b, bias: false })
}

/// A dimension; the libraries count in 32 bits.
fn size(args: &mut Args, key: &str) -> Option<u64> {
    let size: u64 = args.number(key, None)?;
    if !(1..1 << 31).contains(&size) {
        args.reader.mistake(args.at(key), format!("`{key}` must be 1 to 2147483647, not {size}"));
        return None;
    }
    Some(size)
}
