//! Removes personal data and machine names from a text.

mod fields;
mod forms;
mod keys;
pub(super) mod names;
mod paths;
mod people;
mod program;
mod source;
mod values;
mod xml;

pub use program::redact_program;
pub(super) use program::redact_program_block;
pub use source::Syntax;

use super::variables;

/// Names that must not be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Login name.
    pub user: String,
    /// Host name, with or without a domain.
    pub host: String,
    /// Folders of the user, each with its replacement: `~` for the home folder, `$XDG_CACHE_HOME` for the folder in
    /// that variable.
    pub folders: Vec<(String, String)>,
    /// Serial numbers and other ids of the machine's hardware.
    pub serials: Vec<String>,
    /// Other login names of the same person, such as the one before `sudo`.
    pub users: Vec<String>,
    /// Private values that were passed to a run.
    pub values: Vec<String>,
}

/// Words that replace private values, without their angle brackets.
pub(super) const WORDS: [&str; 11] =
    ["host", "ip", "key", "mac", "mail", "path", "secret", "serial", "user", "uuid", "value"];

/// Length in bytes from which values and serial numbers are replaced. Shorter ones occur in ordinary words.
const SHORTEST: usize = 4;

/// Replaces private values by words in angle brackets: those of fields with a private name (`fields`), those of a
/// private form (`forms`), and the names in `who`. Versions, build ids and PCI addresses stay, because maintainers
/// need them.
///
/// Only words are replaced, so lines and layout stay; a PEM block becomes one word.
pub fn redact(text: &str, who: &Identity) -> String {
    patterns(&values(text, who), who)
}

/// Replaces given values and serial numbers, in each spelling of them. Other rewriting of a text may change a value, so this
/// comes first.
pub(super) fn values(text: &str, who: &Identity) -> String {
    people::known(who, |known| known.values.replaced(text))
}

/// Returns true if a number of JSON is a given value.
pub(super) fn is_value(number: &serde_json::Number, who: &Identity) -> bool {
    people::known(who, |known| known.values.has_number(number))
}

/// Replaces what [`redact`] replaces, except given values.
pub(super) fn patterns(text: &str, who: &Identity) -> String {
    let text = fields::fields(&xml::xml(&keys::keys(text)));
    let text = people::known(who, |known| {
        // Addresses may contain names, so they are replaced first.
        known.names(&forms::forms(&known.folders(&text)))
    });
    paths::paths(&variables::assignments(&text))
}

/// Replaces what [`patterns`] replaces in a program whose comments and texts are redacted.
pub(super) fn code(text: &str, who: &Identity) -> String {
    let text = fields::fields(&xml::xml(&keys::keys(text)));
    people::known(who, |known| forms::forms(&known.folders(&text)))
}

/// Replaces private values in the name of a case or kernel. Its form decides nothing: `a/x.local` is not a machine.
pub(super) fn redact_name(text: &str, who: &Identity) -> String {
    let text =
        people::known(who, |known| known.names(&known.folders(&known.values.replaced(text))));
    paths::paths(&text)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod rows;
