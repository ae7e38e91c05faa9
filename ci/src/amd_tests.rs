//! AMD's own test programs as the judge of the emulated device: the kernels of hipRAND and rocRAND against AMD's host
//! references. A sample that ends within seconds; reports/ has the rest.

use xshell::{Shell, cmd};

use crate::Done;

const STACK: &str = "debian:7.2.4";

/// Programs below the stack's `usr/libexec/rocm`, with the number of tests that each has.
const SAMPLE: &[(&str, u32)] = &[
    ("libhiprand1-tests/test_hiprand_kernel", 123),
    ("libhiprand1-tests/test_hiprand_linkage", 1),
    ("librocrand1-tests/test_rocrand_kernel_philox4x32_10", 18),
    ("librocrand1-tests/test_rocrand_kernel_sobol32", 17),
];

const ARCHITECTURES: &[&str] = &["gfx1151", "gfx90a"];

/// Runs the sample; a test that fails, is skipped or is missing is an error.
pub(crate) fn amd_tests(sh: &Shell) -> Done {
    cmd!(sh, "cargo build --release --locked").run()?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = sh.current_dir().join(target).join("release/rocrepro");
    cmd!(sh, "{program} rocm fetch {STACK} --with hiprand,tests").run()?;
    let root = cmd!(sh, "{program} rocm path {STACK}").quiet().read()?;
    for gfx in ARCHITECTURES {
        for (name, tests) in SAMPLE {
            let test = format!("{root}/usr/libexec/rocm/{name}");
            let said =
                cmd!(sh, "{program} exec --rocm {STACK} --device emulated --gfx {gfx} {test}")
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
        }
    }
    Ok(())
}
