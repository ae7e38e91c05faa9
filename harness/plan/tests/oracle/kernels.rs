//! Compares the reference implementation of each library kernel with a second implementation, which executes the
//! kernel's source one work-item at a time.

use std::collections::BTreeSet;

use plan::{Arg, BufferAddress, Call, KERNELS, Parameter};
use proptest::{prelude::*, test_runner::RngSeed};

use crate::memory::{Block, Memory};

const WHOLE: [&str; 10] = [
    "fill_u32",
    "copy_u32",
    "copy_u8",
    "add_u32",
    "sum_u32",
    "histogram_u32",
    "lcg_u32",
    "to_f32",
    "variable_u32",
    "shuffle_u32",
];

fn block(name: &str) -> Block {
    (name.to_owned(), 0)
}

/// Executes a kernel with both implementations on the same bytes, and compares the results.
fn compare(
    name: &str,
    out: &[u8],
    input: &[u8],
    n: u32,
    k: u32,
    items: u32,
) -> Result<(), TestCaseError> {
    let kernel = KERNELS.iter().find(|kernel| kernel.name == name).expect("it is one");
    let mut memory = Memory::new();
    for (name, bytes) in [("out", out), ("in", input)] {
        memory.allocate(block(name), bytes.len() as u64);
        for (at, byte) in (0..).zip(bytes) {
            assert!(memory.store(&block(name), at, Some(*byte)).is_ok());
        }
    }
    memory.stored = BTreeSet::new();
    let place = |buffer: &str| Arg::Address(BufferAddress { buffer: buffer.to_owned(), offset: 0 });
    let mut numbers = vec![n, k].into_iter();
    let args: Vec<Arg> = kernel
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Out => place("out"),
            Parameter::In => place("in"),
            Parameter::U32 => Arg::u32(numbers.next().unwrap_or(0)),
            Parameter::F32 => Arg::f32(f32::from_bits(k)),
        })
        .collect();
    let done = memory.launch(name, [1, 1, 1], [items, 1, 1], &args, &block);
    let launch = Call::Launch {
        kernel: name.to_owned(),
        grid: [1, 1, 1],
        block: [items, 1, 1],
        args,
        shared: 0,
        cooperative: false,
        stream: "s".to_owned(),
    };
    let reads = launch.named().iter().any(|named| named.name == "out" && named.is_read());
    let has_read = memory.read.iter().any(|(block, _)| block.0 == "out");
    prop_assert!(reads || !has_read, "{} reads what it writes", name);
    let inputs = kernel.parameters.iter().filter(|p| **p == Parameter::In).count();
    let mut got = out.to_vec();
    let told = (kernel.reference)(&mut got, &vec![input; inputs], &[n, k], items.into());
    prop_assert_eq!(told.is_some(), done.is_ok(), "{} of {} leaves its buffers or not", name, n);
    if told.is_some() {
        prop_assert_eq!(Some(got), memory.all(&block("out")), "{} of {}", name, n);
        let [of_out, of_input] = (kernel.reach)(&[n, k], items.into());
        let last = |at: &BTreeSet<(Block, u64)>, name: &str| {
            at.iter().filter(|(b, _)| b.0 == name).map(|(_, at)| at + 1).max().unwrap_or(0)
        };
        prop_assert!(last(&memory.stored, "out") <= of_out, "{} reaches further", name);
        prop_assert!(last(&memory.read, "in") <= of_input, "{} reads further", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(12),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn integer_kernels_match_their_sources(
        kernel in prop::sample::select(&WHOLE[..]),
        out in prop::collection::vec(any::<u8>(), 0..400),
        input in prop::collection::vec(any::<u8>(), 0..400),
        n in 0..110u32,
        k in 0..70u32,
        items in prop::sample::select(vec![1u32, 7, 32, 64, 96, 128]),
    ) {
        // The lanes of `shuffle_u32` exchange values in groups of 32 work-items.
        let items = if kernel == "shuffle_u32" { items.next_multiple_of(32) } else { items };
        compare(kernel, &out, &input, n, k, items)?;
    }

    #[test]
    fn float_kernels_match_their_sources(
        out in prop::collection::vec(-1000..1000i16, 40),
        input in prop::collection::vec(-1000..1000i16, 40),
        n in 0..44u32,
        a in -100..100i8,
        items in prop::sample::select(vec![1u32, 7, 32, 64]),
    ) {
        let bytes = |numbers: &[i16]| -> Vec<u8> {
            numbers.iter().flat_map(|x| (f32::from(*x) / 8.0).to_le_bytes()).collect()
        };
        compare("saxpy_f32", &bytes(&out), &bytes(&input), n, f32::from(a).to_bits(), items)?;
    }

    /// The kernel computes c = a b. The test computes the product row by row.
    #[test]
    fn matmul_kernel_computes_a_matrix_product(
        n in prop::sample::select(vec![0usize, 1, 2, 3, 16]),
        seed in any::<u64>(),
    ) {
        let mut next = seed;
        let mut element = || {
            next = next.wrapping_mul(6364136223846793005).wrapping_add(1);
            f32::from((next >> 60) as u8) - 7.0
        };
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n * n).map(|_| (element(), element())).unzip();
        let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let mut want = vec![0.0f32; n * n];
        for row in 0..n {
            for column in 0..n {
                want[row * n + column] = (0..n).fold(0.0, |sum, k| sum + a[row * n + k] * b[k * n + column]);
            }
        }
        let kernel = plan::kernel("matmul_f32").expect("it is one");
        let mut got = vec![0; 4 * n * n];
        let done = (kernel.reference)(&mut got, &[&bytes(&a), &bytes(&b)], &[n as u32], 256);
        prop_assert_eq!(done, Some(()));
        prop_assert_eq!(got, bytes(&want));
    }
}

#[test]
fn every_kernel_is_tested() {
    let tried = WHOLE.iter().chain(&["saxpy_f32", "matmul_f32"]).copied();
    let tried: BTreeSet<&str> = tried.collect();
    assert_eq!(tried, KERNELS.iter().map(|kernel| kernel.name).collect());
}
