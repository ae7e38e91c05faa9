use std::fmt::Write;

use judge::{Kind, VerdictKind};

use crate::{
    Record,
    conditions::passes_with,
    words::{
        BOLD, DIM, count, describe_expected_failure, describe_setup, link, style, styled,
        verdict_label,
    },
};

/// Maximum number of other trials with the same failure that an explanation names.
const MAX_NAMED_TRIALS: usize = 3;
/// Number of lines of standard error, and of standard output, that are shown.
const OUTPUT_LINES: usize = 5;

/// Maximum number of threads of a hung process whose call stacks are shown.
const STACKS: usize = 8;

/// Explains all unexpected results and missing verdicts. Trials of one case share an explanation if their explanations
/// would differ only in numbers. Returns an empty string if there is nothing to explain.
pub(crate) fn explanations(records: &[Record]) -> String {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    let needs_explanation =
        |r: &&Record| r.verdict.is_unexpected() || r.verdict.kind == VerdictKind::NoVerdict;
    for record in records.iter().filter(needs_explanation) {
        let key = |r: &Record| {
            let (signature, words) =
                (r.outcome.signature.clone(), without_numbers(&r.outcome.summary));
            (r.case.clone(), r.verdict.kind, signature, words, describe_setup(r))
        };
        match groups.iter_mut().find(|group| key(group[0]) == key(record)) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups.sort_by_key(|group| crate::words::rank(group[0].verdict.kind));
    let texts: Vec<String> = groups
        .iter()
        .map(|group| {
            let others: Vec<&str> = group[1..].iter().map(|r| r.trial.as_str()).collect();
            explain_with(group[0], &others)
        })
        .collect();
    texts.join("\n")
}

/// Returns the text without the words that contain digits.
fn without_numbers(text: &str) -> String {
    let number = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    text.split_whitespace().filter(number).collect::<Vec<_>>().join(" ")
}

/// Explains the result of one trial: the tested behaviour, the configuration, the failing call, and the command that
/// repeats the trial.
pub fn explain(record: &Record) -> String {
    explain_with(record, &[])
}

fn explain_with(record: &Record, others: &[&str]) -> String {
    let mut text = String::new();
    let kind = record.verdict.kind;
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}");
    };
    line(&format!("{} {}", styled(style(kind), verdict_label(kind)), styled(BOLD, &record.trial)));
    line(&format!("    {}", record.title));
    for issue in &record.upstream {
        line(&format!("    {}", link(issue)));
    }
    line(&format!("    {}", describe_setup(record)));
    line("");
    let outcome = &record.outcome;
    if outcome.kind.is_failure() {
        line(&format!("    {}", styled(BOLD, &outcome.signature)));
    }
    line(&format!("    {}", outcome.summary));
    if let Some(at) = location(record) {
        line(&format!("    {at}"));
    }
    for detail in &outcome.details {
        line(&format!("        {detail}"));
    }
    if let Some(next) = advice(record) {
        line(&format!("    {next}"));
    }
    if !record.gpu_after.is_empty() {
        line(&format!("    The GPU after the trial: {}", record.gpu_after));
    }
    if !record.stacks.is_empty() {
        line("    Call stacks of its threads:");
        for text in record.stacks.iter().take(STACKS) {
            line(&format!("        {}", styled(DIM, text)));
        }
        let more = record.stacks.len().saturating_sub(STACKS);
        if more > 0 {
            line(&format!("        {} more in the record", count(more, "line")));
        }
    }
    for (name, tail) in [("error", &record.stderr_tail), ("output", &record.stdout_tail)] {
        let lines: Vec<&str> = tail.lines().collect();
        // If standard output has only one line, the details already contain it.
        let is_shown = !lines.is_empty() && (name == "error" || lines.len() > 1);
        if outcome.kind != Kind::Pass && is_shown {
            line(&format!("    Last lines of standard {name}:"));
            for text in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
                line(&format!("        {}", styled(DIM, text)));
            }
        }
    }
    if !others.is_empty() {
        let more = others.len().saturating_sub(MAX_NAMED_TRIALS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = others[..others.len().min(MAX_NAMED_TRIALS)].join(", ");
        line(&format!(
            "    The same signature in {}: {named}{more}",
            count(others.len(), "other trial")
        ));
    }
    line(&format!("    Again: {}", record.again));
    text
}

/// Describes the call, the line of the case and the phase in which the outcome occurred; `None` if the phase is
/// unknown.
fn location(record: &Record) -> Option<String> {
    let at = &record.outcome.at;
    let phase = at.phase?;
    let line = at.line.map_or(String::new(), |line| format!(", line {line} of the case"));
    let iteration = match at.occurrence {
        // The number comes from the worker, and an untrusted case can make the worker send any number.
        Some(n) if n > 0 => format!(", iteration {}", n.saturating_add(1)),
        _ => String::new(),
    };
    Some(match &at.api {
        Some(api) => format!("Call: {api}{line}{iteration}; phase: {phase}"),
        None => format!("Phase: {phase}"),
    })
}

/// Explains how the result relates to the failure that the case expects, and what the user should do about it. `None`
/// if the case expects no failure here.
pub(crate) fn advice(record: &Record) -> Option<String> {
    let known = record.verdict.known.as_ref()?;
    let window = describe_expected_failure(known);
    if known.is_from_file() {
        return Some(match record.verdict.kind {
            VerdictKind::NewsFixed => {
                format!("{window} expects a failure. Remove the line if the trial passes again.")
            }
            VerdictKind::NewsChanged => format!("{window} expects another failure."),
            _ => format!("Expected failure: {window}."),
        });
    }
    Some(match record.verdict.kind {
        VerdictKind::Pass => {
            format!(
                "Passes with {}; without it, a failure is expected: {window}.",
                passes_with(record)
            )
        }
        VerdictKind::NewsFixed => format!(
            "A failure is expected here: {window}. Possibly fixed: run the trial several more times, then end the \
             `known` entry at this version and report it in the issue. If other trials of the case still fail, write \
             under `on` which they are."
        ),
        VerdictKind::NewsChanged => format!("Another failure is expected here: {window}."),
        VerdictKind::Difference => {
            let why = known.difference.as_deref().unwrap_or_default();
            format!(
                "A difference, not a bug of ROCm: no document promises what the case expects. {why}"
            )
        }
        _ => format!("Expected failure: {window}."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{
        changed, failed, fixed, known, on_gpu, passed, plain, unproven, with_options,
    };

    #[test]
    fn explains_passes_under_mitigating_options() {
        let mut record = with_options(&[("--env", "AMD_SERIALIZE_COPY=3")], fixed("a/b"));
        record.verdict.kind = VerdictKind::Pass;
        let text = plain(&explain(&record));
        let wanted = "Passes with AMD_SERIALIZE_COPY=3; without it, a failure is expected: wrong-data:back:zero in";
        assert!(text.contains(wanted) && !text.contains("ixed"), "{text}");
        assert!(text.contains("not a GPU result; with AMD_SERIALIZE_COPY=3\n"), "{text}");
    }

    #[test]
    fn failures_are_explained() {
        insta::assert_snapshot!(plain(&explain(&failed(
            "copies/small-sizes[bytes=2,host=pageable]"
        ))));
    }

    #[test]
    fn last_lines_of_standard_output_are_shown() {
        let mut record = failed("programs/a");
        record.stdout_tail = (1..=7).map(|n| format!("element {n}\n")).collect();
        let text = plain(&explain(&record));
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let shown = ["Last lines of standard output:", "element 3", "element 4"];
        assert!(lines.windows(3).any(|lines| lines == shown), "{text}");
        assert!(text.contains("element 7\n"), "{text}");
        assert!(!text.contains("element 2"), "{text}");
        // The outcome quotes the last line already.
        record.stdout_tail = "element 1\n".to_owned();
        assert!(!plain(&explain(&record)).contains("standard output"));
        let mut record = passed("programs/a");
        record.stdout_tail = "one\ntwo\n".to_owned();
        assert!(!plain(&explain(&record)).contains("standard output"));
    }

    #[test]
    fn any_iteration_can_be_shown() {
        let mut record = failed("copies/small-sizes[bytes=2]");
        record.outcome.at.occurrence = Some(u32::MAX);
        assert!(explain(&record).contains("iteration 4294967295"));
    }

    #[test]
    fn names_the_gpu() {
        let text = explain(&on_gpu(failed("copies/small-sizes[bytes=2]")));
        assert!(text.contains("on AMD Radeon RX 7900 XTX (gfx1100) at 0000:03:00.0\n"), "{text}");
        assert!(!text.contains("emulated"), "{text}");
    }

    #[test]
    fn equal_failures_share_an_explanation() {
        let small = |n: u32| format!("copies/small-sizes[bytes={n}]");
        let mut records: Vec<Record> = (1..7).map(|n| failed(&small(n))).collect();
        records.extend([
            passed("a/a"),
            known("a/b"),
            unproven("a/c"),
            changed("a/d"),
            fixed("a/e"),
        ]);
        insta::assert_snapshot!(plain(&explanations(&records)));
        assert_eq!(explanations(&[passed("a/a"), known("a/b")]), "");
    }
}
