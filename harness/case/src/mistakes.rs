//! Everything that is wrong with a case file at once.

use crate::{Diagnostic, Kernels, diagnostic::sorted, header::read, lower::analyse, read::Reader};

/// All that is wrong with a case file, in its header and in the steps of every trial; empty for a sound one.
///
/// Where a mistake leaves open what the steps are to be held against, such as an axis without values, they are not judged by it.
pub fn mistakes(id: &str, text: &str, kernels: &Kernels) -> Vec<Diagnostic> {
    let mut reader = Reader::default();
    let Some(case) = read(&mut reader, id, text) else { return sorted(reader.mistakes) };
    let mut steps: Vec<Vec<_>> = Vec::new();
    for trial in case.trials() {
        steps.push(analyse(&case, &trial, kernels).err().unwrap_or_default());
    }
    let same = |a: &Diagnostic, b: &Diagnostic| (a.at, &a.message) == (b.at, &b.message);
    if case.matrix.unknown_trials {
        // Some of these trials were not meant to be there. What shows in all of them is wrong anyway.
        let in_all = |m: &Diagnostic| steps.iter().all(|of| of.iter().any(|other| same(m, other)));
        let common = steps.first().into_iter().flatten().filter(|m| in_all(m)).cloned().collect();
        steps = vec![common];
    }
    reader.mistakes.extend(steps.into_iter().flatten());
    let mut all = sorted(reader.mistakes);
    // The same mistake shows in many trials; the first one's help names its trial.
    all.dedup_by(|a, b| same(a, b));
    all
}
