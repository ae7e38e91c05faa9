//! Quotes the words of a command line so that people can paste it into their shell.

use std::fmt::Write;

/// Splits a command line into words as a shell does, without any expansion.
pub use shell_words::split;

/// Joins words into a command line that [`split`] splits into the same words. A shell may read this command line
/// differently. For a shell, use [`join`].
pub use shell_words::join as unsplit;

/// Returns a word quoted so that bash, dash, zsh and fish read exactly this word. This is also true if the result is
/// pasted into an interactive shell, and if a program that escapes control characters has printed it.
///
/// * Only words that consist of ASCII letters, digits and `-_/.,:@+` are not quoted. In quotes, no shell expands `!`,
///   `{a,b}`, `~`, `*` or `=command`.
/// * Single quotes and backslashes are written outside of the quotes, because fish interprets a backslash inside single
///   quotes.
/// * Control characters, and all characters outside of ASCII that are neither a letter nor a digit, are written as
///   calls of `printf`, because a terminal would interpret them, and some hide or reorder text. A newline is written
///   unchanged, because `$(...)` would remove it at the end.
pub fn quote(word: &str) -> String {
    if !word.is_empty() && word.chars().all(is_safe) {
        return word.to_owned();
    }
    if word.is_empty() {
        return "''".to_owned();
    }
    let mut out = String::with_capacity(word.len() + 2);
    let (mut before, mut printed) = (None, false);
    for c in word.chars() {
        let style = match Style::for_char(c) {
            // If `"$(...)"` precedes single quotes in a word, fish 3.6 looks for variables even inside the single
            // quotes.
            Style::Quoted if c == '$' && printed => Style::Escaped,
            style => style,
        };
        printed |= style == Style::Printed;
        if before != Some(style) {
            out.push_str(before.map_or("", Style::close));
            out.push_str(style.open());
            before = Some(style);
        }
        match style {
            Style::Quoted => out.push(c),
            Style::Escaped => out.extend(['\\', c]),
            Style::Printed => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
        }
    }
    out + before.map_or("", Style::close)
}

/// Returns a command line for a shell. Each word is quoted by [`quote`].
pub fn join<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(|word| quote(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Returns true for characters that no shell interprets at any position in a word.
fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_/.,:@+".contains(c)
}

/// The way in which a character is written in a quoted word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// In single quotes: `'a'`
    Quoted,
    /// After a backslash: `\'`
    Escaped,
    /// As output of printf: `"$(printf '\033')"`
    Printed,
}

impl Style {
    fn for_char(c: char) -> Style {
        match c {
            '\'' | '\\' => Style::Escaped,
            '\n' | ' '..='~' => Style::Quoted,
            c if c.is_alphanumeric() => Style::Quoted,
            _ => Style::Printed,
        }
    }

    fn open(self) -> &'static str {
        match self {
            Style::Quoted => "'",
            Style::Escaped => "",
            Style::Printed => "\"$(printf '",
        }
    }

    fn close(self) -> &'static str {
        match self {
            Style::Quoted => "'",
            Style::Escaped => "",
            Style::Printed => "')\"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_only_what_needs_it() {
        for (word, quoted) in [
            ("copies/a-b_c", "copies/a-b_c"),
            ("debian:7.2.4@x,y+1", "debian:7.2.4@x,y+1"),
            ("", "''"),
            ("a=b", "'a=b'"),
            ("a[n=1]", "'a[n=1]'"),
            ("{a,b}", "'{a,b}'"),
            ("wow!x", "'wow!x'"),
            ("it's", r"'it'\''s'"),
            (r"a\b", r"'a'\\'b'"),
            ("é 中", "'é 中'"),
            ("a\u{1b}[2J", r#"'a'"$(printf '\033')"'[2J'"#),
            ("\u{202e}\t", r#""$(printf '\342\200\256\011')""#),
        ] {
            assert_eq!(quote(word), quoted);
        }
        assert_eq!(quote("\u{1}$x"), r#""$(printf '\001')"\$'x'"#);
        assert_eq!(join(["a", "b c"]), "a 'b c'");
    }

    #[test]
    fn split_reads_words_without_special_characters() {
        for word in ["it's", "a\\b", "", "x!{a,b}~*=", "two\nlines", "'", "\\"] {
            assert_eq!(split(&quote(word)).unwrap(), [word]);
        }
    }
}
