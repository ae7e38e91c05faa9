//! Fits lines into the width of a terminal.

use std::os::fd::AsFd;

/// Minimum width of a terminal, in columns, for which lines are broken.
const NARROWEST: usize = 40;

/// Indentation of a continuation line, in columns, if the line contains no table column with which it could be aligned.
const INDENT: usize = 4;

/// Returns the width in columns of the terminal that a stream writes to. Returns `None` if the stream is not a terminal
/// or the terminal is narrower than [`NARROWEST`].
pub(crate) fn columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= NARROWEST)
}

/// Breaks lines that are wider than `columns` between words. A continuation line is aligned with the last table column
/// of its line. Text in backquotes and commands are not broken, so that they can be copied.
pub(crate) fn wrap(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let line = |line: &str| {
        if width(line, 0) <= columns { line.to_owned() } else { break_line(line, columns) }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn break_line(line: &str, columns: usize) -> String {
    let words = words(line);
    let indent = indent(&words, columns);
    let (mut text, mut column) = (String::new(), 0);
    for (number, (gap, word)) in words.iter().enumerate() {
        let (start, length) = (width(gap, column), width(word, 0));
        if number == 0 || start + length <= columns || column <= INDENT {
            text.push_str(gap);
            column = start + length;
        } else {
            let indent = if indent + length <= columns { indent } else { INDENT };
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent + length;
        }
        text.push_str(word);
    }
    text
}

/// Returns the indentation of continuation lines: the last table column that starts in the first two thirds of the
/// width, or else the line's own indentation and [`INDENT`] more.
fn indent(words: &[(&str, &str)], columns: usize) -> usize {
    let mut column = 0;
    let mut indent = None;
    for (number, (gap, word)) in words.iter().enumerate() {
        let start = width(gap, column);
        if number > 0 && gap.len() > 1 && start <= columns * 2 / 3 {
            indent = Some(start);
        }
        column = start + width(word, 0);
    }
    let own = words.first().map_or(0, |(gap, _)| width(gap, 0));
    indent.unwrap_or(own + INDENT)
}

/// Splits a line into words, each with the space before it.
fn words(line: &str) -> Vec<(&str, &str)> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.trim_start_matches([' ', '\t']);
        let (gap, word) = rest.split_at(rest.len() - word.len());
        let is_command = word.starts_with("rocrepro ");
        let mut quoted = false;
        let end = word.find(|char| {
            quoted ^= char == '`';
            matches!(char, ' ' | '\t') && !quoted && !is_command
        });
        // A backquote that is not followed by another one does not begin a quotation.
        let end = match end {
            None if quoted => word.find([' ', '\t']),
            end => end,
        };
        let (word, after) = word.split_at(end.unwrap_or(word.len()));
        words.push((gap, word));
        rest = after;
    }
    words
}

/// Returns the column after a text that starts at column `start`. Styles have no width.
fn width(text: &str, start: usize) -> usize {
    let (mut column, mut in_style) = (start, false);
    for char in text.chars() {
        match char {
            '\u{1b}' => in_style = true,
            'm' if in_style => in_style = false,
            _ if in_style => {}
            '\t' => column = (column / 8 + 1) * 8,
            _ => column += 1,
        }
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, lines: &[&str]) {
        assert_eq!(wrap(text, Some(40)), lines.join("\n"));
        assert_eq!(wrap(text, None), text);
    }

    #[test]
    fn lines_break_between_words_below_the_last_column() {
        check("short", &["short"]);
        check(
            "copies/sizes    12  Copies of many sizes arrive whole\nnext",
            &[
                "copies/sizes    12  Copies of many sizes",
                "                    arrive whole",
                "next",
            ],
        );
        check(
            "  a sentence that is indented and too long for it",
            &["  a sentence that is indented and too", "      long for it"],
        );
        // Continuation lines are not aligned with a column near the right edge, because too little room would be left.
        check(
            "graphs/a-very-long-name-of-a-case     3  The title of it",
            &["graphs/a-very-long-name-of-a-case     3", "    The title of it"],
        );
        check(
            "a/b\tshown\tsome/case\tapi-error:hipMemcpy:x",
            &["a/b\tshown\tsome/case", "    api-error:hipMemcpy:x"],
        );
    }

    #[test]
    fn quoted_words_and_commands_stay_whole() {
        check(
            "  run it    rocrepro run 'copies/small-sizes[bytes=2]' --trials",
            &["  run it", "    rocrepro run 'copies/small-sizes[bytes=2]' --trials"],
        );
        check(
            "not fetched; `rocrepro stack fetch X` does that",
            &["not fetched; `rocrepro stack fetch X`", "    does that"],
        );
        check(
            "not fetched yet; `rocrepro stack fetch X` does",
            &["not fetched yet;", "    `rocrepro stack fetch X` does"],
        );
        check(
            "one ` alone, and then some more words here",
            &["one ` alone, and then some more words", "    here"],
        );
    }

    #[test]
    fn styles_have_no_width() {
        let bold = "\u{1b}[1mforty\u{1b}[0m columns are just enough for this one";
        let (first, one) = bold.rsplit_once(' ').expect("it has words");
        check(bold, &[first, &format!("{:INDENT$}{one}", "")]);
        let narrow = "\u{1b}[1m0123456789012345678901234567890123456789\u{1b}[0m";
        check(narrow, &[narrow]);
    }
}
