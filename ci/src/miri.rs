//! What is unsafe in the interpreter of kernels, and the table of calls, under Miri, which sees what a sanitizer of machine code
//! cannot: accesses by a reference that another one took away, and values that a type does not have.

use xshell::{Shell, cmd};

/// The parts of a package that take minutes there, by the arguments of `cargo test`. Miri is some thousand times slower than a
/// processor, so what counts long histories is left out, and what waits for a clock.
const RUNS: [(&str, &[&str]); 2] = [
    ("isa", &["--test", "isa", "--", "malformed::", "memory::", "registers::", "unnamed::"]),
    ("plan", &["--lib", "--", "--skip", "the_reach_is_that_of_the_reference"]),
];

/// Runs them, with the newest nightly of Rust, which rustup fetches.
///
/// # Errors
/// Miri tells of undefined behaviour, or a test fails there.
pub(crate) fn miri(sh: &Shell) -> Result<(), Box<dyn std::error::Error>> {
    let install =
        ["toolchain", "install", "nightly", "--profile", "minimal", "--component", "miri"];
    cmd!(sh, "rustup {install...} --no-self-update").quiet().ignore_stderr().run()?;
    // The interpreter asks for these instructions before it runs anything; of others Miri knows less.
    let able = "-Ctarget-feature=+avx2,+fma,+bmi1,+bmi2,+lzcnt,+popcnt";
    let _able = sh.push_env("RUSTFLAGS", able);
    // Kernels have addresses, which become pointers.
    let _by_address =
        sh.push_env("MIRIFLAGS", "-Zmiri-permissive-provenance -Zmiri-disable-isolation");
    for (package, words) in RUNS {
        cmd!(sh, "cargo +nightly miri test --locked --package {package} {words...}").run()?;
    }
    Ok(())
}
