//! Finds comments and string literals in C++ and Python programs.

/// Syntax of the comments and string literals of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// C++: comments `//` and `/* */`, string literals and raw string literals.
    Cpp,
    /// Python: comments from `#` to the end of the line, and string literals, also with triple quotes.
    Python,
}

impl Syntax {
    /// Returns the syntax for the language of a Markdown code block, such as `cpp` or `python`; `None` for another
    /// language.
    pub fn from_language(language: &str) -> Option<Syntax> {
        match language {
            "cpp" => Some(Syntax::Cpp),
            "python" => Some(Syntax::Python),
            _ => None,
        }
    }
}

/// Kind of a piece of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Code,
    /// Content of a string literal, without its quotes.
    Text,
    Comment,
}

/// Splits a program into code, comments and string literals. All pieces together are the whole program.
pub(super) fn pieces(program: &str, syntax: Syntax) -> Vec<(Piece, &str)> {
    let mut all = Vec::new();
    // Start of the current piece, and the current position in it.
    let (mut from, mut at) = (0, 0);
    while let Some(c) = program[at..].chars().next() {
        let rest = &program[at..];
        let found = match (syntax, c) {
            (Syntax::Cpp, '/') if rest.starts_with("//") => {
                Some((Piece::Comment, 0, line(rest), 0))
            }
            (Syntax::Cpp, '/') if rest.starts_with("/*") => {
                let end = rest[2..].find("*/").map_or(rest.len(), |end| 2 + end + 2);
                Some((Piece::Comment, 0, end, 0))
            }
            (Syntax::Python, '#') => {
                Some((Piece::Comment, 0, rest.find('\n').unwrap_or(rest.len()), 0))
            }
            (_, '"' | '\'') => text(&program[..at], rest, syntax),
            _ => None,
        };
        let Some((piece, before, length, after)) = found else {
            at += c.len_utf8();
            continue;
        };
        let (begin, end) = (at + before, at + before + length);
        all.push((Piece::Code, &program[from..begin]));
        all.push((piece, &program[begin..end]));
        from = end;
        at = end + after;
    }
    all.push((Piece::Code, &program[from..]));
    all.retain(|(_, text)| !text.is_empty());
    all
}

/// Returns the length of a C++ comment that ends at the end of the line. A backslash before the line end continues the
/// comment.
fn line(rest: &str) -> usize {
    let ends = rest.match_indices('\n').map(|(at, _)| at);
    let mut ends = ends.filter(|at| !rest[..*at].trim_end_matches('\r').ends_with('\\'));
    ends.next().unwrap_or(rest.len())
}

/// Returns the kind of the string literal at the beginning of `rest`, which `before` precedes in the program, and the
/// lengths of its opening quote, content and closing quote. `None` if the quote does not begin a string literal: it is
/// a digit separator or an apostrophe.
fn text(before: &str, rest: &str, syntax: Syntax) -> Option<(Piece, usize, usize, usize)> {
    let is_raw = syntax == Syntax::Cpp && before.ends_with('R') && rest.starts_with('"');
    if is_raw && let Some((delimiter, body)) = rest[1..].split_once('(') {
        let quotes = 1 + delimiter.len() + 1;
        let end = format!("){delimiter}\"");
        let length = body.find(&end).unwrap_or(body.len());
        let after = if length == body.len() { 0 } else { end.len() };
        return Some((Piece::Text, quotes, length, after));
    }
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit());
    let separates = syntax == Syntax::Cpp
        && rest.starts_with('\'')
        && digit(before.chars().next_back())
        && digit(rest[1..].chars().next());
    if separates {
        return None;
    }
    let three = ["\"\"\"", "'''"].into_iter().find(|three| rest.starts_with(three));
    let quotes = three.filter(|_| syntax == Syntax::Python).unwrap_or(&rest[..1]);
    let body = &rest[quotes.len()..];
    let mut is_escaped = false;
    for (at, c) in body.char_indices() {
        if !is_escaped && body[at..].starts_with(quotes) {
            return Some((Piece::Text, quotes.len(), at, quotes.len()));
        }
        if c == '\n' && !is_escaped && quotes.len() == 1 {
            return None;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    (quotes.len() == 3).then_some((Piece::Text, 3, body.len(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks comments with `«»` and string literals with `‹›`.
    fn marked(program: &str, syntax: Syntax) -> String {
        let mark = |(piece, text): (Piece, &str)| match piece {
            Piece::Code => text.to_owned(),
            Piece::Text => format!("‹{text}›"),
            Piece::Comment => format!("«{text}»"),
        };
        pieces(program, syntax).into_iter().map(mark).collect()
    }

    #[test]
    fn comments_and_texts_of_cpp_are_found() {
        for (program, expected) in [
            ("y[0]// a\nb", "y[0]«// a»\nb"),
            ("/* a */ int g; /* b\n c */ d", "«/* a */» int g; «/* b\n c */» d"),
            ("// a \\\n b\nc", "«// a \\\n b»\nc"),
            ("s = \"( /* \"; x = 1; // c", "s = \"‹( /* ›\"; x = 1; «// c»"),
            ("\"a\\\"// b\" 'c' '\"' // d", "\"‹a\\\"// b›\" '‹c›' '‹\"›' «// d»"),
            ("R\"x(a )\" // b)x\" c", "R\"x(‹a )\" // b›)x\" c"),
            ("1'000'000 // a", "1'000'000 «// a»"),
            ("#error it's // a\nx", "#error it's «// a»\nx"),
            ("a / b /c/ d", "a / b /c/ d"),
            ("/* open", "«/* open»"),
        ] {
            assert_eq!(marked(program, Syntax::Cpp), expected);
        }
    }

    #[test]
    fn comments_and_texts_of_python_are_found() {
        for (program, expected) in [
            ("# if a comes\nx=1# b", "«# if a comes»\nx=1«# b»"),
            ("n = 100 // a", "n = 100 // a"),
            ("s = 'x # a' # b", "s = '‹x # a›' «# b»"),
            ("f\"\"\"a\n# b \"c\"\n\"\"\" # d", "f\"\"\"‹a\n# b \"c\"\n›\"\"\" «# d»"),
            ("r'\\' # a' # b", "r'‹\\' # a›' «# b»"),
            ("'''open", "'''‹open›"),
        ] {
            assert_eq!(marked(program, Syntax::Python), expected);
        }
    }
}
