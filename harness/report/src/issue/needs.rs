//! What a failure needs, by what `minimise` found.

use std::fmt::Write;

use super::Findings;
use crate::{
    evidence::Needed,
    words::{count, unique},
};

/// Why each part of the program is needed.
pub(super) fn minimised(findings: &Findings) -> Option<String> {
    let found = findings.minimised.as_ref()?;
    let mut text = format!(
        "#### What the failure needs\n\nReduced from {} to {} in {}.",
        found.calls_before,
        count(found.calls_after, "call"),
        count(found.runs, "run")
    );
    let [tested, structural, open] = Needed::by_proof(&found.elements);
    // Two that have one name differ by their places.
    let named = |needed: &Needed| {
        let same = |other: &&Needed| other.what == needed.what && other.line != needed.line;
        match (needed.line, found.elements.iter().find(same)) {
            (0, _) | (_, None) => needed.what.clone(),
            (line, Some(_)) => format!("{} (line {line} of case.yaml)", needed.what),
        }
    };
    if !tested.is_empty() {
        text.push_str("\n\n| element | with | without |\n| --- | --- | --- |");
    }
    for needed in &tested {
        let _ = write!(text, "\n| {} | {} | {} |", named(needed), needed.with, needed.without);
    }
    if !tested.is_empty() {
        text.push_str(
            "\n\nThe numbers are failures of runs of the smaller case with and without it. A case without it counts as failing only where \
             it comes to the same call and fails there in the same way, and passes where the case itself does.",
        );
    }
    if found.elements.iter().any(Needed::makes_it_more_frequent) {
        text.push_str(
            "\n\nWithout an element that has failures in the last column too, it comes less often; such elements were kept.",
        );
    }
    // Single calls say it; what belongs together and what may stand for it repeat them.
    let single = |what: &str| {
        !what.contains(", ") && !what.contains(" calls from ") && !what.contains("instead of")
    };
    let groups = [
        (
            "Nothing was run without these, as the case would break a rule of rocrepro (a capture ends, what is read was written, \
             an expectation rests on something)",
            structural,
        ),
        ("Whether these are needed was not tried", open),
    ];
    for (what, elements) in groups {
        let single = elements.into_iter().filter(|needed| single(&needed.what));
        let names = unique(single.map(named));
        if !names.is_empty() {
            let _ = write!(text, "\n\n{what}: {}.", names.join("; "));
        }
    }
    if !found.others.is_empty() {
        let others: Vec<_> = found
            .others
            .iter()
            .map(|o| format!("`{}` ({})", o.signature, count(o.count, "run")))
            .collect();
        let _ = write!(
            text,
            "\n\nSome smaller variants did otherwise than their case wants, in another way: {}. That may be the variant's own doing and no bug.",
            others.join(", ")
        );
    }
    let program = findings.program.as_ref().and_then(|program| program.exported.as_ref());
    if program.is_some_and(|exported| exported.tries.is_some_and(|tries| tries > 0)) {
        text.push_str(
            "\n\nThe program was then shortened on its own, by compiling and running it.",
        );
    }
    Some(text)
}
