//! Rewrites programs for issues so that they do not need rocrepro's helper (a Python module or C++ header). A program
//! gets a copy of those helper functions that it uses, in a plain version that prints each check.

mod cpp;
mod python;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Name of the helper's Python module and of its C++ namespace.
const HELPER: &str = "rocrepro";

/// Values of the trial, by the name of the axis.
pub(super) type Parameters = BTreeMap<String, String>;

/// Rewrites the source of a program so that it needs no file of rocrepro. `language` is the name of its language in
/// Markdown. Returns `None` if the program uses the helper in a way that cannot be rewritten.
pub(super) fn inline(text: &str, language: &str, parameters: &Parameters) -> Option<String> {
    inline_for(text, language, parameters, Values::Any)
}

/// Returns shorter versions of a program, the shortest first. Each has a limitation: its checks compare only values of
/// a certain kind, or its output is lost if it crashes. Therefore it must be run before an issue prints it.
pub(super) fn simpler(text: &str, language: &str, parameters: &Parameters) -> Vec<String> {
    let Some(whole) = inline(text, language, parameters) else { return Vec::new() };
    let sources = match language {
        "cpp" => vec![cpp::without_phases(text), text.to_owned()],
        _ => vec![text.to_owned()],
    };
    let mut texts = Vec::new();
    for values in [Values::Flat, Values::Listed, Values::Any] {
        for source in &sources {
            let text = inline_for(source, language, parameters, values);
            let buffered = text.as_deref().filter(|_| language == "cpp");
            texts.extend(buffered.map(cpp::with_buffered_output));
            texts.extend(text);
        }
    }
    let mut seen = BTreeSet::new();
    texts.retain(|text| text.len() < whole.len() && seen.insert(text.clone()));
    texts
}

/// Kinds of values that the checks of a program compare.
#[derive(Clone, Copy)]
enum Values {
    /// Numbers, arrays, nested lists and dictionaries; in C++ also statuses of hipRTC.
    Any,
    /// In Python, lists and tuples; a check of other values raises an exception, or fails. In C++, numbers and statuses
    /// of HIP; a program with other values does not compile.
    Flat,
    /// In Python, lists and tuples, and arrays that become lists. In C++ the same as `Flat`.
    Listed,
}

fn inline_for(
    text: &str,
    language: &str,
    parameters: &Parameters,
    values: Values,
) -> Option<String> {
    match language {
        _ if !text.contains(HELPER) => Some(text.to_owned()),
        "python" => python::inline(text, parameters, values),
        "cpp" => cpp::inline(text, parameters, values),
        _ => None,
    }
}

/// Returns the `#include` lines of a C++ program for those of the helper's headers that the program does not need.
pub(super) fn unused_headers(text: &str) -> Vec<String> {
    cpp::unused_headers(text)
}

/// The plain version of the helper in one language, read from `plain.py` or `plain.h`.
struct PlainHelper {
    /// Lines before the first section.
    head: &'static str,
    /// Name and text of each section, in the order in which they are printed.
    parts: Vec<(&'static str, String)>,
}

impl PlainHelper {
    /// Splits a plain version of the helper into sections, at the lines that begin with `mark` followed by the name of
    /// a section.
    fn parse(text: &'static str, mark: &str) -> PlainHelper {
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
        PlainHelper { head, parts }
    }

    fn has_part(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, _)| *part == name)
    }

    /// Returns the named sections and those on which they depend, without the head. `mentions` returns true if a text
    /// mentions the section of that name.
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

/// Returns the axis values as the content of an initializer in braces. `pair` formats each name and value.
fn initializer(parameters: &Parameters, pair: impl Fn(Value, Value) -> String) -> String {
    let pairs = parameters.iter();
    let pairs = pairs.map(|(name, value)| pair(name.as_str().into(), value.as_str().into()));
    pairs.collect::<Vec<_>>().join(", ")
}

/// Returns the offset of the end of the last line that begins with one of `words`. The search begins at `start`, and
/// stops at the first line that is neither blank nor begins with one of the words.
fn end_of_imports(text: &str, start: usize, words: &[&str]) -> usize {
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

/// Returns the arguments of a call. `text` begins after the opening bracket.
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
