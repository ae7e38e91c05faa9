//! Redacts keys in PEM blocks, and public keys in the format of RFC 4716.

use std::sync::LazyLock;

use regex::Regex;

#[allow(clippy::expect_used)]
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-{4,5} ?(BEGIN |END )[^\n-]{0,60}(?:-{4,5})?").expect("a valid pattern")
});

/// Replaces each PEM key block in a text. If the beginning or the end of a block was cut off, replaces the lines that
/// can belong to the block.
pub(super) fn keys(text: &str) -> String {
    let marks: Vec<_> = MARK
        .captures_iter(text)
        .filter_map(|found| Some((found.get(0)?.range(), found.get(1)?.as_str() == "BEGIN ")))
        .collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut marks = marks.into_iter().peekable();
    while let Some((mark, begins)) = marks.next() {
        // A block whose end was cut off may have been extended over this mark.
        if mark.start < at {
            continue;
        }
        let (start, end) = if !begins {
            (mark.start - body_before(&text[at..mark.start]), mark.end)
        } else if let Some((end, _)) = marks.next_if(|(_, begins)| !begins) {
            (mark.start, end.end)
        } else {
            (mark.start, mark.end + body_after(line_before(text, mark.start), &text[mark.end..]))
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

/// Returns the part of a line that precedes a position.
fn line_before(text: &str, at: usize) -> &str {
    &text[text[..at].rfind('\n').map_or(0, |start| start + 1)..at]
}

/// Returns how many of the bytes before an end mark belong to the key, if the beginning of the key was cut off.
fn body_before(text: &str) -> usize {
    // The last line is the beginning of the line with the mark, such as a log's prefix.
    let (rest, last) = text.split_at(text.rfind('\n').map_or(0, |at| at + 1));
    let mut lines = rest.split_inclusive('\n').rev().peekable();
    // The last line of a key may have any length.
    let short = lines.next_if(|line| is_short_part(line, last)).map_or(0, str::len);
    let part = |line: &&str| is_part(line) && !line.trim().is_empty();
    let body = short + lines.take_while(part).map(str::len).sum::<usize>();
    if body == 0 { inline_body(last) } else { body + last.len() }
}

/// Returns the length of the base64 text at the end of a line. It may contain escaped line ends.
fn inline_body(line: &str) -> usize {
    let part = |c: char| c.is_ascii_alphanumeric() || "+/=\\ ".contains(c);
    let length = line.len() - line.trim_end_matches(part).len();
    if length > 30 { length } else { 0 }
}

/// Maximum number of header lines, such as `Comment: x`, at the beginning of a key.
const REMARKS: usize = 8;

/// Returns how many of the bytes after a begin mark belong to the key, if the end of the key was cut off. `before` is
/// the text before the mark in its line.
fn body_after(before: &str, text: &str) -> usize {
    let first = text.split_inclusive('\n').next().unwrap_or_default().len();
    let mut lines = text[first..].split_inclusive('\n').peekable();
    // Header lines belong to the key only if lines of the key follow.
    let is_remark = |line: &&str| {
        let line = line.trim_end();
        !is_long_part(line) && (line.is_empty() || line.contains(": ") || line.ends_with('\\'))
    };
    let remarks = lines.clone().take(REMARKS).take_while(is_remark).count();
    let begins = lines.clone().nth(remarks).is_some_and(is_long_part);
    let remarks = if begins { remarks } else { 0 };
    let mut length = first + lines.by_ref().take(remarks).map(str::len).sum::<usize>();
    let mut previous = before;
    while let Some(line) = lines.next_if(|line| is_part(line)) {
        length += line.len();
        previous = if line.trim().is_empty() { previous } else { line };
    }
    // The last line of a key may have any length.
    length + lines.next_if(|line| is_short_part(line, previous)).map_or(0, str::len)
}

/// Splits off the prefix that a log puts in front of a line. Returns the prefix without its digits, and the rest of the
/// line.
fn split_prefix(line: &str) -> (String, &str) {
    let line = line.trim_end_matches(['\n', '\r']);
    let body = line.trim_end_matches(['"', ',', '\'', ' ']).trim_end_matches("\\n");
    let at = body.rfind([' ', '\t', '"', '\'', '>', '|']).map_or(0, |at| at + 1);
    (line[..at].replace(|c: char| c.is_ascii_digit(), ""), &body[at..])
}

fn is_base64(word: &str) -> bool {
    word.chars().all(|c: char| c.is_ascii_alphanumeric() || "+/=".contains(c))
}

/// Returns true if the line may be the last line of a key: base64 of any length, after the same prefix as in the
/// adjacent line `beside` of the key.
fn is_short_part(line: &str, beside: &str) -> bool {
    let ((prefix, word), (expected, _)) = (split_prefix(line), split_prefix(beside));
    // If the adjacent line is that of the mark, the whole text before the mark is the prefix.
    let is_same = prefix == expected || prefix == beside.replace(|c: char| c.is_ascii_digit(), "");
    is_same && !word.is_empty() && is_base64(word)
}

/// Returns true if the line may be a line of a key, but not the short last one: more than 30 characters of base64,
/// perhaps after the prefix of a log.
fn is_long_part(line: &str) -> bool {
    let (_, word) = split_prefix(line);
    word.len() > 30 && is_base64(word)
}

/// Returns true if the line may belong to a key or to its header. A log may have put a prefix in front of it.
fn is_part(line: &str) -> bool {
    line.trim_end_matches(['\n', '\r']).is_empty()
        || line.contains("Proc-Type:")
        || line.contains("DEK-Info:")
        || is_long_part(line)
}
