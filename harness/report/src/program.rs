use std::collections::BTreeSet;

use judge::VerdictKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Record;

/// The program of a trial: what ran it, with which packages, and what it checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// `python`, `cpp` or `command`.
    pub kind: String,
    /// What ran it, such as `Python 3.11.7`, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_on: Option<String>,
    /// The environment of its packages, by the name that `rocrepro env` knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// All packages there, with their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Digest of the list of these with the hashes of their files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// What it checked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
}

/// A check that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    /// Its name.
    pub name: String,
    /// Line of the program.
    pub line: u32,
    /// Whether what it states was true.
    pub held: bool,
}

/// The checks of a case's program that hold on the healthy device and turn red under none of the faults that were planted. A case
/// under no fault, and one that was not run, has none.
pub(crate) fn unturned(records: &[&Record]) -> Vec<String> {
    let checks = |healthy: bool, held: bool| {
        let records = records.iter().filter(move |r| r.faults.is_empty() == healthy);
        let checks = records.flat_map(|r| r.program.iter().flat_map(|program| &program.checks));
        checks.filter(move |check| check.held == held).map(|check| check.name.as_str())
    };
    // A failure that is known may hide what a fault does.
    let known = records.iter().any(|r| r.verdict.kind == VerdictKind::Known && r.faults.is_empty());
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
    use crate::fixture::{failed, known, passed};

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
