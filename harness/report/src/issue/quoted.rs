//! Escapes strings from outside rocrepro before an issue is written, so that they cannot become markup in the issue.

use judge::likeness;

use super::{Findings, PrintedProgramRun};
use crate::{
    evidence::{
        BisectEvidence, Component, FactorKind, FactorVerdict, MinimiseEvidence, Mitigations,
        OtherFailure,
    },
    text::{code, markdown},
};

/// Escapes the strings in the findings that the issue shows in sentences, tables and inline code. Strings in code
/// blocks are not changed, because the fence of a block is always longer than any fence in its content.
pub(super) fn escape_markdown(findings: &Findings) -> Findings {
    let mut findings = findings.clone();
    let reported = findings.record.outcome.signature.clone();
    for control in &mut findings.controls {
        control.likeness = control.signature.as_ref().map(|other| likeness(&reported, other));
    }
    let record = &mut findings.record;
    escape_prose([&mut record.title, &mut record.outcome.summary, &mut record.device.name]);
    if let Some(program) = &mut record.program {
        escape_prose(program.runs_on.iter_mut().chain(&mut program.packages));
    }
    if let Some(program) = &mut findings.program {
        escape_code([&mut program.file]);
        match program.own.as_mut().and_then(|own| own.as_printed.as_mut()) {
            Some(PrintedProgramRun::Ran { last, .. }) => escape_code([last]),
            Some(PrintedProgramRun::NotRun(why)) => escape_prose([why]),
            None => {}
        }
    }
    if let Some(PrintedProgramRun::Ran { last, .. }) = &mut findings.on_cpu {
        escape_code([last]);
    }
    let own = findings.program.iter_mut().flat_map(|program| &mut program.own);
    escape_code(own.flat_map(|own| &mut own.packages));
    let record = &mut findings.record;
    escape_prose_and_code([
        &mut record.outcome.signature,
        &mut record.stack.spec,
        &mut record.device.gfx,
    ]);
    escape_code(&mut record.outcome.at.api);
    escape_prose(record.stack.libraries.iter_mut().map(|library| &mut library.name));
    escape_prose(&mut findings.about);
    escape_prose(&mut findings.sources);
    escape_prose(findings.packages.iter_mut().flat_map(|(name, version)| [name, version]));
    if let Some(mistake) = &mut findings.mistake {
        escape_prose([&mut mistake.found]);
        escape_code([&mut mistake.again]);
    }
    escape_code(findings.planted.iter_mut().chain([&mut findings.again]));
    escape_code(findings.variables.iter_mut().flat_map(|(name, value)| [name, value]));
    others(&mut findings.others);
    for control in &mut findings.controls {
        escape_prose(control.release.iter_mut().chain([&mut control.what]));
        escape_code(&mut control.signature);
        others(&mut control.others);
    }
    escape_prose(
        findings.not_judged.iter_mut().flat_map(|other| [&mut other.release, &mut other.why]),
    );
    escape_prose(findings.shortened.iter_mut().flat_map(|found| &mut found.passes));
    for bug in &mut findings.known_bugs {
        escape_prose([&mut bug.about]);
        escape_code(bug.calls.iter_mut().chain([&mut bug.case]));
    }
    for duplicate in &mut findings.duplicates {
        escape_prose([&mut duplicate.case]);
        escape_prose([&mut duplicate.known.signature]);
    }
    if let Some(exported) = findings.program.as_mut().and_then(|p| p.exported.as_mut()) {
        escape_code(&mut exported.ended);
        escape_prose_and_code(
            exported.passes.iter_mut().flat_map(|p| [&mut p.on.stack, &mut p.on.gfx]),
        );
        escape_prose(exported.passes.iter_mut().flat_map(|p| &mut p.otherwise));
    }
    findings.minimised.iter_mut().for_each(minimised);
    findings.mitigations.iter_mut().for_each(mitigations);
    findings.bisected.iter_mut().chain(&mut findings.finer).for_each(bisected);
    findings
}

/// Escapes strings that the issue shows in sentences and table cells.
fn escape_prose<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = markdown(text));
}

/// Escapes strings that the issue shows between backticks.
fn escape_code<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = code(text));
}

/// Escapes strings that the issue shows both in sentences and between backticks.
fn escape_prose_and_code<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = markdown(&code(text)));
}

fn others(failures: &mut [OtherFailure]) {
    escape_code(failures.iter_mut().map(|other| &mut other.signature));
}

fn minimised(found: &mut MinimiseEvidence) {
    for needed in &mut found.elements {
        escape_prose([&mut needed.what]);
        escape_prose(&mut needed.impossible);
        escape_code(needed.instead.iter_mut().map(|met| &mut met.signature));
    }
    escape_prose_and_code(found.passes.iter_mut().flat_map(|p| [&mut p.on.stack, &mut p.on.gfx]));
    others(&mut found.others);
}

fn mitigations(found: &mut Mitigations) {
    others(&mut found.base_others);
    for factor in &mut found.factors {
        others(&mut factor.others);
        escape_prose([&mut factor.meaning, &mut factor.component]);
        match factor.kind {
            FactorKind::Env | FactorKind::Limit => {
                escape_code([&mut factor.name, &mut factor.value])
            }
            FactorKind::Rewrite => escape_prose([&mut factor.name]),
        }
        match &mut factor.verdict {
            FactorVerdict::ChangedSignature { to } | FactorVerdict::Wrong { to } => {
                escape_code([to])
            }
            FactorVerdict::Helped
            | FactorVerdict::NoEffect
            | FactorVerdict::Rarer
            | FactorVerdict::Undecided => {}
        }
    }
    escape_code(&mut found.minimal_set);
    escape_prose(&mut found.points_to);
    for other in &mut found.not_tried {
        escape_code([&mut other.name]);
        escape_prose([&mut other.why]);
    }
}

fn bisected(found: &mut BisectEvidence) {
    escape_prose([&mut found.axis]);
    escape_prose(found.last_good.iter_mut().chain(&mut found.first_bad).chain(&mut found.notes));
    escape_prose(found.rates.iter_mut().map(|build| &mut build.version));
    escape_prose(
        found.skipped.iter_mut().flat_map(|skipped| [&mut skipped.version, &mut skipped.why]),
    );
    for crossed in &mut found.crossed {
        escape_prose([&mut crossed.component]);
        escape_prose(&mut crossed.why);
    }
    for Component { name, good, bad, compare_url } in &mut found.components {
        escape_prose([name, good, bad]);
        // The address comes from a manifest. An address with a closing parenthesis would end the Markdown link, so it
        // is dropped.
        compare_url.take_if(|url| !is_link(url));
    }
}

fn is_link(url: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#&=%+,;".contains(c);
    url.starts_with("https://") && url.chars().all(plain)
}
