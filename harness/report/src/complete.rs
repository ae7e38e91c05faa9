use std::collections::BTreeMap;

use device::FaultSpec;
use judge::VerdictKind;

use crate::Record;

/// Error: the records do not match the planned trials. Without this check, a run that lost trials would look better
/// than it is.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{planned} planned, {recorded} with a record{}", self.names())]
pub struct Incomplete {
    /// Number of planned trials.
    pub planned: usize,
    /// Number of records.
    pub recorded: usize,
    /// Trials without a record.
    pub missing: Vec<String>,
    /// Trials with more records than planned.
    pub surplus: Vec<String>,
}

impl Incomplete {
    fn names(&self) -> String {
        let list = |about: &str, names: &[String]| match names {
            [] => String::new(),
            [first] => format!("; {about}: {first}"),
            [first, rest @ ..] => format!("; {about}: {first} and {} more", rest.len()),
        };
        list("missing", &self.missing) + &list("not planned", &self.surplus)
    }
}

/// Checks that each planned trial, identified by its name and injected faults, has exactly one record.
///
/// # Errors
/// Some trials have no record, or more records than planned.
pub fn check_complete<'a>(
    planned: impl IntoIterator<Item = (&'a str, &'a [FaultSpec])>,
    records: &[Record],
) -> Result<(), Incomplete> {
    let mut balance: BTreeMap<String, i64> = BTreeMap::new();
    let mut count = 0;
    for (trial, faults) in planned {
        *balance.entry(name(trial, faults)).or_default() += 1;
        count += 1;
    }
    for record in records {
        *balance.entry(name(&record.trial, &record.faults)).or_default() -= 1;
    }
    let pick = |wanted: fn(i64) -> bool| -> Vec<String> {
        balance.iter().filter(|(_, n)| wanted(**n)).map(|(name, _)| name.clone()).collect()
    };
    let (missing, surplus) = (pick(|n| n > 0), pick(|n| n < 0));
    if missing.is_empty() && surplus.is_empty() {
        return Ok(());
    }
    Err(Incomplete { planned: count, recorded: records.len(), missing, surplus })
}

fn name(trial: &str, faults: &[FaultSpec]) -> String {
    let faults: Vec<&str> = faults.iter().map(|planted| planted.fault.name()).collect();
    match faults.as_slice() {
        [] => trial.to_owned(),
        faults => format!("{trial} under {}", faults.join(", ")),
    }
}

/// Returns the exit status of a run: 0 if all results are as expected, 1 if a result is unexpected, 3 if a trial has no
/// verdict, 4 if nothing ran. 1 takes precedence over 3. Status 2 is reserved for invalid command lines.
pub fn exit_status(records: &[Record]) -> u8 {
    let any = |kind: fn(VerdictKind) -> bool| records.iter().any(|r| kind(r.verdict.kind));
    if any(VerdictKind::is_unexpected) {
        1
    } else if any(|kind| kind == VerdictKind::NoVerdict) {
        3
    } else if any(|kind| kind != VerdictKind::Skip) {
        0
    } else {
        4
    }
}

#[cfg(test)]
mod tests {
    use device::Fault;

    use super::*;
    use crate::fixture::{failed, fixed, known, passed, skipped, unproven, with_fault};

    #[test]
    fn exit_statuses() {
        let check = |records: &[Record], status: u8| assert_eq!(exit_status(records), status);
        check(&[], 4);
        check(&[skipped("a/b")], 4);
        check(&[skipped("a/b"), passed("a/b")], 0);
        check(&[known("a/b")], 0);
        check(&[unproven("a/b"), passed("a/b")], 3);
        check(&[unproven("a/b"), failed("a/b")], 1);
        check(&[fixed("a/b")], 1);
    }

    #[test]
    fn verdicts_add_up() {
        let none: &[FaultSpec] = &[];
        let planned =
            [("a/b[x=1]", none), ("a/b[x=1]", &[FaultSpec::from(Fault::CopyZero)]), ("a/c", none)];
        let all =
            [passed("a/c"), passed("a/b[x=1]"), with_fault(Fault::CopyZero, failed("a/b[x=1]"))];
        assert_eq!(check_complete(planned, &all), Ok(()));
        let error = check_complete(planned, &all[..2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "3 planned, 2 with a record; missing: a/b[x=1] under copy.zero"
        );
        let twice = [all[0].clone(), all[0].clone(), all[0].clone()];
        let error = check_complete([("a/c", none)], &twice).unwrap_err();
        assert_eq!(error.to_string(), "1 planned, 3 with a record; not planned: a/c");
    }
}
