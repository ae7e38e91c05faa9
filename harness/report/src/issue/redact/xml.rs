//! Redacts values in XML and HTML: `<token>x</token>`, `<property name="token" value="x"/>`, `<entry
//! key="token">x</entry>` and `<name>token</name><value>x</value>`.

use std::{collections::HashSet, sync::LazyLock};

use regex::Regex;

use super::names::{PrivateKind, is_harmless, private_kind};

/// Pattern of the name of an element or attribute.
const NAME: &str = r"[A-Za-z_][\w.:-]*";

#[allow(clippy::expect_used)]
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r#"<({NAME})((?:\s+{NAME}\s*=\s*(?:\\*"[^"<]*"|'[^'<]*'))*)\s*(/?)>|</({NAME})\s*>|<!\[CDATA\[|\]\]>"#
    );
    Regex::new(&pattern).expect("a valid pattern")
});

#[allow(clippy::expect_used)]
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(r#"({NAME})\s*=\s*(?:\\*"([^"]*?)\\*"|'([^']*)')"#);
    Regex::new(&pattern).expect("a valid pattern")
});

/// Names of attributes that contain the name of their element's value, as in `<property name="token">`.
const NAMING: [&str; 4] = ["name", "key", "id", "property"];

/// Names of attributes that contain a value which another attribute names.
const VALUES: [&str; 4] = ["value", "val", "content", "default"];

/// An open element whose text is private.
struct OpenElement<'t> {
    name: &'t str,
    private: PrivateKind,
    /// Number of open elements with the same name, including this one.
    depth: usize,
}

/// Replaces private values in elements and attributes. An element is considered only if the text contains its end.
pub(super) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Names of elements without an end tag in the rest of the text, which is searched only once for each name.
    let mut endless = HashSet::new();
    let mut open: Option<OpenElement<'_>> = None;
    // Kind of the value in the next element, if the text of the previous element was the name of a private field.
    let mut next: Option<PrivateKind> = None;
    // Name of the innermost open element, and the end of the last tag.
    let (mut inner, mut at) = ("", 0);
    for found in TAG.captures_iter(text) {
        let Some(tag) = found.get(0) else { continue };
        let before = &text[at..tag.start()];
        match &open {
            Some(open)
                if open.private.is_secret() || [open.name, "name", "id"].contains(&inner) =>
            {
                out.push_str(&replaced(before, open.private));
            }
            _ => out.push_str(before),
        }
        at = tag.end();
        if let Some(end) = found.get(4) {
            let end = end.as_str();
            if let Some(of) = open.as_mut().filter(|open| open.name == end) {
                of.depth -= 1;
            }
            if open.as_ref().is_some_and(|open| open.depth == 0) {
                open = None;
            }
            next = (inner == end && ["name", "key"].contains(&end))
                .then(|| private_kind(before.trim()))
                .flatten();
            inner = "";
            out.push_str(tag.as_str());
            continue;
        }
        let Some(name) = found.get(1) else {
            out.push_str(tag.as_str());
            continue;
        };
        let (name, from) = (name.as_str(), tag.start());
        let attributes = found.get(2).map_or(from..from, |all| all.range());
        let named = ATTRIBUTE
            .captures_iter(&text[attributes.clone()])
            .filter(|attribute| NAMING.contains(&&attribute[1]))
            .find_map(|attribute| private_kind(attribute.get(2).or(attribute.get(3))?.as_str()));
        out.push_str(&text[from..attributes.start]);
        let mut last = attributes.start;
        for attribute in ATTRIBUTE.captures_iter(&text[attributes.clone()]) {
            let Some(value) = attribute.get(2).or(attribute.get(3)) else { continue };
            let kind =
                private_kind(&attribute[1]).or(named.filter(|_| VALUES.contains(&&attribute[1])));
            let kind = kind.or(next.filter(|_| VALUES.contains(&&attribute[1])));
            if let Some(kind) = kind {
                let range = attributes.start + value.start()..attributes.start + value.end();
                out.push_str(&text[last..range.start]);
                out.push_str(&replaced(value.as_str(), kind));
                last = range.end;
            }
        }
        out.push_str(&text[last..tag.end()]);
        if found.get(3).is_some_and(|slash| !slash.is_empty()) {
            next = None;
            continue;
        }
        inner = name;
        let kind = private_kind(name).or(named).or(next.take());
        match (&mut open, kind) {
            (Some(open), _) => open.depth += usize::from(open.name == name),
            (None, Some(private)) if has_end_tag(text, at, name, &mut endless) => {
                open = Some(OpenElement { name, private, depth: 1 });
            }
            _ => {}
        }
    }
    out + &text[at..]
}

/// Returns true if the text after the position `at` contains the end tag of an element. `endless` caches the names of
/// elements without an end tag.
fn has_end_tag<'t>(
    text: &'t str,
    at: usize,
    name: &'t str,
    endless: &mut HashSet<&'t str>,
) -> bool {
    if endless.contains(name) {
        return false;
    }
    let found = text[at..].contains(&format!("</{name}"));
    if !found {
        endless.insert(name);
    }
    found
}

/// Replaces a value except for white space at its ends, unless it is harmless.
fn replaced(text: &str, private: PrivateKind) -> String {
    let value = text.trim();
    // The angle brackets of a placeholder may be escaped: `&lt;secret&gt;`.
    let plain = value.replace("&lt;", "<").replace("&gt;", ">");
    if is_harmless(private, &plain) {
        text.to_owned()
    } else {
        text.replacen(value, private.word(), 1)
    }
}
