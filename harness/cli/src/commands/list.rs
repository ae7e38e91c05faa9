use std::{collections::BTreeSet, mem::ManuallyDrop, process::ExitCode};

use case::{Case, Expectation, ExpectationKind, analyse};
use plan::{ByVersion, Step};

use crate::{args::List, outputs};
use engine::{CaseLibrary, Selected, Stop};

pub(crate) fn list(args: &List) -> Result<ExitCode, Stop> {
    // The values are never freed, because the process ends next, and freeing tens of thousands of cases takes longer
    // than exiting.
    let library = ManuallyDrop::new(args.selection.library()?);
    let selected = ManuallyDrop::new(args.selection.select(&library)?);
    let mut text = String::new();
    if args.trials {
        for entry in selected.iter() {
            text.push_str(&format!("{}\n", entry.id()));
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Trials are in the order of the library, so the trials of a case are adjacent.
    let cases = || selected.chunk_by(|a, b| a.case.id == b.case.id);
    if args.issues {
        for case in cases().map(|trials| trials[0].case) {
            for link in &case.upstream {
                let by = case.shown_by(link).join("; ");
                text.push_str(&format!("{link}\tshown\t{}\t{by}\n", case.id));
            }
            for link in &case.related {
                text.push_str(&format!("{link}\trelated\t{}\t\n", case.id));
            }
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.expectations {
        for trials in cases() {
            let case = trials[0].case;
            for entry in case.expectations() {
                text.push_str(&format!("{}\t{}\n", case.id, format_expectation(&entry)));
            }
            for line in unusual_results(&library, trials) {
                text.push_str(&format!("{}\t{line}\n", case.id));
            }
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.faults {
        for trials in cases() {
            for declared in &trials[0].case.faults {
                if let Some(entry) = trials.iter().find(|s| declared.on.matches(&s.trial)) {
                    text.push_str(&format!("{}\t{}\n", entry.id(), declared.planted));
                }
            }
        }
        outputs::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = selected.iter().map(|s| s.case.id.len()).max().unwrap_or(0);
    for trials in cases() {
        let case = trials[0].case;
        text.push_str(&format!("{:width$}  {:4}  {}\n", case.id, trials.len(), case.title));
    }
    outputs::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Formats an expectation as columns: kind, subject, source.
pub(super) fn format_expectation(entry: &Expectation) -> String {
    let on = entry.on.0.iter().map(|(axis, values)| format!("{axis}={}", values.join("|")));
    let about: Vec<String> = entry.signature.iter().cloned().chain(on).collect();
    let about = if about.is_empty() { "all".to_owned() } else { about.join(" ") };
    let date = entry.date.iter().map(|date| format!(" ({date})"));
    format!("{}\t{about}\t{}{}", entry.kind.word(), entry.source, date.collect::<String>())
}

/// Returns one line for each expected result, other than plain success, in the steps of these trials, without
/// duplicates.
fn unusual_results(library: &CaseLibrary, trials: &[Selected<'_>]) -> Vec<String> {
    let mut lines = BTreeSet::new();
    for Selected { case, trial } in trials {
        if case.is_program() {
            continue;
        }
        // A trial that cannot be lowered is reported by `rocrepro case check`, not here.
        let Ok(plan) = analyse(case, trial, library.kernels()) else { continue };
        let mut steps: Vec<&Step> = plan.body.iter().chain(&plan.verify).collect();
        while let Some(step) = steps.pop() {
            steps.extend(step.call.body().unwrap_or_default());
            let wanted = [
                ("returns", &step.returns, "api-error"),
                ("gives", &step.gives, "unexpected-value"),
            ];
            for (word, values, kind) in wanted {
                let Some(values) = values.as_ref().filter(|values| is_unusual(values)) else {
                    continue;
                };
                let api = plan::api(&step.call, &plan);
                let by = evidence_kind(case, &format!("{kind}:{api}:"), values);
                let values: Vec<String> = values
                    .0
                    .iter()
                    .map(|(range, values)| format!("{range}: {}", values.join(" or ")))
                    .collect();
                let values = values.join(", ");
                let values = values.strip_prefix("*: ").unwrap_or(&values).to_owned();
                lines.insert((
                    step.line,
                    format!("{by}\tline {}: {api} {word} {values}", step.line),
                ));
            }
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns true if a result other than success is expected on any release.
fn is_unusual(values: &ByVersion<Vec<String>>) -> bool {
    values.0.iter().any(|(_, values)| *values != ["hipSuccess"])
}

/// Returns the kind of evidence for an expected value. `signature` is the beginning of the signature of a failure, with
/// its kind and the function, for example `api-error:hipFree:`. `values` contains the expected values for each range of
/// releases. If the case has an entry for this signature, returns the kind of that entry. Otherwise returns "releases
/// differ" if the case has values for several releases, or else the kind of the entry for the whole case.
fn evidence_kind(case: &Case, signature: &str, values: &ByVersion<Vec<String>>) -> &'static str {
    let entries = case.expectations();
    let own = entries.iter().find(|entry| {
        entry.signature.as_ref().is_some_and(|pattern| pattern.starts_with(signature))
    });
    let general = entries.iter().find(|entry| entry.signature.is_none());
    match (own, values.0.len()) {
        (Some(entry), _) => entry.kind.word(),
        (None, 2..) => ExpectationKind::ReleasesDiffer.word(),
        (None, _) => general.map_or("no source", |entry| entry.kind.word()),
    }
}
