//! Collects all mistakes in a case file, so that `rocrepro check` and editors can report them at once.

use crate::{
    Case, Diagnostic, Kernels, diagnostic::sorted, header::read, lower::analyse, read::Reader,
    uncalled, unused,
};

/// Returns all mistakes in a case file, in its header and in the steps of every trial. The list is empty if the file is
/// valid.
///
/// If the declaration of an object is wrong, for example that of an axis without values, the steps that use the object
/// are not checked against the declaration.
pub fn mistakes(id: &str, text: &str, kernels: &Kernels) -> Vec<Diagnostic> {
    let mut reader = Reader::default();
    match read(&mut reader, id, text) {
        Some(case) => with_steps(&case, text, kernels, reader.mistakes),
        None => sorted(reader.mistakes),
    }
}

/// Returns all mistakes in the steps of every trial, for a case whose header has no mistakes. Includes mistakes that
/// only a comparison of all trials shows, for example an axis on which nothing depends. `text` is the content of the
/// case file.
pub fn mistakes_of(case: &Case, text: &str, kernels: &Kernels) -> Vec<Diagnostic> {
    with_steps(case, text, kernels, Vec::new())
}

fn with_steps(
    case: &Case,
    text: &str,
    kernels: &Kernels,
    mut mistakes: Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    let mut steps: Vec<Vec<_>> = Vec::new();
    let mut called = Vec::new();
    let mut idle = uncalled::UnusedEntries::new(case);
    for trial in case.trials() {
        match analyse(case, &trial, kernels) {
            Ok(plan) if !case.is_program() => {
                called.push(uncalled::CalledFunctions::in_plan(&trial, &plan));
                idle.mark_used(&trial, &plan);
            }
            Ok(_) => {}
            Err(found) => steps.push(found),
        }
    }
    let same = |a: &Diagnostic, b: &Diagnostic| (a.at, &a.message) == (b.at, &b.message);
    if case.matrix.unknown_trials {
        // The case may exclude some of these trials. Therefore only mistakes that occur in all trials are reported.
        steps.resize(steps.len() + called.len(), Vec::new());
        let in_all = |m: &Diagnostic| steps.iter().all(|of| of.iter().any(|other| same(m, other)));
        let common = steps.first().into_iter().flatten().filter(|m| in_all(m)).cloned().collect();
        steps = vec![common];
    }
    if steps.iter().all(Vec::is_empty) && mistakes.is_empty() {
        mistakes.extend(unused::axes(case, text));
        mistakes.extend(uncalled::mistakes(case, text, &called, &idle));
    }
    mistakes.extend(steps.into_iter().flatten());
    let mut all = sorted(mistakes);
    // If several trials have the same mistake, it is reported once, with the name of the first trial in its help.
    all.dedup_by(|a, b| same(a, b));
    all
}
