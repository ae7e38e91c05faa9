//! Redaction of keys in PEM and of public keys in the format of RFC 4716.

use std::sync::LazyLock;

use regex::Regex;

#[allow(clippy::expect_used)]
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-{4,5} ?(BEGIN |END )[^\n-]{0,60}(?:-{4,5})?").expect("a valid pattern")
});

/// Replaces each block from its beginning to its end. Of a block whose beginning or end was cut off, the lines that can
/// belong to it are replaced.
pub(super) fn keys(text: &str) -> String {
    let marks: Vec<_> = MARK
        .captures_iter(text)
        .filter_map(|found| Some((found.get(0)?.range(), found.get(1)?.as_str() == "BEGIN ")))
        .collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut marks = marks.into_iter().peekable();
    while let Some((mark, begins)) = marks.next() {
        // A block whose end was cut off may reach over further beginnings.
        if mark.start < at {
            continue;
        }
        let (start, end) = if !begins {
            (mark.start - body_before(&text[at..mark.start]), mark.end)
        } else if let Some((end, _)) = marks.next_if(|(_, begins)| !begins) {
            (mark.start, end.end)
        } else {
            (mark.start, mark.end + body_after(&text[mark.end..]))
        };
        out.push_str(&text[at..start]);
        out.push_str("<secret>");
        at = end;
        if text[start..end].ends_with('\n') {
            out.push('\n');
        }
    }
    out + &text[at..]
}

/// Returns the length of the lines of a key before its end.
fn body_before(text: &str) -> usize {
    // The last line holds what precedes the mark itself, such as a prefix.
    let (rest, last) = text.split_at(text.rfind('\n').map_or(0, |at| at + 1));
    let lines: Vec<&str> = rest.split_inclusive('\n').collect();
    let part = |line: &&&str| is_part(line) && !line.trim().is_empty();
    let body: usize = lines.iter().rev().take_while(part).map(|line| line.len()).sum();
    if body == 0 { inline_body(last) } else { body + last.len() }
}

/// Returns the length of the end of a line that is base64, also with escaped ends of lines.
fn inline_body(line: &str) -> usize {
    let part = |c: char| c.is_ascii_alphanumeric() || "+/=\\ ".contains(c);
    let length = line.len() - line.trim_end_matches(part).len();
    if length > 30 { length } else { 0 }
}

/// Returns the length of the rest of the line that begins a key and of the lines of the key after it.
fn body_after(text: &str) -> usize {
    let first = text.split_inclusive('\n').next().unwrap_or_default().len();
    let lines = text.split_inclusive('\n').skip(1);
    first + lines.take_while(|line| is_part(line)).map(str::len).sum::<usize>()
}

/// Returns true for a line of a key: base64, perhaps behind the prefix that a log gives to each line.
fn is_part(line: &str) -> bool {
    let line = line.trim_end_matches(['\n', '\r']);
    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let word = line.trim_end_matches(['"', ',', '\'', ' ']).trim_end_matches("\\n");
    let word = word.rsplit([' ', '\t', '"', '\'', '>', '|']).next().unwrap_or_default();
    line.is_empty()
        || line.contains("Proc-Type:")
        || line.contains("DEK-Info:")
        || (word.len() > 30 && word.chars().all(base64))
}
