//! Builds the web address that opens a new issue with prefilled fields.

use super::{Block, Issue, body, section};

/// Maximum length of the address, in bytes. GitHub rejects addresses of more than 8191 bytes (github/docs#5136).
pub const LIMIT: usize = 8000;

/// Address of a new issue, and the parts of the issue that did not fit into the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Web address that opens the new issue.
    pub url: String,
    /// Names of the parts that the address does not contain, and that the user should paste from the report.
    pub cut: Vec<String>,
}

impl Issue {
    /// Returns the web address of a new issue, with at most [`LIMIT`] bytes. If the issue is longer, logs are left out
    /// first, and the program last.
    ///
    /// If the fields of a form have ids, each field is prefilled. The fields of other forms cannot be prefilled, so the
    /// address opens a blank issue whose text has the same headings.
    pub fn link(&self) -> Link {
        let mut left = self.sections.clone();
        let mut cut = Vec::new();
        loop {
            let url = self.url(&left, &cut);
            if url.len() <= LIMIT {
                return Link { url, cut };
            }
            let blocks = left.iter_mut().flat_map(|(_, blocks)| blocks.iter_mut());
            let next = blocks
                .filter(|block| block.cut.is_some() && !block.text.is_empty())
                .min_by_key(|block| (block.cut, usize::MAX - block.text.len()));
            let Some(block) = next else { break };
            block.text.clear();
            cut.push(std::mem::take(&mut block.name));
        }
        // No more blocks can be left out. The longest block is shortened until the address is short enough.
        loop {
            let blocks = left.iter_mut().flat_map(|(_, blocks)| blocks.iter_mut());
            let Some(longest) = blocks.max_by_key(|block| block.text.len()) else { break };
            let keep = longest.text.len() * 3 / 4;
            shorten(longest, keep);
            let shortened = "the end of the longest text".to_owned();
            if !cut.contains(&shortened) {
                cut.push(shortened);
            }
            let url = self.url(&left, &cut);
            if url.len() <= LIMIT || keep == 0 {
                return Link { url, cut };
            }
        }
        Link { url: self.url(&[], &cut), cut }
    }

    fn url(&self, sections: &[(super::Field, Vec<Block>)], cut: &[String]) -> String {
        let note = match cut {
            [] => String::new(),
            cut => format!(
                "\n\nNot included in this URL, please paste from the report: {}.",
                cut.join(", ")
            ),
        };
        let mut url = format!(
            "https://github.com/{}/issues/new?title={}",
            self.repository,
            encoded(&self.title)
        );
        let by_id = self.form.fields().iter().all(|field| field.id.is_some());
        if by_id {
            url.push_str(&format!("&template={}", self.form.template()));
            for (field, blocks) in sections {
                let note = if field.id == Some("reproduction") { note.as_str() } else { "" };
                let id = field.id.unwrap_or_default();
                // Checkboxes cannot be prefilled.
                if !matches!(field.content, super::Content::Scripts | super::Content::Tasks) {
                    url.push_str(&format!("&{id}={}", encoded(&(body(blocks) + note))));
                }
            }
        } else {
            let texts: Vec<_> = sections.iter().map(|(f, blocks)| section(f, blocks)).collect();
            url.push_str(&format!("&body={}", encoded(&(texts.join("\n\n") + &note))));
        }
        url
    }
}

fn shorten(block: &mut Block, keep: usize) {
    let mut keep = keep;
    while !block.text.is_char_boundary(keep) {
        keep -= 1;
    }
    block.text.truncate(keep);
}

/// Percent-encodes a string for use in the query of a URL, as in RFC 3986.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char);
            }
            // `+` is shorter than `%20`, and GitHub decodes queries in the same way as forms.
            b' ' => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("a b&c=d/é+\n"), "a+b%26c%3Dd%2F%C3%A9%2B%0A");
    }
}
