//! Writes texts as YAML scalars and flow collections.

/// Writes a scalar that is read back unchanged. The scalar is written without quotes if that is safe in YAML, otherwise
/// in double quotes. Each `$` is doubled, because a single `$` would name an axis.
pub(super) fn plain(text: &str) -> String {
    let text = &text.replace('$', "$$");
    let safe = |c: char| c.is_alphanumeric() || " -_./+*()<>=;!?^~'".contains(c);
    let starts = |c: char| c.is_alphanumeric() || "_./(+".contains(c);
    // A dash begins a list item only before a space.
    let negative =
        text.strip_prefix('-').is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    let plain = (negative || text.starts_with(starts))
        && text.chars().all(|c| safe(c) && !c.is_control())
        && !text.ends_with(' ');
    if plain { text.to_owned() } else { quoted(text) }
}

/// Writes a text in double quotes, with the escapes that YAML and JSON have in common.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Writes a text with several lines as a literal block, indented by `indent` spaces, after its key.
pub(super) fn block(text: &str, indent: usize) -> String {
    let text = &text.replace('$', "$$");
    let literal = text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control());
    if !literal {
        return quoted(text);
    }
    let mut out = String::from("|");
    for line in text.lines() {
        out.push('\n');
        if !line.is_empty() {
            out.push_str(&" ".repeat(indent));
            out.push_str(line);
        }
    }
    out
}

/// Formats a list as `[a, b]`.
pub(super) fn flow_list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Formats a mapping as `{a: 1, b: 2}`.
pub(super) fn flow_map(fields: Vec<(&str, String)>) -> String {
    let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}
