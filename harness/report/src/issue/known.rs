//! Writes the section of an issue about expected failures that may have the same cause.

use super::Findings;
use crate::words::{describe_expected_failure, link, unique};

/// Lists the upstream issues that the case reproduces, and the expected failures with the same signature. `None` if
/// there are none.
pub(super) fn duplicates(findings: &Findings) -> Option<String> {
    let mut lines = Vec::new();
    let known = |issue: &&String| {
        findings.known_bugs.iter().any(|bug| bug.upstream.as_ref() == Some(*issue))
    };
    let own = unique(findings.record.upstream.iter().filter(|issue| !known(issue)).cloned());
    if !own.is_empty() {
        let links: Vec<_> = own.iter().map(|issue| link(issue)).collect();
        lines.push(format!("This test was written for {}.", links.join(", ")));
    }
    let windows = unique(
        findings.duplicates.iter().map(|duplicate| describe_expected_failure(&duplicate.known)),
    );
    for known in windows {
        let cases = findings
            .duplicates
            .iter()
            .filter(|other| describe_expected_failure(&other.known) == known);
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
            "The same symptom, perhaps with another cause: {known}, in the test {} of rocrepro.",
            cases.join(", ")
        ));
    }
    (!lines.is_empty()).then(|| {
        let lines: Vec<_> = lines.iter().map(|line| format!("* {line}")).collect();
        format!("**Related:**\n\n{}", lines.join("\n"))
    })
}
