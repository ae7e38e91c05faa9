//! Escapes strings from outside rocrepro before an issue is written, so that they cannot become markup in the issue.

use judge::likeness;

use super::{AsPrinted, Findings};
use crate::{
    evidence::{
        Bisected, Component, FactorKind, FactorVerdict, Minimised, Mitigations, OtherFailure,
    },
    text::{code, markdown},
};

/// Escapes the strings in the findings that the issue shows in sentences, tables and inline code. Strings in code
/// blocks are not changed, because the fence of a block is always longer than any fence in its content.
pub(super) fn in_markdown(findings: &Findings) -> Findings {
    let mut findings = findings.clone();
    let reported = findings.record.outcome.signature.clone();
    for control in &mut findings.controls {
        control.likeness = control.signature.as_ref().map(|other| likeness(&reported, other));
    }
    let record = &mut findings.record;
    prose([&mut record.title, &mut record.outcome.summary, &mut record.device.name]);
    if let Some(program) = &mut record.program {
        prose(program.runs_on.iter_mut().chain(&mut program.packages));
    }
    if let Some(program) = &mut findings.program {
        spans([&mut program.file]);
        match program.own.as_mut().and_then(|own| own.as_printed.as_mut()) {
            Some(AsPrinted::Ran { last, .. }) => spans([last]),
            Some(AsPrinted::NotRun(why)) => prose([why]),
            None => {}
        }
    }
    if let Some(AsPrinted::Ran { last, .. }) = &mut findings.on_cpu {
        spans([last]);
    }
    let own = findings.program.iter_mut().flat_map(|program| &mut program.own);
    spans(own.flat_map(|own| &mut own.packages));
    let record = &mut findings.record;
    both([&mut record.outcome.signature, &mut record.stack.spec, &mut record.device.gfx]);
    spans(&mut record.outcome.at.api);
    prose(record.stack.libraries.iter_mut().map(|library| &mut library.name));
    prose(&mut findings.about);
    prose(&mut findings.sources);
    prose(findings.packages.iter_mut().flat_map(|(name, version)| [name, version]));
    if let Some(mistake) = &mut findings.mistake {
        prose([&mut mistake.found]);
        spans([&mut mistake.again]);
    }
    spans(findings.planted.iter_mut().chain([&mut findings.again]));
    spans(findings.variables.iter_mut().flat_map(|(name, value)| [name, value]));
    others(&mut findings.others);
    for control in &mut findings.controls {
        prose(control.release.iter_mut().chain([&mut control.what]));
        spans(&mut control.signature);
        others(&mut control.others);
    }
    prose(findings.not_judged.iter_mut().flat_map(|other| [&mut other.release, &mut other.why]));
    prose(findings.shortened.iter_mut().flat_map(|found| &mut found.passes));
    for bug in &mut findings.known_bugs {
        prose([&mut bug.about]);
        spans(bug.calls.iter_mut().chain([&mut bug.case]));
    }
    for duplicate in &mut findings.duplicates {
        prose([&mut duplicate.case]);
        prose([&mut duplicate.known.signature]);
    }
    if let Some(exported) = findings.program.as_mut().and_then(|p| p.exported.as_mut()) {
        spans(&mut exported.ended);
        both(exported.passes.iter_mut().flat_map(|p| [&mut p.on.stack, &mut p.on.gfx]));
        prose(exported.passes.iter_mut().flat_map(|p| &mut p.otherwise));
    }
    findings.minimised.iter_mut().for_each(minimised);
    findings.mitigations.iter_mut().for_each(mitigations);
    findings.bisected.iter_mut().chain(&mut findings.finer).for_each(bisected);
    findings
}

/// Escapes strings that the issue shows in sentences and table cells.
fn prose<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = markdown(text));
}

/// Escapes strings that the issue shows between backticks.
fn spans<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = code(text));
}

/// Escapes strings that the issue shows both in sentences and between backticks.
fn both<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = markdown(&code(text)));
}

fn others(failures: &mut [OtherFailure]) {
    spans(failures.iter_mut().map(|other| &mut other.signature));
}

fn minimised(found: &mut Minimised) {
    for needed in &mut found.elements {
        prose([&mut needed.what]);
        prose(&mut needed.impossible);
        spans(needed.instead.iter_mut().map(|met| &mut met.signature));
    }
    both(found.passes.iter_mut().flat_map(|p| [&mut p.on.stack, &mut p.on.gfx]));
    others(&mut found.others);
}

fn mitigations(found: &mut Mitigations) {
    others(&mut found.base_others);
    for factor in &mut found.factors {
        others(&mut factor.others);
        prose([&mut factor.meaning, &mut factor.component]);
        match factor.kind {
            FactorKind::Env | FactorKind::Limit => spans([&mut factor.name, &mut factor.value]),
            FactorKind::Rewrite => prose([&mut factor.name]),
        }
        match &mut factor.verdict {
            FactorVerdict::ChangedSignature { to } | FactorVerdict::Wrong { to } => spans([to]),
            FactorVerdict::Helped
            | FactorVerdict::NoEffect
            | FactorVerdict::Rarer
            | FactorVerdict::Undecided => {}
        }
    }
    spans(&mut found.minimal_set);
    prose(&mut found.points_to);
    for other in &mut found.not_tried {
        spans([&mut other.name]);
        prose([&mut other.why]);
    }
}

fn bisected(found: &mut Bisected) {
    prose([&mut found.axis]);
    prose(found.last_good.iter_mut().chain(&mut found.first_bad).chain(&mut found.notes));
    prose(found.rates.iter_mut().map(|build| &mut build.version));
    prose(found.skipped.iter_mut().flat_map(|skipped| [&mut skipped.version, &mut skipped.why]));
    for crossed in &mut found.crossed {
        prose([&mut crossed.component]);
        prose(&mut crossed.why);
    }
    for Component { name, good, bad, compare_url } in &mut found.components {
        prose([name, good, bad]);
        // The address comes from a manifest. An address with a closing parenthesis would end the Markdown link, so it
        // is dropped.
        compare_url.take_if(|url| !is_link(url));
    }
}

fn is_link(url: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#&=%+,;".contains(c);
    url.starts_with("https://") && url.chars().all(plain)
}
