//! Programs of issues without the helper: a program gets the functions of the helper that it uses, in a plain version
//! that prints each check.

mod cpp;
mod python;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Name of the Python module and of the C++ namespace of the helper.
const HELPER: &str = "rocrepro";

/// Values of the trial, by axis of the matrix.
pub(super) type Parameters = BTreeMap<String, String>;

/// Returns the text of a program that needs no file of rocrepro, for Markdown's name of its language; none if the program
/// uses the helper in a way that cannot be rewritten.
pub(super) fn inline(text: &str, language: &str, parameters: &Parameters) -> Option<String> {
    match language {
        _ if !text.contains(HELPER) => Some(text.to_owned()),
        "python" => python::inline(text, parameters),
        "cpp" => cpp::inline(text, parameters),
        _ => None,
    }
}

/// The plain version of a helper in one language, see `plain.py` and `plain.h`.
struct Plain {
    /// Lines before the first part.
    head: &'static str,
    /// Name and text of each part, in the order in which they are printed.
    parts: Vec<(&'static str, String)>,
}

impl Plain {
    /// Splits a plain version at the lines with the mark, behind which the name of a part follows.
    fn parse(text: &'static str, mark: &str) -> Plain {
        let at = text.lines().find(|line| line.trim_start().starts_with(mark)).unwrap_or(text);
        let (head, _) = text.split_once(at).unwrap_or((text, ""));
        let mut parts: Vec<(&str, String)> = Vec::new();
        for line in text[head.len()..].lines() {
            match (line.trim_start().strip_prefix(mark), parts.last_mut()) {
                (Some(name), _) => parts.push((name, String::new())),
                (None, Some((_, text))) if !line.is_empty() => {
                    text.push_str(line);
                    text.push('\n');
                }
                _ => {}
            }
        }
        Plain { head, parts }
    }

    fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, _)| *part == name)
    }

    /// Returns these parts and all that they mention, without the head. `mentions` returns true if a text mentions a part.
    fn with_needed(
        &self,
        mut names: BTreeSet<&str>,
        mentions: impl Fn(&str, &str) -> bool,
    ) -> Vec<&str> {
        loop {
            let needed = self.parts.iter().filter(|(name, _)| names.contains(name));
            let needed: Vec<&str> = needed.map(|(_, text)| text.as_str()).collect();
            let more = self.parts.iter().map(|(name, _)| *name);
            let more: Vec<_> = more
                .filter(|name| {
                    !names.contains(name) && needed.iter().any(|text| mentions(text, name))
                })
                .collect();
            if more.is_empty() {
                return needed;
            }
            names.extend(more);
        }
    }
}

/// Returns the parameters as the content of an initializer in braces, each pair formatted by `pair`.
fn initializer(parameters: &Parameters, pair: impl Fn(Value, Value) -> String) -> String {
    let pairs = parameters.iter();
    let pairs = pairs.map(|(name, value)| pair(name.as_str().into(), value.as_str().into()));
    pairs.collect::<Vec<_>>().join(", ")
}

/// Returns the position behind the lines, from `start` on, that are blank or begin with one of the words.
fn behind_imports(text: &str, start: usize, words: &[&str]) -> usize {
    let mut end = start;
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        at += line.len();
        let whole = !line.trim_end().ends_with(['(', '\\']);
        if words.iter().any(|word| line.starts_with(word)) && whole {
            end = at;
        } else if !line.trim().is_empty() {
            break;
        }
    }
    end
}

/// Returns the arguments of a call whose opening bracket is before the text.
fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut escaped) = (0_u32, None, false);
    let (mut found, mut from) = (Vec::new(), 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth == 0 => {
                found.push(text[from..at].trim());
                break;
            }
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            (None, _) => {}
        }
    }
    found.retain(|argument| !argument.is_empty());
    found
}
