//! Redaction of programs, in which a word that equals a login or host name may be an identifier.

use super::{Identity, code, paths::paths, people, values};

/// Replaces private values in the text of a program, as [`super::redact`] does. The names of people and of the machine
/// are replaced in comments and in the title of the program; in code they stay, because the program would change.
pub fn redact_program(text: &str, who: &Identity) -> String {
    let text = people::known(who, |known| {
        let mut out = String::with_capacity(text.len());
        let mut in_block = false;
        for line in values(text, who).split_inclusive('\n') {
            let (before, comment) = line.split_at(comment(line, &mut in_block));
            out.push_str(before);
            out.push_str(&paths(&known.names(&known.folders(comment))));
        }
        out
    });
    code(&text, who)
}

/// Returns the position at which a comment begins in a line, which is its end without one. `in_block` is true between
/// `/*` and `*/`.
fn comment(line: &str, in_block: &mut bool) -> usize {
    if *in_block {
        *in_block = !line.contains("*/");
        return 0;
    }
    // The program is part of a page, under its title.
    if line.starts_with("<details><summary>") {
        return 0;
    }
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let rest = &line[at..];
        let separate = before.is_whitespace() || ";{}(),".contains(before);
        if separate && (rest.starts_with("//") || rest.starts_with("/*") || is_remark(rest)) {
            *in_block = rest.starts_with("/*") && !rest.contains("*/");
            return at;
        }
        before = c;
    }
    line.len()
}

/// Returns true for a remark of Python or a shell, and false for a line of the C preprocessor.
fn is_remark(text: &str) -> bool {
    const PREPROCESSOR: [&str; 9] =
        ["define", "el", "endif", "error", "if", "include", "line", "pragma", "undef"];
    let word = text.strip_prefix('#').map(str::trim_start);
    word.is_some_and(|word| !PREPROCESSOR.iter().any(|name| word.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_from_comments_and_stay_in_code() {
        let who = Identity {
            user: "jane".to_owned(),
            host: "box7.acmelab".to_owned(),
            folders: vec![("/data/jane".to_owned(), "~".to_owned())],
            values: vec!["hunter2".to_owned()],
            ..Identity::default()
        };
        for (text, expected) in [
            (
                "// by jane on BOX7\nint jane; // box7",
                "// by <user> on <host>\nint jane; // <host>",
            ),
            (
                "/* jane\n * box7.acmelab */ int box7;\nbox7",
                "/* <user>\n * <host> */ int <host>;\nbox7",
            ),
            (
                "#include <jane.h>\n# jane\nx = jane  # jane",
                "#include <jane.h>\n# <user>\nx = jane  # <user>",
            ),
            ("\"https://x.org/jane\" /data/jane/a", "\"https://x.org/jane\" ~/a"),
            ("f(\"hunter2\", '10.1.2.3')", "f(\"<value>\", '<ip>')"),
            (
                "<details><summary><code>jane.py</code></summary>\njane = 1",
                "<details><summary><code><user>.py</code></summary>\njane = 1",
            ),
        ] {
            assert_eq!(redact_program(text, &who), expected);
        }
    }
}
