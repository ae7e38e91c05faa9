//! Removes personal data and machine names from a text.

mod fields;
mod forms;
mod keys;
pub(super) mod names;
mod people;
mod xml;

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

/// Length in bytes from which values and serial numbers are replaced. Shorter ones occur in ordinary words.
const SHORTEST: usize = 4;

/// Replaces private values by words in angle brackets: those of fields with a private name (`fields`), those of a
/// private form (`forms`), and the names in `who`. Versions, build ids and PCI addresses stay, because maintainers
/// need them.
///
/// Only words are replaced, so lines and layout stay; a PEM block becomes one word.
pub fn redact(text: &str, who: &Identity) -> String {
    let mut text = text.to_owned();
    for serial in who.serials.iter().filter(|s| s.len() >= SHORTEST) {
        text = text.replace(serial.as_str(), "<serial>");
    }
    let mut values: Vec<&str> = who.values.iter().flat_map(|value| value.lines()).collect();
    values.retain(|value| value.len() >= SHORTEST);
    // A value may contain another one, so the longest is replaced first.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        text = text.replace(value, "<value>");
    }
    let text = fields::fields(&xml::xml(&keys::keys(&text)));
    people::known(who, |known| {
        // Addresses may contain names, so they are replaced first.
        known.names(&forms::forms(&known.folders(&text)))
    })
}

/// Replaces private values in the name of a case or kernel. Its form decides nothing: `a/x.local` is not a machine.
pub(super) fn redact_name(text: &str, who: &Identity) -> String {
    people::known(who, |known| known.names(&known.folders(text)))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod rows;
