//! Redacts programs, in which a word that equals a login or host name may be an identifier.

use super::{
    Identity, forms,
    paths::paths,
    people::{self, CompiledIdentity},
    redact_code, redact_values,
    source::{Piece, Syntax, pieces},
};
use crate::issue::variables;

/// Replaces private values in the text of a program, like [`super::redact`]. To keep the program working, names of
/// people and of the machine are replaced only in comments, and paths only in comments and string literals.
pub fn redact_program(program: &str, syntax: Syntax, who: &Identity) -> String {
    let program = redact_values(program, who);
    let text = people::with_patterns(who, |known| by_piece(&program, syntax, known));
    variables::pairs(&redact_code(&text, who))
}

fn by_piece(program: &str, syntax: Syntax, known: &CompiledIdentity) -> String {
    let public = |text: &str| variables::assignments(&forms::forms(&known.folders(text)));
    let redacted = |(piece, text): (Piece, &str)| match piece {
        Piece::Code => text.to_owned(),
        // A text of several lines may be the source of a kernel, which has comments of its own.
        Piece::Text if text.contains('\n') => paths(&public(&by_piece(text, Syntax::Cpp, known))),
        Piece::Text => paths(&public(text)),
        Piece::Comment => paths(&known.names(&public(text))),
    };
    pieces(program, syntax).into_iter().map(redacted).collect()
}

/// Redacts a block of Markdown that contains a program in a code block. A program in another language than C++ and
/// Python is redacted as text.
pub(in crate::issue) fn redact_program_block(block: &str, who: &Identity) -> String {
    let mut out = String::with_capacity(block.len());
    // The code block that is open: its fence, its syntax, and its text so far.
    let mut open: Option<(String, Option<Syntax>, String)> = None;
    let mut around = String::new();
    let published = |syntax: Option<Syntax>, program: &str| match syntax {
        Some(syntax) => redact_program(program, syntax, who),
        None => super::redact(program, who),
    };
    for line in block.split_inclusive('\n') {
        let fence: String = line.chars().take_while(|c| *c == '`').collect();
        match &mut open {
            None if fence.len() >= 3 => {
                let syntax = Syntax::from_language(line[fence.len()..].trim());
                out.push_str(&super::redact(&std::mem::take(&mut around), who));
                out.push_str(line);
                open = Some((fence, syntax, String::new()));
            }
            Some((begun, syntax, program)) if *begun == line.trim_end() => {
                out.push_str(&published(*syntax, program));
                out.push_str(line);
                open = None;
            }
            Some((.., program)) => program.push_str(line),
            None => around.push_str(line),
        }
    }
    if let Some((_, syntax, program)) = open {
        out.push_str(&published(syntax, &program));
    }
    out + &super::redact(&around, who)
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
        let (cpp, python) = (Syntax::Cpp, Syntax::Python);
        for (syntax, text, expected) in [
            (
                cpp,
                "// by jane on BOX7\nint jane; // box7",
                "// by <user> on <host>\nint jane; // <host>",
            ),
            (
                cpp,
                "/* jane\n * box7.acmelab */ int box7;\nbox7",
                "/* <user>\n * <host> */ int box7;\nbox7",
            ),
            (cpp, "n = \"a // jane /srv/jane/x\" / jane;", "n = \"a // jane <path>\" / jane;"),
            (python, "n = 100 // jane", "n = 100 // jane"),
            (
                python,
                "# if jane comes\n# jane\nx = jane  # jane",
                "# if <user> comes\n# <user>\nx = jane  # <user>",
            ),
            (cpp, "\"https://x.org/jane\" /data/jane/a", "\"https://x.org/jane\" ~/a"),
            (
                cpp,
                "jane = R\"(\n// jane\njane)\"; // HIP_X=a",
                "jane = R\"(\n// <user>\njane)\"; // HIP_X=<value>",
            ),
            (python, "environ['HIP_X'] = 'a'", "environ['HIP_X'] = '<value>'"),
            (python, "f(\"hunter2\", '10.1.2.3')", "f(\"<value>\", '<ip>')"),
        ] {
            assert_eq!(redact_program(text, syntax, &who), expected);
        }
        assert_eq!(
            redact_program_block("```sh\ncd /srv/acme/x # jane\nssh jane\n```\n", &who),
            "```sh\ncd <path> # <user>\nssh <user>\n```\n"
        );
        assert_eq!(
            redact_program_block("jane.py\n```python\njane // 1 # jane\n```\njane", &who),
            "<user>.py\n```python\njane // 1 # <user>\n```\n<user>"
        );
    }
}
