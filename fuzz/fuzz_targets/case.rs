//! Fuzz target that parses text as a case and lowers its trials. For every text, the result must be either plans or
//! mistakes.

#![no_main]

use std::sync::LazyLock;

use case::{Case, Kernels, lower, mistakes};
use libfuzzer_sys::fuzz_target;

/// Kernels of the library, which a case may launch. Their sources are empty, because lowering reads only their names.
static KERNELS: LazyLock<Kernels> =
    LazyLock::new(|| plan::KERNELS.iter().map(|k| (k.name.to_owned(), String::new())).collect());

/// Maximum number of trials to lower. The matrix of a case may result in thousands of trials.
const TRIALS: usize = 4;

fuzz_target!(|text: &str| {
    let case = match Case::parse("fuzz/case", text) {
        Ok(case) if case.trials().len() <= TRIALS => case,
        Ok(case) => return plans(&case),
        Err(refused) => {
            assert!(!refused.is_empty(), "refused without a reason");
            let all = mistakes("fuzz/case", text, &KERNELS);
            return assert!(!all.is_empty(), "refused, and yet without a mistake");
        }
    };
    let sound = mistakes("fuzz/case", text, &KERNELS).is_empty();
    assert_eq!(sound, case.trials().iter().all(|trial| lower(&case, trial, &KERNELS, &[]).is_ok()));
    plans(&case);
});

/// Lowers the first trials of a case without a fault, and with each of the first two faults that it declares.
fn plans(case: &Case) {
    for trial in case.trials().iter().take(TRIALS) {
        let declared = case.faults.iter().map(|entry| Some(entry.planted.clone())).take(2);
        for fault in declared.chain([None]) {
            if let Err(mistakes) = lower(case, trial, &KERNELS, fault.as_slice()) {
                assert!(!mistakes.is_empty(), "refused without a reason: {trial}");
            }
        }
    }
}
