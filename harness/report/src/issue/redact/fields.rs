//! Redacts values that follow the name of a private field: `password: x`, `--token x`, `?sig=x`, `"user": "x"`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::names::{PrivateKind, QUERY, is_harmless, is_plural, private_kind, words};

/// Replaces the values of private fields in a text. The lines and their layout do not change.
pub(crate) fn fields(text: &str) -> String {
    let text = &pairs(text);
    let mut out = String::with_capacity(text.len());
    // Indentation of a line that ends with the name of a secret, if the secret is on the lines below, as in YAML.
    let mut below: Option<usize> = None;
    // For each column of a Markdown table, the kind of private value that it contains.
    let mut columns: Vec<Option<PrivateKind>> = Vec::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let body = line.trim_end_matches(['\n', '\r']);
        let indentation = body.len() - body.trim_start().len();
        if let Some(above) = below {
            let item = body.trim_start().starts_with("- ");
            if body.trim().is_empty() || indentation > above || (item && indentation >= above) {
                if !body.trim().is_empty() {
                    let mark = if item { "- " } else { "" };
                    out.push_str(&format!("{}{mark}<secret>", &body[..indentation]));
                }
                out.push_str(&line[body.len()..]);
                continue;
            }
        }
        let (cells, is_row) = {
            let names_columns = lines.peek().is_some_and(|next| is_rule(next.trim_end()));
            cells(body, &mut columns, names_columns)
        };
        let replaced = if is_row { cells } else { line_fields(body) };
        below = opens_block(body).then_some(indentation);
        out.push_str(&replaced);
        out.push_str(&line[body.len()..]);
    }
    out
}

/// Replaces values in JSON that are named by another string: `["--token","x"]`, `{"name":"token","value":"x"}`.
fn pairs(text: &str) -> String {
    #[allow(clippy::expect_used)]
    static PAIR: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = concat!(
            r#"(\\*"(?:-{1,2}|name\\*"\s*:\s*\\*"|key\\*"\s*:\s*\\*")([A-Za-z][A-Za-z0-9_-]{1,60})\\*"\s*,"#,
            r#"\s*(?:\\*"value\\*"\s*:\s*)?\\*")([^"\\]+)"#
        );
        Regex::new(pattern).expect("a valid pattern")
    });
    let replaced = |found: &Captures| match private_kind(&found[2]) {
        Some(kind) if !is_harmless(kind, &found[3]) && !found[3].starts_with('-') => {
            format!("{}{}", &found[1], kind.word())
        }
        _ => found[0].to_owned(),
    };
    PAIR.replace_all(text, replaced).into_owned()
}

/// Returns true if the line ends with the name of a secret, so that the secret is on the lines below.
fn opens_block(line: &str) -> bool {
    let line = line.trim_end();
    let line = line.trim_end_matches(['|', '>', '-', '+']).trim_end();
    let Some(name) = line.strip_suffix(':') else { return false };
    let name = name.trim().trim_start_matches("- ").trim_matches(['"', '\'', '*', '`']);
    !name.contains(' ') && private_kind(name).is_some_and(PrivateKind::is_secret)
}

/// Replaces private cells in a row of a Markdown table: those to the right of a private name, and those in a column
/// that has a private name. Returns the line with the replacements, and true if the line is part of a table. `columns`
/// is the state of the surrounding table, which is updated: for each column, the kind of private value that it
/// contains. `names_columns` is true if the line contains the names of the columns.
fn cells(
    line: &str,
    columns: &mut Vec<Option<PrivateKind>>,
    names_columns: bool,
) -> (String, bool) {
    // The table may be inside a quotation or a list.
    let body = line.trim_start_matches([' ', '\t', '>', '*', '+', '-']);
    let (mark, body) = match body.starts_with('|') {
        true => line.split_at(line.len() - body.len()),
        false => line.split_at(line.len() - line.trim_start_matches([' ', '\t', '>']).len()),
    };
    let trimmed = body.trim_end();
    let has_edges = trimmed.starts_with('|') && trimmed.ends_with('|') && trimmed.len() > 2;
    let in_table = names_columns || !columns.is_empty();
    if !trimmed.contains('|') || !(has_edges || in_table || is_rule(line)) {
        columns.clear();
        return (String::new(), false);
    }
    if is_rule(line) {
        return (line.to_owned(), true);
    }
    let names = split_cells(body);
    let first = usize::from(body.starts_with('|'));
    let kinds: Vec<_> = names.iter().map(|cell| cell_name(cell)).collect();
    if names_columns {
        *columns = kinds[first..].to_vec();
        if columns.is_empty() {
            columns.push(None);
        }
        return (line.to_owned(), true);
    }
    let mut kind_before = None;
    let cells: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(at, cell)| {
            let column = at.checked_sub(first).and_then(|at| columns.get(at).copied().flatten());
            let private = kind_before.or(column);
            kind_before = kinds[at];
            let value = cell.trim().trim_matches(['*', '`', '"']);
            match private {
                Some(private) if kinds[at].is_none() && !is_harmless(private, value) => {
                    cell.replace(value, private.word())
                }
                _ => line_fields(cell),
            }
        })
        .collect();
    (format!("{mark}{}", cells.join("|")), true)
}

/// Splits a table row at the pipes that are neither escaped nor inside inline code.
fn split_cells(row: &str) -> Vec<&str> {
    let (mut cells, mut last, mut in_code, mut escaped) = (Vec::new(), 0, false, false);
    let has_code = row.matches('`').count().is_multiple_of(2);
    for (at, c) in row.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '`' => in_code = !in_code && has_code,
            '|' if !in_code => {
                cells.push(&row[last..at]);
                last = at + 1;
            }
            _ => {}
        }
    }
    cells.push(&row[last..]);
    cells
}

/// Returns true for the line `|---|---|` below the names of a Markdown table's columns.
fn is_rule(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '\t', '>', '*', '+']);
    line.contains('|') && line.contains("-") && line.chars().all(|c| "|-: ".contains(c))
}

fn cell_name(cell: &str) -> Option<PrivateKind> {
    let name = cell.trim().trim_matches(['*', '`', '"', '_']).trim_end_matches(':');
    // The name of a column may be a link or have a remark: `[Password](x)`, `password (root)`.
    let name = name.trim_start_matches('[').split(['(', ']']).next().unwrap_or(name).trim();
    (name.split(' ').count() <= 3).then(|| private_kind(name)).flatten()
}

/// Replaces the values of all private fields in one line.
fn line_fields(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    if let Some(found) = column(line) {
        out.push_str(&line[..found.start]);
        out.push_str(found.private.word());
        at = found.end;
    }
    while let Some(found) = next_value(line, at) {
        out.push_str(&line[at..found.start]);
        out.push_str(found.private.word());
        at = found.end;
    }
    out + &line[at..]
}

/// Returns the private value in a line that consists of two columns, such as `Serial Number    0123`.
fn column(line: &str) -> Option<PrivateSpan> {
    let from = line.len() - line.trim_start().len();
    let (tab, spaces) = (line[from..].find('\t'), line[from..].find("  "));
    let at = from + tab.into_iter().chain(spaces).min()?;
    let name = &line[from..at];
    let is_name = name.len() < 40 && name.chars().all(|c| c.is_alphanumeric() || "_- ".contains(c));
    let private = is_name.then(|| private_kind(name)).flatten()?;
    let found = value(line, at, private, true)?;
    line[found.end..].trim().is_empty().then_some(found)
}

/// Position and kind of a private value in a line.
struct PrivateSpan {
    start: usize,
    end: usize,
    private: PrivateKind,
}

fn next_value(line: &str, from: usize) -> Option<PrivateSpan> {
    let bytes = line.as_bytes();
    let starts = from..bytes.len();
    for at in starts {
        let found = match bytes[at] {
            b'=' | b':' => after_separator(line, from, at),
            b' ' => after_option(line, from, at),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Returns at most 300 bytes of the line that precede the position `at`.
fn preceding_text(line: &str, at: usize) -> &str {
    text_between(line, 0, at)
}

/// Returns the bytes of the line between two positions, but at most 300. Without this limit, the time for a line would
/// be quadratic in its length.
fn text_between(line: &str, from: usize, at: usize) -> &str {
    let mut from = at.saturating_sub(300).max(from);
    while !line.is_char_boundary(from) {
        from -= 1;
    }
    &line[from..at]
}

/// Returns the private value of an option, as in `--name value`, or of `login name password value` in a `.netrc`. `at`
/// is the position of the blank before the value.
fn after_option(line: &str, from: usize, at: usize) -> Option<PrivateSpan> {
    let before = text_between(line, from, at);
    let word = before.rsplit(|c: char| c.is_whitespace() || "\"'`([".contains(c)).next()?;
    let name = word.trim_start_matches('-');
    let dashes = word.len() - name.len();
    if name.is_empty() || (dashes == 0 && !["login", "password"].contains(&name)) {
        return None;
    }
    if dashes == 0 {
        let rest = line[at..].trim_start();
        // In a `.netrc`, each field may have a line of its own.
        let is_alone = before.trim_start_matches([' ', '\t', '-', '*', '>']) == name
            && rest.split_whitespace().count() == 1;
        let is_netrc = is_alone
            || name == "login" && rest.split_whitespace().nth(1) == Some("password")
            || name == "password"
                && preceding_text(line, at).split_whitespace().rev().nth(2) == Some("login");
        let private = if name == "login" { PrivateKind::Login } else { PrivateKind::Secret };
        return is_netrc.then(|| value(line, at, private, true)).flatten();
    }
    if name.contains(['=', ':']) {
        return None;
    }
    let rest = line[at..].trim_start();
    // The user name and password are one word: `curl -u name:password`.
    if word == "-u" && !preceding_text(line, at).contains("pip") {
        let pair = rest.split_whitespace().next().unwrap_or_default();
        let is_ids = pair.chars().all(|c| c.is_ascii_digit() || c == ':');
        return (pair.contains(':') && !is_ids)
            .then(|| value(line, at, PrivateKind::Secret, true))
            .flatten();
    }
    let private = private_kind(name)?;
    // In `pip install --user torch` and `systemctl --user start x`, `--user` has no value.
    let is_flag = private == PrivateKind::User
        && (preceding_text(line, at).contains("pip")
            || preceding_text(line, at).contains("systemctl"));
    if is_flag || rest.starts_with('-') || (dashes == 1 && name.len() < 4) {
        return None;
    }
    value(line, at, private, true)
}

/// Returns the private value in `name: value` or `name=value`, where `at` is the position of the separator.
fn after_separator(line: &str, from: usize, at: usize) -> Option<PrivateSpan> {
    let bytes = line.as_bytes();
    let separator = bytes[at];
    let (previous, next) = (at.checked_sub(1).map(|n| bytes[n]), bytes.get(at + 1).copied());
    // Scopes and comparisons are not fields: `host::copy`, `token == x`.
    if next == Some(b'=') || (separator == b':' && (next == Some(b':') || previous == Some(b':'))) {
        return None;
    }
    if separator == b'=' && previous.is_some_and(|c| b"=!<>".contains(&c)) {
        return None;
    }
    let before = text_between(line, from, at).trim_end_matches([':', '?', '+']);
    let quoted = before.trim_end_matches([' ', '\t', '"', '\'', '*', '`', '\\', ']']);
    // The name may be a list element: `token[0]`.
    let digits = quoted.trim_end_matches(|c: char| c.is_ascii_digit());
    let quoted = match digits.strip_suffix('[') {
        Some(list) if digits.len() < quoted.len() => list,
        _ => quoted,
    };
    let in_name = |c: char| c.is_alphanumeric() || "_-./%".contains(c);
    let start =
        quoted.char_indices().rev().take_while(|(_, c)| in_name(*c)).last().map(|(n, _)| n)?;
    let name = &quoted[start..];
    let lead = preceding_text(quoted, start);
    if name.is_empty() {
        return None;
    }
    let in_address = || {
        let word = lead.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
        word.contains("://") || word.contains('?')
    };
    let in_query = separator == b'='
        && (lead.ends_with(['?', '&'])
            || lead.ends_with("&amp;")
            || (lead.ends_with([';', '#']) && in_address()));
    let decoded = decoded(name);
    let name = if in_query { decoded.as_str() } else { name };
    let private = private_kind(name)
        .or_else(|| {
            // The name may consist of two or three words: `Serial Number`, `API key`.
            let ends = |c: char| c.is_whitespace() || "\"'`([>".contains(c);
            let words: Vec<&str> = lead.rsplit(ends).take(2).collect();
            let is_word = |word: &&str| !word.is_empty() && word.chars().all(char::is_alphanumeric);
            let before = words.first().filter(|word| lead.ends_with(**word) && is_word(word));
            // `lead` ends with the space that separates the two words.
            let before = before.copied().or_else(|| words.get(1).copied().filter(is_word))?;
            private_kind(&format!("{before} {name}")).filter(|_| name.len() < 12)
        })
        .or_else(|| {
            let short: String = words(name).concat();
            let short = short.strip_prefix('x').unwrap_or(&short);
            (in_query
                && (QUERY.contains(&short)
                    || QUERY
                        .iter()
                        .any(|q| short == format!("amz{q}") || short == format!("goog{q}"))))
            .then_some(PrivateKind::Secret)
        })?;
    let is_value = if in_query || private.is_secret() {
        // In a parser's message, such as `unexpected token: x`, the value is not a secret.
        !(name.eq_ignore_ascii_case("token")
            && (lead.ends_with("expected ") || lead.ends_with("invalid ")))
    } else {
        // Programs add to a variable with such a name: `host += 64`.
        let is_compound = separator == b'=' && previous.is_some_and(|c| b"+-*/%&|^".contains(&c));
        !is_compound && is_assignment(line, at, lead, name)
    };
    if !is_value {
        return None;
    }
    let is_path =
        name.eq_ignore_ascii_case("pwd") && line[at + 1..].trim_start().starts_with(['/', '~']);
    if is_path {
        return None;
    }
    let whole = ["authorization", "cookie"].iter().any(|n| name.to_ascii_lowercase().ends_with(n));
    if whole && !quoted_value(line, at) {
        return header(line, at);
    }
    let mut found = value(line, at, private, in_query)?;
    if separator == b':' || !private.is_secret() {
        found.end += extra_value_length(
            &line[at + 1..],
            &line[found.start..],
            found.end - found.start,
            private,
            name,
        );
    }
    // Part of a sentence is not a value: `for the user: please look`. A name such as `username` seldom occurs in a
    // sentence.
    let text = &line[found.start..found.end];
    let after = line[found.end..].strip_prefix(' ').unwrap_or_default();
    let is_name = matches!(private, PrivateKind::Login | PrivateKind::Machine);
    let sentence = !private.is_secret()
        && !is_name
        && separator == b':'
        && text.chars().all(|c| c.is_ascii_lowercase())
        && after
            .split(' ')
            .next()
            .is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()))
        && !lead.trim().is_empty();
    // If another name follows the name, as in `host: error:`, the other name is not a value.
    let is_call =
        private == PrivateKind::Token && text.contains('(') && line.trim_end().ends_with(';');
    let other_name = !private.is_secret()
        && (text.ends_with(':')
            || text.starts_with('/')
            || text.contains("::")
            || text.contains('('));
    (!sentence && !other_name && !is_call).then_some(found)
}

/// Decodes percent-encoded characters in a name: `k%65y`.
fn decoded(name: &str) -> String {
    let mut parts = name.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte.is_ascii() => {
                out.push(char::from(byte));
                out.push_str(&part[2..]);
            }
            _ => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out
}

/// Returns true unless a field such as `host=` is part of program code or of the name of a trial.
fn is_assignment(line: &str, at: usize, lead: &str, name: &str) -> bool {
    let is_equals = line.as_bytes()[at] == b'=';
    // A path such as `src/user.cpp:12` is not a field.
    if name.contains('/') && !name.eq_ignore_ascii_case("s/n") {
        return false;
    }
    let trimmed = line.trim_end();
    let is_code = trimmed.ends_with([';', '{']) && line[..at].ends_with(' ');
    // The field is part of the name of a trial: `copies/plain[bytes=2,host=pageable]`.
    let in_trial = is_equals
        && lead.rfind('[').is_some_and(|open| {
            let inside = &lead[open + 1..];
            !inside.contains([']', ' ', '"'])
                && lead[..open].ends_with(|c: char| c.is_alphanumeric())
        });
    !is_code && !in_trial
}

fn quoted_value(line: &str, at: usize) -> bool {
    line[at + 1..].trim_start().starts_with(['"', '\'', '\\', '['])
}

/// Returns the value of an HTTP header, up to the end of the line or to the quote that ends the header.
fn header(line: &str, at: usize) -> Option<PrivateSpan> {
    let start = at
        + 1
        + (line[at + 1..].len() - line[at + 1..].trim_start_matches([' ', '\t', '*', '`']).len());
    let open = line[..at].chars().rev().find(|c| "\"'`".contains(*c));
    let end = open
        .and_then(|quote| closing_quote(&line[start..], quote))
        .map_or(line.trim_end().len(), |n| start + n);
    let text = line.get(start..end)?;
    (!text.is_empty() && !is_harmless(PrivateKind::Secret, text)).then_some(PrivateSpan {
        start,
        end,
        private: PrivateKind::Secret,
    })
}

/// Returns the position of the quote that ends a text. Quotes around the value of a field inside the text, as in `a;
/// user='x'`, are skipped.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + text[at..].find(quote)?;
        let name = text[..found].strip_suffix('=').unwrap_or_default();
        let rest = name.trim_end_matches(|c: char| c.is_ascii_lowercase() || c == '_');
        if rest.len() == name.len() || !rest.ends_with([' ', '(', ',', ';', '{']) {
            return Some(found);
        }
        at = found + quote.len_utf8();
        at += text[at..].find(quote)? + quote.len_utf8();
    }
}

/// Returns the value after the byte `at`, without its quotes. `None` if the value is harmless. `private` is the kind of
/// private value that the field contains. If `is_word` is true, punctuation always ends a value without quotes.
fn value(line: &str, at: usize, private: PrivateKind, is_word: bool) -> Option<PrivateSpan> {
    let rest = &line[at + 1..];
    let rest = rest.strip_prefix('>').unwrap_or(rest);
    let rest = rest.trim_start_matches([' ', '\t', '*']);
    // String literals in Python and in shells may have a prefix: `b'x'`, `$'x'`.
    let bare = rest.trim_start_matches(['b', 'B', 'u', 'r', 'f', '$']);
    let rest = match bare.starts_with(['"', '\'']) && rest.len() - bare.len() <= 2 {
        true => bare,
        false => rest,
    };
    let mut start = line.len() - rest.len();
    // The quotes of a string inside another string are escaped.
    let quote = ["\\\"", "\"", "'", "`"].into_iter().find(|quote| rest.starts_with(*quote));
    let end = if let Some(quote) = quote {
        start += quote.len();
        let text = &line[start..];
        let close = text
            .match_indices(quote)
            .map(|(n, _)| n)
            .find(|n| quote.starts_with('\\') || !text[..*n].ends_with('\\'));
        start + close.unwrap_or(text.trim_end().len())
    } else if rest.starts_with(['[', '{']) && !rest.starts_with("{{") {
        let is_list =
            rest.starts_with("[\"") || rest.starts_with("['") || is_plural_before(line, at);
        if !private.is_secret() && !is_list {
            return None;
        }
        start + bracketed(rest)
    } else {
        start + word_end(rest, private.is_secret() && !is_word)
    };
    let text = &line[start..end];
    (!is_harmless(private, text)).then_some(PrivateSpan { start, end, private })
}

/// Returns true if the name before the separator announces several values.
fn is_plural_before(line: &str, at: usize) -> bool {
    is_plural(line[..at].trim_end_matches([' ', '\t', '"', '\'', '*', '`', '\\']))
}

/// Returns the number of further bytes that belong to a value after its first word: the rest of a list such as `hosts:
/// a, b`, or the words of a passphrase up to the end of the line.
fn extra_value_length(
    after: &str,
    value: &str,
    first: usize,
    private: PrivateKind,
    name: &str,
) -> usize {
    let rest = &value[first..];
    let word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let mut length = 0;
    if is_plural(name) {
        while let Some(item) = rest[length..].strip_prefix([',', ' ']).filter(|_| length < 2000) {
            let item = item.trim_start_matches(' ');
            let end = item.find(|c| !word(c)).unwrap_or(item.len());
            if end == 0 || item[end..].trim_start().starts_with(['=', ':', '(']) {
                break;
            }
            length = rest.len() - item.len() + end;
        }
    }
    let is_phrase = match private {
        PrivateKind::Secret | PrivateKind::Token => true,
        PrivateKind::Login | PrivateKind::Machine => after.starts_with("  "),
        _ => false,
    };
    // A passphrase ends no later than the quotes, the XML element or the clause that contains it.
    let ends = |c| "\"'`<;,\\".contains(c);
    let rest = &rest[..rest.find(ends).unwrap_or(rest.len())];
    // The rest of a long line is not taken for the rest of a passphrase.
    if !is_phrase || rest.len() > 200 {
        return length;
    }
    let line = rest.trim_end_matches(['"', '\'', '`', '|', ' ', '\\', ']', '}']);
    let words = line.split_whitespace().count();
    let is_plain = line.starts_with(' ')
        && (1..=8).contains(&words)
        && line.chars().all(|c| word(c) || c == ' ')
        && !line.trim_start().starts_with('-');
    if is_plain { line.len().max(length) } else { length }
}

/// Returns the length of a list or map up to its closing bracket, or of the whole text if the bracket is missing.
fn bracketed(text: &str) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => in_string = !in_string,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.trim_end().len()
}

/// Returns the length of a value that is not quoted. Because a secret may contain punctuation, punctuation ends it only
/// before white space or before another field.
fn word_end(text: &str, is_secret: bool) -> usize {
    for (at, c) in text.char_indices() {
        let ends = match c {
            c if c.is_whitespace() || "\"'`".contains(c) => true,
            '&' | ';' | ',' | '|' | ')' | ']' | '}' => {
                let rest = text[at + c.len_utf8()..]
                    .trim_start_matches(['&', ';', ',', '|', ')', ']', '}', '.']);
                let name =
                    rest.trim_start_matches(|c: char| c.is_alphanumeric() || "_-".contains(c));
                !is_secret
                    || rest.is_empty()
                    || rest.starts_with(|c: char| c.is_whitespace() || "\"'`".contains(c))
                    || (name.len() < rest.len() && name.starts_with(['=', ':']))
            }
            _ => false,
        };
        if ends {
            return at;
        }
    }
    text.len()
}
