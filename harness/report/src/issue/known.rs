//! Writes the section of an issue about expected failures that may have the same cause.

use super::Findings;
use crate::words::{link, unique, window};

/// Lists the upstream issues that the case reproduces, and the expected failures with the same signature. `None` if
/// there are none.
pub(super) fn duplicates(findings: &Findings) -> Option<String> {
    let mut lines = Vec::new();
    let own = unique(findings.record.upstream.iter().cloned());
    if !own.is_empty() {
        let links: Vec<_> = own.iter().map(|issue| link(issue)).collect();
        lines.push(format!("This test was written for {}.", links.join(", ")));
    }
    let windows = unique(findings.duplicates.iter().map(|duplicate| window(&duplicate.known)));
    for known in windows {
        let cases = findings.duplicates.iter().filter(|other| window(&other.known) == known);
        let cases: Vec<_> = cases
            .map(|duplicate| {
                let others = duplicate.upstream.iter().filter(|issue| !own.contains(issue));
                let links: Vec<_> = others.map(|issue| link(issue)).collect();
                match links.as_slice() {
                    [] => duplicate.case.clone(),
                    links => format!("{} ({})", duplicate.case, links.join(", ")),
                }
            })
            .collect();
        lines.push(format!(
            "Known failure with the same signature: {known}, in {}.",
            cases.join(", ")
        ));
    }
    (!lines.is_empty()).then(|| {
        let lines: Vec<_> = lines.iter().map(|line| format!("* {line}")).collect();
        format!("#### Possible duplicates\n\n{}", lines.join("\n"))
    })
}
