use std::{collections::BTreeMap, time::Duration};

use judge::{Verdict, VerdictKind};
use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use crate::{
    Record,
    explain::{explain, next},
    words,
};

/// A JUnit report, for CI systems: a suite for each case, a test for each trial. News fails; a missing verdict is an
/// error; a known failure passes, and says so.
///
/// # Errors
/// None in practice: those of writing XML to memory.
pub fn junit(records: &[Record]) -> Result<String, quick_junit::SerializeError> {
    let mut cases: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        cases.entry(&record.case).or_default().push(record);
    }
    let mut report = quick_junit::Report::new("rocrepro");
    for (case, records) in cases {
        let mut suite = TestSuite::new(case);
        suite.add_test_cases(records.into_iter().map(test));
        report.add_test_suite(suite);
    }
    report.to_string()
}

fn test(record: &Record) -> TestCase {
    let mut test = TestCase::new(record.trial.as_str(), status(record));
    test.set_classname(record.case.as_str());
    test.set_time(Duration::from_nanos(record.wall_ns));
    let rocm = record.stack.rocm.as_ref().map_or(String::new(), ToString::to_string);
    let properties = [
        ("stack", record.stack.spec.as_str()),
        ("rocm", &rocm),
        ("gfx", &record.device.gfx),
        ("emulated", if record.device.emulated { "true" } else { "false" }),
        ("signature", &record.outcome.signature),
    ];
    test.add_properties(properties.map(|(name, value)| Property::new(name, value)));
    if let Verdict { kind: VerdictKind::Known, known: Some(known) } = &record.verdict {
        let window = words::window(known);
        test.set_system_out(format!("Failed as known: {window}\n{}", record.outcome.summary));
    }
    if !record.stderr_tail.is_empty() {
        test.set_system_err(record.stderr_tail.as_str());
    }
    test
}

fn status(record: &Record) -> TestCaseStatus {
    let mut status = match record.verdict.kind {
        VerdictKind::Pass | VerdictKind::Known => return TestCaseStatus::success(),
        VerdictKind::Skip => TestCaseStatus::skipped(),
        VerdictKind::NoVerdict => TestCaseStatus::non_success(NonSuccessKind::Error),
        VerdictKind::NewsFail | VerdictKind::NewsChanged | VerdictKind::NewsFixed => {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        }
    };
    let message = match record.verdict.kind {
        VerdictKind::NewsFixed => next(record),
        _ => None,
    };
    status.set_message(message.unwrap_or_else(|| record.outcome.summary.clone()));
    status.set_type(record.outcome.signature.as_str());
    if record.verdict.kind != VerdictKind::Skip {
        status.set_description(anstream::adapter::strip_str(&explain(record)).to_string());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failed, fixed, known, passed, skipped, unproven};

    #[test]
    fn reports_for_ci() {
        let records = [
            passed("copies/a[x=1]"),
            failed("copies/a[x=2]"),
            known("copies/b"),
            fixed("copies/c"),
            skipped("rng/a"),
            unproven("rng/b"),
        ];
        insta::assert_snapshot!(junit(&records).unwrap());
    }
}
