//! Checks the C++ source of a kernel in an untrusted case.
//!
//! The rules are much stricter than C++, so that no C++ lexer is needed: two lines cannot be joined, the meaning of a
//! `#` depends on its line alone, and everything that is not on a list is rejected. A lexer written for this check
//! would always differ from the compiler's lexer somewhere.

/// HIP headers that an untrusted case may include. A worker can read only the copies in the stack. hipRTC declares most
/// of their content without an `#include`. Debian's stacks 5.2.3 to 7.2.4 contain none of the headers, so an `#include`
/// is a compile error there.
const ALLOWED_HEADERS: &[&str] = &[
    "hip/hip_bf16.h",
    "hip/hip_bfloat16.h",
    "hip/hip_complex.h",
    "hip/hip_cooperative_groups.h",
    "hip/hip_fp16.h",
    "hip/hip_fp8.h",
    "hip/hip_runtime.h",
    "hip/hip_vector_types.h",
    "hip/math_functions.h",
    "hip/math_constants.h",
];

/// Preprocessor directives that read no file. `include` and `pragma` are accepted or rejected by their arguments.
const ALLOWED_DIRECTIVES: &[&str] =
    &["define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"];

/// Identifiers by which a source can name files, or control clang without a directive. `asm` is one of them, because an
/// assembler can read files (`.incbin`).
const FORBIDDEN_IDENTIFIERS: &[&str] = &[
    "asm",
    "__asm",
    "__asm__",
    "__has_include",
    "__has_include_next",
    "__has_embed",
    "import",
    "_Pragma",
    "__pragma",
];

/// Returns a description of the first construct in a kernel's source that is forbidden in an untrusted case; `None` if
/// the source is allowed. The description completes a sentence about the kernel, for example "has a carriage return".
///
/// The content of strings and comments is checked as well, because the untrusted text itself decides where they end.
pub fn forbidden_construct(source: &str) -> Option<String> {
    if let Some(other) = source.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Some(match other {
            '\r' => {
                "has a carriage return (`\\r`); end its lines with a line feed alone".to_owned()
            }
            other => format!("has the control character `{}`", other.escape_default()),
        });
    }
    // Only the next character shows whether a backslash joins two lines or begins an escape in a name (`\u0061`).
    let mut after = source.match_indices('\\').map(|(at, _)| source[at + 1..].chars().next());
    if let Some(next) = after.find(|next| !next.is_some_and(may_follow_backslash)) {
        return Some(match next {
            None | Some('\n' | ' ' | '\t') => {
                "has a backslash at the end of a line; write it in one line".to_owned()
            }
            Some(next) => format!("has `\\{next}`, which may be a part of a name"),
        });
    }
    // Raw strings are rejected, because a `//` inside one does not begin a comment.
    for (text, why) in [
        ("??", "may begin a trigraph"),
        ("%:", "is another way to write `#`"),
        ("R\"", "begins a raw string"),
    ] {
        if source.contains(text) {
            return Some(format!("has `{text}`, which {why}"));
        }
    }
    let mut words = source.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
    if let Some(word) = words.find(|word| FORBIDDEN_IDENTIFIERS.contains(word)) {
        return Some(format!("contains the word `{word}`, which can read files"));
    }
    source.lines().find_map(forbidden_construct_in_line)
}

/// Returns true if a backslash before this character can only be an escape in a string. If two backslashes follow each
/// other, each is checked with the character after it.
fn may_follow_backslash(next: char) -> bool {
    next.is_ascii_graphic() && !matches!(next, 'u' | 'U' | 'N')
}

/// Returns a description of the first forbidden construct in a line; `None` if the line is allowed. Each `#` must begin
/// a directive or follow a `//`.
fn forbidden_construct_in_line(line: &str) -> Option<String> {
    let (before, directive) = line.split_once('#')?;
    if before.contains("//") && !before.contains("*/") {
        return None;
    }
    if !before.trim_start_matches(BLANKS).is_empty() || directive.contains('#') {
        return Some("has a `#` that does not begin a line, nor follow `//`".to_owned());
    }
    let directive = directive.trim_start_matches(BLANKS);
    let end = directive.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(directive.len());
    let (word, rest) = directive.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    match word {
        "include" => {
            let header = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            let known = header.is_some_and(|(header, _)| ALLOWED_HEADERS.contains(&header));
            (!known).then(|| "includes a file that is not a built-in header of hipRTC".to_owned())
        }
        "pragma" => {
            let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            (word != "unroll").then(|| format!("has `#pragma {word}`; only `unroll` is allowed"))
        }
        word if ALLOWED_DIRECTIVES.contains(&word) => None,
        word => Some(format!("has the directive `#{word}`")),
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_every_way_to_name_a_file() {
        let refused = [
            "#include \"/etc/passwd\"",
            "#include </etc/passwd>",
            "#include <hip/../../../../etc/passwd>",
            "# include\t\"x\"",
            "#/**/include \"x\"",
            "#\u{a0}include \"x\"",
            "\u{a0}#include \"x\"",
            "/* */ # /* a\n b */ include \"x\"",
            "/* // */ #include \"x\"",
            "/*\n // */ #include \"x\"",
            "%:include \"x\"",
            "#define P(a,b) R\"(\n//)\"; a##b\nP(as,m)(\".incbin\");",
            "#define P(a,b) u8R\"(\n//)\"; a##b",
            "#inc\\\nlude \"x\"",
            "#inc\\  \r\nlude \"x\"",
            "int a0;\r#inc\\\rlude \"x\"\n",
            "int a0;\n#inc\\\u{c}\nlude \"x\"\n",
            "as\\\rm(\".incbin \\\"x\\\"\");",
            "as\\\\\nm(\".incbin\");",
            "\\u0061sm(\".incbin\");",
            "\\U00000061sm(\".incbin\");",
            "\\N{LATIN SMALL LETTER A}sm(\".incbin\");",
            "int a;\u{0}#include \"x\"",
            "#\\\ninclude \"x\"",
            "// \\",
            "??=include \"x\"",
            "#include_next <x>",
            "#import \"x\"",
            "#embed \"/etc/passwd\"",
            "#define F \"/etc/passwd\"\n#include F",
            "const char* s = R\"(/*)\";\n#include \"x\"\n/* */",
            "// \\\n\n#include \"x\"",
            "__global__ void k() { asm(\".incbin \\\"x\\\"\"); }",
            "#define P(a, b) a##b\nP(as, m)(\".incbin\")",
            "#if __has_include(\"/home/jane\")\n#endif",
            "import \"x\";",
            "#unknown",
            "#line 1 \"x\"",
            "#pragma GCC dependency \"x\"",
            "#pragma clang module load x",
            "#pragma clang __debug crash",
            "#pragma",
            "_Pragma(\"clang __debug crash\")",
            "#define TEXT(x) #x",
            "#define ALSO(x) f(#x, 1)",
        ];
        for source in refused {
            assert!(forbidden_construct(source).is_some(), "{source:?}");
        }
    }

    #[test]
    fn allows_what_kernels_are_made_of() {
        let allowed = [
            "extern \"C\" __global__ void k(unsigned* p) { p[threadIdx.x] = 1 % 2; }",
            "#include <hip/hip_runtime.h>\n# include <hip/hip_fp16.h>\n#pragma unroll 4\n#define A 1\n\t#ifdef A\n#endif",
            "int a = b ? c : d; // what?",
            "int a = 1; // see #1234, and ##",
            "printf(\"%d\\n\\t\\\"\\\\\", '\\'', \"\\x41\\0\");",
            "// größer",
        ];
        for source in allowed {
            assert_eq!(forbidden_construct(source), None, "{source:?}");
        }
    }
}
