//! Redacts words of command lines that contain quotes, backslashes or unusual characters, so that a shell needs several
//! kinds of quoting: `'A='\''x'\'`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A word of several pieces, as [`shell::quote`] writes it.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let piece = r#"(?:'[^']*'|\\['\\$]|"\$\(printf '(?:\\[0-7]{3})+'\)")"#;
    Regex::new(&format!("{piece}{piece}+")).ok()
});

/// Applies a function to a text, and separately to each word that is quoted in several pieces. A word that the function
/// does not change stays as it is.
pub(super) fn separately(text: &str, redact: &impl Fn(&str) -> String) -> String {
    // While the text is redacted, each word is replaced by a mark that does not occur in the text.
    let mark = ('\u{e000}'..='\u{f8ff}').find(|mark| !text.contains(*mark));
    let (Some(pattern), Some(mark)) = (WORD.as_ref().filter(|_| text.contains('\'')), mark) else {
        return redact(text);
    };
    let mut words = Vec::new();
    let without = pattern.replace_all(text, |found: &Captures| {
        let whole = &found[0];
        let Some(word) = plain(whole) else { return whole.to_owned() };
        let redacted = separately(&word, redact);
        let is_same = redacted == word;
        words.push(if is_same { whole.to_owned() } else { shell::quote(&redacted) });
        format!("{mark}{}{mark}", words.len() - 1)
    });
    let redacted = redact(&without);
    let words = words.iter().enumerate();
    words.fold(redacted, |text, (n, word)| text.replace(&format!("{mark}{n}{mark}"), word))
}

/// Returns the word that a shell reads. `None` if that word is not valid UTF-8, or if its quoting has another form.
fn plain(word: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\'' => {
                let (text, after) = after.split_once('\'')?;
                out.extend_from_slice(text.as_bytes());
                after
            }
            '\\' => {
                let escaped = after.chars().next()?;
                out.extend_from_slice(escaped.to_string().as_bytes());
                &after[escaped.len_utf8()..]
            }
            _ => {
                let (octal, after) = after.strip_prefix("$(printf '")?.split_once("')\"")?;
                let bytes = octal.split('\\').skip(1).map(|code| u8::from_str_radix(code, 8).ok());
                out.extend(bytes.collect::<Option<Vec<u8>>>()?);
                after
            }
        };
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::{Identity, redact};

    #[test]
    fn words_are_read_as_a_shell_does() {
        for word in ["it's", r"C:\Users\x", "a\u{1b}[31mb", "a–'$x", "''", "x'\n\\'y"] {
            assert_eq!(plain(&shell::quote(word)).as_deref(), Some(word));
        }
    }

    #[test]
    fn private_values_go_from_quoted_words() {
        for (word, expected) in [
            ("os.environ['HIP_X'] = 'hunter2'", "os.environ['HIP_X'] = '<value>'"),
            ("connect(password='hunter2', n=1)", "connect(password='<secret>', n=1)"),
            (r"C:\Users\hunter2\x.py", r"~\x.py"),
            (r#"{"a": "it's", "token": "hunter2"}"#, r#"{"a": "it's", "token": "<secret>"}"#),
        ] {
            let line = format!("doesn't run: python3 a.py {} b", shell::quote(word));
            let expected = format!("doesn't run: python3 a.py {} b", shell::quote(expected));
            assert_eq!(redact(&line, &Identity::default()), expected);
        }
        let option = r"x --password 'it'\''s hunter2' --n 'it'\''s'";
        let expected = r"x --password <secret> --n 'it'\''s'";
        assert_eq!(redact(option, &Identity::default()), expected);
        let harmless = r"python3 -c 'print('\''it'\''s fine'\'')' doesn't 'a'\\'b'";
        assert_eq!(redact(harmless, &Identity::default()), harmless);
    }
}
