//! Removes personal data and machine names from a text.

mod fields;
mod forms;
pub(super) mod names;

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

/// Login name that identifies no person.
const ROOT: &str = "root";

/// Replaces private values by words in angle brackets: those of fields with a private name (`fields`), those of a
/// private form (`forms`), and the names in `who`. Versions, build ids and PCI addresses stay, because maintainers
/// need them.
///
/// Only words are replaced, so lines and layout stay; a PEM block becomes one word.
pub fn redact(text: &str, who: &Identity) -> String {
    let mut text = text.to_owned();
    for serial in who.serials.iter().filter(|s| s.len() >= 4) {
        text = text.replace(serial.as_str(), "<serial>");
    }
    for value in who.values.iter().filter(|v| v.len() >= 4) {
        text = text.replace(value.as_str(), "<value>");
    }
    text = forms::owners(&fields::fields(&forms::keys(&text)));
    let mut folders: Vec<_> = who.folders.iter().filter(|(folder, _)| folder.len() > 1).collect();
    // A folder may be inside another one, so the longest is replaced first.
    folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
    for (folder, name) in folders {
        text = replace_path(&text, folder.trim_end_matches('/'), name);
    }
    text = forms::machine_lines(&forms::homes(&text));
    // Addresses may contain names, so they are replaced first.
    let (short, domain) = who.host.split_once('.').unwrap_or((&who.host, ""));
    text = each_word(&text, |word| forms::identifying(word, domain));
    let users = std::iter::once(&who.user).chain(&who.users).map(|user| (user.as_str(), "<user>"));
    for (name, word) in [(who.host.as_str(), "<host>"), (short, "<host>")].into_iter().chain(users)
    {
        if !name.is_empty() && name != ROOT && name != "localhost" {
            text = replace_word(&text, name, word);
        }
    }
    text
}

/// Replaces a folder, also at the beginning of longer paths, but not a folder whose name merely starts with the same
/// letters.
fn replace_path(text: &str, folder: &str, name: &str) -> String {
    replace_where(text, folder, name, |before, after| {
        !before.is_some_and(|c| c.is_alphanumeric() || c == '/' || c == '.')
            && !after.is_some_and(|c| c.is_alphanumeric() || "-_.".contains(c))
    })
}

/// Replaces a name if it is a whole word.
fn replace_word(text: &str, name: &str, by: &str) -> String {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    replace_where(text, name, by, |before, after| {
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

fn replace_where(
    text: &str,
    what: &str,
    by: &str,
    stands: impl Fn(Option<char>, Option<char>) -> bool,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for (at, _) in text.match_indices(what) {
        let end = at + what.len();
        if stands(text[..at].chars().next_back(), text[end..].chars().next()) {
            out.push_str(&text[last..at]);
            out.push_str(by);
            last = end;
        }
    }
    out + &text[last..]
}

/// Calls `replaced` with each run of characters that may be part of an address, and inserts the result.
fn each_word(text: &str, replaced: impl Fn(&str) -> Option<String>) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || ".:-_@%+".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find(part).unwrap_or(rest.len());
        let (before, found) = rest.split_at(start);
        let end = found.find(|c| !part(c)).unwrap_or(found.len());
        let (word, after) = found.split_at(end);
        out.push_str(before);
        // Punctuation after a word is not part of it.
        let core = word.trim_end_matches(['.', ':', '-']);
        let core = core.trim_start_matches(['-', '+']);
        let from = word.find(core).unwrap_or(0);
        match replaced(core) {
            Some(by) if !core.is_empty() => {
                out.push_str(&word[..from]);
                out.push_str(&by);
                out.push_str(&word[from + core.len()..]);
            }
            _ => out.push_str(word),
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests;
