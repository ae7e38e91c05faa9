//! Finds the steps that wrote the data of a check.

use std::collections::BTreeSet;

use plan::{Plan, Step};

use crate::uses::{buffers, reads, writes};

/// Number of times that [`last_writes`] goes back from a step to the steps that wrote what it reads: from the check to
/// the copy to the host, from this copy to the step that wrote the copied buffer, and from that step to the one that
/// wrote its input.
const DEPTH: usize = 3;

/// Returns the ids of the steps that last wrote the data of a check: the last step before the check that writes the
/// checked buffer, the last earlier step that writes what that step reads, and so on, three steps in all. If a step
/// reads several buffers, the result contains the last writer of each. For example, a check that a copy arrives whole
/// depends on the copy and its source, and not on what another step wrote.
///
/// Returns an empty set if no step has the id `check`, or if no step writes the buffer of the check.
pub fn last_writes(plan: &Plan, check: u32) -> BTreeSet<u32> {
    let steps: Vec<&Step> = plan.steps();
    let Some(at) = steps.iter().position(|step| step.id == check) else { return BTreeSet::new() };
    let last = |buffer: &str, before: usize| {
        steps[..before].iter().rposition(|step| writes(&step.call).contains(&buffer))
    };
    let mut found = BTreeSet::new();
    let mut wanted: BTreeSet<(usize, &str)> =
        buffers(&steps[at].call).into_iter().map(|buffer| (at, buffer)).collect();
    for _ in 0..DEPTH {
        let writers: BTreeSet<usize> =
            wanted.iter().filter_map(|(before, buffer)| last(buffer, *before)).collect();
        wanted = BTreeSet::new();
        for writer in &writers {
            wanted.extend(reads(&steps[*writer].call).into_iter().map(|buffer| (*writer, buffer)));
        }
        found.extend(writers.into_iter().map(|writer| steps[writer].id));
    }
    found
}

/// Returns true if the plan has all these steps.
pub fn has_steps(plan: &Plan, ids: &BTreeSet<u32>) -> bool {
    let there: BTreeSet<u32> = plan.steps().iter().map(|step| step.id).collect();
    ids.is_subset(&there)
}

#[cfg(test)]
mod tests {
    use case::{Case, Kernels, lower};
    use plan::Call;

    use super::*;

    #[test]
    fn finds_the_copy_and_its_source() {
        let text = "title: t\nsource: [s]\nbuffers:\n  a: {on: host.pageable, bytes: 64}\n  b: {on: device, bytes: 64, fill: zero}\n\
                    steps:\n  - fill: a\n  - copy: {to: b, from: a}\n  - fill: a\n  - check: b\nfaults: [copy.zero]\n";
        let case = Case::parse("c/t", text).expect("a case");
        let trial = case.trials().swap_remove(0);
        let plan = lower(&case, &trial, &Kernels::new(), &[]).expect("it lowers").plan;
        let steps = plan.steps();
        let mut checks = steps.iter().filter(|step| matches!(step.call, Call::Check { .. }));
        let check = checks.next_back().expect("a check").id;
        let found = last_writes(&plan, check);
        let names: Vec<String> = steps
            .iter()
            .filter(|step| found.contains(&step.id))
            .map(|step| {
                format!("{:?}", step.call).chars().take_while(|c| c.is_alphanumeric()).collect()
            })
            .collect();
        assert_eq!(names, ["Fill", "Copy", "Copy"]);
        assert!(has_steps(&plan, &found));
        assert!(!has_steps(&plan, &BTreeSet::from([u32::MAX])));
        assert!(last_writes(&plan, u32::MAX).is_empty());
    }
}
