//! Reads the parameters of a kernel from its C++ source, without a compiler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Arg, Scalar, ScalarType};

/// A kernel that the case itself defines, in contrast to a kernel of the built-in library in `kernels/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseKernel {
    /// Position of the kernel's definition, for example `line 7`.
    pub place: String,
    /// Compiler options that are passed after the architecture and `-O3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Parameters that were read from the source; `None` if they cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<KernelParameter>>,
    /// Formulas of the outputs, in the syntax of [`Formula`](crate::Formula).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computes: Vec<String>,
    /// Code object of the kernel. A kernel with a code object has no source: [`Plan::kernels`](crate::Plan::kernels)
    /// has an empty text for it. Everything that it writes is unknown to the reference model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<KernelCode>,
}

/// The code object that contains a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCode {
    /// Name of the file, a key of [`Plan::files`](crate::Plan::files). Kernels of one file share a module.
    pub file: String,
    /// Name of the kernel in the code object.
    pub kernel: String,
}

/// A parameter of a kernel that the case defines, or a member of a struct parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelParameter {
    /// Name of the parameter.
    pub name: String,
    /// Type of the parameter.
    #[serde(flatten)]
    pub kind: KernelParameterKind,
}

/// Type of a parameter of a kernel that the case defines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KernelParameterKind {
    /// A pointer.
    Pointer {
        /// Type of the elements; `None` if they are not numbers.
        element: Option<ScalarType>,
        /// True for a pointer to `const`.
        only_read: bool,
    },
    /// A number.
    Number {
        /// Type of the number.
        of: ScalarType,
    },
    /// A struct that is passed by value. Each member is a number, a pointer, or another struct with such members.
    Struct {
        /// Members of the struct, in order.
        members: Vec<KernelParameter>,
    },
    /// Any other type, for example a struct with an array, or a typedef.
    Other,
}

impl KernelParameterKind {
    /// Returns the size of the parameter in bytes; `None` if only the compiler knows it.
    pub fn bytes(&self) -> Option<usize> {
        self.layout().map(|(bytes, _)| bytes)
    }

    fn layout(&self) -> Option<(usize, usize)> {
        match self {
            KernelParameterKind::Pointer { .. } => Some((8, 8)),
            KernelParameterKind::Number { of } => Some((of.bytes(), of.bytes())),
            KernelParameterKind::Struct { members } => {
                let (mut end, mut most) = (0usize, 1);
                for member in members {
                    let (bytes, alignment) = member.kind.layout()?;
                    end = end.next_multiple_of(alignment) + bytes;
                    most = most.max(alignment);
                }
                Some((end.next_multiple_of(most), most))
            }
            KernelParameterKind::Other => None,
        }
    }
}

/// Returns the parameters with each struct replaced by its members, which get names of the form `name.member`.
pub fn flat_parameters(parameters: &[KernelParameter]) -> Vec<KernelParameter> {
    let of = |parameter: &KernelParameter| match &parameter.kind {
        KernelParameterKind::Struct { members } => {
            let within = |member: KernelParameter| KernelParameter {
                name: format!("{}.{}", parameter.name, member.name),
                ..member
            };
            flat_parameters(members).into_iter().map(within).collect()
        }
        KernelParameterKind::Pointer { .. }
        | KernelParameterKind::Number { .. }
        | KernelParameterKind::Other => {
            vec![parameter.clone()]
        }
    };
    parameters.iter().flat_map(of).collect()
}

/// Returns the arguments with each struct replaced by its members, so that they match the result of
/// [`flat_parameters`]. Surplus arguments are kept.
pub fn flat_args(parameters: &[KernelParameter], args: &[Arg]) -> Vec<Arg> {
    let mut flat = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        match (parameters.get(index).map(|parameter| &parameter.kind), arg) {
            (Some(KernelParameterKind::Struct { members }), Arg::Struct(values))
                if members.len() == values.len() =>
            {
                flat.extend(flat_args(members, values));
            }
            (Some(kind @ KernelParameterKind::Struct { .. }), Arg::Bytes(bytes)) => {
                flat.extend(split_struct(kind, bytes));
            }
            _ => flat.push(arg.clone()),
        }
    }
    flat
}

fn split_struct(kind: &KernelParameterKind, bytes: &[u8]) -> Vec<Arg> {
    match kind {
        KernelParameterKind::Struct { members } => {
            let mut start = 0usize;
            let mut of = |member: &KernelParameter| {
                let (size, alignment) = member.kind.layout().unwrap_or((0, 1));
                start = start.next_multiple_of(alignment);
                let part = bytes.get(start..start + size).unwrap_or_default();
                start += size;
                split_struct(&member.kind, part)
            };
            members.iter().flat_map(&mut of).collect()
        }
        KernelParameterKind::Number { of } => {
            let number = Scalar::from_bytes(*of, bytes).map(Arg::Number);
            vec![number.unwrap_or_else(|| Arg::Bytes(bytes.to_vec()))]
        }
        KernelParameterKind::Pointer { .. } | KernelParameterKind::Other => {
            vec![Arg::Bytes(bytes.to_vec())]
        }
    }
}

/// Returns the names of the kernels that a source defines or declares, as far as they can be read without a compiler.
pub fn kernel_names(source: &str) -> Vec<String> {
    let tokens = tokens(source).unwrap_or_default();
    let mut names = Vec::new();
    let mut is_kernel = false;
    for (at, token) in tokens.iter().enumerate() {
        let is_call = tokens.get(at + 1).is_some_and(|next| next == "(");
        match token.as_str() {
            "__global__" => is_kernel = true,
            ";" | "{" | "}" => is_kernel = false,
            // Attributes, for example `__launch_bounds__(64)`, stand before the name.
            name if is_kernel && is_call && !name.starts_with("__") => {
                names.push(name.to_owned());
                is_kernel = false;
            }
            _ => {}
        }
    }
    names
}

/// Reads the parameters of a kernel from its source, without a compiler. Returns `None` if they cannot be read, for
/// example because a macro generates them. A compiler may understand the source differently.
pub fn own_parameters(source: &str, kernel: &str) -> Option<Vec<KernelParameter>> {
    let tokens = tokens(source)?;
    let structs = structs(&tokens);
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
                return parameters.iter().map(|tokens| parameter(tokens, &structs)).collect();
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

/// Splits C++ source into tokens: words and punctuation marks. Comments are dropped, and string literals become `""`.
/// Returns `None` if a comment or a literal is not terminated.
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

type Structs = BTreeMap<String, Vec<KernelParameter>>;

/// Reads the struct definitions at the top level of a source. A struct is left out if a member is neither a number nor
/// a pointer nor a struct that was read before.
fn structs(tokens: &[String]) -> Structs {
    let mut found = Structs::new();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    // If the source contains packing or conditional compilation, no struct is read: packing changes the alignment, and
    // only the compiler knows which conditional parts are compiled.
    let odd = |two: &[&str]| {
        two == ["pragma", "pack"] || two[0] == "#" && ["if", "ifdef", "ifndef"].contains(&two[1])
    };
    if tokens.windows(2).any(odd) {
        return found;
    }
    let (mut at, mut depth) = (0usize, 0usize);
    let mut seen = Vec::new();
    while at < tokens.len() {
        let rest = &tokens[at..];
        let (name, inside) = match rest {
            ["struct", "{", ..] => (None, 2),
            ["struct", name, "{", ..] => (Some(*name), 3),
            _ => (None, 0),
        };
        let begins = inside > 0 && depth == 0;
        let end = if begins { rest.iter().position(|token| *token == "}") } else { None };
        let Some(end) = end else {
            match rest[0] {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
            continue;
        };
        let is_typedef = at.checked_sub(1).is_some_and(|before| tokens[before] == "typedef");
        let other = match &rest[end + 1..] {
            [";", ..] => Some(None),
            [other, ";", ..] if is_typedef => Some(Some(*other)),
            _ => None,
        };
        let members = members(&rest[inside..end], &found).filter(|_| other.is_some());
        let alias = other.flatten().filter(|other| Some(*other) != name);
        for name in [name, alias].into_iter().flatten() {
            // If a struct name is defined twice, only the compiler knows which definition applies.
            found.remove(name);
            if let Some(members) = members.clone().filter(|_| !seen.contains(&name)) {
                found.insert(name.to_owned(), members);
            }
            seen.push(name);
        }
        // After an opening brace among the members, the following tokens are nested one level deeper.
        depth += rest[inside..end].iter().filter(|token| **token == "{").count();
        at += end + 1;
    }
    found
}

/// Parses the members of a struct. Returns `None` if there are none, or if a member is neither a number nor a pointer
/// nor one of `structs`.
fn members(tokens: &[&str], structs: &Structs) -> Option<Vec<KernelParameter>> {
    let mut tokens = tokens.to_vec();
    while let Some(at) = tokens.windows(3).position(|three| three == ["std", ":", ":"]) {
        tokens.drain(at..at + 3);
    }
    let odd = ["(", "[", "{", "<", ":", "=", "#", "static", "constexpr", "alignas", "public"];
    if tokens.iter().any(|token| odd.contains(token)) || tokens.last() != Some(&";") {
        return None;
    }
    let mut found = Vec::new();
    for declaration in tokens[..tokens.len() - 1].split(|token| *token == ";") {
        let mut declared = declaration.split(|token| *token == ",");
        let first = declared.next()?;
        let (_, of) = first.split_last()?;
        // In `int *a, b`, the star applies only to `a`. Therefore stars are removed from the common type.
        let of = &of[..of.iter().position(|token| *token == "*").unwrap_or(of.len())];
        found.push(parameter(first, structs)?);
        for more in declared {
            found.push(parameter(&[of, more].concat(), structs)?);
        }
    }
    let known = found.iter().all(|member| member.kind.layout().is_some());
    let few = found.iter().map(member_count).sum::<usize>() <= MAX_MEMBERS;
    (known && few && !found.is_empty()).then_some(found)
}

/// Maximum number of members in a struct, including nested members. The limit exists because the members of a struct
/// are copied into each struct that contains it.
const MAX_MEMBERS: usize = 512;

fn member_count(member: &KernelParameter) -> usize {
    match &member.kind {
        KernelParameterKind::Struct { members } => {
            1 + members.iter().map(member_count).sum::<usize>()
        }
        KernelParameterKind::Pointer { .. }
        | KernelParameterKind::Number { .. }
        | KernelParameterKind::Other => 1,
    }
}

fn parameter(tokens: &[&str], structs: &Structs) -> Option<KernelParameter> {
    let noise =
        ["__restrict__", "__restrict", "restrict", "volatile", "struct", "class", "typename"];
    let mut tokens: Vec<&str> = tokens.iter().copied().filter(|t| !noise.contains(t)).collect();
    // As parameters, `x[]` and `x[4]` are pointers.
    let array = tokens.iter().position(|t| *t == "[");
    if let Some(at) = array {
        tokens.truncate(at);
    }
    let name = tokens.pop()?;
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // If the last token is not a name, the parameter has no name or comes from a macro.
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
            KernelParameterKind::Pointer { element, only_read }
        }
        None => {
            let words: Vec<&str> = tokens.iter().copied().filter(|t| *t != "const").collect();
            let members = match words.as_slice() {
                [name] => structs.get(*name),
                _ => None,
            };
            match (number(&tokens), members) {
                (Some(of), _) => KernelParameterKind::Number { of },
                (None, Some(members)) => KernelParameterKind::Struct { members: members.clone() },
                (None, None) => KernelParameterKind::Other,
            }
        }
    };
    Some(KernelParameter { name: name.to_owned(), kind })
}

/// Parses the C name of a numeric type, as AMD GPUs and their hosts define it: `long` has 64 bits. Returns `None` for
/// any other type.
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

/// Parses the C name of an integer type, which may consist of several words, for example `unsigned long int`. Returns
/// `None` for any other type.
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

    /// Returns the parameters that are read from `source` as `name: type`, for comparison with an expected text. `in`
    /// means a pointer to const, `out` any other pointer, and `?` a type that is not a number.
    fn read_parameters(source: &str) -> Option<String> {
        own_parameters(source, "k").map(|parameters| describe(&parameters))
    }

    fn describe(parameters: &[KernelParameter]) -> String {
        let words = parameters.iter().map(|p| match &p.kind {
            KernelParameterKind::Pointer { element, only_read } => {
                let element = element.map_or("?".to_owned(), |e| format!("{e:?}"));
                format!("{}: {}{element}", p.name, if *only_read { "in " } else { "out " })
            }
            KernelParameterKind::Number { of } => format!("{}: {of:?}", p.name),
            KernelParameterKind::Struct { members } => {
                format!("{}: {{{}}}", p.name, describe(members))
            }
            KernelParameterKind::Other => format!("{}: ?", p.name),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    #[track_caller]
    fn check(parameters: &str, expected: Option<&str>) {
        for head in ["extern \"C\" __global__ void", "__global__ __launch_bounds__(64, 2) void"] {
            let source = format!("struct S {{ int x; }};\n{head} k({parameters}) {{ f(1); }}\n");
            assert_eq!(read_parameters(&source).as_deref(), expected, "{source}");
        }
    }

    #[test]
    fn reads_kernel_parameters_from_source() {
        check("", Some(""));
        check("void", Some(""));
        check("float *out, const float* in", Some("out: out F32, in: in F32"));
        check("float const * __restrict__ a", Some("a: in F32"));
        check("float * const a", Some("a: out F32"));
        check("const float **a, float *const *b", Some("a: out ?, b: in ?"));
        check("unsigned n, unsigned long long m, long k", Some("n: U32, m: U64, k: I64"));
        check("const signed char c, std::size_t n", Some("c: I8, n: U64"));
        check("_Float16 x, __hip_bfloat16 *y", Some("x: F16, y: out Bf16"));
        check("struct S s, Pair<int, float> p, float4 *v", Some("s: {x: I32}, p: ?, v: out ?"));
        check("const S s, S *p", Some("s: {x: I32}, p: out ?"));
        check("double a[], const int b[16]", Some("a: out F64, b: in I32"));
        check("int n /* how many, at most */, // and\n int m", Some("n: I32, m: I32"));
        check("PARAMETERS", None);
        check("float *", None);
        check("int n,\n#if X\nint m\n#endif", None);
    }

    /// Checks how the parameter of type `S` of a kernel is read if `before` precedes the kernel in the source.
    #[track_caller]
    fn check_struct(before: &str, expected: &str) {
        let source = format!("{before}\n__global__ void k(S s) {{}}");
        assert_eq!(read_parameters(&source), Some(format!("s: {expected}")), "{source}");
    }

    #[test]
    fn reads_plain_structs_from_source() {
        check_struct(
            "struct T { double d; }; struct S { float a, b; const int *p, n, **q; T t; std::uint8_t c; };",
            "{a: F32, b: F32, p: in I32, n: I32, q: out ?, t: {d: F64}, c: U8}",
        );
        check_struct("typedef struct { short x; } S;", "{x: I16}");
        check_struct("typedef struct T { short x; } S;", "{x: I16}");
        check_struct("typedef struct S { short x; } S;", "{x: I16}");
        for odd in [
            "struct S { int x; int f() { return x; } };",
            "struct S { int x[4]; };",
            "struct S { int x : 3; };",
            "struct S { int x = 1; };",
            "struct S { };",
            "struct S { unknown x; };",
            "struct S { static int x; int y; };",
            "struct S { struct { int a; } b; };",
            "struct S : T { int x; };",
            "struct alignas(16) S { int x; };",
            "struct __attribute__((packed)) S { char c; int x; };",
            "struct S { char c; int x; } __attribute__((packed));",
            "#pragma pack(1)\nstruct S { char c; int x; };",
            "#if 0\nstruct S { int x; };\n#endif\n#include <s.h>",
            "struct S { int x; }; struct S { float x; };",
            "#if A\nstruct S { int x; };\n#else\nstruct S { float x; };\n#endif",
            "namespace n { struct S { int x; }; }\nusing n::S;",
            "template <typename S> struct U { S s; };",
        ] {
            check_struct(odd, "?");
        }
    }

    #[test]
    fn struct_bytes_equal_struct_members() {
        let source = "struct T { short a; double b; char c; }; struct S { char x; T t; float f; };\n\
                      __global__ void k(int n, S s, int m) {}";
        let parameters = own_parameters(source, "k").unwrap();
        let number = |ty, text: &str| Arg::Number(Scalar::parse(ty, text).unwrap());
        let inner = [
            number(ScalarType::I16, "-2"),
            number(ScalarType::F64, "0.5"),
            number(ScalarType::I8, "7"),
        ];
        let value = Arg::Struct(vec![
            number(ScalarType::I8, "-1"),
            Arg::Struct(inner.to_vec()),
            number(ScalarType::F32, "1.5"),
        ]);
        let bytes = Arg::Bytes(value.to_bytes(&|_| 0));
        let around = |s: Arg| [number(ScalarType::I32, "3"), s, number(ScalarType::I32, "4")];
        let flat = flat_args(&parameters, &around(value));
        assert_eq!(flat.len(), 7);
        assert_eq!(flat, flat_args(&parameters, &around(bytes)));
        let names: Vec<_> = flat_parameters(&parameters).into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["n", "s.x", "s.t.a", "s.t.b", "s.t.c", "s.f", "m"]);
    }

    #[test]
    fn reads_only_the_named_kernel() {
        let source =
            "__device__ int k(int a) { return a; }\n__global__ void other(float x) { k(1); }\n";
        assert_eq!(read_parameters(source), None);
        let both = format!("{source}// void k(\n__global__ void k(double y) {{}}");
        assert_eq!(read_parameters(&both).as_deref(), Some("y: F64"));
    }
}
