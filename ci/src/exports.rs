//! Exports every case as a stand-alone program, compiles and runs the program, and compares the result with the trial.

use std::{collections::BTreeSet, fs};

use xshell::{Shell, cmd};

use crate::{SAMPLE_INTERVAL, SLOW_CASES, STACK, TaskResult, build_and_fetch, sample_cases};

/// Cases whose programs are also compiled with the clang of the stack. There are only a few, because clang takes
/// seconds for each program: one case for each family of features, that is, expected failures, host and device memory,
/// a library with kernels of its own, graphs, and arithmetic.
const SAMPLE: &[&str] = &[
    "capture/stream-after-invalidated-capture",
    "copies/tensors",
    "devices/identity",
    "errors/unknown-symbol",
    "gemm/rocblas-product",
    "graphs/exec-update",
    "kernels/saxpy",
    "rng/host-equals-device",
    "streams/flags",
];

/// Architectures on which the programs run: one with waves of 32 lanes and one with waves of 64 lanes.
const ARCHITECTURES: &[&str] = &["gfx1151", "gfx90a"];

/// Exports and verifies all cases as programs that compile kernels with hipRTC. Does the same for hipcc with the cases
/// in [`SAMPLE`].
pub(crate) fn exports(sh: &Shell) -> TaskResult {
    verify(sh, &["--all".to_owned()], ARCHITECTURES)
}

/// Exports and verifies an eighth of all cases as programs that compile kernels with hipRTC. Does the same for hipcc
/// with the cases in [`SAMPLE`], on one architecture.
pub(crate) fn sample(sh: &Shell) -> TaskResult {
    let program = build_and_fetch(sh)?;
    let eighth = sample_cases(sh, &program, SAMPLE_INTERVAL, |case| {
        !case.starts_with("programs/") && !SLOW_CASES.contains(&case)
    })?;
    verify(sh, &eighth, &ARCHITECTURES[1..])
}

fn verify(sh: &Shell, cases: &[String], architectures: &[&str]) -> TaskResult {
    let families: BTreeSet<String> = fs::read_dir(sh.current_dir().join("cases"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        // `rocrepro export` rejects program cases.
        .filter(|path| path.is_dir() && !path.ends_with("programs"))
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let sampled: BTreeSet<String> =
        SAMPLE.iter().filter_map(|case| Some(case.split_once('/')?.0.to_owned())).collect();
    if families != sampled {
        return Err(format!(
            "`SAMPLE` must have a case from each of the folders {families:?}, but has cases from {sampled:?}"
        )
        .into());
    }

    let program = build_and_fetch(sh)?;
    let on = ["--rocm", STACK, "--device", "emulated"];
    cmd!(sh, "{program} export {cases...} --form hiprtc --verify {on...}").run()?;
    for gfx in architectures {
        cmd!(sh, "{program} export {SAMPLE...} --form hipcc --verify {on...} --gfx {gfx}").run()?;
    }
    Ok(())
}
