//! Parses the selections of cases and trials that a user types, and suggests corrections of misspelt names.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// A selection that is invalid or matches nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// The selection has an opening bracket without a closing one.
    #[error("`{0}` has no closing `]`")]
    Unclosed(String),
    /// A pair in the brackets of a selection has no equals sign. The fields are the pair and the selection.
    #[error("`{0}` in `{1}` is not `axis=value`")]
    NoValue(String, String),
    /// No case matches the first text; the second text is a suggestion.
    #[error("unknown case `{0}`; {1}")]
    UnknownCase(String, String),
    /// No trial of the case has the requested axis values; the second text explains why.
    #[error("no trial matches `{0}`; {1}")]
    NoTrial(String, String),
    /// The command needs a case with steps, but the case is a program case. The fields are the case and the command.
    #[error("`{0}` is a program, and `{1}` needs a case with steps")]
    Program(String, String),
}

impl FailedOperation for SelectionError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unclosed(_) => Some("write `case[axis=value,...]`".to_owned()),
            Self::Program(..) => Some(
                "run the program file itself; `rocrepro case explain` prints its name".to_owned(),
            ),
            _ => None,
        }
    }
}

pub(crate) struct ParsedSelection<'t> {
    /// Name of a case or of a folder, or a pattern.
    pub(crate) case: &'t str,
    /// Names of axes, each with the value that the trials must have.
    pub(crate) values: Vec<(&'t str, &'t str)>,
}

impl<'t> ParsedSelection<'t> {
    /// Parses a selection, for example `copies/small-sizes[bytes=2]`.
    pub(crate) fn read(text: &'t str) -> Result<Self, SelectionError> {
        let Some((case, rest)) = text.split_once('[') else {
            return Ok(ParsedSelection { case: text.trim_end_matches('/'), values: Vec::new() });
        };
        let unclosed = || SelectionError::Unclosed(text.to_owned());
        let inner = rest.strip_suffix(']').ok_or_else(unclosed)?;
        let values = inner
            .split(',')
            .map(|pair| {
                let invalid = || SelectionError::NoValue(pair.to_owned(), text.to_owned());
                pair.split_once('=').ok_or_else(invalid)
            })
            .collect::<Result<_, _>>()?;
        Ok(ParsedSelection { case, values })
    }

    pub(crate) fn matches(&self, id: &str) -> bool {
        matches_selection(self.case, id)
    }
}

/// Returns the cases that selections name; `None` without a selection, or if a selection matches no case.
pub(crate) fn selected_cases<'i>(
    wanted: &[&str],
    ids: impl Iterator<Item = &'i String> + Clone,
) -> Option<BTreeSet<String>> {
    let named = wanted.iter().map(|text| {
        let named = ParsedSelection::read(text).ok()?;
        let named: Vec<_> = ids.clone().filter(|id| named.matches(id)).cloned().collect();
        (!named.is_empty()).then_some(named)
    });
    let named: BTreeSet<String> =
        named.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    (!named.is_empty()).then_some(named)
}

/// Returns a hint for a misspelt name: the nearest of the valid names, or all of them.
pub fn spelling_hint<'n>(word: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    let mut ends = names.clone().filter(|name| name.rsplit('.').next() == Some(word));
    let of_group = ends.next().filter(|_| ends.next().is_none());
    match nearest(word, names.clone()).or(of_group) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("available are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the nearest of the names whose edit distance to a word is at most 1 plus a quarter of the name's length.
/// `None` if no name is that near.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

fn matches_selection(selection: &str, id: &str) -> bool {
    if selection.contains('*') {
        return matches_pattern(selection, id);
    }
    id == selection || id.strip_prefix(selection).is_some_and(|rest| rest.starts_with('/'))
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.split('*').collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let Some(rest) = text.strip_prefix(first) else { return false };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part) {
            Some(i) => rest = &rest[i + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(selection: &str, id: &str, expected: bool) {
        assert_eq!(matches_selection(selection, id), expected, "{selection} names {id}");
    }

    #[test]
    fn selections_name_cases_folders_and_patterns() {
        check("copies", "copies/small", true);
        check("cop", "copies/small", false);
        check("copies/small", "copies/small", true);
        check("copies/small", "copies/small-sizes", false);
        check("*small*", "copies/small-sizes", true);
        check("copies/*-sizes", "copies/small-sizes", true);
        check("graphs/*", "copies/small-sizes", false);
        check("a*a", "a", false);
    }
}
