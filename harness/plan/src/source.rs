//! What the source of a kernel says of its parameters, as far as it can be read without a compiler.

use serde::{Deserialize, Serialize};

use crate::ScalarType;

/// A parameter of a case's own kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnParameter {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub kind: OwnKind,
}

/// What a parameter of a case's own kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OwnKind {
    /// A pointer.
    Pointer {
        /// The type of what it points to, where that is a number.
        element: Option<ScalarType>,
        /// Whether what it points to is `const`.
        only_read: bool,
    },
    /// A number.
    Number {
        /// Its type.
        of: ScalarType,
    },
    /// Something else, such as a struct, or a name for a number that only the compiler knows.
    Other,
}

/// The parameters of a kernel, from its source; none where they are not plainly there, as where a macro stands for them. Whoever
/// compiles the kernel has the last word.
pub fn own_parameters(source: &str, kernel: &str) -> Option<Vec<OwnParameter>> {
    let tokens = tokens(source)?;
    let mut is_kernel = false;
    let mut at = 0;
    let list = loop {
        let token = tokens.get(at)?;
        match token.as_str() {
            "__global__" => is_kernel = true,
            ";" | "{" | "}" => is_kernel = false,
            name if is_kernel && name == kernel && tokens.get(at + 1).is_some_and(|t| t == "(") => {
                break &tokens[at + 2..];
            }
            _ => {}
        }
        at += 1;
    };
    let mut depth = 0;
    let mut parameters = vec![Vec::new()];
    for token in list {
        match token.as_str() {
            ")" if depth == 0 => {
                if parameters == [Vec::<&str>::new()] || parameters == [vec!["void"]] {
                    return Some(Vec::new());
                }
                return parameters.iter().map(|tokens| parameter(tokens)).collect();
            }
            "(" | "<" | "{" => depth += 1,
            ")" | ">" | "}" => depth -= 1,
            "," if depth == 0 => {
                parameters.push(Vec::new());
                continue;
            }
            "#" | "=" => return None,
            _ => {}
        }
        parameters.last_mut()?.push(token.as_str());
    }
    None
}

/// Words and signs, without comments and texts.
fn tokens(source: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = source;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = &comment[comment.find('\n').unwrap_or(comment.len())..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = &comment[comment.find("*/")? + 2..];
        } else if first == '"' || first == '\'' {
            let mut chars = rest[1..].char_indices();
            loop {
                match chars.next()? {
                    (_, '\\') => drop(chars.next()),
                    (at, c) if c == first => {
                        rest = &rest[at + 2..];
                        break;
                    }
                    _ => {}
                }
            }
            found.push("\"\"".to_owned());
        } else if word(first) {
            let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
            rest = &rest[end..];
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    Some(found)
}

fn parameter(tokens: &[&str]) -> Option<OwnParameter> {
    let noise =
        ["__restrict__", "__restrict", "restrict", "volatile", "struct", "class", "typename"];
    let mut tokens: Vec<&str> = tokens.iter().copied().filter(|t| !noise.contains(t)).collect();
    // `x[]` and `x[4]` are pointers.
    let array = tokens.iter().position(|t| *t == "[");
    if let Some(at) = array {
        tokens.truncate(at);
    }
    let name = tokens.pop()?;
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // A type without a name, or a macro.
    if !is_word || tokens.is_empty() || name == "const" || number(&[name]).is_some() {
        return None;
    }
    let stars: Vec<usize> = (0..tokens.len()).filter(|at| tokens[*at] == "*").collect();
    let pointee = match (stars.last(), array) {
        (Some(_), Some(_)) => return None,
        (Some(last), None) => Some(&tokens[..*last]),
        (None, Some(_)) => Some(tokens.as_slice()),
        (None, None) => None,
    };
    let kind = match pointee {
        Some(pointee) => {
            let own = pointee.iter().rposition(|t| *t == "*").map_or(0, |at| at + 1);
            let only_read = pointee[own..].contains(&"const");
            let element = if own == 0 { number(pointee) } else { None };
            OwnKind::Pointer { element, only_read }
        }
        None => number(&tokens).map_or(OwnKind::Other, |of| OwnKind::Number { of }),
    };
    Some(OwnParameter { name: name.to_owned(), kind })
}

/// The type of numbers that these words mean on AMD's GPUs and their hosts, where a `long` has 64 bits.
fn number(words: &[&str]) -> Option<ScalarType> {
    let mut words: Vec<&str> = words.iter().copied().filter(|w| *w != "const").collect();
    words.retain(|w| !["std", ":"].contains(w));
    Some(match words.as_slice() {
        ["float"] => ScalarType::F32,
        ["double"] => ScalarType::F64,
        ["_Float16" | "__half" | "half"] => ScalarType::F16,
        ["__bf16" | "hip_bfloat16" | "__hip_bfloat16"] => ScalarType::Bf16,
        ["int8_t" | "__int8_t"] => ScalarType::I8,
        ["uint8_t" | "__uint8_t" | "uchar"] => ScalarType::U8,
        ["int16_t" | "__int16_t"] => ScalarType::I16,
        ["uint16_t" | "__uint16_t" | "ushort"] => ScalarType::U16,
        ["int32_t" | "__int32_t"] => ScalarType::I32,
        ["uint32_t" | "__uint32_t" | "uint"] => ScalarType::U32,
        ["int64_t" | "__int64_t" | "ssize_t" | "ptrdiff_t" | "intptr_t"] => ScalarType::I64,
        ["uint64_t" | "__uint64_t" | "size_t" | "ulong" | "uintptr_t"] => ScalarType::U64,
        words => return integer(words),
    })
}

/// The integer types that C writes in several words.
fn integer(words: &[&str]) -> Option<ScalarType> {
    let count = |word: &str| words.iter().filter(|w| **w == word).count();
    let known = ["unsigned", "signed", "char", "short", "int", "long"];
    if words.is_empty() || !words.iter().all(|word| known.contains(word)) {
        return None;
    }
    let unsigned = count("unsigned") > 0;
    Some(match (count("char"), count("short"), count("long"), unsigned) {
        (1, 0, 0, false) => ScalarType::I8,
        (1, 0, 0, true) => ScalarType::U8,
        (0, 1, 0, false) => ScalarType::I16,
        (0, 1, 0, true) => ScalarType::U16,
        (0, 0, 0, false) => ScalarType::I32,
        (0, 0, 0, true) => ScalarType::U32,
        (0, 0, 1 | 2, false) => ScalarType::I64,
        (0, 0, 1 | 2, true) => ScalarType::U64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each parameter as its name and its type; `in` stands for a pointer to what is const, `?` for what is no number.
    fn told(source: &str) -> Option<String> {
        let words = own_parameters(source, "k")?.into_iter().map(|p| match p.kind {
            OwnKind::Pointer { element, only_read } => {
                let element = element.map_or("?".to_owned(), |e| format!("{e:?}"));
                format!("{}: {}{element}", p.name, if only_read { "in " } else { "out " })
            }
            OwnKind::Number { of } => format!("{}: {of:?}", p.name),
            OwnKind::Other => format!("{}: ?", p.name),
        });
        Some(words.collect::<Vec<_>>().join(", "))
    }

    #[track_caller]
    fn check(parameters: &str, expected: Option<&str>) {
        for head in ["extern \"C\" __global__ void", "__global__ __launch_bounds__(64, 2) void"] {
            let source = format!("struct S {{ int x; }};\n{head} k({parameters}) {{ f(1); }}\n");
            assert_eq!(told(&source).as_deref(), expected, "{source}");
        }
    }

    #[test]
    fn parameters_are_read_from_the_source() {
        check("", Some(""));
        check("void", Some(""));
        check("float *out, const float* in", Some("out: out F32, in: in F32"));
        check("float const * __restrict__ a", Some("a: in F32"));
        check("float * const a", Some("a: out F32"));
        check("const float **a, float *const *b", Some("a: out ?, b: in ?"));
        check("unsigned n, unsigned long long m, long k", Some("n: U32, m: U64, k: I64"));
        check("const signed char c, std::size_t n", Some("c: I8, n: U64"));
        check("_Float16 x, __hip_bfloat16 *y", Some("x: F16, y: out Bf16"));
        check("struct S s, Pair<int, float> p, float4 *v", Some("s: ?, p: ?, v: out ?"));
        check("double a[], const int b[16]", Some("a: out F64, b: in I32"));
        check("int n /* how many, at most */, // and\n int m", Some("n: I32, m: I32"));
        check("PARAMETERS", None);
        check("float *", None);
        check("int n,\n#if X\nint m\n#endif", None);
    }

    #[test]
    fn only_the_kernel_of_that_name_is_read() {
        let source =
            "__device__ int k(int a) { return a; }\n__global__ void other(float x) { k(1); }\n";
        assert_eq!(told(source), None);
        let both = format!("{source}// void k(\n__global__ void k(double y) {{}}");
        assert_eq!(told(&both).as_deref(), Some("y: F64"));
    }
}
