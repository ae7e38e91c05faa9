//! Tests textures and surfaces with a released HIP runtime. The reference is a sampler in C that follows the published
//! formulas.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Environment variable that names the release for a manual run, for example `debian:5.7.1`.
const STACK: &str = "ROCREPRO_TEXTURES_STACK";

fn program(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/textures.c");
    let program = folder.join("textures");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o"]).arg(&program).arg(source).args(["-ldl", "-lm"]);
    assert!(compiler.status().expect("a C compiler").success(), "it does not compile");
    program
}

/// Runs the program on an emulated architecture with further options, and returns its standard output.
fn run(program: &Path, gfx: &str, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
    command.args(["exec", "--rocm", &stack(), "--device", "emulated", "--gfx", gfx]);
    let output = command.args(more).arg("--").arg(program).arg(gfx).stdin(Stdio::null()).output();
    let output = output.expect("it starts");
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let shown = format!("{gfx}: {}\n{out}\n--- stderr\n{err}", output.status);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(!err.contains("rocrepro-device:"), "{shown}");
    out.into_owned()
}

fn stack() -> String {
    std::env::var(STACK).unwrap_or("debian:7.2.4".to_owned())
}

#[track_caller]
fn check(gfx: &str, textures: usize) {
    let old = stack().starts_with("debian:5.");
    if old && ["gfx1151", "gfx1201"].contains(&gfx) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = run(&program(folder.path()), gfx, &[]);
    let count = |word: &str| out.lines().filter(|line| line.starts_with(word)).count();
    // ROCm 5.7 refuses to fill layers of one row.
    let refused = count("refused 1D layered ");
    assert!(refused == 0 || old, "{out}");
    assert_eq!(count("ok ") + refused, textures, "{out}");
    assert!(out.ends_with("\n0 differ\n"), "{out}");
}

#[test]
fn samples_textures_by_their_formulas() {
    // The architecture gfx90a supports neither gathers nor mipmap levels, nor filters over layers.
    check("gfx90a", 62);
    check("gfx908", 80);
    check("gfx1030", 80);
    check("gfx1151", 80);
    check("gfx1201", 80);
}

#[test]
fn samples_textures_under_the_sanitizer_and_with_late_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    for more in [&["--sanitize"][..], &["--schedule", "late-results"]] {
        for gfx in ["gfx90a", "gfx1030"] {
            let out = run(&program, gfx, more);
            assert!(out.ends_with("\n0 differ\n"), "{gfx} {more:?}: {out}");
        }
    }
}

/// HIP refuses arrays on gfx942 (`hipErrorNotSupported`, before ROCm 6 `hipErrorInvalidValue`), because ROCr reports
/// that the device supports 0 images.
#[test]
fn reports_no_textures_on_gfx942() {
    let folder = tempfile::tempdir().expect("a folder");
    let status = if stack().starts_with("debian:5.") { 1 } else { 801 };
    assert_eq!(run(&program(folder.path()), "gfx942", &[]), format!("no images: {status}\n"));
}
