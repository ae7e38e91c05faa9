//! Removes personal data and the names of machines from a text.

mod fields;
mod forms;
mod keys;
pub(super) mod names;
mod paths;
mod people;
mod program;
mod quoted_words;
mod source;
mod values;
mod xml;

pub use program::redact_program;
pub(super) use program::redact_program_block;
pub use source::Syntax;

use super::variables;

/// Names and values of one machine and its users that must not be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Login name of the user.
    pub user: String,
    /// Host name of the machine, with or without a domain.
    pub host: String,
    /// Folders of the user, each with the text that replaces it: `~` for the home folder, `$XDG_CACHE_HOME` for the
    /// folder in that variable.
    pub folders: Vec<(String, String)>,
    /// Serial numbers and other ids of the machine's hardware.
    pub serials: Vec<String>,
    /// Other login names of the same person, such as the one before `sudo`.
    pub users: Vec<String>,
    /// Private values of options such as `--env`, with which trials were run.
    pub values: Vec<String>,
}

/// Words that replace private values in a text, without the angle brackets around them.
pub(super) const WORDS: [&str; 11] =
    ["host", "ip", "key", "mac", "mail", "path", "secret", "serial", "user", "uuid", "value"];

/// Minimum length, in bytes, of values and serial numbers that are replaced. Shorter ones occur in ordinary words.
const SHORTEST: usize = 4;

/// Replaces private values in a text by words in angle brackets: values of fields that have a private name (`fields`),
/// values that have a private form (`forms`), and the names in `who`. Versions, build ids and PCI addresses are kept,
/// because maintainers need them.
///
/// Only words are replaced, so the lines and their layout do not change. A PEM block becomes one word.
pub fn redact(text: &str, who: &Identity) -> String {
    redact_patterns(&redact_values(text, who), who)
}

/// Replaces the values and serial numbers in `who`, however they are escaped or quoted. This must come first, because
/// other steps may change how a value is written.
pub(super) fn redact_values(text: &str, who: &Identity) -> String {
    people::with_patterns(who, |known| known.values.replaced(text))
}

/// Returns true if a JSON number is one of the private values in `who`.
pub(super) fn is_value(number: &serde_json::Number, who: &Identity) -> bool {
    people::with_patterns(who, |known| known.values.has_number(number))
}

/// Replaces everything that [`redact`] replaces, except the values and serial numbers in `who`.
pub(super) fn redact_patterns(text: &str, who: &Identity) -> String {
    // In a word that is quoted for a shell, quotes and backslashes are escaped, so patterns would not match. Such words
    // are therefore redacted separately.
    quoted_words::separately(&without_colours(text), &|text| {
        let text = fields::fields(&xml::xml(&keys::keys(text)));
        let text = people::with_patterns(who, |known| {
            // Addresses and paths may contain names, so they are replaced before the names.
            known.names(&forms::forms(&known.folders(&text)))
        });
        paths::paths(&variables::assignments(&text))
    })
}

/// Removes terminal colour codes, and the byte order mark at the beginning of a file. They could hide the beginning of
/// a path or name that directly follows them.
fn without_colours(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    match text.contains("\u{1b}[") {
        true => anstream::adapter::strip_str(text).to_string(),
        false => text.to_owned(),
    }
}

/// Replaces private fields, forms and folders in a whole program, after its comments and string literals were redacted.
pub(super) fn redact_code(text: &str, who: &Identity) -> String {
    let text = fields::fields(&xml::xml(&keys::keys(text)));
    people::with_patterns(who, |known| forms::forms(&known.folders(&text)))
}

/// Replaces private values in the name of a case or kernel. Only known names, values and paths are replaced, not words
/// with a private form: `a/x.local` is not a machine.
pub(super) fn redact_name(text: &str, who: &Identity) -> String {
    let text = people::with_patterns(who, |known| {
        known.names(&known.folders(&known.values.replaced(text)))
    });
    paths::paths(&text)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod rows;
