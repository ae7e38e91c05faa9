//! Runs the unsafe code of the interpreter, and the table of calls in `hip-sys`, under Miri. Miri detects errors that a
//! sanitizer for machine code cannot detect: accesses through invalidated references, and values that are invalid for
//! their type.

use xshell::{Shell, cmd};

/// Packages to test, each with arguments for `cargo test`. Miri is about a thousand times slower than native
/// execution, so tests with long access histories and tests of vector clocks are left out. The remaining tests take
/// minutes.
const RUNS: [(&str, &[&str]); 2] = [
    ("isa", &["--test", "isa", "--", "malformed::", "memory::", "registers::", "unnamed::"]),
    ("plan", &["--lib", "--", "--skip", "reach_matches_reference_implementation"]),
];

/// Runs the tests under Miri with the newest nightly Rust, which rustup installs.
///
/// # Errors
/// Fails if Miri reports undefined behaviour or a test fails.
pub(crate) fn miri(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let install =
        ["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri"];
    cmd!(sh, "rustup {install...} --no-self-update").quiet().ignore_stderr().run()?;
    // The interpreter requires these instruction set extensions, and Miri supports them.
    let able = "-Ctarget-feature=+avx2,+fma,+bmi1,+bmi2,+lzcnt,+popcnt";
    let _able = sh.push_env("RUSTFLAGS", able);
    // The interpreter converts integer addresses of kernels into pointers.
    let _by_address =
        sh.push_env("MIRIFLAGS", "-Zmiri-permissive-provenance -Zmiri-disable-isolation");
    for (package, words) in RUNS {
        cmd!(sh, "cargo +nightly miri test --locked --package {package} {words...}").run()?;
    }
    Ok(())
}
