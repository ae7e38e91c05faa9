//! Redacts XML files, such as JUnit reports. First, each text and each attribute value is unescaped and redacted
//! separately. Then, the file is redacted as a whole.

use std::{borrow::Cow, sync::LazyLock};

use quick_xml::escape::{escape, partial_escape, unescape};
use regex::{Captures, Regex};

use super::{
    publish,
    redact::{Identity, WORDS},
};

/// Returns true if a file begins like XML, or like a JUnit report without an XML declaration.
pub(super) fn is_xml(file: &str) -> bool {
    let text = file.trim_start_matches('\u{feff}').trim_start();
    ["<?xml", "<testsuite"].iter().any(|begin| text.starts_with(begin))
}

/// Prepares an XML file for publication. The words that replace private values, such as `<user>`, are escaped.
pub(super) fn publish_xml(file: &str, who: &Identity) -> String {
    let mut text = String::with_capacity(file.len());
    let mut rest = file;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(end(rest));
        rest = after;
        if let Some(data) = part.strip_prefix("<![CDATA[") {
            let data = data.strip_suffix("]]>").unwrap_or(data);
            let data = publish(data, who).replace("]]>", "]]&gt;");
            text.push_str(&format!("<![CDATA[{data}]]>"));
        } else if part.starts_with('<') {
            text.push_str(&attributes(part, who));
        } else {
            let plain = unescape(part).unwrap_or(Cow::Borrowed(part));
            text.push_str(&partial_escape(publish(&plain, who)));
        }
    }
    // Attributes are written in double quotes, so single quotes in them need no escape. Commands can only be parsed if
    // their quotes are not escaped.
    let published = publish(&text.replace("&apos;", "'"), who);
    WORDS.iter().fold(published, |text, word| {
        text.replace(&format!("<{word}>"), &format!("&lt;{word}&gt;"))
    })
}

/// Returns the length of the text, tag, comment or CDATA section at the beginning of `xml`.
fn end(xml: &str) -> usize {
    for (begin, end) in [("<![CDATA[", "]]>"), ("<!--", "-->"), ("<?", "?>")] {
        if xml.starts_with(begin) {
            return xml.find(end).map_or(xml.len(), |at| at + end.len());
        }
    }
    if !xml.starts_with('<') {
        return xml.find('<').unwrap_or(xml.len());
    }
    let mut quote = None;
    for (at, c) in xml.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '>' => return at + 1,
            _ => {}
        }
    }
    xml.len()
}

/// Redacts the values of all attributes of a tag.
fn attributes(tag: &str, who: &Identity) -> String {
    static VALUE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"=\s*(?:"([^"]*)"|'([^']*)')"#).ok());
    let Some(pattern) = VALUE.as_ref() else { return tag.to_owned() };
    let redacted = |found: &Captures| {
        let value = found.get(1).or(found.get(2)).map_or("", |value| value.as_str());
        let plain = unescape(value).unwrap_or(Cow::Borrowed(value));
        format!("=\"{}\"", escape(publish(&plain, who)))
    };
    pattern.replace_all(tag, redacted).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_attributes_are_redacted_without_their_escapes() {
        let who = Identity::default();
        for private in [
            "{\"password\": \"hunter2Zq9\"}",
            "[\"--password\", \"hunter2Zq9\"]",
            "<token>hunter2Zq9</token>",
            "<property name=\"token\" value=\"hunter2Zq9\"/>",
            "--password hunter2Zq9",
            "\tSerial Number: hunter2Zq9",
            "| password | hunter2Zq9 |",
            "password:\n  hunter2Zq9",
        ] {
            let (text, value) = (partial_escape(private), escape(private));
            let xml = format!(
                "<?xml version=\"1.0\"?>\n<testsuites a=\"{value}\"><system-err>{text}</system-err>\n<!-- x -->\
                 <system-out><![CDATA[{private}]]></system-out></testsuites>\n"
            );
            for xml in [&xml[..], &format!("\u{feff}{}", &xml[22..])] {
                assert!(is_xml(xml), "{xml}");
                let redacted = publish_xml(xml, &who);
                let redacted =
                    redacted.trim_start_matches("\\u{feff}").trim_start_matches('\u{feff}');
                assert!(!redacted.contains("hunter2"), "{private}: {redacted}");
                let parsed = roxmltree::Document::parse(redacted);
                assert!(parsed.is_ok(), "{parsed:?}: {redacted}");
            }
        }
    }
}
