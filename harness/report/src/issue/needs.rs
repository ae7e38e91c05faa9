//! Writes the section of an issue that explains which elements of the program the failure needs, from the result of
//! `rocrepro minimise`.

use std::{collections::BTreeSet, fmt::Write};

use super::{Findings, write::describe_setting};
use crate::{
    evidence::{InvalidVariant, MinimiseEvidence, NeededElement, ReplacementFailure},
    words::count,
};

/// Explains for each remaining element of the program why it is needed. `None` if the program was not minimised.
pub(super) fn minimised(findings: &Findings) -> Option<String> {
    let found = findings.minimised.as_ref()?;
    let mut text = format!(
        "#### Minimal conditions of the failure\n\nReduced from {} to {} in {}.",
        found.calls_before,
        count(found.calls_after, "call"),
        count(found.runs, "run")
    );
    let [tested, _, _] = NeededElement::split_by_evidence(&found.elements);
    // Elements with the same description are distinguished by their lines.
    let named = |needed: &NeededElement| {
        let same = |other: &&NeededElement| other.what == needed.what && other.line != needed.line;
        match (needed.line, found.elements.iter().find(same)) {
            (0, _) | (_, None) => needed.what.clone(),
            (line, Some(_)) => format!("{} (line {line} of case.yaml)", needed.what),
        }
    };
    if !tested.is_empty() {
        text.push_str(
            "\n\n| element | failures with it | failures without it, and other failures |\n| --- | --- | --- |",
        );
    }
    for needed in &tested {
        let (with, without, instead) = (needed.with, needed.without, other_failures(needed));
        let _ = write!(text, "\n| {} | {with} | {without}{instead} |", named(needed));
    }
    if !tested.is_empty() {
        text.push_str(
            "\n\nThe numbers are failures of all runs of the smaller case, with and without the element. A case \
             without the element counts as failing only if it fails in the same way at the same call, and passes on \
             the configuration on which the case itself passes.",
        );
    }
    let met = tested.iter().flat_map(|needed| &needed.instead);
    let whys: BTreeSet<InvalidVariant> = met.filter_map(|met| met.own).collect();
    text.push_str(&explain_labels(findings, found, &whys));
    if found.elements.iter().any(NeededElement::makes_it_more_frequent) {
        text.push_str(
            "\n\nSome elements have failures in the last column, too. Without them the failure is rarer, so they were \
             kept.",
        );
    }
    if !found.others.is_empty() {
        let others: Vec<_> = found
            .others
            .iter()
            .map(|o| format!("`{}` ({})", o.signature, count(o.count, "run")))
            .collect();
        let _ = write!(
            text,
            "\n\nSome smaller variants failed in another way: {}. {}",
            others.join(", "),
            match found.passes {
                Some(_) =>
                    "Each of them passed in one run on the configuration on which the case passes.",
                None => "The variants themselves may be wrong, so this may not be a bug of ROCm.",
            }
        );
    }
    let program = findings.program.as_ref().and_then(|program| program.exported.as_ref());
    if program.is_some_and(|exported| exported.tries.is_some_and(|tries| tries > 0)) {
        text.push_str("\n\nThe program was then shortened further, by compiling and running it.");
    }
    Some(text)
}

/// Lists the other failures that occurred when an element was removed.
fn other_failures(needed: &NeededElement) -> String {
    let alone = needed.instead.len() == 1 && needed.instead[0].count == needed.without.runs;
    let one = |met: &ReplacementFailure| {
        let times = if alone { String::new() } else { format!("{} ", met.count) };
        let own = met.own.map(|why| format!(" ({})", why.label())).unwrap_or_default();
        format!("{times}`{}`{}", met.signature, own)
    };
    let all: Vec<_> = needed.instead.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!("; {}", all.join(", ")) }
}

/// Explains the labels with which the table marks failures of invalid cases.
fn explain_labels(
    findings: &Findings,
    found: &MinimiseEvidence,
    whys: &BTreeSet<InvalidVariant>,
) -> String {
    if whys.is_empty() {
        return String::new();
    }
    let why = |why: &InvalidVariant| match (why, &found.passes) {
        (InvalidVariant::Elsewhere, Some(passes)) if findings.planted.is_empty() => {
            format!("it also fails on {}, where the case passes", describe_setting(&passes.on))
        }
        (InvalidVariant::Elsewhere, _) => "it also fails without the injected fault".to_owned(),
        (InvalidVariant::Answer, _) => {
            "it expects a result that may depend on a removed call".to_owned()
        }
        (InvalidVariant::Kernel, _) => "its own kernel accesses memory out of bounds".to_owned(),
    };
    let whys: Vec<_> = whys.iter().map(why).collect();
    format!(
        " A failure marked as own is not counted, because the smaller case itself may be wrong ({}).",
        whys.join(", or ")
    )
}
