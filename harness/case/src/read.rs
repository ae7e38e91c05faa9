//! Reads YAML nodes as typed values. Each function reports the mistakes in its node, and reading continues.

use std::{fmt::Display, str::FromStr};

use plan::{ByVersion, VersionRange};

use crate::{
    Diagnostic, SourceSpan,
    case_keys::DEVICE_NEEDS,
    diagnostic::suggest,
    expression::evaluate,
    hints,
    yaml::{Key, Node, Value},
};

#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) mistakes: Vec<Diagnostic>,
}

/// Entries of a mapping whose keys have been checked.
pub(crate) struct Fields<'n> {
    pub(crate) at: SourceSpan,
    entries: &'n [(Key, Node)],
    /// Values of misspelt keys, under the key that the user probably meant. A misspelt key is therefore reported only
    /// once, not also as a missing key, and its value is checked, too.
    misspelt: Vec<(String, &'n Node)>,
}

impl<'n> Fields<'n> {
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        let given = self.entries.iter().find(|(k, _)| k.text == key).map(|(_, node)| node);
        given.or_else(|| self.misspelt.iter().find(|(k, _)| k == key).map(|(_, node)| *node))
    }
}

impl Reader {
    pub(crate) fn mistake(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.mistakes.push(Diagnostic { at, message: message.into(), help: None });
    }

    pub(crate) fn mistake_with_help(
        &mut self,
        at: SourceSpan,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.mistakes.push(Diagnostic { at, message: message.into(), help });
    }

    /// Reads a mapping, and reports keys that are not in `known`. `what` is the name of the mapping in messages.
    /// Returns `None` if the node is not a mapping.
    pub(crate) fn fields<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&str],
    ) -> Option<Fields<'n>> {
        let entries = self.entries(node, what)?;
        let mut misspelt = Vec::new();
        for (key, value) in hints::without_rest_of_parentheses(entries) {
            if known.contains(&key.text.as_str()) {
                continue;
            }
            let meant = hints::key_meant(&key.text, known);
            let help = match meant {
                Some(meant) => Some(format!("did you mean `{meant}`?")),
                None if what == "a case" => hints::key_of_case(&key.text).map(str::to_owned),
                None if what == "`needs`" && DEVICE_NEEDS.contains(&key.text.as_str()) => {
                    Some(format!("write `needs: {{device: {{{}: ...}}}}`", key.text))
                }
                None => hints::key_of_a_step(&key.text)
                    .map(|of_step| {
                        format!(
                            "`{of_step}` is a key of the step: write it on a line of its own, in the column of the verb"
                        )
                    })
                    .or_else(|| hints::key_of_fault(what, &key.text, value)),
            };
            let help = help.or_else(|| suggest(&key.text, known.iter().copied()));
            self.mistake_with_help(key.at, format!("{what} has no `{}`", key.text), help);
            misspelt.extend(meant.map(|meant| (meant.to_owned(), value)));
        }
        Some(Fields { at: node.at, entries, misspelt })
    }

    pub(crate) fn entries<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [(Key, Node)]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            Value::List(_) | Value::Scalar(_) => {
                let message = format!("{what} must be a mapping (`key: value`)");
                self.mistake_with_help(node.at, message, hints::forms::mapping(what));
                None
            }
        }
    }

    pub(crate) fn required<'n>(
        &mut self,
        fields: &Fields<'n>,
        what: &str,
        key: &str,
    ) -> Option<&'n Node> {
        let node = fields.get(key);
        if node.is_none() {
            let help = hints::forms::missing(what, key);
            self.mistake_with_help(fields.at, format!("{what} needs `{key}`"), help);
        }
        node
    }

    pub(crate) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            // Text with a zero byte is rejected, because C functions would cut off the text at that byte.
            Value::Scalar(text) if !text.is_empty() && !text.contains('\0') => Some(text),
            Value::Scalar(text) if text.is_empty() => {
                self.mistake(node.at, format!("{what} must not be empty"));
                None
            }
            Value::Map(_) | Value::List(_) | Value::Scalar(_) => {
                let message = format!("{what} must be text");
                self.mistake_with_help(node.at, message, hints::forms::text(what));
                None
            }
        }
    }

    /// Returns the items of a list. A single value is returned as a list with one item.
    pub(crate) fn list<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.value {
            Value::List(items) => items,
            Value::Map(_) | Value::Scalar(_) => std::slice::from_ref(node),
        }
    }

    pub(crate) fn number(&mut self, node: &Node, what: &str) -> Option<u64> {
        let text = self.text(node, what)?;
        evaluate(text)
            .map_err(|e| {
                let message = format!("{what} must be a whole number: {e}");
                self.mistake_with_help(node.at, message, Some(hints::number(text)));
            })
            .ok()
    }

    /// Checks a name that the case gives to an object such as a buffer. `what` describes the object in messages.
    pub(crate) fn name(&mut self, at: SourceSpan, name: &str, what: &str) {
        let letters = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(letters) {
            let message = "begins with a letter and has letters, digits, `_`, `-` and `.`";
            self.mistake(at, format!("the name of {what} {message}"));
        }
        // YAML parsers and editors read `null`, `true` and `false` as values that are not text.
        if ["null", "true", "false"].iter().any(|word| word.eq_ignore_ascii_case(name)) {
            self.mistake(at, format!("{what} cannot be called `{name}`"));
        }
    }

    pub(crate) fn number32(&mut self, node: &Node, what: &str) -> Option<u32> {
        let value = self.number(node, what)?;
        u32::try_from(value)
            .map_err(|_| self.mistake(node.at, format!("{what} is too large: {value}")))
            .ok()
    }

    pub(crate) fn flag(&mut self, node: &Node, what: &str) -> Option<bool> {
        self.choice(node, what, &[("true", true), ("false", false)])
    }

    /// Reads a value that must be one of the given keywords, and returns the value that the keyword denotes.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        node: &Node,
        what: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node, what)?;
        let found = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let words = choices.iter().map(|(word, _)| *word);
            let help = match hints::forms::keyword(text, words.clone()) {
                Some(word) => Some(format!("did you mean `{word}`?")),
                None => suggest(text, words),
            };
            self.mistake_with_help(node.at, format!("{what} cannot be `{text}`"), help);
        }
        found
    }

    /// Reads a value by parsing it as `T`. If parsing fails, the error of the parser is the message.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(
        &mut self,
        node: &Node,
        what: &str,
    ) -> Option<T> {
        self.text(node, what)?
            .parse()
            .map_err(|e: T::Err| self.mistake(node.at, e.to_string()))
            .ok()
    }

    /// Reads a range of versions, and reports versions that no release has.
    pub(crate) fn versions(&mut self, at: SourceSpan, text: &str) -> Option<VersionRange> {
        let range = match text.parse::<VersionRange>() {
            Ok(range) => range,
            Err(error) => {
                self.mistake(at, error.to_string());
                return None;
            }
        };
        if let Some(found) = range.nonexistent() {
            self.mistake_with_help(at, found.message, Some(found.hint));
        }
        Some(range)
    }

    /// Reads `value`, `[value, ...]`, or a mapping from version ranges to either form.
    pub(crate) fn by_version(&mut self, node: &Node, what: &str) -> Option<ByVersion<Vec<String>>> {
        let Value::Map(entries) = &node.value else {
            return Some(ByVersion::always(self.texts(node, what)));
        };
        if entries.is_empty() {
            self.mistake(node.at, format!("{what} has no values"));
        }
        let mut ranges: Vec<(VersionRange, Vec<String>)> = Vec::new();
        for (key, value) in entries {
            let Some(range) = self.versions(key.at, &key.text) else { continue };
            if let Some((other, _)) = ranges.iter().find(|(other, _)| other.overlaps(&range)) {
                self.mistake(key.at, format!("`{range}` and `{other}` overlap"));
            }
            ranges.push((range, self.texts(value, what)));
        }
        let all = ranges.iter().map(|(range, _)| range);
        if let Some(gap) = all.clone().find_map(|range| range.gap_after(all.clone())) {
            let message =
                format!("{what} says nothing for ROCm {gap}, where anything would be right");
            let help = "close the gap between the ranges; `any` accepts every result".to_owned();
            self.mistake_with_help(node.at, message, Some(help));
        }
        Some(ByVersion(ranges))
    }

    pub(crate) fn texts(&mut self, node: &Node, what: &str) -> Vec<String> {
        let items = self.list(node);
        if items.is_empty() {
            self.mistake(node.at, format!("{what} has no values"));
        }
        items.iter().filter_map(|item| self.text(item, what).map(str::to_owned)).collect()
    }
}
