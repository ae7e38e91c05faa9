use std::{borrow::Cow, fmt::Write};

use judge::{Verdict, VerdictKind};

use crate::{
    Record,
    explain::{advice, explain},
    one_line, visible, words,
};

/// Formats the records as a report in version 14 of the Test Anything Protocol, with one test point per trial.
///
/// A trial that fails as expected is a `TODO` test point, so it does not fail the report. Unexpected results and trials
/// without a verdict fail the report. Source: <https://testanything.org/tap-version-14-specification.html>.
pub fn tap(records: &[Record]) -> String {
    let mut out = format!("TAP version 14\n# rocrepro\n1..{}\n", records.len());
    for (number, record) in (1..).zip(records) {
        test_point(&mut out, number, record);
    }
    out
}

fn test_point(out: &mut String, number: usize, record: &Record) {
    let Record { verdict, outcome, .. } = record;
    let ok = match verdict.kind {
        VerdictKind::Pass | VerdictKind::Difference | VerdictKind::Skip => "ok",
        VerdictKind::Known
        | VerdictKind::NoVerdict
        | VerdictKind::NewsFail
        | VerdictKind::NewsChanged
        | VerdictKind::NewsFixed => "not ok",
    };
    let directive = match (verdict.kind, &verdict.known) {
        (VerdictKind::Skip, _) => format!(" # SKIP {}", reason(&outcome.summary)),
        (VerdictKind::Known, Some(known)) => {
            format!(" # TODO {}", reason(&words::describe_expected_failure(known)))
        }
        _ => String::new(),
    };
    let _ = writeln!(out, "{ok} {number} - {}{directive}", escaped(&one_line(&record.trial)));
    if verdict.kind != VerdictKind::Skip {
        diagnostics(out, record);
    }
}

/// Writes the YAML block that explains a test point.
fn diagnostics(out: &mut String, record: &Record) {
    let Record { verdict, outcome, .. } = record;
    let device = if record.device.emulated { "emulated" } else { "gpu" };
    let rocm = record.stack.rocm.as_ref().map_or(String::new(), ToString::to_string);
    let message = match verdict {
        Verdict { kind: VerdictKind::Pass, .. } => None,
        Verdict { kind: VerdictKind::NewsFixed, .. } => {
            Some(advice(record).unwrap_or_else(|| outcome.summary.clone()))
        }
        Verdict { kind: VerdictKind::Difference, known: Some(known) } => {
            known.difference.as_ref().map(|why| format!("difference, not a fault of ROCm: {why}"))
        }
        _ => Some(outcome.summary.clone()),
    };
    let fields = [
        ("verdict", words::verdict_label(verdict.kind)),
        ("signature", &outcome.signature),
        ("message", message.as_deref().unwrap_or_default()),
        ("stack", &record.stack.spec),
        ("rocm", &rocm),
        ("device", device),
        ("gfx", &record.device.gfx),
    ];
    out.push_str("  ---\n");
    for (key, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
        // Every JSON string is a valid YAML string: https://yaml.org/spec/1.2.2/#12-overview-of-yaml, section 1.2.
        let _ = writeln!(out, "  {key}: {}", serde_json::Value::from(visible(value)));
    }
    let _ = writeln!(out, "  duration_ms: {}", record.wall_ns / 1_000_000);
    let explained = match verdict.kind {
        VerdictKind::NoVerdict
        | VerdictKind::NewsFail
        | VerdictKind::NewsChanged
        | VerdictKind::NewsFixed => anstream::adapter::strip_str(&explain(record)).to_string(),
        VerdictKind::Pass | VerdictKind::Known | VerdictKind::Difference | VerdictKind::Skip => {
            String::new()
        }
    };
    if !explained.trim().is_empty() {
        // `2` is the number of columns by which the text is indented. The text itself may begin with spaces.
        out.push_str("  explanation: |2\n");
        for line in visible(explained.trim_end()).lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    out.push_str("  ...\n");
}

/// Converts a string to one escaped line, which can be the reason after a directive such as `# SKIP`.
fn reason(text: &str) -> String {
    escaped(&one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "))).into_owned()
}

/// Escapes `\` and `#`, so that a description cannot contain a directive.
fn escaped(text: &str) -> Cow<'_, str> {
    match text.contains(['\\', '#']) {
        true => text.replace('\\', "\\\\").replace('#', "\\#").into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failed, fixed, known, passed, skipped, unproven};

    #[test]
    fn writes_one_test_point_per_trial() {
        let records = [
            passed("copies/a[x=1]"),
            failed("copies/a[x=2]"),
            known("copies/b"),
            fixed("copies/c"),
            skipped("rng/a"),
            unproven("rng/b"),
        ];
        insta::assert_snapshot!(tap(&records));
    }

    /// Each line of the report is the version, the plan, a test point, or part of a test point's YAML block, whatever a
    /// library printed.
    #[test]
    fn keeps_hostile_texts_inside_their_test_point() {
        let hostile =
            "x # SKIP no\\# TODO\r\n  ...\nok 7 - x\nBail out! y\n1..0\n\u{1b}[31m\u{85}\"'";
        let makers = [passed, failed, known, fixed, skipped, unproven];
        let mut records = makers.map(|make| make("copies/a"));
        for record in &mut records {
            for text in [
                &mut record.trial,
                &mut record.case,
                &mut record.outcome.summary,
                &mut record.outcome.signature,
                &mut record.stderr_tail,
                &mut record.stdout_tail,
                &mut record.stack.spec,
                &mut record.device.gfx,
                &mut record.title,
            ] {
                text.push_str(hostile);
            }
            record.outcome.details.push(hostile.to_owned());
        }
        let report = tap(&records);
        let mut lines = report.lines();
        assert_eq!(lines.next(), Some("TAP version 14"));
        assert_eq!(lines.next(), Some("# rocrepro"));
        assert_eq!(lines.next(), Some("1..6"));
        let (mut points, mut inside) = (Vec::new(), false);
        for line in lines {
            assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
            match line {
                "  ---" => inside = true,
                "  ..." => inside = false,
                _ if inside => assert!(line.starts_with("  "), "{line:?}"),
                _ => points.push(line),
            }
        }
        assert!(!inside);
        let directive = |line: &str| {
            let bytes = line.as_bytes();
            let is_escaped = |at: usize| {
                bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
            };
            let mut marks = line.match_indices(" # ").filter(|(at, _)| !is_escaped(at + 1));
            marks.next().map(|(at, _)| line[at + 3..at + 7].to_owned())
        };
        let found: Vec<_> = points
            .iter()
            .map(|line| (line.split(" - ").next().unwrap().to_owned(), directive(line)))
            .collect();
        let expected = [
            ("ok 1", None),
            ("not ok 2", None),
            ("not ok 3", Some("TODO")),
            ("not ok 4", None),
            ("ok 5", Some("SKIP")),
            ("not ok 6", None),
        ];
        let expected = expected.map(|(point, mark)| (point.to_owned(), mark.map(str::to_owned)));
        assert_eq!(found, expected);
    }
}
