//! Finds the checks in a program that no injected fault makes fail.

use std::collections::BTreeSet;

use crate::Record;

/// Returns the names of the checks in a case's program that pass both without faults and under each injected fault.
/// Returns an empty list if no fault was injected, or if the case did not run.
pub(crate) fn insensitive_checks(records: &[&Record]) -> Vec<String> {
    let checks = |healthy: bool, held: bool| {
        let records = records.iter().filter(move |r| r.faults.is_empty() == healthy);
        let checks = records.flat_map(|r| r.program.iter().flat_map(|program| &program.checks));
        checks.filter(move |check| check.held == held).map(|check| check.name.as_str())
    };
    // An expected failure may hide the effect of a fault, so nothing can be said about the checks.
    let known = records.iter().any(|r| r.verdict.kind.fails_as_expected() && r.faults.is_empty());
    if known || records.iter().all(|record| record.faults.is_empty()) {
        return Vec::new();
    }
    let red: BTreeSet<&str> = checks(false, false).collect();
    let green: BTreeSet<&str> = checks(true, true).collect();
    green.difference(&red).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use device::{Fault, FaultSpec};

    use super::*;
    use crate::{
        CheckRun, ProgramRun,
        fixture::{failed, known, passed},
    };

    fn with(mut record: Record, fault: Option<Fault>, checks: &[(&str, bool)]) -> Record {
        record.faults = fault.map(FaultSpec::from).into_iter().collect();
        let check = |(name, held): &(&str, bool)| CheckRun {
            name: (*name).to_owned(),
            line: 1,
            held: *held,
        };
        record.program = Some(Box::new(ProgramRun {
            kind: "python".to_owned(),
            runs_on: None,
            environment: None,
            packages: Vec::new(),
            lock: None,
            checks: checks.iter().map(check).collect(),
        }));
        record
    }

    #[test]
    fn returns_checks_that_no_fault_makes_fail() {
        let healthy = with(passed("programs/a"), None, &[("sum", true), ("max", true)]);
        let zero =
            with(failed("programs/a"), Some(Fault::CopyZero), &[("sum", false), ("max", true)]);
        let drop = with(failed("programs/a"), Some(Fault::KernelDrop), &[("max", false)]);
        assert_eq!(insensitive_checks(&[&healthy, &zero]), ["max"]);
        assert_eq!(insensitive_checks(&[&healthy, &zero, &drop]), [""; 0]);
        // Without an injected fault the list is empty, because no check is expected to fail.
        assert_eq!(insensitive_checks(&[&healthy]), [""; 0]);
        let known = with(known("programs/a"), None, &[("sum", true)]);
        assert_eq!(insensitive_checks(&[&known, &zero]), [""; 0]);
    }
}
