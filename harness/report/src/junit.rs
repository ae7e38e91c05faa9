use std::{collections::BTreeMap, time::Duration};

use judge::{Verdict, VerdictKind};
use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use crate::{
    Record,
    explain::{advice, explain},
    visible, words,
};

/// Writes a JUnit report for CI systems: one suite per case, one test per trial. An unexpected result is a failure, a
/// missing verdict is an error. An expected failure is a passed test, whose property `verdict` and output state that
/// the trial failed as expected.
///
/// # Errors
/// None in practice, because the XML is written to memory.
pub fn junit(records: &[Record]) -> Result<String, quick_junit::SerializeError> {
    let mut cases: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        cases.entry(&record.case).or_default().push(record);
    }
    let mut report = quick_junit::Report::new("rocrepro");
    for (case, records) in cases {
        let mut suite = TestSuite::new(visible(case));
        suite.add_test_cases(records.into_iter().map(test));
        report.add_test_suite(suite);
    }
    report.to_string()
}

fn test(record: &Record) -> TestCase {
    let mut test = TestCase::new(visible(&record.trial), status(record));
    test.set_classname(visible(&record.case));
    test.set_time(Duration::from_nanos(record.wall_ns));
    let rocm = record.stack.rocm.as_ref().map_or(String::new(), ToString::to_string);
    let on_gpu = !record.device.emulated;
    let properties = [
        ("title", record.title.as_str()),
        ("stack", record.stack.spec.as_str()),
        ("rocm", &rocm),
        ("gfx", &record.device.gfx),
        ("emulated", if record.device.emulated { "true" } else { "false" }),
        ("bdf", if on_gpu { &record.device.bdf } else { "" }),
        ("signature", &record.outcome.signature),
        ("verdict", words::verdict_label(record.verdict.kind)),
    ];
    let optional = ["title", "bdf"];
    let filled = properties
        .into_iter()
        .filter(|(name, value)| !optional.contains(name) || !value.is_empty());
    test.add_properties(filled.map(|(name, value)| Property::new(name, visible(value))));
    if let Verdict {
        kind: kind @ (VerdictKind::Known | VerdictKind::Difference),
        known: Some(known),
    } = &record.verdict
    {
        let summary = &record.outcome.summary;
        let text = match (kind, &known.difference) {
            (VerdictKind::Difference, Some(why)) => {
                format!("Difference, not a bug of ROCm: {why}")
            }
            _ => format!("Failed as expected: {}", words::describe_expected_failure(known)),
        };
        test.set_system_out(visible(&format!("{text}\n{summary}")));
    }
    let stacks = record.stacks.iter().map(String::as_str);
    let error: Vec<&str> = [record.stderr_tail.as_str()].into_iter().chain(stacks).collect();
    let error = error.join("\n");
    if !error.trim().is_empty() {
        test.set_system_err(visible(error.trim_start_matches('\n')));
    }
    test
}

fn status(record: &Record) -> TestCaseStatus {
    let mut status = match record.verdict.kind {
        VerdictKind::Pass | VerdictKind::Known | VerdictKind::Difference => {
            return TestCaseStatus::success();
        }
        VerdictKind::Skip => TestCaseStatus::skipped(),
        VerdictKind::NoVerdict => TestCaseStatus::non_success(NonSuccessKind::Error),
        VerdictKind::NewsFail | VerdictKind::NewsChanged | VerdictKind::NewsFixed => {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        }
    };
    let message = match record.verdict.kind {
        VerdictKind::NewsFixed => advice(record),
        _ => None,
    };
    status.set_message(visible(message.as_ref().unwrap_or(&record.outcome.summary)));
    status.set_type(visible(&record.outcome.signature));
    if record.verdict.kind != VerdictKind::Skip {
        let text = anstream::adapter::strip_str(&explain(record)).to_string();
        status.set_description(visible(&text));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failed, fixed, known, passed, skipped, unproven};

    /// An independent XML parser can read the report, whatever characters a library printed.
    #[test]
    fn junit_is_valid_xml_for_any_characters() {
        let all: String = (0..0x300)
            .chain([0x2028, 0xfffe, 0xffff, 0x1f600])
            .filter_map(char::from_u32)
            .collect();
        let hostile = format!("{all} ]]> <!-- &amp; \u{1b}[31m</testsuite>");
        let mut records = [failed("copies/a[x=2]"), unproven("rng/b"), known("copies/b")];
        for record in &mut records {
            for text in [
                &mut record.trial,
                &mut record.case,
                &mut record.outcome.summary,
                &mut record.outcome.signature,
                &mut record.stderr_tail,
                &mut record.stack.spec,
                &mut record.device.gfx,
                &mut record.title,
            ] {
                text.push_str(&hostile);
            }
            record.outcome.details.push(hostile.clone());
        }
        let xml = junit(&records).unwrap();
        let document = roxmltree::Document::parse(&xml).unwrap_or_else(|e| panic!("{e}\n{xml}"));
        let tests: Vec<_> = document.descendants().filter(|n| n.has_tag_name("testcase")).collect();
        assert_eq!(tests.len(), records.len());
        let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
        for node in document.descendants() {
            let texts = node.text().into_iter().chain(node.attributes().map(|a| a.value()));
            for text in texts {
                assert!(!text.contains(acts), "{text:?}");
            }
        }
    }

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
