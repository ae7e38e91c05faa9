//! Sources of the behaviour that a case expects, for example a document.

use crate::{
    Selector,
    matrix::{Matrix, read_selector},
    read::Reader,
    yaml::Node,
};

/// Kind of the source of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectationKind {
    /// A document promises the behaviour that the case expects.
    Documented,
    /// A measurement with an equivalent program shows that CUDA behaves as the case expects.
    Cuda,
    /// Releases of ROCm behave differently, and the case lists what each release does.
    ReleasesDiffer,
    /// Neither a document nor CUDA promises the behaviour that the case expects. If ROCm behaves differently, that is
    /// not a bug.
    Difference,
}

impl ExpectationKind {
    /// Every kind, with the keyword that denotes it in a case file.
    pub const ALL: [(&str, ExpectationKind); 4] = [
        ("documented", ExpectationKind::Documented),
        ("cuda", ExpectationKind::Cuda),
        ("releases-differ", ExpectationKind::ReleasesDiffer),
        ("difference", ExpectationKind::Difference),
    ];

    /// Returns the keyword that denotes this kind in a case file.
    pub fn word(self) -> &'static str {
        match self {
            ExpectationKind::Documented => "documented",
            ExpectationKind::Cuda => "cuda",
            ExpectationKind::ReleasesDiffer => "releases-differ",
            ExpectationKind::Difference => "difference",
        }
    }
}

/// An entry under `expectation` in a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Kind of source that promises or shows the behaviour.
    pub kind: ExpectationKind,
    /// Name of a document and of a section in it, or a description of the measurement.
    pub source: String,
    /// Day of the measurement, for example `2026-11-27`.
    pub date: Option<String>,
    /// Trials to which the entry applies.
    pub on: Selector,
    /// Signature of the failure to which the entry applies; a trailing `*` matches any text. With `None`, the entry
    /// applies to everything that the case expects.
    pub signature: Option<String>,
}

/// Returns true if a `source` entry cites a section of a document, for example `HIP runtime API reference (hipMemcpy)`.
/// Entries that begin with `user` are notes by users, which promise nothing, so they do not count as documents.
pub fn is_document(source: &str) -> bool {
    !source.starts_with("user ") && source.contains('(')
}

/// Reads the value of the key `expectation`, which is one entry or a list of entries.
pub(crate) fn read_expectations(
    reader: &mut Reader,
    node: &Node,
    matrix: &Matrix,
) -> Vec<Expectation> {
    reader.list(node).iter().filter_map(|node| read_expectation(reader, node, matrix)).collect()
}

fn read_expectation(reader: &mut Reader, node: &Node, matrix: &Matrix) -> Option<Expectation> {
    let what = "an expectation";
    let fields = reader.fields(node, what, &["kind", "source", "date", "on", "signature"])?;
    let kind = reader
        .required(&fields, what, "kind")
        .and_then(|n| reader.choice(n, "a kind of expectation", &ExpectationKind::ALL));
    let source = reader
        .required(&fields, what, "source")
        .and_then(|n| reader.text(n, "`source`").map(str::to_owned));
    let date = fields.get("date").and_then(|n| reader.text(n, "`date`").map(str::to_owned));
    if let (Some(node), Some(date)) = (fields.get("date"), &date)
        && !is_date(date)
    {
        reader.mistake(node.at, format!("`{date}` is not a date such as `2026-11-27`"));
    }
    let signature =
        fields.get("signature").and_then(|n| reader.text(n, "a signature").map(str::to_owned));
    match kind {
        Some(ExpectationKind::Cuda) if date.is_none() => {
            reader.mistake(
                node.at,
                "an expectation of kind `cuda` needs the `date` of the measurement",
            );
        }
        Some(ExpectationKind::Difference) if signature.is_none() => {
            reader.mistake_with_help(
                node.at,
                "a difference needs the `signature` of what other releases do",
                Some("any other failure is still a fault".to_owned()),
            );
        }
        _ => {}
    }
    Some(Expectation {
        kind: kind?,
        source: source?,
        date,
        on: fields.get("on").map(|n| read_selector(reader, n, matrix)).unwrap_or_default(),
        signature,
    })
}

/// Returns true if the text has the form `2026-11-27`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.iter().map(|part| part.len()).eq([4, 2, 2]) && parts.iter().all(digits)
}
