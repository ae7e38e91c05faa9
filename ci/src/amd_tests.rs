//! Runs AMD's own test programs on the emulated device. The tests of hipRAND and rocRAND compare kernels with AMD's
//! references on the host. The tests of rocBLAS and hipBLASLt compare matrix products with products that the host
//! computes. By default a sample is run, which takes one to two minutes and must pass completely. If a seed is given,
//! tests are drawn from the programs of every library. reports/ contains results of such draws.

mod drawn;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

use xshell::{Shell, cmd};

pub(crate) use self::drawn::{Outcome, draw_tests, format_counts};
use crate::{STACK, TaskResult, build_and_fetch};

/// Test programs below the stack's `usr/libexec/rocm`, each with the number of tests in it.
const SAMPLE: &[(&str, u32)] = &[
    ("libhiprand1-tests/test_hiprand_kernel", 123),
    ("libhiprand1-tests/test_hiprand_linkage", 1),
    ("librocrand1-tests/test_rocrand_kernel_philox4x32_10", 18),
    ("librocrand1-tests/test_rocrand_kernel_sobol32", 17),
    ("librocrand1-tests/test_rocrand_kernel_xorwow", 18),
    ("librocrand1-tests/test_rocrand_kernel_lfsr113", 20),
    ("librocrand1-tests/test_rocrand_kernel_mtgp32", 19),
    ("librocrand1-tests/test_rocrand_mtgp32_prng", 29),
    ("librocrand1-tests/test_rocrand_scrambled_sobol64_qrng", 24),
];

/// Filter for hipBLASLt's test program that selects matrix products of f16, bf16 and f32 with a bias.
const HIPBLASLT_FILTER: &str = "--gtest_filter=*smoke_matmul_bias_only*";

/// Number of hipBLASLt's tests that [`HIPBLASLT_FILTER`] selects.
const HIPBLASLT_TESTS: u32 = 72;

const ROCBLAS_TEST: &str = "librocblas5-tests/rocblas-test";

/// File below the stack's `usr/share` from which rocblas-test reads its tests.
const ROCBLAS_DATA: &str = "librocblas5-tests/data/rocblas_gtest.data";

/// Number of rocBLAS's tests that [`sample`] selects.
const ROCBLAS_TESTS: u32 = 6297;

const ARCHITECTURES: &[&str] = &["gfx1151", "gfx90a"];

/// Runs the sample on both architectures. If `words` is not empty, it contains the options of a draw, and the drawn
/// tests are run instead of the sample.
pub(crate) fn amd_tests(sh: &Shell, words: &[String]) -> TaskResult {
    if words.is_empty() {
        tests(sh, |_, _| true)
    } else {
        drawn::run(sh, &drawn::SampleOptions::parse(words)?)
    }
}

/// Runs the tests of random numbers on the first architecture, and the tests of matrix products on the second one. The
/// latter need the matrix instructions of the second architecture.
pub(crate) fn half(sh: &Shell) -> TaskResult {
    tests(sh, |gfx, products| products != (gfx == ARCHITECTURES[0]))
}

/// Runs the programs of the sample for which `wanted` returns true. The arguments of `wanted` are the architecture, and
/// true if the program tests matrix products.
///
/// # Errors
/// Fails if a test fails, is skipped or is missing.
fn tests(sh: &Shell, wanted: impl Fn(&str, bool) -> bool) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let root = cmd!(sh, "{program} rocm path {STACK}").quiet().read()?;
    let folder = sh.create_temp_dir()?;
    let data = folder.path().join("rocblas-sample.data");
    sample(&Path::new(&root).join("usr/share").join(ROCBLAS_DATA), &data)?;
    let data = data.display().to_string();
    let hipblaslt_data =
        format!("{root}/usr/libexec/rocm/libhipblaslt1-tests/hipblaslt_gtest.data");
    for gfx in ARCHITECTURES {
        let run = |name: &str, arguments: &[&str], tests: u32| -> TaskResult {
            let test = format!("{root}/usr/libexec/rocm/{name}");
            let said = cmd!(
                sh,
                "{program} exec --rocm {STACK} --device emulated --gfx {gfx} -- {test} {arguments...}"
            )
            .quiet()
            .ignore_status()
            .read()?;
            let passed = format!("[  PASSED  ] {tests} test");
            if !said.contains(&passed) {
                return Err(
                    format!("{name} on {gfx} did not pass its {tests} tests:\n{said}").into()
                );
            }
            println!("{name} on {gfx}: {tests} of {tests} passed");
            Ok(())
        };
        for (name, tests) in SAMPLE.iter().filter(|_| wanted(gfx, false)) {
            run(name, &[], *tests)?;
        }
        if !wanted(gfx, true) {
            continue;
        }
        let hipblaslt = ["--data", &hipblaslt_data, HIPBLASLT_FILTER];
        run("libhipblaslt1-tests/hipblaslt-test", &hipblaslt, HIPBLASLT_TESTS)?;
        run(ROCBLAS_TEST, &["--data", &data], ROCBLAS_TESTS)?;
    }
    Ok(())
}

/// Writes a sample of the tests of rocblas-test to the file `to`. The original file contains 1.5 million tests. Even
/// with a filter, reading it takes a minute before the first test starts. The sample contains the quick tests number 1,
/// 2, 5, 10 and so on (n² + 1) of each function. Therefore functions with few tests are represented next to `gemm_ex`
/// with its 129 000 tests.
///
/// The file begins with a header, which is one record between two magic words. Records of fixed size follow. Each
/// record begins with three texts: function, name and category (rocBLAS, `rocblas_arguments.hpp` and
/// `rocblas_gentest.py`).
fn sample(from: &Path, to: &Path) -> TaskResult {
    const TEXT: usize = 64;
    const RECORD: usize = 576;
    const HEADER: usize = 8 + RECORD + 8;
    let mut source = BufReader::with_capacity(1 << 20, File::open(from)?);
    let mut header = [0; HEADER];
    source.read_exact(&mut header)?;
    if !(header.starts_with(b"rocBLAS\0") && header.ends_with(b"ROCblas\0")) {
        return Err(
            format!("{}: the file does not contain data of rocblas-test", from.display()).into()
        );
    }
    let length = fs::metadata(from)?.len() as usize - HEADER;
    let mut target = BufWriter::new(File::create(to)?);
    target.write_all(&header)?;
    let mut record = [0; RECORD];
    let mut seen = HashMap::<[u8; TEXT], u32>::new();
    for _ in 0..length / RECORD {
        source.read_exact(&mut record)?;
        let text = |index: usize| <[u8; TEXT]>::try_from(&record[index * TEXT..][..TEXT]);
        if !text(2)?.starts_with(b"quick\0") {
            continue;
        }
        let before = seen.entry(text(0)?).or_default();
        if before.isqrt().pow(2) == *before {
            target.write_all(&record)?;
        }
        *before += 1;
    }
    Ok(target.flush()?)
}
