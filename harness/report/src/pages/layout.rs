//! Parts that several pages share: the frame of a page, and texts and links from records.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use crate::{text::visible, words};

/// Style of every page.
pub(super) const STYLE: &str = include_str!("page.css");

/// Style of pages with a table that can be filtered.
const TABLE_STYLE: &str = include_str!("table.css");

/// Script that filters the table of a page. Everything else works without JavaScript.
const SCRIPT: &str = include_str!("table.js");

/// Base64 of the SHA-256 of [`SCRIPT`]. The Content-Security-Policy of the pages allows only this script.
const SCRIPT_HASH: &str = "a481jwcZ2idpQ4KwURyRyzTV7U9+t2nd84HATngbM3A=";

/// Text from a record. Characters that affect the display are escaped.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Render for Text<'_> {
    fn render_to(&self, page: &mut String) {
        visible(self.0).render_to(page);
    }
}

/// Returns a page with the given title, header and content. `filtered` adds the script that filters its table.
pub(super) fn document(title: &str, filtered: bool, header: &Markup, main: &Markup) -> String {
    let script =
        if filtered { format!("; script-src 'sha256-{SCRIPT_HASH}'") } else { String::new() };
    let policy = format!("default-src 'none'; style-src 'unsafe-inline'{script}");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                // Other parts of rocrepro recognise their own pages by the first word of the title.
                title { "rocrepro: " (Text(title)) }
                style { (PreEscaped(STYLE)) (PreEscaped(TABLE_STYLE)) }
            }
            body {
                header { (header) }
                main { (main) }
                @if filtered { script { (PreEscaped(SCRIPT)) } }
            }
        }
    };
    with_lines(page.into_string()) + "\n"
}

/// Inserts a line break before headings, paragraphs, table rows and similar elements, so that pages can be compared
/// line by line. Texts do not change, because they contain no `<`.
fn with_lines(page: String) -> String {
    const ELEMENTS: [&str; 9] =
        ["<body", "<main", "<h2", "<p>", "<section", "<table", "<tbody", "<tr", "<dt"];
    ELEMENTS
        .iter()
        .fold(page, |page, element| page.replace(&format!(">{element}"), &format!(">\n{element}")))
}

/// Returns links to upstream issues, separated by commas. An issue without a web address is plain text.
pub(super) fn issues(issues: &[String]) -> Markup {
    html! {
        @for (n, issue) in issues.iter().enumerate() {
            @if n > 0 { ", " }
            (issue_link(issue))
        }
    }
}

fn issue_link(issue: &str) -> Markup {
    let address = words::link(issue);
    html! {
        @if address.starts_with("https://") {
            a.issue href=(Text(&address)) { (Text(short_issue(issue))) }
        } @else {
            (Text(issue))
        }
    }
}

/// Returns the name of a repository and the number of an issue, without the owner: `ROCm#6602`.
fn short_issue(issue: &str) -> &str {
    issue.split_once('/').filter(|(_, name)| name.contains('#')).map_or(issue, |(_, name)| name)
}

/// Returns the search field and the choice of rows above a table. `choices` are the ids and labels of the choices, and
/// `chosen` is the id of the choice that is selected at first; the style defines which rows each choice shows.
/// `searched` names the columns that are searched. The script needs the ids.
pub(super) fn filter(choices: &[(&str, &str)], chosen: &str, searched: &str) -> Markup {
    html! {
        fieldset.choice {
            legend { "Show" }
            @for (id, label) in choices {
                label { input type="radio" name="show" id=(id) value=(id) checked[*id == chosen]; " " (label) }
            }
        }
        p.choice.script hidden {
            label for="find" { "Search" } " "
            input type="search" id="find"; " in " (searched)
        }
        p.choice id="none" hidden { "No row matches." }
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest;

    use super::*;

    /// Recomputes the hash of the script. If the policy contained another hash, browsers would not run the script.
    #[test]
    fn script_matches_the_allowed_hash() {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = sha2::Sha256::digest(SCRIPT);
        let mut text = String::new();
        for three in digest.chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for at in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
                text.push(if at > three.len() { '=' } else { letter as char });
            }
        }
        assert_eq!(text, SCRIPT_HASH);
    }

    #[test]
    fn links_only_to_web_addresses() {
        let links = |issue: &str| issues(&[issue.to_owned()]).into_string();
        assert_eq!(
            links("ROCm/ROCm#6602"),
            "<a class=\"issue\" href=\"https://github.com/ROCm/ROCm/issues/6602\">ROCm#6602</a>"
        );
        assert_eq!(links("javascript:alert(1)"), "javascript:alert(1)");
        assert_eq!(links("<b>\u{1b}"), "&lt;b&gt;\\u{1b}");
        assert_eq!(
            links("https://example.org/a?b=\"c"),
            "<a class=\"issue\" href=\"https://example.org/a?b=&quot;c\">https://example.org/a?b=&quot;c</a>"
        );
    }
}
