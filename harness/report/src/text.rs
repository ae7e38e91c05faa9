//! Escapes strings from outside rocrepro for each output format. JSON output is data and is not escaped.

use std::fmt::Write;

use plan::affects_display;

/// Escapes characters that affect the display, for example ESC as `\u{1b}`. Newlines and tabs are not escaped.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if affects_display(c) && c != '\n' && c != '\t' {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Escapes characters that affect the display in a name, for example as `x\u{a}1 passed`. Newlines and tabs are escaped
/// too, because a name is a single line.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if affects_display(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Escapes a name in place, like [`one_line`].
pub(crate) fn escape(name: &mut String) {
    if name.contains(affects_display) {
        *name = one_line(name);
    }
}

/// Escapes a string like [`visible`], and also the special characters of HTML, so that the string can be HTML content
/// or a quoted attribute.
#[cfg(test)]
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a view for a terminal like [`visible`], but keeps the escape sequences for colours and weights. These cannot
/// move the cursor, hide text or query the terminal.
pub fn terminal(view: &str) -> String {
    let mut out = String::with_capacity(view.len());
    let mut rest = view;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&visible(&rest[..at]));
        let after = &rest[at + 2..];
        match after.split_once('m') {
            Some((codes, after)) if are_styles(codes) => {
                let _ = write!(out, "\u{1b}[{codes}m");
                rest = after;
            }
            _ => {
                out.push_str(&visible("\u{1b}["));
                rest = after;
            }
        }
    }
    out + &visible(rest)
}

/// Returns true if all codes of an escape sequence are harmless styles (ECMA-48 SGR): reset, bold, dim, italic,
/// underline and colours, but neither blinking nor hidden text.
fn are_styles(codes: &str) -> bool {
    let mut codes = codes.split(';');
    while let Some(code) = codes.next() {
        let known = match code {
            // A colour follows, either from the palette of 256 or as red, green and blue.
            "38" | "48" => {
                let parts = match codes.next() {
                    Some("5") => 1,
                    Some("2") => 3,
                    _ => return false,
                };
                (0..parts).all(|_| codes.next().is_some_and(|part| part.parse::<u8>().is_ok()))
            }
            "" | "0" | "1" | "2" | "3" | "4" | "22" | "23" | "24" | "39" | "49" => true,
            other => other
                .parse::<u8>()
                .is_ok_and(|n| matches!(n, 30..=37 | 40..=47 | 90..=97 | 100..=107)),
        };
        if !known {
            return false;
        }
    }
    true
}

/// Escapes a string for a line of Markdown, so that the string cannot become HTML, a link, a heading, a table cell or a
/// mention.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Backticks that come in pairs are kept as inline code.
    let paired = text.matches('`').count() % 2 == 0;
    let mut code = false;
    for (at, c) in text.char_indices() {
        match c {
            '`' if paired => {
                code = !code;
                out.push(c);
            }
            _ if code => out.push(c),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("&#64;"),
            '`' | '|' => out.extend(['\\', c]),
            '(' if text[..at].ends_with(']') => out.push_str("\\("),
            '[' if text[..at].ends_with(['!', ']']) => out.push_str("\\["),
            '#' | '-' | '+' | '*' | '=' if at == 0 => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a string for inline code in a line or table cell of Markdown.
pub(crate) fn code(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace('`', "'").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_styles_reach_the_terminal() {
        let check = |view: &str, expected: &str| assert_eq!(terminal(view), expected, "{view:?}");
        check("plain\n\ttext é 日本", "plain\n\ttext é 日本");
        check("\u{1b}[1m\u{1b}[31mred\u{1b}[0m", "\u{1b}[1m\u{1b}[31mred\u{1b}[0m");
        check("\u{1b}[38;5;12mx\u{1b}[m", "\u{1b}[38;5;12mx\u{1b}[m");
        check("\u{1b}[8mhidden", "\\u{1b}[8mhidden");
        check("\u{1b}[2J\u{1b}[H", "\\u{1b}[2J\\u{1b}[H");
        check("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}");
        check("ok\rFAIL\u{8}", "ok\\u{d}FAIL\\u{8}");
        check("\u{9b}31m\u{202e}txt\u{2066}\u{200b}", "\\u{9b}31m\\u{202e}txt\\u{2066}\\u{200b}");
        check("\u{1b}[\u{1b}[31mx", "\\u{1b}[\u{1b}[31mx");
    }

    #[test]
    fn names_are_one_line() {
        assert_eq!(one_line("x\r\n1 passed\t\u{1b}[2J"), "x\\u{d}\\u{a}1 passed\\u{9}\\u{1b}[2J");
        assert_eq!(one_line("copies/plain[n=é]"), "copies/plain[n=é]");
    }

    #[test]
    fn markdown_markup_is_escaped() {
        let check = |text: &str, expected: &str| assert_eq!(markdown(text), expected, "{text:?}");
        for plain in
            ["dst.back (line 20, iteration 2): 2 of 2 bytes", "`a<b>` gives 1", "a_b [x=1] #2 50 %"]
        {
            check(plain, plain);
        }
        check("<script>x</script> <!-- -->", "&lt;script&gt;x&lt;/script&gt; &lt;!-- --&gt;");
        check("[a](http://x) ![i](y) @jane", "[a]\\(http://x) !\\[i]\\(y) &#64;jane");
        check("# head\n# next | cell", "\\# head # next \\| cell");
        check("one ` tick", "one \\` tick");
    }
}
