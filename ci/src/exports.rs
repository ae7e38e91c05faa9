//! Exports every case as a stand-alone program, compiles and runs the program, and compares the result with the trial.

use std::{collections::BTreeSet, fs};

use xshell::{Shell, cmd};

use crate::{SAMPLE_INTERVAL, SLOW_CASES, STACK, TaskResult, build_and_fetch, sample_cases};

/// Cases whose programs are also compiled with the clang of the stack. Clang takes seconds for each program, so there
/// is only one case for each family of features, that is, for each folder in `cases` except `programs`.
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

/// Exports every case as a program that compiles its kernels with hipRTC, and verifies the programs. Also exports the
/// cases in [`SAMPLE`] as programs for hipcc, and verifies them on each architecture.
pub(crate) fn exports(sh: &Shell) -> TaskResult {
    verify(sh, &["--all".to_owned()], ARCHITECTURES)
}

/// Does the work of [`exports`] for the gate: for an eighth of the cases, and for the programs for hipcc only on the
/// second architecture.
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
