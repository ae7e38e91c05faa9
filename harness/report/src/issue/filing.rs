//! Decides whether a report is a new issue, a comment on a known one, or a draft that must not be filed yet.

use super::{
    Findings, Form,
    form::{Content, Field},
    program,
};
use crate::words::link;

/// Place where a report is to be filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filing {
    /// A new issue.
    New,
    /// A comment on a known issue.
    Comment {
        /// The issue, as `owner/repository#number`.
        issue: String,
    },
    /// No place yet, because nothing shows that ROCm caused the failure.
    Draft,
}

impl Filing {
    /// Returns the address of the known issue; `None` for a new issue or a draft.
    pub fn known_issue(&self) -> Option<String> {
        match self {
            Filing::Comment { issue } => Some(link(issue)),
            Filing::New | Filing::Draft => None,
        }
    }
}

/// Field without a heading, which holds the whole text of a comment.
pub(super) const COMMENT: Field = Field { heading: "", id: None, content: Content::Problem };

/// Decides how to file a report. A report that is not a draft becomes a comment on the first known issue. It becomes a
/// new issue if no issue is known, if a fault is injected, or if the user named a form or asked for an issue in any
/// case.
pub(super) fn filing(findings: &Findings, form: Option<Form>) -> Filing {
    if program::is_draft(findings) {
        return Filing::Draft;
    }
    let asks_for_issue = findings.anyway || form.is_some() || !findings.planted.is_empty();
    let known = findings.known_bugs.iter().find_map(|bug| bug.upstream.clone());
    match known.filter(|_| !asks_for_issue) {
        Some(issue) => Filing::Comment { issue },
        None => Filing::New,
    }
}
