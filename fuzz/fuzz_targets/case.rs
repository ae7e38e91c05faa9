//! Text to trials to plans: whatever the text is, the answer is a plan or mistakes.

#![no_main]

use std::sync::LazyLock;

use case::{Case, Kernels, lower};
use libfuzzer_sys::fuzz_target;

/// What a case may launch. Lowering looks at the names only.
static KERNELS: LazyLock<Kernels> =
    LazyLock::new(|| plan::KERNELS.iter().map(|k| (k.name.to_owned(), String::new())).collect());

/// Trials of one case that are lowered: a matrix may have thousands.
const TRIALS: usize = 4;

fuzz_target!(|text: &str| {
    let case = match Case::parse("fuzz/case", text) {
        Ok(case) => case,
        Err(mistakes) => return assert!(!mistakes.is_empty(), "refused without a reason"),
    };
    for trial in case.trials().iter().take(TRIALS) {
        let declared = case.faults.iter().map(|entry| Some(entry.planted.fault)).take(2);
        for fault in declared.chain([None]) {
            if let Err(mistakes) = lower(&case, trial, &KERNELS, fault.as_slice()) {
                assert!(!mistakes.is_empty(), "refused without a reason: {trial}");
            }
        }
    }
});
