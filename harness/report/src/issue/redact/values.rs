//! Redacts known values, however JSON, XML, Markdown, shells or rocrepro itself escape or quote them.

use std::collections::HashSet;

use judge::without_numbers;
use serde_json::Number;

use super::{Identity, SHORTEST};
use crate::text::visible;

/// Values that are replaced wherever they occur. Longer values come first, because a value may contain another one.
pub(super) struct Values {
    all: Vec<Value>,
    /// True for each byte with which a value can begin, escaped or not.
    begins: [bool; 256],
    /// The values that are numbers.
    numbers: Vec<f64>,
}

struct Value {
    parts: Vec<ValuePart>,
    /// Text that replaces the value.
    word: &'static str,
    any_case: bool,
}

/// One character of a value, or a run of white space.
struct ValuePart {
    /// The character itself; a space for white space.
    plain: char,
    /// Escape sequences for the character.
    escaped: Vec<String>,
    /// True if writers may leave the character out, for example because XML cannot represent it.
    optional: bool,
}

impl Values {
    pub(super) fn from_identity(who: &Identity) -> Values {
        let values = who.values.iter().flat_map(|value| value.lines());
        // Signatures contain these values with their numbers removed.
        let values = values.flat_map(|text| [text.to_owned(), without_numbers(text)]);
        let values: Vec<_> = values.collect();
        let values = values.iter().map(|text| (text.as_str(), "<value>", false));
        let serials = who.serials.iter().map(|text| (text.as_str(), "<serial>", true));
        let mut texts: Vec<_> = values
            .chain(serials)
            .map(|(text, word, any_case)| (text.trim(), word, any_case))
            .filter(|(text, ..)| text.len() >= SHORTEST && text.contains(|c| !"#.-".contains(c)))
            .collect();
        texts.sort_by(|(one, ..), (other, ..)| other.len().cmp(&one.len()).then(one.cmp(other)));
        texts.dedup();
        let numbers = texts.iter().filter_map(|(text, ..)| text.parse().ok()).collect();
        let all = texts.into_iter().map(|(text, word, any_case)| Value::new(text, word, any_case));
        let all: Vec<Value> = all.collect();
        let mut begins = [false; 256];
        for byte in [b'&', b'\\', b'%', b'<', b'\''] {
            begins[usize::from(byte)] = true;
        }
        for c in all.iter().filter_map(|value| value.parts.first()).map(|part| part.plain) {
            for c in c.to_lowercase().chain(c.to_uppercase()).chain([c]) {
                begins[usize::from(c.encode_utf8(&mut [0; 4]).as_bytes()[0])] = true;
            }
        }
        Values { all, begins, numbers }
    }

    /// Replaces all occurrences of the values in a string.
    pub(super) fn replaced(&self, text: &str) -> String {
        if self.all.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        // End of the text that has been copied, and current position of the search.
        let (mut done, mut at) = (0, 0);
        while at < text.len() {
            if !self.begins[usize::from(text.as_bytes()[at])] || !text.is_char_boundary(at) {
                at += 1;
                continue;
            }
            let rest = &text[at..];
            if let Some(word) = ["<value>", "<serial>"].iter().find(|word| rest.starts_with(**word))
            {
                at += word.len();
                continue;
            }
            let found = self.all.iter().find_map(|value| Some((value, value.match_end(text, at)?)));
            let Some((value, end)) = found else {
                at += 1;
                continue;
            };
            // If the value begins with an escaped character, the backslashes before it are replaced too.
            let before = &text[done..at];
            let plain = value.parts.first().is_some_and(|part| part.plain.is_alphanumeric());
            out.push_str(if plain { before } else { before.trim_end_matches('\\') });
            out.push_str(value.word);
            out.push_str(quote_left_open(&text[at..end], value));
            (done, at) = (end, end);
        }
        out + &text[done..]
    }

    /// Returns true if a JSON number equals a value, apart from its sign.
    pub(super) fn has_number(&self, number: &Number) -> bool {
        let number = number.as_f64().map(f64::abs);
        number.is_some_and(|number| self.numbers.iter().any(|value| value.abs() == number))
    }
}

/// Returns the quote that must follow the replacement of a value, so that the number of shell quotes stays even.
/// `spelling` is the text that is replaced.
fn quote_left_open(spelling: &str, value: &Value) -> &'static str {
    let own = value.parts.iter().filter(|part| "'`".contains(part.plain)).count();
    let found = spelling.matches('\'').count();
    let escaped = spelling.matches("\\'").count();
    if found > own && (found - escaped) % 2 == 1 { "'" } else { "" }
}

impl Value {
    fn new(text: &str, word: &'static str, any_case: bool) -> Value {
        let mut parts: Vec<ValuePart> = Vec::new();
        let mut colour_ends = 0;
        for (at, c) in text.char_indices() {
            if c == '\u{1b}' {
                colour_ends = at + colour(&text[at..]);
            }
            // Writers may also leave out backticks, for example in the title of an issue.
            let optional = at < colour_ends || is_optional(c) || c == '`';
            match parts.last_mut() {
                Some(space) if c.is_whitespace() && space.plain == ' ' => {
                    space.escaped.extend(escaped(c));
                    space.optional &= c.is_control();
                }
                _ if c.is_whitespace() => {
                    let all = [' ', '\t', c].into_iter().flat_map(escaped).collect();
                    parts.push(ValuePart { plain: ' ', escaped: all, optional: c.is_control() });
                }
                _ => parts.push(ValuePart { plain: c, escaped: escaped(c), optional }),
            }
        }
        // A writer may have left out the optional characters at the beginning, so the value is searched without them.
        let begins = |part: &ValuePart| !part.optional && part.plain != ' ';
        parts.drain(..parts.iter().position(begins).unwrap_or(0));
        if parts.iter().filter(|part| !part.optional).count() < SHORTEST {
            parts.iter_mut().for_each(|part| part.optional = false);
        }
        Value { parts, word, any_case }
    }

    /// Returns the end of the value if it begins at the position `at`, escaped or quoted in any way.
    fn match_end(&self, text: &str, at: usize) -> Option<usize> {
        // Pairs of positions in the text and in the value from which the search can continue, the most promising last.
        let mut open = vec![(at, 0)];
        let mut seen = HashSet::new();
        let mut steps = 100 + 16 * self.parts.len();
        while let Some((at, done)) = open.pop() {
            let Some(part) = self.parts.get(done) else {
                // The backslash at the end of the value may have been doubled several times.
                let ends_escaped = self.parts.last().is_some_and(|part| part.plain == '\\');
                let more = text[at..].len() - text[at..].trim_start_matches('\\').len();
                return Some(if ends_escaped { at + more } else { at });
            };
            if done > 0 && !seen.insert((at, done)) {
                continue;
            }
            steps -= 1;
            if steps == 0 {
                return None;
            }
            let found = text[at..].chars().next();
            if done > 0
                && let Some(next) = after_mark(text, at)
            {
                open.push((next, done));
            }
            if part.optional {
                open.push((at, done + 1));
            }
            let mut ends = Vec::new();
            if let Some(c) = found.filter(|c| part.matches(*c, self.any_case)) {
                ends.push(at + c.len_utf8());
            }
            if matches!(found, Some('&' | '\\' | '%')) {
                ends.extend(
                    part.escaped.iter().filter_map(|escaped| after_escape(text, at, escaped)),
                );
                let mut end = at + 1;
                while part.plain == '&' && text[end..].starts_with("amp;") {
                    end += "amp;".len();
                    ends.push(end);
                }
            }
            for end in ends {
                open.push((end, done + 1));
                if part.plain == ' ' {
                    open.push((end, done));
                }
            }
        }
        None
    }
}

impl ValuePart {
    fn matches(&self, c: char, any_case: bool) -> bool {
        c == self.plain
            || (any_case && c.to_lowercase().eq(self.plain.to_lowercase()))
            // Signatures contain dashes in place of blanks.
            || (self.plain == ' ' && (c.is_whitespace() || c == '-'))
            // Inline code in Markdown contains single quotes in place of backticks.
            || (self.plain == '`' && c == '\'')
    }
}

/// Returns true for a character that is not displayed as itself, for example a control character, except for newline
/// and tab. In a text, such a character may be escaped or missing.
fn is_optional(c: char) -> bool {
    c != '\n' && c != '\t' && !visible(c.encode_utf8(&mut [0; 4])).starts_with(c)
}

/// Returns the length of a colour's escape sequence, such as `ESC[31m`. Writers of XML leave out the whole sequence.
fn colour(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\u{1b}[") else { return '\u{1b}'.len_utf8() };
    let rest = codes.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    text.len() - rest.len() + usize::from(rest.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Returns all escape sequences for a character. The entity `&amp;` is not included, because it may be nested.
fn escaped(c: char) -> Vec<String> {
    let code = u32::from(c);
    let bytes = |form: fn(u8) -> String| -> String {
        c.encode_utf8(&mut [0; 4]).bytes().map(form).collect()
    };
    let units: String =
        c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    let named = match c {
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        // Inline code in Markdown contains single quotes in place of backticks.
        '`' => "&#39;",
        '\'' => "&apos;",
        '\t' => "\\t",
        ' ' => "&nbsp;",
        '\r' => "\\r",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        _ => "",
    };
    let mut all = vec![
        format!("\\u{{{code:x}}}"),
        units,
        bytes(|byte| format!("\\{byte:03o}")),
        bytes(|byte| format!("\\x{byte:02x}")),
        bytes(|byte| format!("%{byte:02x}")),
        format!("&#{code};"),
        format!("&#x{code:x};"),
        named.to_owned(),
    ];
    all.retain(|text| !text.is_empty());
    all
}

/// Maximum number of quotes and backslashes that may be inserted into an escape sequence.
const MOST_MARKS: usize = 32;

/// Returns the end of the escape sequence `escaped` if it begins at the position `at`. Its characters may be escaped or
/// quoted again.
fn after_escape(text: &str, mut at: usize, escaped: &str) -> Option<usize> {
    let mut marks = 0;
    for (n, c) in escaped.char_indices() {
        while !text[at..].starts_with(|found: char| found.eq_ignore_ascii_case(&c)) {
            marks += 1;
            at = after_mark(text, at).filter(|_| n > 0 && marks <= MOST_MARKS)?;
        }
        at += c.len_utf8();
        // Numeric entities may contain leading zeros: `&#039;`.
        while "#x".contains(c) && escaped.starts_with("&#") && text[at..].starts_with('0') {
            at += 1;
        }
        while c == '&' && text[at..].starts_with("amp;") {
            at += "amp;".len();
        }
    }
    Some(at)
}

/// Returns the end of a piece of quoting that begins at the position `at` and may be inside a value: a backslash, a
/// quote, or a part of `"$(printf '\033')"`.
fn after_mark(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with(['\\', '\'', '"']) {
        return Some(at + 1);
    }
    if rest.starts_with("$(printf ") {
        return Some(at + "$(printf ".len());
    }
    if rest.starts_with(')') && text[..at].ends_with(['\'', ';']) {
        return Some(at + 1);
    }
    // An entity may be written in place of a quote. Its ampersand may be escaped again.
    ["&quot;", "&apos;", "&#39;", "&#34;", "&#x27;", "&#x22;"]
        .iter()
        .filter(|_| rest.starts_with('&'))
        .find_map(|entity| {
            let name = rest[1..].trim_start_matches("amp;");
            let name = name.strip_prefix(&entity[1..])?;
            Some(text.len() - name.len())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixture,
        issue::publish_file,
        junit,
        text::{code, html, markdown, one_line},
    };

    /// Words that occur nowhere else. None of them may remain after a value is replaced.
    const WORDS: [&str; 8] = ["zq1x", "Wv8K", "kjq", "7yzq", "éßq", "qxzj", "0zqj", "jvv"];

    /// Texts that writers escape or quote.
    const SPECIAL: [&str; 34] = [
        "|",
        "`",
        "  ",
        " --launcher ssh ",
        " --env A=",
        "&",
        "<",
        ">",
        "\"",
        "'",
        "\\",
        "\\\\",
        "\t",
        "$",
        "!",
        "%",
        "@",
        "#",
        "](",
        "![",
        "=",
        "\u{1b}[31m",
        "\u{202e}",
        "\u{7f}",
        "&amp;",
        "\\n",
        "''",
        "``",
        "$(x)",
        "{a,b}",
        "\u{1f600}",
        "中",
        "-",
        "*",
    ];

    /// Returns a pseudo-random value, which depends only on the seed.
    fn random(seed: &mut u64) -> String {
        let mut next = |most: usize| {
            *seed =
                seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            (*seed >> 33) as usize % most
        };
        let mut value = String::new();
        for _ in 0..next(4) + 2 {
            for _ in 0..next(3) {
                value.push_str(SPECIAL[next(SPECIAL.len())]);
            }
            value.push_str(WORDS[next(WORDS.len())]);
        }
        for _ in 0..next(3) {
            value.push_str(SPECIAL[next(SPECIAL.len())]);
        }
        value
    }

    type Writer = fn(&str) -> String;

    /// Functions that write a value into a larger text, each with its name.
    const WRITERS: [(&str, Writer); 9] = [
        ("JSON", |text| serde_json::json!({ "a": format!("x {text} y") }).to_string()),
        ("Markdown", |text| format!("some {} more", markdown(text))),
        ("Markdown code", |text| format!("| n | `{}` |", code(text))),
        ("HTML", |text| format!("<td>{}</td>", html(text))),
        ("shell", |text| format!("run --exact {} b", shell::quote(text))),
        ("variable", |text| format!("run --env {} b", shell::quote(&format!("K={text}")))),
        ("command", |text| shell::unsplit(["run", "--launcher", text, "b"])),
        ("text", |text| format!("got {}!", visible(text))),
        ("name", |text| format!("in {}:", one_line(text))),
    ];

    fn in_junit(text: &str) -> String {
        let mut record = fixture::failed("a/b");
        record.title = text.to_owned();
        record.stderr_tail = format!("x {text} y");
        record.outcome.summary = text.to_owned();
        junit(&[record]).unwrap()
    }

    fn kept(value: &str, text: &str) -> bool {
        let rest = publish_file(text, &of(value));
        WORDS.iter().any(|word| value.contains(word) && rest.contains(word))
    }

    fn of(value: &str) -> Identity {
        Identity { values: vec![value.to_owned()], ..Identity::default() }
    }

    #[test]
    fn nothing_of_a_value_stays_after_two_writers() {
        let mut seed = 1;
        let mut failures = Vec::new();
        for n in 0..200 {
            let value = random(&mut seed);
            let (first, write) = WRITERS[n % WRITERS.len()];
            let once = write(&value);
            let twice = WRITERS.iter().map(|(second, write)| (*second, write(&once)));
            let all = twice.chain([("nothing", once.clone()), ("JUnit", in_junit(&once))]);
            for (second, text) in all {
                if kept(&value, &text) {
                    failures.push(format!("{first}, {second}: {value:?} in {text}"));
                }
            }
            if kept(&value, &in_junit(&value)) {
                failures.push(format!("JUnit: {value:?} in {}", in_junit(&value)));
            }
        }
        assert!(failures.is_empty(), "{} kept\n{}", failures.len(), failures.join("\n"));
    }

    #[track_caller]
    fn check(value: &str, text: &str, expected: &str) {
        assert_eq!(publish_file(text, &of(value)), expected);
    }

    #[test]
    fn the_text_around_a_value_stays() {
        check("a|b`c", "x a\\|b'c y", "x <value> y");
        check("it's me", "run 'K=it'\\''s me' z", "run 'K=<value>' z");
        check("abc\\", "run 'K=abc'\\\\ z", "run 'K=<value>' z");
        check("abc\\", "run --env 'K=abc'\\\\ z", "run --env \"K=$K\" z");
        check("two  blanks", "a two blanks b", "a <value> b");
        check("--launcher ssh me", "x --launcher ssh me y", "x <value> y");
        check("value", "a value, <value>", "a <value>, <value>");
        check("a&b<c", "a&amp;b&lt;c a&b<c a&amp;amp;b&amp;lt;c", "<value> <value> <value>");
        check("abcd", "abc 'ab' cd abce", "abc 'ab' cd abce");
    }

    #[test]
    fn numbers_and_names_in_json_are_values_too() {
        let record =
            "{\"build\":\"48151623\",\"n\":[48151623,-48151623,4815162],\"seen\":48151623.0}\nx\n";
        let expected = "{\"build\":\"<value>\",\"n\":[\"<value>\",\"<value>\",4815162],\"seen\":\"<value>\"}\nx\n";
        check("48151623", record, expected);
    }

    #[test]
    fn signatures_lose_values_too() {
        check("acme 2 x", "exit:3:in-acme-#-x. acme#", "exit:3:in-<value>. acme#");
    }

    #[test]
    fn serial_numbers_have_any_case() {
        let who = Identity { serials: vec!["PCB-021343x".to_owned()], ..Identity::default() };
        assert_eq!(publish_file("a pcb-021343X b", &who), "a <serial> b");
    }

    #[test]
    fn long_texts_take_linear_time() {
        let values = ["'''''''''''''x", "&&&&&&&&&&&&&&&&&&y", "    \t   \t z zz", "\\\\\\\\\\q"];
        for value in values {
            for text in ["'", "\\", "&amp;", "a&b", " ", "&"] {
                let text = text.repeat(1500);
                assert_eq!(Values::from_identity(&of(value)).replaced(&text), text);
            }
        }
    }
}
