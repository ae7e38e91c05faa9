//! Redacts whole files: JSON, lines of JSON, XML and plain text.

use serde_json::Value;

use super::{
    publish::{publish, publish_json},
    published_xml::{is_xml, publish_xml},
    redact::Identity,
};

/// Prepares the text of a file for publication. In JSON, each string is redacted separately, because the name of its
/// field may make the string private. All other content is redacted as plain text.
pub fn publish_file(text: &str, who: &Identity) -> String {
    match object(text) {
        Parsed::Value(value) => return format!("{:#}\n", publish_json(value, who)),
        Parsed::TooDeep => return format!("{TOO_DEEP}\n"),
        Parsed::Text if is_xml(text) => return publish_xml(text, who),
        Parsed::Text => {}
    }
    let mut out = String::with_capacity(text.len());
    // Consecutive lines that are not JSON are redacted together, because a PEM key has several lines.
    let mut rest = String::new();
    for line in text.split_inclusive('\n') {
        let replaced = match object(line) {
            Parsed::Value(value) => publish_json(value, who).to_string(),
            Parsed::TooDeep => TOO_DEEP.to_owned(),
            Parsed::Text => {
                rest.push_str(line);
                continue;
            }
        };
        out.push_str(&publish(&std::mem::take(&mut rest), who));
        out.push_str(&replaced);
        out.push('\n');
    }
    out + &publish(&rest, who)
}

/// Text that replaces JSON which is nested so deeply that it cannot be parsed.
const TOO_DEEP: &str = "\"<JSON nested too deeply>\"";

/// Result of trying to parse the text of a file or line as JSON.
enum Parsed {
    Value(Value),
    TooDeep,
    Text,
}

/// Parses a string that is a JSON object or list. Any other string is treated as plain text.
fn object(text: &str) -> Parsed {
    if !text.trim_start().starts_with(['{', '[']) {
        return Parsed::Text;
    }
    match serde_json::from_str(text) {
        Ok(value) => Parsed::Value(value),
        Err(error) if error.to_string().starts_with("recursion limit") => Parsed::TooDeep,
        Err(_) => Parsed::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_may_mix_json_and_text() {
        let text = "{\"user\":\"alice\"}\nhostname: box\n{torn\n[\"jane\"]\n";
        let expected = "{\"user\":\"<user>\"}\nhostname: <host>\n{torn\n[\"<user>\"]\n";
        let who = Identity { user: "jane".to_owned(), ..Identity::default() };
        assert_eq!(publish_file(text, &who), expected);
    }
}
