//! Writes the report file of an issue into the evidence folder, and a summary for the terminal.

use std::path::Path;

use super::{Filing, Findings, Issue, redact::WORDS};
use crate::{evidence::REPORT_FILE, failures::format_failures, words::link};

impl Issue {
    /// Returns the text of the report file: comments that contain the title and repository, then the text of the issue.
    pub fn page(&self) -> String {
        // The title must not end the comment, and must not be markup for a reader that ignores comments.
        let title = self.title.replace("--", "- -").replace('<', "&lt;").replace("](", "] (");
        let place = match &self.filing {
            Filing::Comment { issue } => format!("comment for: {issue}"),
            Filing::Draft => "repository: none yet".to_owned(),
            Filing::New => format!("repository: {}", self.repository),
        };
        format!("<!-- title: {title} -->\n<!-- {place} -->\n\n{}", self.markdown())
    }
}

/// Returns a summary of the issue whose report is in `folder`. If `open` is true, the summary ends with a web address
/// that opens the form.
pub fn summary(folder: &Path, findings: &Findings, issue: &Issue, open: bool) -> String {
    let mut text = format!("{}\n", folder.join(REPORT_FILE).display());
    text.push_str(&format!("  title       {}\n", issue.title));
    match &issue.filing {
        Filing::Draft if findings.launches_own_kernels => text.push_str(
            "  belongs to  no repository yet: it fails alike on every release that was tried, and the kernel is defined in the\n\
             \x20             case: the case may be wrong\n\
             \x20 next        compare the kernel and its grid with `computes`; `--anyway` writes the issue\n",
        ),
        Filing::Draft => text.push_str(
            "  belongs to  no repository yet: nothing shows that ROCm caused this, so it may be an error of the program\n\
             \x20 next        run it where it may pass, such as on another release or architecture (`--also`), or on a GPU;\n\
             \x20             `--anyway` writes the issue if you have ruled out the program\n",
        ),
        Filing::Comment { issue } => text.push_str(&format!(
            "  belongs to  {}, as a comment, because the failure is known; `--anyway` writes a new issue\n",
            link(issue)
        )),
        Filing::New => text.push_str(&format!(
            "  belongs to  https://github.com/{} ({} form)\n",
            issue.repository, issue.form
        )),
    }
    if let Some(mistake) = &findings.mistake {
        text.push_str(&format!(
            "  look first  {}: the case's own kernel is the most likely cause, not ROCm\n              {}\n",
            mistake.found, mistake.again
        ));
    }
    let mut issues: Vec<_> =
        findings.duplicates.iter().flat_map(|d| d.known.upstream.clone()).collect();
    issues.extend(findings.known_bugs.iter().flat_map(|bug| bug.upstream.clone()));
    issues.sort();
    issues.dedup();
    if !issues.is_empty() {
        text.push_str(&format!("  known as    {}\n", issues.join(", ")));
    }
    let rate = format_failures(findings.rate, &findings.others);
    text.push_str(&format!("  rate        {rate}\n"));
    for control in &findings.controls {
        let failure = control.failure(&findings.record.outcome.signature);
        text.push_str(&format!("  control     {}: {}; {failure}\n", control.what, control.rate));
    }
    let page = issue.markdown();
    let replaced = WORDS.iter().map(|word| format!("<{word}>"));
    let replaced = replaced.map(|word| (page.matches(&word).count(), word));
    let replaced: Vec<_> = replaced
        .filter(|(times, _)| *times > 0)
        .map(|(times, word)| format!("{times} x {word}"))
        .collect();
    if !replaced.is_empty() {
        text.push_str(&format!(
            "  redacted    {}; read {REPORT_FILE} before you publish it\n",
            replaced.join(", ")
        ));
    }
    let has_plan = findings.program.as_ref().is_none_or(|program| program.own.is_none());
    if findings.minimised.is_none() && has_plan {
        let out = folder.display();
        text.push_str(&format!("  could be improved by `rocrepro minimise --out {out}`\n"));
    }
    if open && issue.filing == Filing::Draft {
        text.push_str("\nNo address, because a draft must not be filed.\n");
    } else if open && let Some(address) = issue.filing.known_issue() {
        text.push_str(&format!(
            "\n{address}\n\nPaste the text of the report there as a comment.\n"
        ));
    } else if open {
        let link = issue.link();
        text.push_str(&format!("\n{}\n", link.url));
        if !link.cut.is_empty() {
            text.push_str(&format!(
                "\nNot included in the URL, please paste from the report: {}\n",
                link.cut.join(", ")
            ));
        }
    }
    text
}
