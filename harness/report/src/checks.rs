//! Which checks of a program the planted faults turn red.

use std::collections::BTreeSet;

use crate::Record;

/// The checks of a case's program that hold on the healthy device and turn red under none of the faults that were planted. A case
/// under no fault, and one that was not run, has none.
pub(crate) fn unturned(records: &[&Record]) -> Vec<String> {
    let checks = |healthy: bool, held: bool| {
        let records = records.iter().filter(move |r| r.faults.is_empty() == healthy);
        let checks = records.flat_map(|r| r.program.iter().flat_map(|program| &program.checks));
        checks.filter(move |check| check.held == held).map(|check| check.name.as_str())
    };
    // A failure that is known may hide what a fault does.
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
    use device::{Fault, Planted};

    use super::*;
    use crate::{
        CheckRun, ProgramRun,
        fixture::{failed, known, passed},
    };

    fn with(mut record: Record, fault: Option<Fault>, checks: &[(&str, bool)]) -> Record {
        record.faults = fault.map(Planted::from).into_iter().collect();
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
    fn each_check_turns_red_under_some_fault() {
        let healthy = with(passed("programs/a"), None, &[("sum", true), ("max", true)]);
        let zero =
            with(failed("programs/a"), Some(Fault::CopyZero), &[("sum", false), ("max", true)]);
        let drop = with(failed("programs/a"), Some(Fault::KernelDrop), &[("max", false)]);
        assert_eq!(unturned(&[&healthy, &zero]), ["max"]);
        assert_eq!(unturned(&[&healthy, &zero, &drop]), [""; 0]);
        // What was not planted cannot turn anything.
        assert_eq!(unturned(&[&healthy]), [""; 0]);
        let known = with(known("programs/a"), None, &[("sum", true)]);
        assert_eq!(unturned(&[&known, &zero]), [""; 0]);
    }
}
